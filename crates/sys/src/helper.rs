//! What a process that this program starts to help it does about itself, first of all.

use std::ffi::CStr;
use std::fs;

use crate::error::{Doing, Result, check};

/// Gives the calling process its name, as `ps -o comm` shows it: at most 15 bytes.
pub fn set_name(name: &CStr) -> Result<()> {
    rustix::thread::set_name(name).doing("name a process")
}

/// Leaves it to the program that started this process when it ends: SIGINT, SIGTERM and SIGHUP, which a
/// terminal, a service manager or a time limit may send to all processes of a program, are ignored.
pub fn ignore_requests_to_end() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: no handler is installed that could do anything.
        let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
        check(if before == libc::SIG_ERR { -1 } else { 0 }).doing("ignore a signal")?;
    }
    Ok(())
}

/// Has the kernel spare this process when memory runs out, in its control group or in the machine. It
/// must use little and bounded memory. Needs `CAP_SYS_RESOURCE`; says whether it was granted.
pub fn spare_from_lack_of_memory() -> bool {
    fs::write("/proc/self/oom_score_adj", "-1000").is_ok()
}
