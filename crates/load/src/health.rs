//! Examines whether the generator, and not the server, determined the result.
//!
//! The server's behaviour is a finding and never makes a result invalid. The generator's behaviour makes it invalid if
//! the result may be affected. Every such reason is reported with its value and its limit.

use std::time::Duration;

use fathometer_analysis::load::{Generator, LoopKind, UserTime, Window};
use fathometer_model::{Failure, Validity};

/// The default limit of the 99th percentile of the send lag. If [`LAG_SHARE`] of the median latency is larger, that is
/// the limit.
pub(super) const LAG: Duration = Duration::from_millis(1);

/// The limit of the send lag as a share of the median latency; see [`LAG`].
const LAG_SHARE: f64 = 0.1;

/// A loop that is busy for more than this share of the time is saturated.
const BUSY: f64 = 0.9;

/// The minimum length of a window in which the busy time is examined. Connecting and the first requests fill a shorter
/// window.
const BUSY_FROM: Duration = Duration::from_millis(100);

/// The largest share of the machine's CPU time that the hypervisor may give to other guests (steal).
const STEAL: f64 = 0.05;

/// The minimum share of steal that is reported with late requests, because it may explain why one request in a hundred
/// was sent late.
const STEAL_REPORTED: f64 = 0.005;

/// The minimum length of a window in which steal is examined. The kernel counts steal in ticks of 10 ms, so one tick is
/// a large share of a shorter window.
const STEAL_FROM: Duration = Duration::from_secs(1);

/// The largest share of the time that loops may wait for the recorder.
const RECORDER: f64 = 0.01;

/// The first words of the reasons that noise alone can cause: other programs and other guests on the same machine.
const LATE: &str = "the generator was late";
const STOLEN: &str = "the hypervisor gave";

/// Returns whether a result is invalid only because of noise on this machine, so that a repetition may be valid.
pub fn is_noise(validity: &Validity) -> bool {
    let noisy = |reason: &String| reason.starts_with(LATE) || reason.starts_with(STOLEN);
    !validity.is_valid() && validity.reasons.iter().all(noisy)
}

/// Examines the sum of many short windows, each of which may be too short to examine. Only the send lag, the busiest
/// thread and steal are examined. The caller reports errors of individual windows.
pub(crate) fn examine_sum(measured: &Window, generator: &Generator, kind: &LoopKind) -> Validity {
    let circumstances = Circumstances {
        kind,
        lag: LAG,
        clock_source: "",
        recorder_wait: Duration::ZERO,
        sizes_are_known: false,
        user_time: None,
    };
    examine(measured, generator, &circumstances)
}

/// The inputs of the examination besides the result.
pub(super) struct Circumstances<'a> {
    pub(super) kind: &'a LoopKind,
    /// The limit of the send lag's 99th percentile, see [`LAG`].
    pub(super) lag: Duration,
    pub(super) clock_source: &'a str,
    /// The total time that the loops waited for the recorder.
    pub(super) recorder_wait: Duration,
    /// Whether the sizes in the workload are the sizes of the server's files.
    pub(super) sizes_are_known: bool,
    /// The time of the users of a closed loop in each state.
    pub(super) user_time: Option<UserTime>,
}

