//! The privileges to create namespaces and devices, and what this machine allows.
//!
//! They come from root, or from a user namespace: in it this program is root over the network namespaces that
//! it creates, and over nothing else. No program has to be installed set-uid.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::{Doing, Error, Result, check};
use crate::namespace::Namespace;
use crate::process::Session;
use crate::tun::Tun;
use crate::wait::Waiter;

/// The shell that runs the commands of users.
const SHELL: &str = "/bin/sh";

const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// The source of the privilege to create namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Privilege {
    /// The program already had it.
    Given,
    /// The program moved into a user namespace.
    UserNamespace,
}

/// A capability that this machine may or may not offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ability {
    /// Its name.
    pub name: String,
    /// What Fathometer uses it for.
    pub purpose: String,
    /// Whether experiments are impossible without it.
    pub required: bool,
    /// What was found, or why it is missing and what to do.
    pub state: Result<String, String>,
}

/// Ensures that this program may create namespaces, and moves it into a user namespace if needed.
///
/// Call it at the start of `main`, before any thread exists: the kernel does not move a program with threads.
/// Files that the program writes still belong to the user.
pub fn acquire() -> Result<Privilege> {
    if has_capabilities()? {
        return Ok(Privilege::Given);
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: CLONE_NEWUSER implies CLONE_THREAD and CLONE_FS; with one thread, neither has an effect. With
    // several threads the kernel returns an error.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }
        .map_err(|errno| explain(errno.into(), "make a user namespace"))?;
    let write = |path: &str, text: String| {
        fs::write(path, text).map_err(|error| explain(error, &format!("write {path}")))
    };
    // The kernel requires this before groups can be mapped.
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw()))?;
    write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw()))?;
    if !has_capabilities()? {
        return Err(explain(
            io::Error::from_raw_os_error(libc::EPERM),
            "use a user namespace",
        ));
    }
    Ok(Privilege::UserNamespace)
}

/// Tries all that experiments need, most basic first, and leaves nothing behind.
///
/// Tests that need a namespace run in a child process, so that the caller stays in its own.
pub fn probe() -> Vec<Ability> {
    let names = [
        (
            "namespaces",
            "hosts with a network of their own",
            true,
            probe_namespace as fn() -> Result<String>,
        ),
        ("tun", "the emulated path between hosts", true, probe_tun),
        (
            "programs",
            "servers and commands inside a host, which exit with this program",
            // A container image with this program alone has none to run.
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
        "created one, {} packets dropped",
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
    // With its own /proc the shell finds its own process number there.
    command.args(["-c", "read pid rest < /proc/self/stat; test $pid = $$"]);
    let exit = namespace.command(command, Session::Own)?.wait();
    Ok(if exit.status.success() {
        "in PID namespaces with a /proc of their own".to_owned()
    } else {
        "in PID namespaces, but they see the machine's /proc, which cannot be replaced here"
            .to_owned()
    })
}

fn probe_reno() -> Result<String> {
    acquire()?;
    let name = "net.ipv4.tcp_available_congestion_control";
    let found = Namespace::new()?.run(|| crate::era::sysctl(name))??;
    let found = found.unwrap_or_default();
    if found.split(' ').any(|name| name == "reno") {
        return Ok(format!("available, among {found}"));
    }
    Err(Error::BadAnswer {
        what: "the list of congestion controls, without reno",
    })
}

/// Waits a few times and measures how late it was woken.
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

fn has_capabilities() -> Result<bool> {
    let wanted = CAP_NET_ADMIN | CAP_SYS_ADMIN;
    let status = fs::read_to_string("/proc/thread-self/status").map_err(|_| Error::NoProc)?;
    Ok(capabilities(&status).is_some_and(|found| found & wanted == wanted))
}

/// Whether this program is root of the machine, and not just of a user namespace.
pub(crate) fn is_machine_root() -> bool {
    rustix::process::geteuid().is_root() && in_first_user_namespace()
}

/// Only in the first user namespace are all numbers mapped to themselves.
pub(crate) fn in_first_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

pub(crate) fn capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Explains why a user namespace was denied.
fn explain(error: io::Error, doing: &str) -> Error {
    let setting = |path: &str| {
        let value = fs::read_to_string(format!("/proc/sys/{path}")).ok();
        value.and_then(|value| value.trim().parse::<i64>().ok())
    };
    reason(error, doing, &setting)
}

fn reason(error: io::Error, doing: &str, setting: &dyn Fn(&str) -> Option<i64>) -> Error {
    let denied = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    if setting("user/max_user_namespaces") == Some(0) {
        return Error::UserNamespacesOff {
            sysctl: "sysctl -w user.max_user_namespaces=10000".to_owned(),
        };
    }
    if denied && setting("kernel/unprivileged_userns_clone") == Some(0) {
        return Error::UserNamespacesOff {
            sysctl: "sysctl -w kernel.unprivileged_userns_clone=1".to_owned(),
        };
    }
    if denied && setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        return Error::AppArmor;
    }
    if denied {
        return Error::NoCapability {
            ability: "SYS_ADMIN",
        };
    }
    Error::System {
        doing: doing.to_owned(),
        source: error,
    }
}

/// Runs `try_it` in a forked child and returns its answer.
fn in_child(try_it: fn() -> Result<String>) -> Result<String, String> {
    forked(try_it).unwrap_or_else(|error| Err(format!("the test failed: {error}")))
}

fn forked(try_it: fn() -> Result<String>) -> Result<Result<String, String>> {
    let (answer, report) = pipe_with(PipeFlags::CLOEXEC).doing("make a pipe")?;
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
        _ => Err("the process that tested it was killed".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_setting_that_would_help() {
        let explained = |errno: i32, name: &'static str, value: i64| {
            let error = io::Error::from_raw_os_error(errno);
            reason(error, "make a user namespace", &|path| {
                (path == name).then_some(value)
            })
            .to_string()
        };
        let off = explained(libc::ENOSPC, "user/max_user_namespaces", 0);
        assert!(off.contains("user.max_user_namespaces=10000"), "{off}");
        let off = explained(libc::EPERM, "kernel/unprivileged_userns_clone", 0);
        assert!(off.contains("unprivileged_userns_clone=1"), "{off}");
        let armour = explained(
            libc::EACCES,
            "kernel/apparmor_restrict_unprivileged_userns",
            1,
        );
        assert!(armour.contains("AppArmor"), "{armour}");
        let container = explained(libc::EPERM, "user/max_user_namespaces", 10_000);
        assert!(container.contains("--cap-add SYS_ADMIN"), "{container}");
        let threads = explained(libc::EINVAL, "none", 0);
        assert!(threads.starts_with("make a user namespace:"), "{threads}");
    }

    #[test]
    fn capabilities_are_read_from_status() {
        let status = "Name:\tx\nCapEff:\t0000000000201000\n";
        assert_eq!(capabilities(status), Some(CAP_NET_ADMIN | CAP_SYS_ADMIN));
        assert_eq!(capabilities("CapEff:\tzz"), None);
    }
}
