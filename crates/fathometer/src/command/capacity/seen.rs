//! What a trial sees: the rows of its exchanges, as counts for each promise.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fathometer_capacity::series::LEVELS;
use fathometer_capacity::{Promise, Series, TrialSoFar};
use fathometer_load::{Recorder, RecorderError};
use fathometer_model::{ExchangeRow, Outcome as ExchangeOutcome, TestPhase};

/// The exchanges of a trial that ended.
pub struct Seen {
    promises: Arc<[Promise]>,
    series: Vec<Series>,
}

impl Seen {
    /// Nothing seen yet.
    pub fn new(promises: &Arc<[Promise]>) -> Seen {
        Seen {
            promises: Arc::clone(promises),
            series: vec![Series::default(); promises.len()],
        }
    }

    fn record(&mut self, row: &ExchangeRow) {
        // A retried exchange has another row, with the same planned instant.
        if row.phase != TestPhase::Measured || matches!(row.outcome, ExchangeOutcome::Retried(_)) {
            return;
        }
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
        let at = seconds(row.measured_from, row.planned);
        let latency = seconds(row.planned, row.last_byte);
        let failed = !matches!(row.outcome, ExchangeOutcome::Complete) || row.status >= 400;
        for (promise, series) in self.promises.iter().zip(&mut self.series) {
            series.record(promise, at, latency, failed);
        }
    }

    /// The trial so far. Exchanges that were planned and did not end count as bad: a slot is read only when they have
    /// lasted longer than the limit.
    pub fn so_far(&self, planned: &[u32], seconds: f64, timeout: Duration) -> TrialSoFar {
        let mut so_far = TrialSoFar::new(0, timeout.as_secs_f64());
        so_far.seconds = seconds;
        for (promise, series) in self.promises.iter().zip(&self.series) {
            let mut series = series.clone();
            if series.slots.len() < planned.len() {
                series.slots.resize(planned.len(), Default::default());
            }
            let recorded: Vec<u32> = series.slots.iter().map(|slot| slot.planned).collect();
            let levels = if promise.limit.is_some() { LEVELS } else { 1 };
            for (slot, missing) in series.slots.iter_mut().zip(missing(planned, &recorded)) {
                slot.planned += missing;
                slot.over[..levels]
                    .iter_mut()
                    .for_each(|over| *over += missing);
                slot.seconds += f64::from(missing) * promise.limit.unwrap_or_default();
            }
            so_far.series.push(series);
        }
        so_far
    }
}

/// The exchanges of each slot that were planned and have not ended.
///
/// The engine may count an exchange in the slot before or after that of its planned instant. So a deficit of a slot
/// that later slots make up for is none.
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

/// Hands the rows of a trial over.
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

/// The rows so far.
pub fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::missing;

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
