//! A slice: a short load test of one server, and the CPU time of the servers in the same window.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use fathometer_analysis::load::{LoadResult, LoopKind};
use fathometer_model::Instant;
use fathometer_sys::probe::cpu_time;
use fathometer_sys::{Clock, priority};
use fathometer_workload::plan::{Choice, Plan};

use crate::timeline::Part;
use crate::{Ensemble, Limit, LoadError, Options, is_noise, run};

/// The time from the moment when all loops are ready to the start of the test, as in any load test.
const START: Duration = Duration::from_millis(2);
/// The length of a slice as a multiple of the mean response time, up to the longest slice.
const RESPONSES: u32 = 50;

/// The lengths of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lengths {
    /// The time before the measured window, in which connections are opened.
    warm_up: Duration,
    /// The measured window.
    window: Duration,
}

impl Lengths {
    /// The lengths for servers that respond in less than a millisecond.
    pub(super) const SHORTEST: Lengths = Lengths {
        warm_up: Duration::from_millis(10),
        window: Duration::from_millis(40),
    };
    /// The lengths for slow servers, and for users that pause.
    pub(super) const LONGEST: Lengths = Lengths {
        warm_up: Duration::from_millis(100),
        window: Duration::from_millis(400),
    };

    /// Computes the lengths that a server needs: a window of many response times, and a warm-up in which all
    /// connections are opened.
    pub(super) fn needed(slice: &Slice, plan: &Plan) -> Lengths {
        if plan.sessions.off.is_some() || matches!(plan.choice, Choice::Scripts(_)) {
            return Lengths::LONGEST;
        }
        let mean = slice.result.measured.latency.corrected.mean();
        let mean = mean.unwrap_or(Lengths::LONGEST.window);
        let latency = slice.result.warm_up.as_ref().map(|window| &window.latency);
        let connected = latency
            .into_iter()
            .flat_map(|latency| [latency.connect.max(), latency.tls.max()])
            .flatten()
            .sum::<Duration>();
        let window = (RESPONSES * mean)
            .max(connected)
            .clamp(Lengths::SHORTEST.window, Lengths::LONGEST.window);
        let warm_up = (window / 4)
            .max(2 * connected)
            .min(Lengths::LONGEST.warm_up);
        Lengths { warm_up, window }
    }

    /// Returns the larger warm-up and the larger window of the two.
    pub(super) fn max(self, other: Lengths) -> Lengths {
        Lengths {
            warm_up: self.warm_up.max(other.warm_up),
            window: self.window.max(other.window),
        }
    }

    /// Replaces the window; the warm-up stays the same.
    pub(super) fn with_window(self, window: Duration) -> Lengths {
        Lengths { window, ..self }
    }
}

/// The measurements of a slice.
#[derive(Debug)]
pub(super) struct Slice {
    /// The load test.
    pub(super) result: LoadResult,
    /// CPU time of the servers, and the length of the time in which it was used; `None` if there are no servers to
    /// read.
    pub(super) server: Option<CpuUse>,
}

/// CPU time between two readings.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuUse {
    /// The time between the readings.
    pub(super) length: Duration,
    /// CPU time of all programs.
    pub(super) cpu: Duration,
}

/// Measures a slice. The inner error is the reason why the slice is INVALID. Noise is examined over all slices of a
/// side.
pub(super) fn measure(
    lengths: Lengths,
    mut options: Options,
    clock: Clock,
    programs: &[u32],
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Result<Slice, String>, LoadError> {
    let Lengths { warm_up, window } = lengths;
    options.limit = Limit::Time(window);
    options.warm_up = warm_up;
    let (send, starts) = channel();
    options.ensemble = Some(Box::new(Starter {
        clock,
        starts: send,
    }));
    let (result, server) = thread::scope(|scope| {
        let reader = scope.spawn(move || {
            // Without the privilege the thread runs at normal priority.
            let _ = priority::raise_priority();
            // Fails if the test does not start.
            let from = starts.recv().ok()? + warm_up;
            (!programs.is_empty()).then(|| cpu_use(clock, programs, from, from + window))
        });
        let result = run(options, clock, interrupted, &mut |_| {});
        (result, reader.join())
    });
    let server = server.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let result = result?;
    let validity = &result.validity;
    if !validity.is_valid() && !is_noise(validity) {
        return Ok(Err(validity.reasons.join("; ")));
    }
    if result.measured.ended.completed == 0 {
        return Ok(Err("no exchange was completed in a slice".to_owned()));
    }
    Ok(Ok(Slice { result, server }))
}

impl Slice {
    /// Returns the kind of loop that generated the requests.
    pub(super) fn kind(&self) -> LoopKind {
        self.result.setup.kind.clone()
    }
}

/// Reads the CPU time of programs at both ends of a window.
fn cpu_use(clock: Clock, programs: &[u32], from: Instant, to: Instant) -> CpuUse {
    let read_at = |at: Instant| {
        thread::sleep(at.since(clock.now()));
        let before = clock.now();
        let cpu: Duration = programs.iter().map(|pid| cpu_time(*pid)).sum();
        // A reading takes the same time at both ends, so the length is correct.
        (before, cpu)
    };
    let (from, cpu_before) = read_at(from);
    let (to, cpu_after) = read_at(to);
    CpuUse {
        length: to.since(from),
        cpu: cpu_after.saturating_sub(cpu_before),
    }
}

/// Sets the start of a slice's test, and reports it to the reader of CPU times.
struct Starter {
    clock: Clock,
    starts: Sender<Instant>,
}

impl Ensemble for Starter {
    fn start(&mut self) -> Result<Instant, String> {
        let start = self.clock.now() + START;
        // Fails if the reader has exited; the slice then has no CPU time.
        let _ = self.starts.send(start);
        Ok(start)
    }

    fn interval(&mut self, _: &Part) {}
}
