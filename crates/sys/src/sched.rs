//! The processors on which a thread runs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Doing, Result};

/// Returns the processors that the calling thread may run on, in ascending order.
pub fn processors() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).doing("read the affinity of a thread")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&n| set.is_set(n)).collect())
}

/// Pins the calling thread, and all threads that it starts afterwards, to one processor.
pub fn pin(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        set.set(processor);
    }
    sched_setaffinity(None, &set).doing(format!("pin a thread to processor {processor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_processor() {
        std::thread::spawn(|| {
            let last = *processors().unwrap().last().unwrap();
            pin(last).unwrap();
            assert_eq!(processors().unwrap(), [last]);
            assert!(pin(CpuSet::MAX_CPU).is_err());
        })
        .join()
        .unwrap();
    }
}
