//! What a thread and the process have used.

use std::time::Duration;

use fathometer_model::Bytes;

/// Processor time, in a program's own code and in the kernel on its behalf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In its own code.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl ProcessorTime {
    /// What was used since an earlier reading.
    pub fn since(self, earlier: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// What the calling thread has used so far. The sum is exact; the kernel splits it by samples.
pub fn thread_time() -> ProcessorTime {
    let usage = usage(libc::RUSAGE_THREAD);
    ProcessorTime {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
    }
}

/// The most memory that this process has had in residence.
///
/// getrusage's figure would be that of the program that started this one, when that is larger: the
/// kernel keeps it when another program is executed.
pub fn peak_memory() -> Bytes {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|figure| figure.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let kibibytes = told.unwrap_or(usage(libc::RUSAGE_SELF).ru_maxrss.max(0) as u64);
    Bytes(kibibytes * 1024)
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain data, for which zero is a value; the call fills it, and fails only for
    // a `who` that does not exist.
    unsafe {
        let mut usage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec as u64)
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
    fn the_peak_is_this_programs() {
        let before = peak_memory();
        let held = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(peak_memory().0 >= before.0 + (48 << 20));
        drop(held);
        assert!(peak_memory().0 >= before.0 + (48 << 20));
    }
}
