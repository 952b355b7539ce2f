//! Checks that only the host's own memory limit evicted pages from its page cache.

use fathometer_sys::cgroup::MemoryUsage;
use fathometer_sys::probe::{Samples, Step};

/// The tolerated number of refaults per second of the host's page cache without a limit hit. The slowest disk of any
/// study has ten operations per second, and spends less than a tenth of its time on this number.
const REFAULTS_PER_S: f64 = 1.0;

/// Returns the reason why a host with a memory limit is invalid: pages were evicted and read again (refaults), although
/// the host never reached its limit.
///
/// The kernel may reclaim pages that were not used recently (DAMON, `memory.reclaim`), even from hosts with a limit. If
/// the host has reached its limit since the probes started, the cause of the evictions is unknown, and the result is
/// `None`.
pub(super) fn taken_by_others(samples: &Samples, window: &Step) -> Option<String> {
    let again = window.per_second(memory(window)?.refaults?)?;
    let hits = memory(&samples.whole()?)?.limit_hits?;
    (hits == 0 && again > REFAULTS_PER_S).then(|| {
        format!(
            "{again:.1} pages per second were evicted from the host's memory and read again (limit \
             {REFAULTS_PER_S}), but the host never reached its memory limit: something else evicted them; \
             `fathometer doctor` shows whether the kernel reclaims the page cache"
        )
    })
}

fn memory(step: &Step) -> Option<&MemoryUsage> {
    Some(&step.change.groups.first()?.as_ref()?.memory)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathometer_model::Instant;
    use fathometer_sys::cgroup::Usage;
    use fathometer_sys::probe::Sample;

    use super::*;

    /// Returns readings of limit hits and refaults at seconds 0, 1, 2, ….
    fn samples(readings: &[(u64, u64)]) -> Samples {
        let reading = |(second, &(hits, refaults)): (u64, &(u64, u64))| {
            let mut usage = Usage::default();
            usage.memory.limit_hits = Some(hits);
            usage.memory.refaults = Some(refaults);
            Sample {
                at: Instant::ZERO + Duration::from_secs(second),
                groups: vec![Some(usage)],
                ..Sample::default()
            }
        };
        Samples {
            readings: (0..).zip(readings).map(reading).collect(),
            ..Samples::default()
        }
    }

    /// Returns the verdict for the window from the second reading to the last.
    fn judged(readings: &[(u64, u64)]) -> Option<String> {
        let samples = samples(readings);
        let at = |index: usize| samples.readings[index].at;
        let window = samples.between(at(1), at(readings.len() - 1)).unwrap();
        taken_by_others(&samples, &window)
    }

    #[test]
    fn what_is_read_again_below_the_limit_was_taken_by_others() {
        let reason = judged(&[(7, 5), (7, 100), (7, 102), (7, 105)]).unwrap();
        assert!(reason.starts_with("2.5 pages per second"), "{reason}");
        // Refaults before the window are not counted, and one page per second is tolerated.
        assert_eq!(judged(&[(7, 5), (7, 100), (7, 100), (7, 102)]), None);
    }

    #[test]
    fn what_is_read_again_after_the_limit_was_met_may_be_its_work() {
        // The host reached its limit within the window, or before the window: the host's processes may have freed
        // memory since then.
        assert_eq!(judged(&[(7, 5), (7, 100), (8, 150), (8, 200)]), None);
        assert_eq!(judged(&[(7, 5), (9, 100), (9, 150), (9, 200)]), None);
    }

    #[test]
    fn without_an_account_nothing_is_said() {
        let mut samples = samples(&[(0, 0), (0, 100)]);
        for reading in &mut samples.readings {
            reading.groups[0].as_mut().unwrap().memory.limit_hits = None;
        }
        let window = samples.whole().unwrap();
        assert_eq!(taken_by_others(&samples, &window), None);
    }
}
