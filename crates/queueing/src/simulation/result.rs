//! The figures of the measured exchanges.

use super::engine::{End, Ended, Log};
use crate::Seconds;

/// The number of batches from which the intervals are computed.
pub const BATCHES: u32 = 20;

/// The 0.975 quantile of Student's t with 19 degrees of freedom, for [`BATCHES`] batches.
const STUDENT_19: f64 = 2.093;

/// A mean and the half-width of its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The mean.
    pub mean: f64,
    /// The half-width of the interval, from batch means.
    pub half_width: f64,
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationResult {
    /// The number of completed exchanges per second, without exchanges that timed out or were refused.
    pub throughput: Measured,
    /// The mean response time, in seconds; a failed exchange counts with the time that its client waited.
    pub response: Measured,
    /// The mean response time of completed exchanges, in seconds; 0 if no exchange was completed.
    pub completed: Measured,
    /// The share of exchanges that failed: timed out or refused.
    pub failed: Measured,
    /// The share of exchanges that timed out.
    pub timed_out: f64,
    /// The share of exchanges that failed because the backlog was full, at once or after all retries.
    pub refused: f64,
    /// The number of attempts to connect that found the backlog full, per exchange.
    pub overflows: f64,
    /// The mean share of workers that are busy; 0 without a limit.
    pub workers: f64,
    /// The mean number of connections in the backlog.
    pub waiting: f64,
    /// The utilisation of each station: the mean share of its servers that are busy. With a quota: the share of the quota that
    /// is used. For a delay: the mean number of exchanges.
    pub utilisations: Vec<f64>,
    /// All response times in ascending order.
    sorted: Vec<f64>,
    /// The response times of completed exchanges in ascending order.
    sorted_completed: Vec<f64>,
}

impl SimulationResult {
    /// Returns a quantile of the response time: the smallest value that at least this share of exchanges does not
    /// exceed.
    pub fn quantile(&self, share: f64) -> Seconds {
        ranked(&self.sorted, share)
    }

    /// Returns a quantile of the response time of completed exchanges; 0 if no exchange was completed.
    pub fn completed_quantile(&self, share: f64) -> Seconds {
        ranked(&self.sorted_completed, share)
    }
}

fn ranked(sorted: &[f64], share: f64) -> Seconds {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    let place = rank.clamp(1, sorted.len().max(1)) - 1;
    Seconds(sorted.get(place).copied().unwrap_or(0.0))
}

/// Returns the figures of the measured exchanges.
pub(super) fn summarised(log: Log) -> SimulationResult {
    let batch = log.ended.len() / BATCHES as usize;
    let (mut rates, mut means, mut completed, mut failed) = (vec![], vec![], vec![], vec![]);
    let mut from = log.started;
    for ended in log.ended.chunks_exact(batch).take(BATCHES as usize) {
        let until = ended[batch - 1].at;
        let good: Vec<f64> = times(ended, |end| end == End::Completed).collect();
        rates.push(good.len() as f64 / (until - from));
        means.push(mean(&times(ended, |_| true).collect::<Vec<f64>>()));
        if !good.is_empty() {
            completed.push(mean(&good));
        }
        failed.push(1.0 - good.len() as f64 / batch as f64);
        from = until;
    }
    let count = log.ended.len() as f64;
    let sorted = |keep: fn(End) -> bool| {
        let mut sorted: Vec<f64> = times(&log.ended, keep).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    };
    let share = |keep: fn(End) -> bool| times(&log.ended, keep).count() as f64 / count;
    let all = sorted(|_| true);
    let good = sorted(|end| end == End::Completed);
    SimulationResult {
        // The mean of the batches' rates would be biased, because batches take different times.
        throughput: measured(good.len() as f64 / (log.finished - log.started), &rates),
        response: measured(mean(&all), &means),
        completed: measured(mean(&good), &completed),
        failed: measured((all.len() - good.len()) as f64 / count, &failed),
        timed_out: share(|end| end == End::TimedOut),
        refused: share(|end| end == End::Refused),
        overflows: log.overflows as f64 / count,
        workers: log.workers,
        waiting: log.waiting,
        utilisations: log.utilisations,
        sorted: all,
        sorted_completed: good,
    }
}

/// Returns the response times of the exchanges whose end `keep` accepts.
fn times(ended: &[Ended], keep: fn(End) -> bool) -> impl Iterator<Item = f64> {
    let kept = ended.iter().filter(move |exchange| keep(exchange.end));
    kept.map(|exchange| exchange.response)
}

/// Returns the mean of some values; 0 if there are none.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns a mean, with its interval from the means of the batches.
fn measured(mean: f64, batches: &[f64]) -> Measured {
    let n = batches.len() as f64;
    let middle = batches.iter().sum::<f64>() / n;
    let squares: f64 = batches.iter().map(|x| (x - middle) * (x - middle)).sum();
    Measured {
        mean,
        half_width: match batches.len() {
            0 | 1 => f64::INFINITY,
            _ => STUDENT_19 * (squares / (n - 1.0) / n).sqrt(),
        },
    }
}
