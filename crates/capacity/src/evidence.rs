//! Statistics of a series for one SLO: the share of bad exchanges, the effective number of independent exchanges, and
//! the evidence that the SLO is met or violated.
//!
//! Neighbouring exchanges of a queue are not independent: one long busy period makes hundreds of them slow. The
//! variance of the share is therefore larger than for as many independent exchanges, by a factor called *dispersion*. A
//! count divided by the dispersion is a number of independent exchanges ([`Evidence::effective`]), to which tests of
//! shares apply.
//!
//! The evidence is a likelihood ratio averaged over several alternatives (a mixture sequential probability ratio test:
//! Robbins, "Statistical methods related to the law of the iterated logarithm", 1970). By Ville's inequality, the
//! evidence for a false claim exceeds 1/α with a probability of at most α, however often it is evaluated. A trial may
//! therefore end at any look.

use crate::series::{LEVELS, SLOT, Slot};
use crate::slo_limit::SloLimit;

/// Alternative shares of bad exchanges that meet the SLO, as multiples of the SLO's share.
const WORKING: [f64; 4] = [0.92, 0.65, 0.3, 0.05];
/// Alternative shares of bad exchanges that violate the SLO, as multiples of the SLO's share.
const FAILING: [f64; 4] = [1.1, 1.5, 3.0, 10.0];
/// Slots are merged into at most this number of parts before their correlation is computed.
const PARTS: usize = 400;
/// If a smaller share of the exchanges is bad, the dispersion is also computed for a lower latency threshold: the
/// highest threshold that at least this share exceeds.
const COMMON: f64 = 0.05;
/// The number of blocks into which a series is divided; their latencies are compared for a rise and for a warm-up.
const BLOCKS: usize = 16;
/// The longest warm-up of a series, in blocks.
const LONGEST_WARM_UP: usize = 12;

/// Statistics of a series for one SLO.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Length of the series in seconds, without its warm-up.
    pub seconds: f64,
    /// Number of exchanges.
    pub exchanges: u64,
    /// Number of bad exchanges.
    pub bad: u64,
    /// The variance of the share of bad exchanges, divided by the variance for as many independent exchanges; at
    /// least 1.
    pub dispersion: f64,
    /// Seconds at the start that were excluded as warm-up, because the server was slower than later.
    pub warm_up: f64,
    /// The natural logarithm of the evidence that the SLO is met.
    pub works: f64,
    /// The natural logarithm of the evidence that the SLO is violated.
    pub fails: f64,
    /// The rise of the latency, in seconds per second; `None` if it does not rise significantly.
    pub rise: Option<f64>,
    /// Mean latency of the last eighth of the series, in seconds.
    pub recent_latency: f64,
}

/// Counts, converted to independent exchanges.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Exchanges.
    pub exchanges: f64,
    /// Bad exchanges.
    pub bad: f64,
}

impl Counts {
    /// Returns the sum of both counts.
    pub fn and(self, other: Counts) -> Counts {
        Counts {
            exchanges: self.exchanges + other.exchanges,
            bad: self.bad + other.bad,
        }
    }
}

impl Evidence {
    /// The cost of averaging over four alternatives, about ln 4. The log evidence is lower by this amount than the log
    /// likelihood ratio of the best alternative.
    pub const START: f64 = 1.4;

    /// Evaluates a series for an SLO.
    pub fn of(slots: &[Slot], slo: &SloLimit) -> Evidence {
        let skipped = warm_up(slots);
        let slots = &slots[skipped..];
        let count =
            |level: usize| -> u64 { slots.iter().map(|slot| u64::from(slot.over[level])).sum() };
        let exchanges: u64 = slots.iter().map(|slot| u64::from(slot.planned)).sum();
        let bad = count(0);
        let mut dispersion = dispersion(slots, 0);
        let is_common = |over: u64| over as f64 >= COMMON * exchanges as f64;
        if slo.limit.is_some()
            && !is_common(bad)
            && let Some(level) = (1..LEVELS).find(|&level| is_common(count(level)))
        {
            // Too few bad exchanges do not show how they cluster. Exchanges above a lower threshold cluster in the same
            // way, because the same busy periods cause both.
            dispersion = dispersion.max(self::dispersion(slots, level));
        }
        let effective = exchanges as f64 / dispersion;
        let bad_effective = bad as f64 / dispersion;
        let (rise, recent_latency) = rise(slots);
        Evidence {
            seconds: slots.len() as f64 * SLOT,
            exchanges,
            bad,
            dispersion,
            warm_up: skipped as f64 * SLOT,
            works: evidence(bad_effective, effective, slo.share, &WORKING),
            fails: evidence(bad_effective, effective, slo.share, &FAILING),
            rise,
            recent_latency,
        }
    }

    /// Adds the counts of earlier trials at the same load to the evidence.
    pub fn after(mut self, earlier: Counts, slo: &SloLimit) -> Evidence {
        let all = self.counts().and(earlier);
        self.works = evidence(all.bad, all.exchanges, slo.share, &WORKING);
        self.fails = evidence(all.bad, all.exchanges, slo.share, &FAILING);
        self
    }

