//! Assertions on figures that agree to a few per cent, which only a quiet machine can show.
//!
//! Facts that hold in any case are asserted unconditionally. Figures that depend on the kernel's scheduling are
//! tried several times and must agree once: a wrong program is wrong every time. During an attempt, threads
//! that only sleep and wake up measure how late the machine is. A disagreement does not count when they were at
//! least `noise` late.

#![allow(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fathometer_sys::sched;

/// Number of attempts.
const ATTEMPTS: usize = 5;

/// Length of one sleep of the threads.
const NAP: Duration = Duration::from_millis(1);

/// Repeats `attempt` until its figures agree. Fails when they never agree and in at least one attempt no thread
/// waited for a processor for `noise` or longer. If the machine was that late in every attempt, the result is
/// unknown, which is printed.
pub fn in_a_quiet_moment(noise: Duration, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut told = Vec::new();
    for _ in 0..ATTEMPTS {
        let watch = Watch::start();
        let Err(disagreement) = attempt() else {
            return;
        };
        told.push((watch.stop(), disagreement));
    }
    assert!(
        told.iter().all(|(late, _)| *late >= noise),
        "it never agreed, though the machine let it alone: {told:#?}"
    );
    eprintln!("NOT JUDGED: the machine was late in every attempt: {told:#?}");
}

/// Returns an error unless `found` is within `share` of `wanted`.
pub fn near(what: &str, found: f64, wanted: f64, share: f64) -> Result<(), String> {
    match (found - wanted).abs() <= share * wanted {
        true => Ok(()),
        false => Err(format!("{what}: {found} is not within {share} of {wanted}")),
    }
}

/// The same for a figure that must be below a limit.
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

/// One thread on each processor that measures how late it wakes up.
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

    /// The longest wait of any thread for its processor.
    fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let worst = self
            .threads
            .into_iter()
            .map(|thread| thread.join().unwrap());
        worst.max().unwrap_or_default()
    }
}
