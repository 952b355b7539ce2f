//! The bootstrap: networks fitted to resampled readings, for the prediction intervals.
//!
//! For each bootstrap sample, the replicates of each load are drawn with replacement. The assumed share of wake-ups is
//! drawn from its prior distribution, and the network is fitted again. The laws that pass the check are used in
//! proportion to their Akaike weights (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 9 and
//! 25).

use std::slice;

use fathometer_analysis::statistics::distributions::normal_quantile;
use fathometer_model::Seed;
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::fit::Model;
use crate::law::{
    DISCREPANCY_DEVIATION, Discrepancy, LawKind, WAKE_UP_DEVIATION, WAKE_UP_SHARE, doubt,
};
use crate::network::Fitted;
use crate::series::{Batches, FitData, Load, Reading, Series};

/// A bootstrap sample: a network fitted to resampled readings, and the standard normal deviate of the sample's noise.
pub(crate) struct Draw {
    pub(crate) fitted: Fitted,
    pub(crate) normal: f64,
}

/// Returns the bootstrap samples.
pub(crate) fn draws(
    model: &Model,
    data: &FitData,
    series: &Series,
    count: u32,
    seed: Seed,
) -> Result<Vec<Draw>, PredictError> {
    let seed = seed.stream("predict.bootstrap");
    let doubt = doubt(&data.all());
    let mut draws = Vec::new();
    for number in 0..count {
        let own = seed.child(u64::from(number));
        let share = (f64::from(number) + 0.5) / f64::from(count);
        let resampled = FitData {
            loads: resampled(&data.loads, own.stream("loads"), doubt),
            bursts: resampled(&data.bursts, own.stream("bursts"), doubt),
            batches: data.batches.as_ref().and_then(|batches| {
                let load = slice::from_ref(&batches.load);
                Some(Batches {
                    load: resampled(load, own.stream("batches"), doubt).pop()?,
                    ..batches.clone()
                })
            }),
        };
        // The prior is uncertain, too. Each sample therefore draws the assumed share as well as the readings
        // (randomised maximum likelihood; Oliver, He and Reynolds, 1996).
        let assumed = WAKE_UP_SHARE + WAKE_UP_DEVIATION * normal_quantile(own.uniform(ASSUMED));
        let kind = kind_at(&model.accepted, share);
        // If the readings of a sample do not determine the law, the law of all readings is used.
        let mut fitted = match Fitted::of(kind, &resampled, series, assumed)? {
            Some(fitted) => fitted,
            None => model.exact.clone(),
        };
        fitted.discrepancy = discrepancy(&model.exact, data, own);
        draws.push(Draw {
            fitted,
            normal: normal_quantile(share),
        });
    }
    // The noise is stratified. Shuffles the noise, because its order must not follow the order of the laws.
    for place in (1..draws.len()).rev() {
        let other = (seed.uniform(place as u64) * (place + 1) as f64) as usize;
        let (one, two) = (draws[place].normal, draws[other].normal);
        draws[place].normal = two;
        draws[other].normal = one;
    }
    Ok(draws)
}

/// Draws the model discrepancy of a sample, for queues that are longer than the measured queues. `None` if there are
/// bursts, because bursts show the CPU time of a saturated server.
fn discrepancy(exact: &Fitted, data: &FitData, seed: Seed) -> Option<Discrepancy> {
    let normal = normal_quantile(seed.stream("discrepancy").uniform(0));
    data.bursts.is_empty().then(|| Discrepancy {
        seen: exact
            .presences
            .iter()
            .map(|presence| presence.largest())
            .fold(0.0, f64::max),
        log: DISCREPANCY_DEVIATION * normal,
    })
}

/// The index of the random number for the assumed share. The indices for readings count up from 0, and the indices for
/// loads count down from this index.
const ASSUMED: u64 = u64::MAX;

/// Returns the law of a sample. Each law is used in a share of the samples that equals its weight.
fn kind_at(accepted: &[(LawKind, f64)], share: f64) -> LawKind {
    let mut sum = 0.0;
    let within = accepted.iter().find(|(_, weight)| {
        sum += weight;
        share < sum
    });
    within.unwrap_or(&accepted[0]).0
}

/// Draws readings with replacement, load by load. Their deviations from the mean are multiplied by the root of n/(n-1),
/// because the bootstrap underestimates the deviation of few values. `doubt` is an additional relative deviation of the
/// CPU times of a load.
fn resampled(loads: &[Load], seed: Seed, doubt: f64) -> Vec<Load> {
    let mut counter = 0;
    let each = loads.iter().enumerate().map(|(place, load)| {
        let doubted = 1.0 + doubt * normal_quantile(seed.uniform(ASSUMED - 1 - place as u64));
        let n = load.readings.len();
        let widened = match n {
            1 => 1.0,
            _ => (n as f64 / (n as f64 - 1.0)).sqrt(),
        };
        let wide = |value: f64, mean: f64| (mean + widened * (value - mean)).max(0.05 * mean);
        let means = (
            load.throughput().0,
            load.response().0,
            load.mean(|r| r.busy),
        );
        let readings = (0..n).map(|_| {
            let drawn = (seed.uniform(counter) * n as f64) as usize;
            counter += 1;
            let reading = &load.readings[drawn.min(n - 1)];
            Reading {
                throughput: PerSecond(wide(reading.throughput.0, means.0)),
                response: Seconds(wide(reading.response.0, means.1)),
                busy: wide(reading.busy, means.2) * doubted.max(0.05),
                ..reading.clone()
            }
        });
        Load {
            users: load.users,
            readings: readings.collect(),
            has_all_latencies: load.has_all_latencies,
        }
    });
    each.collect()
}
