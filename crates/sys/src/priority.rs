//! Priorities for threads that must run as soon as they are runnable.
//!
//! A thread that sleeps until a deadline wakes up late if another thread occupies its processor. Under `SCHED_FIFO` the
//! thread preempts every ordinary thread immediately. Such a thread must sleep most of the time, because the kernel
//! reserves only 5 % of the time for ordinary threads.

use crate::error::{Doing, Result, check};

/// Gives the calling thread priority over all ordinary threads (`SCHED_FIFO`, lowest priority). Threads and processes
/// that it starts have ordinary priority.
///
/// Requires `CAP_SYS_NICE` in the initial user namespace, or a resource limit (`RLIMIT_RTPRIO`) that permits it.
/// Therefore the call fails without root on most machines; the thread's priority is then unchanged.
pub fn set_real_time() -> Result<()> {
    // SAFETY: sched_param is plain data, for which zero is a value.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // SAFETY: 0 is the calling thread; the parameters outlive the call.
    check(unsafe {
        libc::sched_setscheduler(
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const parameters,
        )
    })
    .map(drop)
    .doing("set the real-time priority of a thread (SCHED_FIFO)")
}

/// Gives the calling thread priority over other threads of its control group (niceness -20). The thread stays within the
/// group's processor quota, which `SCHED_FIFO` would escape. Requires `CAP_SYS_NICE`.
pub fn raise_priority() -> Result<()> {
    // 0 is the calling thread, because niceness is a property of a thread in Linux.
    rustix::process::setpriority_process(None, -20)
        .doing("raise the priority of a thread (niceness -20)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_has_real_time_priority_or_an_error() {
        std::thread::spawn(|| match set_real_time() {
            Ok(()) => {
                // SAFETY: 0 is the calling thread.
                let policy = unsafe { libc::sched_getscheduler(0) };
                assert_eq!(policy, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK);
            }
            Err(error) => assert_eq!(error.errno(), Some(libc::EPERM)),
        })
        .join()
        .unwrap();
    }
}
