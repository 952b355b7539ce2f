//! A posterior of the capacity, given the results of all trials. It only proposes the next load, without a
//! guarantee.
//!
//! The share of bad exchanges grows with the load. Around the capacity, the logit of this share is modelled as linear
//! in the logarithm of the load. The slope is unknown: small if the server degrades slowly, large if it fails at once.
//! This is probabilistic bisection (Waeber, Frazier, Henderson: "Bisection search with noisy responses", 2013).
//! The weight of each answer grows with the number of independent exchanges of its trial, up to a maximum.

/// The observation of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The load.
    pub load: f64,
    /// Number of independent exchanges ([`crate::evidence::Evidence::effective`]).
    pub effective: f64,
    /// The share of bad exchanges, 0 to 1.
    pub share: f64,
}

/// Slopes of the logit: its growth when the load grows by a factor of e.
const SLOPES: [f64; 6] = [10.0, 30.0, 90.0, 270.0, 800.0, 2400.0];
const POINTS: usize = 121;
/// The largest weight of a trial near the capacity. It is bounded because the model is not exact.
const WEIGHT: f64 = 5_000.0;
/// Trials further away than this, in logarithms, are bounds with a small weight: the logit is linear only locally. A
/// far trial that fails counts only against capacities for which the model expects a smaller share of bad exchanges:
/// a server that rejects requests above its rate has a flat logit there. A far trial that works counts only against
/// capacities for which the model expects a larger share.
const NEAR: f64 = 0.05;
const FAR_WEIGHT: f64 = 6.0;
/// The largest evidence of one trial against a capacity, as a natural logarithm. With this bound, no single trial
/// decides.
const MOST_AGAINST: f64 = 8.0;

/// The capacity with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The 10 % and the 90 % quantiles.
    pub range: (f64, f64),
    /// Loads at evenly spaced quantiles, each with its quantile.
    points: [(f64, f64); 41],
}

impl Estimate {
    /// Returns the posterior of the capacity between two loads. `limit` is the SLO's share.
    pub fn of(observations: &[Observation], between: (f64, f64), limit: f64) -> Estimate {
        let (mut low, mut high) = (libm::log(between.0), libm::log(between.1));
        let mut centre = None;
        let mut points = Vec::new();
        for _ in 0..3 {
            points = weigh(observations, (low, high), limit, centre);
            let (least, median, most) = (
                quantile(&points, 0.001),
                quantile(&points, 0.5),
                quantile(&points, 0.999),
            );
            let margin = 0.2 * (most - least) + 2.0 * (high - low) / POINTS as f64;
            centre = Some(median);
            (low, high) = (
                (least - margin).max(libm::log(between.0)),
                (most + margin).min(libm::log(between.1)),
            );
        }
        let mut table = [(0.0, 0.0); 41];
        for (place, entry) in table.iter_mut().enumerate() {
            let share = (place as f64 + 0.5) / 41.0;
            *entry = (libm::exp(quantile(&points, share)), share);
        }
        Estimate {
            median: libm::exp(quantile(&points, 0.5)),
            range: (
                libm::exp(quantile(&points, 0.1)),
                libm::exp(quantile(&points, 0.9)),
            ),
            points: table,
        }
    }

    /// Returns the probability that the capacity is below a load.
    pub fn below(&self, load: f64) -> f64 {
        self.points
            .iter()
            .filter(|(point, _)| *point < load)
            .count() as f64
            / self.points.len() as f64
    }
}

