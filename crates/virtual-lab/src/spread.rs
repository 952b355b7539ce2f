//! Predicts a retrieval for several phases of the hosts' timers, which an experiment cannot control.

use std::time::Duration;

use crate::prediction::{Prediction, Scenario, Unsupported};
use crate::retrieval::predict;

/// The number of phases, equally spaced over [`PERIOD`].
const PHASES: u32 = 8;
/// The period after which the timer phases of both hosts repeat.
const PERIOD: Duration = Duration::from_millis(256);

/// The distribution of predictions of one retrieval.
#[derive(Debug, Clone)]
pub struct Spread {
    /// The prediction with the median page time.
    pub median: Prediction,
    /// The shortest page time of the complete retrievals.
    pub least: Option<Duration>,
    /// The longest page time of the complete retrievals.
    pub greatest: Option<Duration>,
}

/// Predicts a retrieval for several phases of the timers. An incomplete retrieval counts as longer than every complete
/// retrieval.
///
/// # Errors
/// The errors of [`predict`].
pub fn predict_spread(scenario: &Scenario<'_>) -> Result<Spread, Unsupported> {
    let mut predictions = Vec::new();
    for phase in 0..PHASES {
        let mut scenario = scenario.clone();
        let phase = PERIOD * phase / PHASES;
        scenario.client.tick_phase = phase;
        scenario.server.tick_phase = phase;
        predictions.push(predict(&scenario)?);
    }
    predictions.sort_by_key(|one| one.page_time.unwrap_or(Duration::MAX));
    let complete = predictions.iter().filter_map(|one| one.page_time);
    let (least, greatest) = (complete.clone().min(), complete.max());
    Ok(Spread {
        median: predictions.swap_remove((predictions.len() - 1) / 2),
        least,
        greatest,
    })
}
