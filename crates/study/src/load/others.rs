//! Checks whether other programs used the processors while a load was measured.
//!
//! Other programs take CPU time and processor cache from the server's host. An exchange then needs more CPU time, even
//! if the generator and all packets are on time.

use std::sync::OnceLock;
use std::time::Duration;

use fathometer_model::quantity::Percent;
use fathometer_sys::probe::{Step, charging};

/// Whether this kernel charges softirq time neither to a process nor to a control group.
static SOFTIRQ_APART: OnceLock<bool> = OnceLock::new();

/// Returns the CPU time of other programs, in percent of all processors. Returns `None` if the kernel does not report
/// it.
pub(super) fn busy_pct(window: &Step) -> Option<f64> {
    let apart = SOFTIRQ_APART.get_or_init(|| charging().is_ok_and(|found| found.softirq_apart()));
    let groups = window.change.groups.iter();
    let hosts: Option<Duration> = groups
        .map(|group| Some(group.as_ref()?.cpu.as_ref()?.total))
        .sum();
    let share = window.change.system.as_ref()?.others(hosts?, *apart)?;
    Some(100.0 * share)
}

/// Returns the reason why a replicate is invalid if other programs used more CPU time than the limit.
pub(super) fn reason(busy_pct: f64, limit: Percent) -> Option<String> {
    (busy_pct > limit.value()).then(|| {
        format!(
            "other programs used {busy_pct:.1} % of this machine's processors (limit {} %): stop them and repeat the \
             measurement",
            limit.value()
        )
    })
}

#[cfg(test)]
mod tests {
    use fathometer_model::Instant;
    use fathometer_sys::cgroup::{CpuUsage, Usage};
    use fathometer_sys::probe::{ProcessorTimes, Sample, System};

    use super::*;

    /// Returns a window of 10 s with two processors. This program used 4 s of CPU time, its host 2 s, and all programs
    /// together `busy`.
    fn window(busy: u64) -> Step {
        let seconds = Duration::from_secs;
        let host = Usage {
            cpu: Some(CpuUsage {
                total: seconds(2),
                ..CpuUsage::default()
            }),
            ..Usage::default()
        };
        let system = System {
            processors: Some(ProcessorTimes {
                user: seconds(busy),
                idle: seconds(20 - busy),
                ..ProcessorTimes::default()
            }),
            own: seconds(4),
            ..System::default()
        };
        Step {
            from: Instant::ZERO,
            to: Instant::ZERO + seconds(10),
            change: Sample {
                system: Some(system),
                groups: vec![Some(host)],
                ..Sample::default()
            },
        }
    }

    #[test]
    fn what_neither_this_program_nor_the_host_used_is_that_of_others() {
        assert_eq!(busy_pct(&window(6)), Some(0.0));
        assert_eq!(busy_pct(&window(9)), Some(15.0));
        // A host with unknown CPU time could have used all CPU time of other programs.
        let mut unknown = window(9);
        unknown.change.groups[0] = None;
        assert_eq!(busy_pct(&unknown), None);
    }

    #[test]
    fn the_limit_is_in_the_reason() {
        let limit = Percent::try_from(5.0).unwrap();
        assert_eq!(reason(5.0, limit), None);
        let reason = reason(15.0, limit).unwrap();
        assert!(
            reason.starts_with("other programs used 15.0 % of"),
            "{reason}"
        );
        assert!(reason.contains("(limit 5 %)"), "{reason}");
    }
}