/// Returns the weight of each point of a grid of logarithms of the capacity.
fn weigh(
    observations: &[Observation],
    (low, high): (f64, f64),
    limit: f64,
    centre: Option<f64>,
) -> Vec<(f64, f64)> {
    let logit = libm::log(limit / (1.0 - limit));
    let step = (high - low).max(1e-6) / (POINTS - 1) as f64;
    let is_near = |load: f64| centre.is_some_and(|centre: f64| (load - centre).abs() < NEAR);
    let seen = observations.iter().map(|one| (libm::log(one.load), one));
    let seen: Vec<Weighed> = seen
        .map(|(load, one)| Weighed::of(one, load, is_near(load)))
        .collect();
    let mut points = Vec::with_capacity(POINTS);
    let mut logs = Vec::with_capacity(POINTS * SLOPES.len());
    for place in 0..POINTS {
        let at = low + step * place as f64;
        for slope in SLOPES {
            let log = seen.iter().map(|one| {
                let linear = (logit + slope * (one.load - at)).clamp(-12.0, 12.0);
                one.log_likelihood(1.0 / (1.0 + libm::exp(-linear)), limit)
            });
            let log: f64 = log.sum();
            logs.push(log);
        }
        points.push((at, 0.0));
    }
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for (place, point) in points.iter_mut().enumerate() {
        let of = &logs[place * SLOPES.len()..(place + 1) * SLOPES.len()];
        point.1 = of.iter().map(|log| libm::exp(log - most)).sum();
    }
    points
}

/// A trial with its weight in the posterior.
struct Weighed {
    /// The logarithm of the trial's load.
    load: f64,
    share: f64,
    weight: f64,
    is_near: bool,
}

impl Weighed {
    fn of(one: &Observation, load: f64, is_near: bool) -> Weighed {
        Weighed {
            load,
            share: one.share,
            weight: one.effective.min(if is_near { WEIGHT } else { FAR_WEIGHT }),
            is_near,
        }
    }

    /// Returns the logarithm of the likelihood of a share of bad exchanges, relative to the likelihood of the best
    /// share; at most zero. The value is bounded, so that a single trial that fits no capacity does not decide.
    fn log_likelihood(&self, bad: f64, limit: f64) -> f64 {
        let share = self.share;
        let is_within = if share > limit {
            bad > share
        } else {
            bad < share
        };
        if !self.is_near && is_within {
            return 0.0;
        }
        let log = share * libm::log(bad) + (1.0 - share) * libm::log(1.0 - bad);
        (self.weight * (log - entropy(share))).max(-MOST_AGAINST)
    }
}

fn entropy(share: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { p * libm::log(p) } else { 0.0 };
    term(share) + term(1.0 - share)
}

fn quantile(points: &[(f64, f64)], quantile: f64) -> f64 {
    let all: f64 = points.iter().map(|point| point.1).sum();
    let mut sum = 0.0;
    for pair in points.windows(2) {
        let weight = pair[0].1;
        if sum + weight >= quantile * all {
            let part = (quantile * all - sum) / weight.max(f64::MIN_POSITIVE);
            return pair[0].0 + part * (pair[1].0 - pair[0].0);
        }
        sum += weight;
    }
    points.last().map_or(0.0, |point| point.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the observation of a server whose logit has this slope, for an SLO of 1 %.
    fn seen(load: f64, capacity: f64, slope: f64) -> Observation {
        let linear = libm::log(0.01 / 0.99) + slope * libm::log(load / capacity);
        Observation {
            load,
            effective: 2000.0,
            share: 1.0 / (1.0 + libm::exp(-linear)),
        }
    }

    #[test]
    fn trials_at_the_median_lead_to_the_capacity() {
        for slope in [30.0, 200.0] {
            let mut all = vec![seen(100.0, 1010.0, slope), seen(1600.0, 1010.0, slope)];
            let mut estimate = Estimate::of(&all, (100.0, 1600.0), 0.01);
            for _ in 0..12 {
                all.push(seen(estimate.median, 1010.0, slope));
                estimate = Estimate::of(&all, (100.0, 1600.0), 0.01);
            }
            assert!(
                (990.0..1030.0).contains(&estimate.median),
                "slope {slope}: {estimate:?}"
            );
            assert!(
                estimate.below(900.0) < 0.05 && estimate.below(1100.0) > 0.95,
                "slope {slope}: {estimate:?}"
            );
        }
    }

    #[test]
    fn without_a_trial_in_between_all_loads_there_are_possible() {
        let seen = [seen(100.0, 1000.0, 200.0), seen(10_000.0, 1000.0, 200.0)];
        let estimate = Estimate::of(&seen, (100.0, 10_000.0), 0.01);
        assert!(
            estimate.range.0 < 200.0 && estimate.range.1 > 5000.0,
            "{estimate:?}"
        );
    }
}
