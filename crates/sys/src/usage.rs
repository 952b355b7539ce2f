//! The resource use of threads and of the process.

use std::os::unix::thread::JoinHandleExt as _;
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_model::Bytes;

/// CPU time, in user mode and in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl ProcessorTime {
    /// Returns the difference to an earlier reading.
    pub fn since(self, earlier: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Returns the calling thread's CPU time so far. The sum is exact; the kernel splits it into user and system time by
/// sampling.
pub fn thread_time() -> ProcessorTime {
    let usage = usage(libc::RUSAGE_THREAD);
    ProcessorTime {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
    }
}

/// The CPU-time clock of one thread of this process, or of one process, including kernel time. It is exact to the
/// nanosecond, also while the thread runs, and every thread can read it.
///
/// Without `CONFIG_IRQ_TIME_ACCOUNTING` it includes the time of interrupts that occur while the thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadClock {
    clock: libc::clockid_t,
}

impl ThreadClock {
    /// Returns the clock of the calling thread.
    pub fn current() -> ThreadClock {
        ThreadClock::numbered(current_thread())
    }

    /// Returns the clock of the thread with this kernel thread number.
    pub fn numbered(thread: u32) -> ThreadClock {
        // The clock number is derived from the thread number (MAKE_THREAD_CPUCLOCK of the kernel): its complement, a
        // bit for a thread instead of a process (4), and the kind of clock (2: the scheduler's time).
        let thread = thread as libc::clockid_t;
        ThreadClock {
            clock: (!thread << 3) | 4 | 2,
        }
    }

    /// Returns the clock of all threads of a process, which may be another process. The clock can be read until the
    /// process is waited for.
    pub fn of_process(pid: u32) -> ThreadClock {
        // MAKE_PROCESS_CPUCLOCK of the kernel: as above, without the bit for a thread.
        ThreadClock {
            clock: (!(pid as libc::clockid_t) << 3) | 2,
        }
    }

    /// Returns the clock of a thread that has not been joined; `None` if the thread has exited.
    pub fn of<T>(thread: &JoinHandle<T>) -> Option<ThreadClock> {
        let mut clock = 0;
        // SAFETY: the handle keeps the thread's descriptor until it is joined, so the number is valid; the
        // call writes one number to a local variable.
        let refused = unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) };
        (refused == 0).then_some(ThreadClock { clock })
    }

    /// Returns the kernel's thread number.
    pub fn thread_number(self) -> u32 {
        !(self.clock >> 3) as u32
    }

    /// Returns the bytes that the thread has read from storage so far, without data from the page cache. `None` if the
    /// kernel has no such counter, or if the thread has exited.
    pub fn storage_read(self) -> Option<Bytes> {
        let account = format!("/proc/self/task/{}/io", self.thread_number());
        let account = std::fs::read_to_string(account).ok()?;
        let written = account
            .lines()
            .find_map(|line| line.strip_prefix("read_bytes:"))?;
        written.trim().parse().ok().map(Bytes)
    }

    /// Returns the CPU time so far; `None` if the thread has exited.
    pub fn read(self) -> Option<Duration> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the call writes one time to a local variable, and returns an error for an invalid clock.
        let refused = unsafe { libc::clock_gettime(self.clock, &raw mut time) };
        (refused == 0).then(|| {
            Duration::from_secs(time.tv_sec.max(0) as u64)
                + Duration::from_nanos(time.tv_nsec.max(0) as u64)
        })
    }
}

/// Returns the peak resident memory of this process so far.
///
/// getrusage does not give this figure: the kernel keeps its value across execve, so it may be the peak of the program
/// that started this program.
pub fn peak_memory() -> Bytes {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|figure| figure.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let kibibytes = peak.unwrap_or(usage(libc::RUSAGE_SELF).ru_maxrss.max(0) as u64);
    Bytes(kibibytes * 1024)
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain data, for which zero is a value. The call fills it, and fails only for an
    // invalid `who`.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Returns the kernel's number of the calling thread.
fn current_thread() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let before = thread_time();
        let mut n = 0u64;
        while thread_time().since(before).user + thread_time().since(before).system
            < Duration::from_millis(5)
        {
            n = std::hint::black_box(n + 1);
        }
        assert!(n > 0 && peak_memory() > Bytes(1 << 20));
    }

    #[test]
    fn the_clock_of_a_thread_runs_while_the_thread_does() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut n = 0u64;
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                n = std::hint::black_box(n + 1);
            }
            n
        });
        let clock = ThreadClock::of(&thread).unwrap();
        let own = ThreadClock::current();
        assert_eq!(own.thread_number(), current_thread());
        let (first, idle) = (clock.read().unwrap(), own.read().unwrap());
        let waited = std::time::Instant::now();
        while clock.read().unwrap() - first < Duration::from_millis(5) {
            assert!(waited.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        // Waiting does not use CPU time.
        let (worked, waited) = (clock.read().unwrap() - first, own.read().unwrap() - idle);
        assert!(waited < worked, "{waited:?} {worked:?}");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(thread.join().unwrap() > 0);
        // The kernel releases the process shortly after it was waited for.
        let ended = std::time::Instant::now();
        while clock.read().is_some() {
            assert!(ended.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_clock_of_a_process_runs_while_the_process_does() {
        let own = ThreadClock::of_process(std::process::id());
        assert!(own.read().unwrap() >= ThreadClock::current().read().unwrap() / 2);
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let clock = ThreadClock::of_process(child.id());
        let waited = std::time::Instant::now();
        while clock.read().unwrap() < Duration::from_millis(5) {
            assert!(waited.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(clock.read(), None);
    }

    #[test]
    fn the_peak_is_this_programs() {
        let before = peak_memory();
        let held = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(peak_memory().0 >= before.0 + (48 << 20));
        drop(held);
        assert!(peak_memory().0 >= before.0 + (48 << 20));
    }
}
