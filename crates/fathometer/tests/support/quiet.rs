//! Assertions on figures that agree to a few per cent, which only a quiet machine can show.
//!
//! Facts that hold in any case are asserted unconditionally. Figures that depend on the kernel's scheduling are tried
//! several times and must agree once, because a defect of the program fails every attempt. During an attempt, threads
//! that only sleep and wake up measure how late the machine is. An attempt in which they were at least `noise` late is
//! repeated after a pause. The test fails if the machine was never quiet.

#![allow(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fathometer_sys::sched;

/// Number of attempts that a program may fail while the machine is quiet.
const QUIET_ATTEMPTS: usize = 5;

/// Maximum number of attempts, quiet or not.
const ATTEMPTS: usize = 25;

/// Time after which no further attempt starts.
const LONGEST: Duration = Duration::from_secs(180);

/// The first pause after an attempt that noise disturbed. Each further pause is twice as long, up to 16 times the
/// first.
const PAUSE: Duration = Duration::from_millis(500);

/// Length of one sleep of the threads.
const NAP: Duration = Duration::from_millis(1);

/// Repeats `attempt` until its figures agree.
///
/// Fails if they disagree in [`QUIET_ATTEMPTS`] attempts in which no thread waited for a processor for `noise` or
/// longer. Also fails if the machine was that late in too many attempts ([`ATTEMPTS`], [`LONGEST`]).
pub fn in_a_quiet_moment(noise: Duration, mut attempt: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    let mut disagreements = Vec::new();
    let (mut quiet, mut disturbed) = (0, 0);
    while quiet < QUIET_ATTEMPTS && quiet + disturbed < ATTEMPTS && start.elapsed() < LONGEST {
        let watch = Watch::start();
        let Err(disagreement) = attempt() else {
            return;
        };
        let late = watch.stop();
        disagreements.push((late, disagreement));
        if late < noise {
            quiet += 1;
        } else {
            std::thread::sleep(PAUSE * (1 << disturbed.min(4)));
            disturbed += 1;
        }
    }
    panic!(
        "the figures never agreed: {quiet} attempts in which the machine was quiet, {disturbed} in which it was \
         {noise:?} late or more{}: {disagreements:#?}",
        if quiet == 0 {
            " (too noisy to judge: repeat this test while no other program runs)"
        } else {
            ""
        }
    );
}

/// Returns an error unless `found` is within `share` of `wanted`.
pub fn near(what: &str, found: f64, wanted: f64, share: f64) -> Result<(), String> {
    match (found - wanted).abs() <= share * wanted {
        true => Ok(()),
        false => Err(format!("{what}: {found} is not within {share} of {wanted}")),
    }
}

/// Returns an error unless `found` is below `limit`.
pub fn below<T: PartialOrd + Copy + std::fmt::Debug>(
    what: &str,
    found: T,
    limit: T,
) -> Result<(), String> {
    match found < limit {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} is not below {limit:?}")),
    }
}

/// Threads, one on each processor, that measure how late they wake up.
struct Watch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Duration>>,
}

impl Watch {
    fn start() -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = |processor| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let _ = sched::pin(processor);
                let mut worst = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    std::thread::sleep(NAP);
                    worst = worst.max(begun.elapsed().saturating_sub(NAP));
                }
                worst
            })
        };
        let threads = sched::processors()
            .unwrap()
            .into_iter()
            .map(watch)
            .collect();
        Watch { stop, threads }
    }

    /// Stops the threads; returns the longest wait of a thread for its processor.
    fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let worst = self
            .threads
            .into_iter()
            .map(|thread| thread.join().unwrap());
        worst.max().unwrap_or_default()
    }
}
