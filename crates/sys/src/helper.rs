//! The first steps of a helper process that this program starts.

use std::ffi::CStr;
use std::fs;

use crate::error::{Doing, Result, check};

/// Sets the name of the calling process, which `ps -o comm` shows: at most 15 bytes.
pub fn set_name(name: &CStr) -> Result<()> {
    rustix::thread::set_name(name).doing("name a process")
}

/// Ignores SIGINT, SIGTERM and SIGHUP. A terminal, a service manager or `timeout` may send these signals to all
/// processes of a program. However, only the program that started this process decides when this process exits.
pub fn ignore_termination_signals() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: no handler is installed.
        let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
        check(if before == libc::SIG_ERR { -1 } else { 0 }).doing("ignore a signal")?;
    }
    Ok(())
}

/// Excludes this process from being killed when its control group or the machine runs out of memory. The process must
/// use little and bounded memory. Requires `CAP_SYS_RESOURCE`; returns whether it succeeded.
pub fn exempt_from_oom_killer() -> bool {
    fs::write("/proc/self/oom_score_adj", "-1000").is_ok()
}