    /// The counts of this evidence, as independent exchanges.
    pub fn counts(&self) -> Counts {
        Counts {
            exchanges: self.effective(),
            bad: self.bad as f64 / self.dispersion,
        }
    }

    /// The share of bad exchanges.
    pub fn share(&self) -> f64 {
        self.bad as f64 / (self.exchanges as f64).max(1.0)
    }

    /// The number of independent exchanges with the same information.
    pub fn effective(&self) -> f64 {
        self.exchanges as f64 / self.dispersion
    }
}

/// Returns the logarithm of the mean likelihood ratio of shares `ratios` times `limit` against the limit itself, for
/// `bad` of `all` exchanges. The likelihood ratio of any share on the other side of the limit is smaller.
fn evidence(bad: f64, all: f64, limit: f64, ratios: &[f64]) -> f64 {
    let logs = ratios.iter().map(|ratio| {
        // If the limit is large, the alternatives above it are scaled to stay below 1.
        let share = if ratio * limit < 0.98 {
            ratio * limit
        } else {
            limit + (1.0 - limit) * ratio / (1.0 + ratio)
        };
        bad * libm::log(share / limit) + (all - bad) * libm::log((1.0 - share) / (1.0 - limit))
    });
    let logs: Vec<f64> = logs.collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|log| libm::exp(log - most)).sum();
    most + libm::log(sum / ratios.len() as f64)
}

/// Returns the variance of the number of exchanges above a threshold, divided by the variance for as many independent
/// exchanges; at least 1.
///
/// The sum of autocovariances ends where the sum of two neighbours is not positive, and its terms never grow (Geyer,
/// "Practical Markov chain Monte Carlo", 1992: the initial monotone sequence).
fn dispersion(slots: &[Slot], level: usize) -> f64 {
    let merged = slots.len().div_ceil(PARTS).max(1);
    let parts: Vec<(f64, f64)> = slots
        .chunks(merged)
        .map(|part| {
            let sum = |count: &dyn Fn(&Slot) -> u32| {
                part.iter().map(|slot| f64::from(count(slot))).sum::<f64>()
            };
            (sum(&|slot| slot.planned), sum(&|slot| slot.over[level]))
        })
        .collect();
    let all: f64 = parts.iter().map(|part| part.0).sum();
    let over: f64 = parts.iter().map(|part| part.1).sum();
    if over < 1.0 || over >= all {
        return 1.0;
    }
    let share = over / all;
    let residuals: Vec<f64> = parts
        .iter()
        .map(|(planned, over)| over - share * planned)
        .collect();
    let count = residuals.len();
    let covariance = |lag: usize| -> f64 {
        residuals[lag..]
            .iter()
            .zip(&residuals)
            .map(|(a, b)| a * b)
            .sum::<f64>()
    };
    let mut sum = -covariance(0);
    let mut before = f64::INFINITY;
    let mut lag = 0;
    while lag + 1 < count {
        let pair = (covariance(lag) + covariance(lag + 1)).min(before);
        if pair <= 0.0 {
            break;
        }
        sum += 2.0 * pair;
        before = pair;
        lag += 2;
    }
    let sum = sum.max(covariance(0));
    // The residuals add up to zero. This reduces the variance by the ratio of the correlated lags to the length of
    // the series.
    let correction = 1.0 - (2 * lag) as f64 / (2 * count) as f64;
    (sum / (all * share * (1.0 - share)) / correction.max(0.25)).max(1.0)
}

/// Returns the number of slots of the warm-up: leading blocks whose mean latency exceeds the mean of the last quarter
/// by more than six standard deviations of its blocks, and by more than a tenth.
fn warm_up(slots: &[Slot]) -> usize {
    let size = slots.len() / BLOCKS;
    if size == 0 {
        return 0;
    }
    let blocks = means(slots, size);
    let settled = &blocks[BLOCKS - BLOCKS / 4..BLOCKS];
    let mean = settled.iter().sum::<f64>() / settled.len() as f64;
    let square = |value: f64| (value - mean) * (value - mean);
    let deviation =
        (settled.iter().copied().map(square).sum::<f64>() / (settled.len() - 1) as f64).sqrt();
    let is_slow = |latency: &&f64| **latency > mean + 6.0 * deviation && **latency > 1.1 * mean;
    blocks[..LONGEST_WARM_UP].iter().take_while(is_slow).count() * size
}

