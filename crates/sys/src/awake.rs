//! Prevents processors from sleeping.
//!
//! An idle processor of a virtual machine is returned to the hypervisor. A wake-up then waits until the
//! hypervisor has a free physical processor: milliseconds, on a busy machine, for every packet that arrives
//! while the machine is idle. A thread that is always runnable, and yields to every other thread at once,
//! prevents this on each processor. (It has the effect of booting with `idle=poll`, for the time of a
//! measurement and without a reboot.)

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Machine;
use crate::clock::thread_cpu_time;
use crate::error::{Doing, Result, check};
use crate::sched;

/// Iterations between two checks whether to end: some tenths of a millisecond.
const TURNS: u32 = 10_000;

/// Nanoseconds of processor time of all current and former threads of this kind.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Keeps the processors of the calling thread awake until it is dropped.
///
/// Its threads run under `SCHED_IDLE`: any other thread preempts them at once. They slow down the other
/// hyper-thread of a physical core, and use electricity.
#[derive(Debug)]
pub struct Awake {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Starts a thread on each processor that the calling thread may run on.
    pub fn keep() -> Result<Awake> {
        let mut awake = Awake {
            end: Arc::default(),
            threads: Vec::new(),
        };
        for processor in sched::processors()? {
            let end = Arc::clone(&awake.end);
            let thread = thread::Builder::new()
                .name(format!("awake-{processor}"))
                .spawn(move || {
                    // Without `SCHED_IDLE` the thread would compete with others, so it does not run.
                    if set_idle().and_then(|()| sched::pin(processor)).is_ok() {
                        spin_until(&end);
                    }
                });
            match thread {
                Ok(thread) => awake.threads.push(thread),
                Err(error) => return Err(error).doing("start a thread"),
            }
        }
        Ok(awake)
    }
}

/// Keeps the processors awake if this machine is a guest; `None` if it is not, or if it failed.
pub fn in_a_guest(machine: &Machine) -> Option<Awake> {
    machine.hypervisor.as_ref()?;
    Awake::keep().ok()
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread cannot have panicked, and there is nothing to clean up.
            let _ = thread.join();
        }
    }
}

/// Processor time that this program has spent on keeping processors awake. The kernel counts it as time of a
/// program, but it was available to all other threads: a machine that spends its time so is idle.
pub fn spent() -> Duration {
    Duration::from_nanos(SPENT.load(Ordering::Relaxed))
}

fn spin_until(end: &AtomicBool) {
    let mut counted = thread_cpu_time();
    while !end.load(Ordering::Relaxed) {
        for _ in 0..TURNS {
            hint::spin_loop();
        }
        let now = thread_cpu_time();
        let nanoseconds = now.saturating_sub(counted).as_nanos() as u64;
        SPENT.fetch_add(nanoseconds, Ordering::Relaxed);
        counted = now;
    }
}

/// Gives the calling thread a lower priority than all others (`SCHED_IDLE`). Needs no privilege.
fn set_idle() -> Result<()> {
    // SAFETY: sched_param is plain data, for which zero is a value.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread; the parameters outlive the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) })
        .map(drop)
        .doing("set the idle priority of a thread (SCHED_IDLE)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_have_idle_priority_and_exit_on_drop() {
        thread::spawn(|| {
            set_idle().unwrap();
            // SAFETY: 0 is the calling thread.
            let policy = unsafe { libc::sched_getscheduler(0) };
            assert_eq!(policy, libc::SCHED_IDLE);
        })
        .join()
        .unwrap();
        let before = spent();
        let awake = Awake::keep().unwrap();
        assert_eq!(awake.threads.len(), sched::processors().unwrap().len());
        // Even on a busy machine, threads with the lowest priority get a little processor time.
        while spent() == before {
            thread::sleep(Duration::from_millis(1));
        }
        // Returns only when its threads have exited.
        drop(awake);
    }
}
