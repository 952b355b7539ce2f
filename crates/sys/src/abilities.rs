//! Tests which features of Linux this machine supports.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::clock::Clock;
use crate::error::{Doing, Error, Result, check};
use crate::namespace::Namespace;
use crate::privilege::{Ability, Privilege, acquire};
use crate::process::Session;
use crate::tun::Tun;
use crate::wait::Waiter;

/// The shell that runs the commands of users.
const SHELL: &str = "/bin/sh";

/// Tests all features that experiments need, basic features first, and removes all objects that the tests created.
///
/// Each test runs in a child process, so that the caller stays in its namespaces.
pub fn probe() -> Vec<Ability> {
    let names = [
        (
            "namespaces",
            "hosts with separate networks",
            true,
            probe_namespace as fn() -> Result<String>,
        ),
        ("tun", "the emulated path between hosts", true, probe_tun),
        (
            "programs",
            "servers and commands inside a host, which exit with this program",
            // A container image that contains only this program has no shell.
            Path::new(SHELL).exists(),
            probe_process,
        ),
        (
            "reno",
            "the congestion control of the 1997 era",
            false,
            probe_reno,
        ),
        ("timers", "delivering packets on time", true, probe_timers),
        (
            "real-time",
            "delivering packets on time on a busy machine",
            false,
            probe_realtime,
        ),
    ];
    names
        .into_iter()
        .map(|(name, purpose, required, try_it)| Ability {
            name: name.to_owned(),
            purpose: purpose.to_owned(),
            required,
            state: in_child(try_it),
        })
        .collect()
}

fn probe_namespace() -> Result<String> {
    let privilege = acquire()?;
    Namespace::new()?;
    Ok(match privilege {
        Privilege::Given => "as root".to_owned(),
        Privilege::UserNamespace => "in a user namespace".to_owned(),
    })
}

fn probe_tun() -> Result<String> {
    acquire()?;
    let counters = Namespace::new()?.run(|| Tun::create("probe", 1500, 1000)?.counters())??;
    Ok(format!(
        "created a device, {} packets dropped",
        counters.tx_dropped
    ))
}

fn probe_process() -> Result<String> {
    acquire()?;
    let namespace = Namespace::new()?;
    if !Path::new(SHELL).exists() {
        return Err(Error::NoShell);
    }
    let mut command = std::process::Command::new(SHELL);
    // With the /proc of the PID namespace, the process number in /proc is the same as in the shell.
    command.args(["-c", "read pid rest < /proc/self/stat; test $pid = $$"]);
    let exit = namespace.command(command, Session::Own)?.wait();
    Ok(if exit.status.success() {
        "in PID namespaces with their own /proc".to_owned()
    } else {
        "in PID namespaces, but with the machine's /proc, which cannot be replaced here".to_owned()
    })
}

fn probe_reno() -> Result<String> {
    acquire()?;
    let name = "net.ipv4.tcp_available_congestion_control";
    let found = Namespace::new()?.run(|| crate::era::sysctl(name))??;
    with_reno(found.unwrap_or_default())
}

/// Checks that a list of congestion controls has reno.
fn with_reno(found: String) -> Result<String> {
    match found.split(' ').any(|name| name == "reno") {
        true => Ok(format!("available, among {found}")),
        false => Err(Error::NoReno { found }),
    }
}

/// Waits 51 times and measures the wake-up latency.
fn probe_timers() -> Result<String> {
    let clock = Clock::start();
    let mut waiter = Waiter::new(clock)?;
    let mut late = Vec::new();
    for _ in 0..51 {
        let deadline = clock.now() + Duration::from_millis(1);
        late.push(waiter.wait(&[], Some(deadline))?.now.since(deadline));
    }
    late.sort();
    Ok(format!(
        "wake-up latency {:.0?} at the median, {:.0?} at most, n = {}",
        late[late.len() / 2],
        late[late.len() - 1],
        late.len()
    ))
}

fn probe_realtime() -> Result<String> {
    crate::priority::set_real_time()?;
    Ok("granted".to_owned())
}

/// Runs `try_it` in a forked child and returns its result.
fn in_child(try_it: fn() -> Result<String>) -> Result<String, String> {
    forked(try_it).unwrap_or_else(|error| Err(format!("the test failed: {error}")))
}

fn forked(try_it: fn() -> Result<String>) -> Result<Result<String, String>> {
    let (answer, report) = pipe_with(PipeFlags::CLOEXEC).doing("create a pipe")?;
    // SAFETY: the child only runs code that does not depend on other threads; the C library keeps its
    // allocator usable across a fork. It exits by _exit, so that nothing is flushed or dropped twice.
    let child = check(unsafe { libc::fork() }).doing("fork")?;
    if child == 0 {
        let text = match std::panic::catch_unwind(try_it) {
            Ok(Ok(text)) => format!("+{text}"),
            Ok(Err(error)) => format!("-{error}"),
            Err(_) => "-it panicked".to_owned(),
        };
        // SAFETY: the descriptor is open, and no other code in this process uses it.
        let mut report = fs::File::from(unsafe { OwnedFd::from_raw_fd(report.as_raw_fd()) });
        let sent = report.write_all(text.as_bytes()).is_ok();
        // SAFETY: ends this process without unwinding.
        unsafe { libc::_exit(i32::from(!sent)) }
    }
    drop(report);
    let mut text = String::new();
    fs::File::from(answer)
        .read_to_string(&mut text)
        .doing("read a child's answer")?;
    // SAFETY: this process's own child, reaped once.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    Ok(match text.split_at_checked(1) {
        Some(("+", text)) => Ok(text.to_owned()),
        Some(("-", text)) => Err(text.to_owned()),
        _ => Err("the process of this test was killed".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_reno_is_reported_with_what_it_has() {
        assert!(with_reno("cubic reno".to_owned()).is_ok());
        let error = with_reno("cubic newreno".to_owned()).unwrap_err();
        assert!(matches!(error, Error::NoReno { .. }), "{error}");
        assert!(error.to_string().contains("cubic newreno"), "{error}");
    }
}
