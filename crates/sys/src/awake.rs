//! Keeps idle processors out of sleep states.
//!
//! An idle processor of a virtual machine is returned to the hypervisor. A wake-up then waits until the hypervisor has a
//! free physical processor. On a busy machine this takes milliseconds for every packet that arrives while the virtual
//! machine is idle. Two methods prevent this during a measurement, without a reboot:
//!
//! - **Polling**: the kernel's idle loop polls instead of sleeping while a program requests a wake-up latency of 0 µs
//!   (Documentation/power/pm_qos_interface.rst). The idle driver must have a polling state; in guests, haltpoll has one.
//!   The scheduler and the accounting count the processors as idle. Requires root.
//! - **Threads** that are always runnable under `SCHED_IDLE`, one on each processor. Other threads preempt them, with
//!   one exception: because the processor is not idle, Linux may delay a thread whose throttling by a CPU quota has
//!   ended. Measured with Linux 6.18 and a quota of 20 % of a processor: servers with 48 connections got two thirds of
//!   the quota. Therefore do not use threads for hosts with a quota.

use std::fs::{self, File, OpenOptions};
use std::hint;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Machine;
use crate::clock::thread_cpu_time;
use crate::error::{Doing, Result, check};
use crate::sched;

/// The number of iterations between two checks for an exit request; they take some tenths of a millisecond.
const TURNS: u32 = 10_000;

/// The CPU time of all current and former busy-waiting threads, in nanoseconds.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// The device for requests of a wake-up latency; a request is valid while the device is open.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// The file with the name of the shallowest idle state.
const SHALLOWEST: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state0/name";

/// Keeps the processors out of sleep states until it is dropped. This uses electricity, and slows down sibling
/// hyper-threads of the physical cores.
#[derive(Debug)]
pub struct Awake {
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// The open device. The kernel also closes it if the program is killed.
    Polling {
        _device: File,
    },
    Threads {
        _threads: Threads,
    },
}

impl Awake {
    /// Makes the idle loop poll. If that is not possible and `threads` is set, starts busy-waiting threads.
    ///
    /// # Errors
    /// If neither is possible.
    pub fn keep(threads: bool) -> Result<Awake> {
        let way = match poll() {
            Ok(device) => Way::Polling { _device: device },
            Err(_) if threads => Way::Threads {
                _threads: Threads::start()?,
            },
            Err(error) => return Err(error).doing("make idle processors poll"),
        };
        Ok(Awake { way })
    }

    /// Whether the idle loop polls; otherwise threads run.
    pub fn is_polling(&self) -> bool {
        matches!(self.way, Way::Polling { .. })
    }
}

/// Keeps the processors out of sleep states if this machine is a guest. Returns `None` on other machines, or if neither
/// method is possible. Set `threads` only if no host has a CPU quota.
pub fn in_a_guest(machine: &Machine, threads: bool) -> Option<Awake> {
    machine.hypervisor.as_ref()?;
    Awake::keep(threads).ok()
}

/// Requests a wake-up latency of 0 µs, which only a polling idle state provides.
fn poll() -> io::Result<File> {
    if fs::read_to_string(SHALLOWEST)?.trim() != "POLL" {
        return Err(ErrorKind::Unsupported.into());
    }
    let mut device = OpenOptions::new().write(true).open(LATENCY)?;
    device.write_all(&0_i32.to_ne_bytes())?;
    Ok(device)
}

/// Busy-waiting threads that yield to all other threads.
#[derive(Debug)]
struct Threads {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts a thread on each processor that the calling thread may run on.
    fn start() -> Result<Threads> {
        let mut awake = Threads {
            end: Arc::default(),
            threads: Vec::new(),
        };
        for processor in sched::processors()? {
            let end = Arc::clone(&awake.end);
            let thread = thread::Builder::new()
                .name(format!("awake-{processor}"))
                .spawn(move || {
                    // Without `SCHED_IDLE` the thread would compete with other threads, so it exits instead.
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

impl Drop for Threads {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread cannot have panicked, and requires no cleanup.
            let _ = thread.join();
        }
    }
}

/// Returns the CPU time of the busy-waiting threads. The kernel accounts it to this program, but it was available to
/// all other threads: count it as idle time.
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

/// Gives the calling thread a lower priority than all other threads (`SCHED_IDLE`). Requires no privilege.
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
        let awake = Threads::start().unwrap();
        assert_eq!(awake.threads.len(), sched::processors().unwrap().len());
        // Even on a busy machine, threads with the lowest priority get a little CPU time.
        while spent() == before {
            thread::sleep(Duration::from_millis(1));
        }
        // `drop` returns only when the threads have exited.
        drop(awake);
    }
    /// Returns the time that all processors have polled, in microseconds.
    fn polled() -> u64 {
        let processors = fs::read_dir("/sys/devices/system/cpu").unwrap();
        let times = processors.filter_map(|processor| {
            let path = processor.unwrap().path().join("cpuidle/state0/time");
            fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        });
        times.sum()
    }

    #[test]
    fn idle_processors_poll_where_the_kernel_can() {
        let can = fs::read_to_string(SHALLOWEST).is_ok_and(|name| name.trim() == "POLL")
            && OpenOptions::new().write(true).open(LATENCY).is_ok();
        let awake = Awake::keep(false);
        assert_eq!(awake.is_ok(), can);
        let Ok(awake) = awake else { return };
        assert!(awake.is_polling());
        let before = polled();
        while polled() == before {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
