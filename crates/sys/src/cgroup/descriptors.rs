//! The limit of open descriptors per process. Control groups have no such limit, so it is set in each process when it
//! starts (`RLIMIT_NOFILE`, `man 2 getrlimit`).

use std::fs;
use std::io;

use super::AppliedLimit;
use crate::error::{Doing, Error, Result, check};
use crate::privilege;

/// Checks whether this limit can be set: without the privilege to raise the hard limit, it can only be lowered.
pub(super) fn possible(number: u64) -> Result<()> {
    let refused = |reason: String| {
        Err(Error::NoLimit {
            what: "descriptors",
            reason,
        })
    };
    if number == 0 {
        return refused("a program needs at least 1 to start".to_owned());
    }
    let own = of(None)
        .doing("read this process's limit of descriptors")?
        .rlim_max;
    // The kernel's upper bound for every process.
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most = most.and_then(|text| text.trim().parse::<u64>().ok());
    if number <= own {
        return Ok(());
    }
    if most.is_some_and(|most| number > most) {
        return refused(format!(
            "{number} is more than fs.nr_open, {}",
            most.unwrap_or(0)
        ));
    }
    if may_raise() {
        return Ok(());
    }
    refused(format!(
        "{number} is more than this program's own limit of {own}: raise it (`ulimit -Hn`), or run as root"
    ))
}

/// Limits the calling process with a single system call, because only system calls are allowed after a fork of a program
/// with threads.
pub(super) fn limit(number: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: number,
        rlim_max: number,
    };
    // SAFETY: a variable that outlives the call.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }).map(drop)
}

/// Compares the requested limit with the limit of a running process.
pub(super) fn verify(wanted: u64, pid: u32) -> Result<AppliedLimit> {
    let found = of(Some(pid)).doing(format!("read the limits of process {pid}"))?;
    let got = if found.rlim_cur == found.rlim_max {
        found.rlim_cur.to_string()
    } else {
        format!("{} of {}", found.rlim_cur, found.rlim_max)
    };
    let wanted = wanted.to_string();
    Ok(AppliedLimit {
        what: "RLIMIT_NOFILE".to_owned(),
        holds: got == wanted,
        wanted,
        got,
    })
}

/// Returns the limit of a process; `None` means this process.
fn of(pid: Option<u32>) -> io::Result<libc::rlimit> {
    let mut found = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let pid = pid.map_or(0, |pid| pid as libc::pid_t);
    // SAFETY: no new limit, and a variable that outlives the call for the old one.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut found) })?;
    Ok(found)
}

/// Whether the hard limit may be raised: this requires `CAP_SYS_RESOURCE` in the initial user namespace.
fn may_raise() -> bool {
    const CAP_SYS_RESOURCE: u64 = 1 << 24;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capable = privilege::capabilities(&status).unwrap_or(0) & CAP_SYS_RESOURCE != 0;
    capable && privilege::in_first_user_namespace()
}
