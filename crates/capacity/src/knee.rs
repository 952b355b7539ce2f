//! The knee of the curve of latency over load: above this load, latency grows by a larger factor than throughput.
//!
//! The knee is the load with the largest *power*, throughput over response time (Kleinrock, "Power and deterministic
//! rules of thumb for probabilistic problems in computer communications", ICC 1979). Throughput counts only exchanges
//! that meet every SLO, and power is multiplied by their share of the offered load: a server that rejects requests
//! quickly has no power. The median of the latency replaces its mean, because timeouts dominate the mean in an
//! overload.

use crate::trial::TrialRecord;

/// The smallest number of loads that can show a knee.
const LEAST_LOADS: usize = 3;

/// Returns the load of the knee, from trials at different loads; `None` if too few trials are valid and have latencies.
/// `whole`: loads are users, not rates.
pub fn knee(trials: &[&TrialRecord], whole: bool) -> Option<f64> {
    let powers: Vec<(f64, f64)> = trials
        .iter()
        .filter(|trial| trial.invalid.is_empty())
        .filter_map(|trial| Some((trial.load, power(trial, whole)?)))
        .collect();
    if powers.len() < LEAST_LOADS {
        return None;
    }
    let most = powers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 > 0.0).then_some(most.0)
}

fn power(trial: &TrialRecord, whole: bool) -> Option<f64> {
    let completed = trial.achieved_per_s?;
    let [latency, _] = trial.latency_ms.filter(|latency| latency[0] > 0.0)?;
    let bad = trial.slos.iter().map(|slo| slo.bad_share);
    let good = completed * (1.0 - bad.fold(0.0, f64::max));
    let offered = if whole { completed } else { trial.load };
    (offered > 0.0).then(|| good * good / (offered * latency))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Purpose, SloResult};

    fn trial(load: f64, completed: f64, latency_ms: f64, bad_share: f64) -> TrialRecord {
        TrialRecord {
            load,
            purpose: Purpose::Locate,
            at_s: 0.0,
            measured_s: 1.0,
            achieved_per_s: Some(completed),
            latency_ms: Some([latency_ms, latency_ms]),
            invalid: Vec::new(),
            slos: vec![SloResult {
                exchanges: 100,
                bad_share,
                dispersion: 1.0,
                warm_up_s: 0.0,
                rising: false,
            }],
        }
    }

    #[test]
    fn the_knee_of_an_open_queue_is_at_half_its_rate() {
        // In M/M/1 the mean response time is 1/(1 - load): the power load·(1 - load) is largest at one half.
        let loads =
            [0.1, 0.3, 0.5, 0.7, 0.9].map(|load| trial(load, load, 1.0 / (1.0 - load), 0.0));
        let trials: Vec<&TrialRecord> = loads.iter().collect();
        assert_eq!(knee(&trials, false), Some(0.5));
        assert_eq!(knee(&trials[..2], false), None);
    }

    #[test]
    fn quick_refusals_and_invalid_trials_have_no_power() {
        let mut late = trial(4000.0, 4000.0, 0.01, 0.0);
        late.invalid.push("late".to_owned());
        let all = [
            trial(100.0, 100.0, 1.0, 0.0),
            trial(500.0, 500.0, 1.0, 0.0),
            trial(1600.0, 1600.0, 0.5, 0.69),
            late,
        ];
        let trials: Vec<&TrialRecord> = all.iter().collect();
        assert_eq!(knee(&trials, false), Some(500.0));
    }

    #[test]
    fn users_complete_what_they_complete() {
        // The server completes 100 a second at most: 10 users are enough.
        let all = [
            (5.0, 50.0, 100.0),
            (10.0, 100.0, 100.0),
            (20.0, 100.0, 200.0),
        ];
        let all = all.map(|(users, rate, latency)| trial(users, rate, latency, 0.0));
        let trials: Vec<&TrialRecord> = all.iter().collect();
        assert_eq!(knee(&trials, true), Some(10.0));
    }
}