/// Returns the rise of the latency: the slope between the first and the last quarter, if Kendall's test over [`BLOCKS`]
/// block means finds a rise at a false-alarm rate of 0.1 %. Also returns the mean latency of the last two blocks.
fn rise(slots: &[Slot]) -> (Option<f64>, f64) {
    let size = slots.len() / BLOCKS;
    if size == 0 {
        return (None, 0.0);
    }
    let blocks = means(slots, size);
    let recent = (blocks[BLOCKS - 1] + blocks[BLOCKS - 2]) / 2.0;
    let mut concordant = 0i32;
    for later in 1..BLOCKS {
        for earlier in 0..later {
            concordant += match blocks[later].total_cmp(&blocks[earlier]) {
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Less => -1,
                std::cmp::Ordering::Equal => 0,
            };
        }
    }
    // For n blocks, the variance of the sum is n (n - 1) (2 n + 5) / 18 (Kendall 1938).
    let n = BLOCKS as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    if f64::from(concordant) < 3.1 * deviation {
        return (None, recent);
    }
    let quarter = BLOCKS / 4;
    let mean = |blocks: &[f64]| blocks.iter().sum::<f64>() / blocks.len() as f64;
    let (first, last) = (mean(&blocks[..quarter]), mean(&blocks[BLOCKS - quarter..]));
    let apart = (BLOCKS - quarter) as f64 * size as f64 * SLOT;
    (Some(((last - first) / apart).max(0.0)), recent)
}

/// Mean latency of each block of `size` slots, in seconds; slots at the end that fill no block are left out.
fn means(slots: &[Slot], size: usize) -> Vec<f64> {
    let mean = |block: &[Slot]| {
        let planned: f64 = block.iter().map(|slot| f64::from(slot.planned)).sum();
        block.iter().map(|slot| slot.seconds).sum::<f64>() / planned.max(1.0)
    };
    slots.chunks_exact(size).take(BLOCKS).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Series;
    use fathometer_model::Seed;

    fn slo() -> SloLimit {
        SloLimit {
            text: "p90<100ms".to_owned(),
            limit: Some(0.1),
            share: 0.1,
        }
    }

    /// Returns a series of 2000 exchanges/s, in which each cluster of `cluster` exchanges has the same latency.
    fn series(seconds: f64, share: f64, cluster: u64, seed: u64) -> Series {
        let (slo, seed) = (slo(), Seed(seed));
        let mut series = Series::default();
        for n in 0..(2000.0 * seconds) as u64 {
            let is_bad = seed.uniform(n / cluster) < share;
            let latency = if is_bad { 0.11 } else { 0.02 };
            series.record(&slo, n as f64 / 2000.0, latency, false);
        }
        series
    }

    #[test]
    fn clusters_are_as_much_information_as_their_number() {
        let mean = |cluster: u64| {
            let one =
                |seed| Evidence::of(&series(40.0, 0.1, cluster, seed).slots, &slo()).dispersion;
            (0..20).map(one).sum::<f64>() / 20.0
        };
        let (independent, clusters) = (mean(1), mean(400));
        assert!((1.0..1.6).contains(&independent), "{independent}");
        assert!((320.0..600.0).contains(&clusters), "{clusters}");
    }

    #[test]
    fn evidence_of_a_false_claim_is_as_rare_as_its_level() {
        // At the limit itself, the probability of each claim over all looks is at most the error level.
        let level = 0.05;
        let mut wrong = (0, 0);
        for seed in 0..200 {
            let series = series(30.0, 0.1, 100, 1000 + seed);
            let looks =
                (5..=30).map(|second| Evidence::of(series.until(f64::from(second)), &slo()));
            let (mut works, mut fails) = (false, false);
            for look in looks {
                works |= look.works > -libm::log(level);
                fails |= look.fails > -libm::log(level);
            }
            wrong = (wrong.0 + u32::from(works), wrong.1 + u32::from(fails));
        }
        // At a probability of 5 %, 10 of 200 are expected, and 19 or more have a probability of 0.5 %.
        assert!(wrong.0 < 19 && wrong.1 < 19, "{wrong:?} of 200");
    }

    #[test]
    fn what_is_true_is_found() {
        let good = Evidence::of(&series(20.0, 0.03, 10, 1).slots, &slo());
        assert!(good.works > 5.0 && good.fails < 0.0, "{good:?}");
        let bad = Evidence::of(&series(20.0, 0.3, 10, 1).slots, &slo());
        assert!(bad.fails > 5.0 && bad.works < 0.0, "{bad:?}");
    }

    #[test]
    fn a_slow_start_is_a_warm_up_and_a_steady_rise_is_reported() {
        let slo = slo();
        let mut cold = Series::default();
        let mut rising = Series::default();
        for n in 0..20_000u32 {
            let at = f64::from(n) / 1000.0;
            let jitter = Seed(5).uniform(u64::from(n)) * 1e-3;
            cold.record(&slo, at, if at < 3.0 { 0.3 } else { 0.01 } + jitter, false);
            rising.record(&slo, at, 0.01 + 0.001 * at + jitter, false);
        }
        let cold = Evidence::of(&cold.slots, &slo);
        assert!(
            (3.0..5.1).contains(&cold.warm_up) && cold.bad == 0,
            "{cold:?}"
        );
        assert_eq!(cold.rise, None);
        let rising = Evidence::of(&rising.slots, &slo);
        let rise = rising.rise.unwrap();
        assert!((0.0008..0.0012).contains(&rise), "{rising:?}");
    }
}
