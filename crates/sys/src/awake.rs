//! Processors that do not sleep.
//!
//! A processor of a virtual machine that has nothing to do is given back to the hypervisor, and whoever
//! wakes it waits until the hypervisor has a real one free: milliseconds, on a busy machine, at every
//! packet that finds the machine idle. A thread that always wants to run, and gives way to every other
//! one at once, keeps each processor where it is. (What `idle=poll` does for a kernel that is booted
//! for measuring, for as long as something is measured and without a boot.)

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Machine;
use crate::error::{Doing, Result, check};
use crate::probe::thread_time;
use crate::sched;

/// Turns between two looks at whether to end: some tenths of a millisecond.
const TURNS: u32 = 10_000;

/// Nanoseconds of processor time of all threads that keep, or have kept, a processor awake.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Keeps the processors of the calling thread awake until it is dropped.
///
/// Its threads run under `SCHED_IDLE`: any other thread takes the processor from them at once. They do
/// cost the other half of a physical core some of its speed, and electricity.
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
                    // A thread that could not be put behind all others would be in their way.
                    if put_last().and_then(|()| sched::pin(processor)).is_ok() {
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

/// Keeps the processors awake if this machine is a guest; `None` if it is not, or cannot.
pub fn in_a_guest(machine: &Machine) -> Option<Awake> {
    machine.hypervisor.as_ref()?;
    Awake::keep().ok()
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot have panicked, and there would be nothing to undo.
            let _ = thread.join();
        }
    }
}

/// Processor time that this program has spent on keeping processors awake. The kernel counts it as time
/// of a program, but anybody else could have had it: a machine that spends its time so is idle.
pub fn spent() -> Duration {
    Duration::from_nanos(SPENT.load(Ordering::Relaxed))
}

fn spin_until(end: &AtomicBool) {
    let mut counted = thread_time();
    while !end.load(Ordering::Relaxed) {
        for _ in 0..TURNS {
            hint::spin_loop();
        }
        let now = thread_time();
        let nanoseconds = now.saturating_sub(counted).as_nanos() as u64;
        SPENT.fetch_add(nanoseconds, Ordering::Relaxed);
        counted = now;
    }
}

/// Puts the calling thread behind all others (`SCHED_IDLE`). Needs no rights.
pub fn put_last() -> Result<()> {
    // SAFETY: sched_param is plain data, for which zero is a value.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread; the parameters outlive the call.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) })
        .map(drop)
        .doing("put a thread behind all others (SCHED_IDLE)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threads_are_last_and_end_when_told() {
        thread::spawn(|| {
            put_last().unwrap();
            // SAFETY: 0 is the calling thread.
            let policy = unsafe { libc::sched_getscheduler(0) };
            assert_eq!(policy, libc::SCHED_IDLE);
        })
        .join()
        .unwrap();
        let before = spent();
        let awake = Awake::keep().unwrap();
        assert_eq!(awake.threads.len(), sched::processors().unwrap().len());
        // Last of all, they have a little of even the busiest processor.
        while spent() == before {
            thread::sleep(Duration::from_millis(1));
        }
        // Ends only when its threads do.
        drop(awake);
    }
}