/// Finds all reasons for which a result is invalid.
pub(super) fn examine(
    measured: &Window,
    generator: &Generator,
    circumstances: &Circumstances<'_>,
) -> Validity {
    let mut validity = Validity::default();
    if measured.duration.is_zero() {
        // Without a measured window, nothing else can be examined.
        validity.invalidate("the test ended before the measured window began".to_owned());
        return validity;
    }
    // This check is first, because the test measured other responses than planned.
    if let Some(mismatch) = measured.counts.size_mismatch()
        && circumstances.sizes_are_known
    {
        validity.invalidate(mismatch);
    }
    if let Some(time) = circumstances.user_time
        && !time.is_kept()
    {
        validity.invalidate(format!(
            "Little's law does not hold: {:.2} users were busy and {:.2} paused on average, but the test had {:.0} \
             (tolerance {:.1} %): exchanges or times are missing from these figures. Please report this",
            time.busy,
            time.paused,
            time.users,
            100.0 * time.tolerance
        ));
    }
    let seconds = measured.duration.as_secs_f64();
    let latency = &measured.latency;
    if let (Some(lag), Some(median)) = (
        latency.send_lag.quantile(0.99),
        latency.corrected.quantile(0.5),
    ) {
        let limit = circumstances.lag.max(median.mul_f64(LAG_SHARE));
        if lag > limit {
            let stolen = match generator.steal >= STEAL_REPORTED {
                true => format!(
                    "; the hypervisor gave {:.1} % of the CPU time to other guests",
                    100.0 * generator.steal
                ),
                false => String::new(),
            };
            let change = match circumstances.kind {
                LoopKind::Closed { .. } => "more --threads, fewer users (-c)",
                LoopKind::Open { .. } => "a lower --rate, more --threads, a longer --spin",
            };
            validity.invalidate(format!(
                "{LATE}: 1 request in 100 was sent more than {lag:.1?} after it was due (limit \
                 {limit:.1?}){stolen}; try {change}, or a machine with less other work"
            ));
        }
    }
    let busiest = generator.workers.iter().map(|worker| worker.busy);
    let busiest = busiest.fold(0.0, f64::max);
    if busiest > BUSY && measured.duration >= BUSY_FROM {
        let meaning = match circumstances.kind {
            LoopKind::Closed { .. } => {
                "the generator and not the server may have limited the throughput"
            }
            LoopKind::Open { .. } => "the generator may have delayed requests",
        };
        validity.invalidate(format!(
            "a thread of the generator was busy for {:.0} % of the time (limit {:.0} %): {meaning}; \
             use more --threads or machines",
            100.0 * busiest,
            100.0 * BUSY
        ));
    }
    if generator.ports_exhausted > 0 {
        validity.invalidate(format!(
            "{} connections failed because no local port was left (limit 0): keep connections \
             open, reset them on close, or widen net.ipv4.ip_local_port_range",
            generator.ports_exhausted
        ));
    }
    let failures = &measured.counts.connect_failures;
    let local = failures.get(&Failure::LocalLimit).copied().unwrap_or(0);
    let local = local.saturating_sub(generator.ports_exhausted);
    if local > 0 {
        validity.invalidate(format!(
            "{local} connections failed because this machine refused them (limit 0): raise the descriptor limit \
             (`ulimit -n`), or free memory"
        ));
    }
    let datagrams = &measured.datagrams;
    for (count, what) in [
        (
            datagrams.overflowed,
            "were dropped by this machine because the generator did not read them in time (limit 0): QUIC treats \
             that as loss on the path; use more --threads, or fewer connections (-c)",
        ),
        (
            datagrams.unsent,
            "were not sent by this machine (limit 0), because it lacked memory or a route: QUIC treats that as loss \
             on the path; check the routes, and use fewer connections (-c)",
        ),
    ] {
        if count > 0 {
            validity.invalidate(format!("{count} datagrams {what}"));
        }
    }
    if generator.steal > STEAL && measured.duration >= STEAL_FROM {
        validity.invalidate(format!(
            "{STOLEN} {:.1} % of the CPU time to other guests (limit {:.0} %): repeat the test when they are \
             less busy, or on another machine",
            100.0 * generator.steal,
            100.0 * STEAL
        ));
    }
    if !matches!(
        circumstances.clock_source,
        "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page" | ""
    ) {
        validity.invalidate(format!(
            "the kernel's clock source is {}, which is slow to read (required: tsc or similar): choose another in \
             /sys/devices/system/clocksource/clocksource0, or another machine",
            circumstances.clock_source
        ));
    }
    let waited = circumstances.recorder_wait.as_secs_f64();
    let loops = generator.workers.len().max(1) as f64;
    if waited > RECORDER * seconds * loops {
        validity.invalidate(format!(
            "the generator waited {waited:.1} s for its record of exchanges to be written (limit {:.0} % of the \
             time): save to a faster disk, or omit the .parquet file",
            100.0 * RECORDER
        ));
    }
    validity
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_analysis::load::WorkerHealth;

    fn examined(change: impl FnOnce(&mut Window, &mut Generator)) -> Vec<String> {
        examined_with(None, change)
    }

    fn examined_with(
        user_time: Option<UserTime>,
        change: impl FnOnce(&mut Window, &mut Generator),
    ) -> Vec<String> {
        let mut window = Window {
            duration: Duration::from_secs(10),
            ..Window::default()
        };
        let mut generator = Generator {
            workers: vec![WorkerHealth {
                busy: 0.5,
                longest_turn: Duration::from_millis(1),
                ..WorkerHealth::default()
            }],
            ..Generator::default()
        };
        for _ in 0..100 {
            window.latency.corrected.record(Duration::from_millis(100));
        }
        change(&mut window, &mut generator);
        let circumstances = Circumstances {
            sizes_are_known: true,
            user_time,
            kind: &LoopKind::Closed { users: 1 },
            lag: LAG,
            clock_source: "tsc",
            recorder_wait: Duration::ZERO,
        };
        examine(&window, &generator, &circumstances).reasons
    }

    #[test]
    fn a_result_is_valid_if_the_generator_has_reserves_whatever_the_server_does() {
        let reasons = examined(|window, _| {
            window.counts.failures.insert(Failure::Refused, 1000);
            window.latency.send_lag.record(Duration::from_millis(9));
        });
        assert_eq!(reasons, Vec::<String>::new());
    }

    #[test]
    fn each_fault_of_the_generator_is_reported_with_figure_and_limit() {
        let late = examined(|window, _| {
            window.latency.send_lag.record(Duration::from_millis(11));
        });
        assert!(
            late[0].contains("11.0ms") && late[0].contains("limit 10.0ms"),
            "{late:?}"
        );
        assert!(!late[0].contains("hypervisor"), "{late:?}");
        let taken = examined(|window, generator| {
            window.latency.send_lag.record(Duration::from_millis(11));
            generator.steal = 0.03;
        });
        assert!(
            taken.len() == 1 && taken[0].contains("gave 3.0 %"),
            "{taken:?}"
        );
        let busy = examined(|_, generator| generator.workers[0].busy = 0.97);
        assert!(busy[0].contains("97 %") && busy[0].contains("of the generator"));
        let ports = examined(|_, generator| generator.ports_exhausted = 7);
        assert!(ports[0].starts_with("7 connections"));
        let limits = examined(|window, _| {
            let failures = &mut window.counts.connect_failures;
            failures.insert(Failure::LocalLimit, 3);
        });
        assert!(limits[0].starts_with("3 connections"));
        let lost = examined(|window, _| {
            window.datagrams.overflowed = 5;
            window.datagrams.lost = 100;
        });
        assert_eq!(lost.len(), 1);
        assert!(lost[0].starts_with("5 datagrams were dropped") && lost[0].contains("limit 0"));
        let unsent = examined(|window, _| window.datagrams.unsent = 6);
        assert!(unsent[0].starts_with("6 datagrams were not sent"));
        let steal = examined(|_, generator| generator.steal = 0.2);
        assert!(steal[0].contains("20.0 %"));
    }

    #[test]
    fn a_late_generator_and_a_stolen_processor_are_noise_and_a_busy_thread_is_not() {
        let of = |reasons: Vec<String>| {
            let mut validity = Validity::default();
            reasons
                .into_iter()
                .for_each(|reason| validity.invalidate(reason));
            is_noise(&validity)
        };
        let late = |window: &mut Window| {
            window.latency.send_lag.record(Duration::from_millis(11));
        };
        assert!(of(examined(|window, _| late(window))));
        assert!(of(examined(|_, generator| generator.steal = 0.2)));
        assert!(!of(examined(|window, generator| {
            late(window);
            generator.workers[0].busy = 0.97;
        })));
        assert!(!of(examined(|_, generator| generator.ports_exhausted = 7)));
        assert!(!of(Vec::new()));
    }

    #[test]
    fn users_whose_time_is_missing_invalidate_the_result() {
        let time = |busy| UserTime {
            users: 8.0,
            busy,
            paused: 0.0,
            slots: 1,
            tolerance: 0.02,
        };
        assert_eq!(
            examined_with(Some(time(7.9)), |_, _| ()),
            Vec::<String>::new()
        );
        let reasons = examined_with(Some(time(7.5)), |_, _| ());
        assert!(
            reasons.len() == 1 && reasons[0].contains("7.50 users were busy"),
            "{reasons:?}"
        );
    }

    #[test]
    fn a_window_of_20_ms_is_too_short_to_judge_the_machine() {
        let reasons = examined(|window, generator| {
            window.duration = Duration::from_millis(20);
            generator.steal = 0.5;
            generator.workers[0].busy = 1.0;
        });
        assert_eq!(reasons, Vec::<String>::new());
    }
}
