//! Counts the exchanges of a trial for each SLO, from the rows of its exchanges.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fathometer_capacity::series::LEVELS;
use fathometer_capacity::{Series, SloLimit, TrialSoFar};
use fathometer_load::{Recorder, RecorderError};
use fathometer_model::{ExchangeRow, Failure, Outcome as ExchangeOutcome, TestPhase};

/// The finished exchanges of a trial.
pub struct Seen {
    slos: Arc<[SloLimit]>,
    series: Vec<Series>,
    /// The counts for each SLO.
    served: Vec<Served>,
}

/// Counts of the exchanges that had a connection, and of all exchanges. The latency of an exchange with a connection
/// counts from the instant at which the connection was available.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Served {
    all: u64,
    bad: u64,
    /// The number of bad exchanges, with or without a connection. Their latency counts from the planned instant.
    broken: u64,
    planned: u64,
}

impl Served {
    /// Whether the SLO is violated only because exchanges waited for a connection.
    fn is_short_of_connections(&self, share: f64) -> bool {
        let of = |bad: u64, all: u64| bad as f64 / (all as f64).max(1.0);
        self.all > 0 && of(self.broken, self.planned) > share && of(self.bad, self.all) <= share
    }
}

impl Seen {
    /// Returns the counts at the start of a trial.
    pub fn new(slos: &Arc<[SloLimit]>) -> Seen {
        Seen {
            slos: Arc::clone(slos),
            series: vec![Series::default(); slos.len()],
            served: vec![Served::default(); slos.len()],
        }
    }

    /// Whether an SLO is violated only because exchanges waited for a free connection: without this wait, the exchanges
    /// with a connection meet the SLO. Such a trial is no evidence about the server, because more connections would
    /// change its result.
    pub fn is_short_of_connections(&self) -> bool {
        let mut each = self.slos.iter().zip(&self.served);
        each.any(|(slo, served)| served.is_short_of_connections(slo.share))
    }

    fn record(&mut self, row: &ExchangeRow) {
        // A retry of an exchange has a separate row with the same planned instant.
        if row.phase != TestPhase::Measured || matches!(row.outcome, ExchangeOutcome::Retried(_)) {
            return;
        }
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        let at = seconds(row.measured_from, row.planned);
        let latency = seconds(row.planned, row.last_byte);
        let failed = !matches!(row.outcome, ExchangeOutcome::Complete) || row.status >= 400;
        for (slo, series) in self.slos.iter().zip(&mut self.series) {
            series.record(slo, at, latency, failed);
        }
        let timed_out = row.outcome == ExchangeOutcome::Failed(Failure::TimedOut);
        let had_connection = row.due > 0 && row.sent > 0;
        let own = seconds(row.due.max(row.planned), row.last_byte);
        for (slo, served) in self.slos.iter().zip(&mut self.served) {
            served.planned += 1;
            served.broken += u64::from(slo.is_bad(latency, failed));
            if had_connection {
                served.all += 1;
                // A timeout counts from the planned instant. Most of this time may have been the wait for a connection.
                let in_time = timed_out && own < latency / 2.0;
                served.bad += u64::from(slo.is_bad(own, failed && !in_time));
            }
        }
    }

    /// Returns the counts of the trial until now. Planned exchanges that are not finished count as bad: when a slot is
    /// evaluated, their latency already exceeds the limit.
    pub fn so_far(&self, planned: &[u32], seconds: f64, timeout: Duration) -> TrialSoFar {
        let mut so_far = TrialSoFar::new(0, timeout.as_secs_f64());
        so_far.seconds = seconds;
        for (slo, series) in self.slos.iter().zip(&self.series) {
            let mut series = series.clone();
            if series.slots.len() < planned.len() {
                series.slots.resize(planned.len(), Default::default());
            }
            let recorded: Vec<u32> = series.slots.iter().map(|slot| slot.planned).collect();
            let levels = if slo.limit.is_some() { LEVELS } else { 1 };
            for (slot, missing) in series.slots.iter_mut().zip(missing(planned, &recorded)) {
                slot.planned += missing;
                slot.over[..levels]
                    .iter_mut()
                    .for_each(|over| *over += missing);
                slot.seconds += f64::from(missing) * slo.limit.unwrap_or_default();
            }
            so_far.series.push(series);
        }
        so_far
    }
}

/// Returns the number of planned exchanges of each slot that are not finished.
///
/// The engine may count an exchange in a neighbouring slot of its planned instant. Therefore a surplus of later slots
/// compensates a deficit of a slot.
fn missing(planned: &[u32], ended: &[u32]) -> Vec<u32> {
    let mut deficit = 0;
    let mut deficits: Vec<i64> = (0..planned.len().max(ended.len()))
        .map(|slot| {
            let of = |counts: &[u32]| i64::from(counts.get(slot).copied().unwrap_or(0));
            deficit += of(planned) - of(ended);
            deficit.max(0)
        })
        .collect();
    for slot in (1..deficits.len()).rev() {
        deficits[slot - 1] = deficits[slot - 1].min(deficits[slot]);
    }
    let mut before = 0;
    deficits
        .into_iter()
        .map(|deficit| {
            let new = deficit - before;
            before = deficit;
            new as u32
        })
        .collect()
}

/// A recorder that passes the rows of a trial to [`Seen`].
pub struct SeenRecorder(pub Arc<Mutex<Seen>>);

impl Recorder for SeenRecorder {
    fn record(&mut self, rows: Vec<ExchangeRow>) -> Result<(), RecorderError> {
        let mut seen = lock(&self.0);
        rows.iter().for_each(|row| seen.record(row));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), RecorderError> {
        Ok(())
    }
}

/// Locks the counts of a trial.
pub fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Served, missing};

    #[test]
    fn connections_are_short_if_exchanges_that_have_one_are_served_well() {
        let served = |bad, broken| Served {
            all: 100,
            bad,
            broken,
            planned: 200,
        };
        assert!(served(0, 150).is_short_of_connections(0.01));
        assert!(
            !served(0, 1).is_short_of_connections(0.01),
            "the SLO is met"
        );
        assert!(
            !served(90, 150).is_short_of_connections(0.01),
            "the server is slow"
        );
        assert!(!Served::default().is_short_of_connections(0.01));
    }

    #[test]
    fn what_another_slot_counts_is_not_missing() {
        assert_eq!(missing(&[5, 5, 5], &[4, 6, 5]), [0, 0, 0]);
        assert_eq!(missing(&[5, 5, 5], &[6, 4, 5]), [0, 0, 0]);
        assert_eq!(missing(&[5, 5, 5], &[4, 6, 3]), [0, 0, 2]);
        assert_eq!(missing(&[5, 5, 5], &[4, 5, 0]), [1, 0, 5]);
        assert_eq!(missing(&[2], &[2, 1]), [0, 0]);
        assert_eq!(missing(&[], &[]), [0; 0]);
    }
}
