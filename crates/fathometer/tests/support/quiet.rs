//! Figures that agree to a few per cent, which only a machine that is let alone can show.
//!
//! What is certain is asserted in any case. What depends on when the kernel gives a thread its
//! processor is tried several times, and must come true once: a program that is wrong is wrong every
//! time. While it is tried, threads that do nothing but sleep and wake up find out how late the machine
//! is; a disagreement counts for nothing when they were as late as the figures are apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fathometer_sys::sched;

/// How often it is tried.
const ATTEMPTS: usize = 5;

/// How long the threads sleep at a time.
const NAP: Duration = Duration::from_millis(1);

/// Tries until `attempt` has nothing to say against its figures. Fails when it always has, and in one of
/// the attempts nobody waited for a processor for `noise` or longer; where the machine was that late
/// every time, nothing can be known, which is said.
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

/// What an attempt has to say against a figure: nothing when it is near enough.
pub fn near(what: &str, found: f64, wanted: f64, share: f64) -> Result<(), String> {
    match (found - wanted).abs() <= share * wanted {
        true => Ok(()),
        false => Err(format!("{what}: {found} is not within {share} of {wanted}")),
    }
}

/// The same of a figure that is to be below a limit.
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

/// A thread on each processor that finds out how late it is woken up.
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

    /// The longest that any of them waited for its processor.
    fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let worst = self
            .threads
            .into_iter()
            .map(|thread| thread.join().unwrap());
        worst.max().unwrap_or_default()
    }
}
