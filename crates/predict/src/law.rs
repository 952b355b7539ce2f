//! The CPU time of an exchange as a function of the load.
//!
//! The utilisation law gives the service demand: busy cores divided by throughput (Lazowska and others, "Quantitative System
//! Performance", 1984, 3.3). The demand often falls with the load, because exchanges that are present at the same time share
//! a wake-up: a server that finds several connections ready was woken, scheduled and interrupted only once. Q is the mean
//! number of exchanges at a core of the processor, and X the throughput:
//!
//! ```text
//! busy cores = X (D + w q) + B q,   q = 1 / (1 + Q)
//! ```
//!
//! A single exchange (Q = 0) needs the CPU time D + w, an exchange among many needs D. In an open queue with exponential
//! times, q = 1 - u (u is the utilisation). This is a queue with set-up times: only an exchange that finds the server idle has
//! a set-up time (Welch, "On a generalized M/G/1 queuing process in which the first customer of each busy period receives
//! exceptional service", Operations Research 12, 1964). B is background work in idle time.

use serde::Serialize;

use fathometer_queueing::{PerSecond, Seconds};

use crate::series::{Load, Reading, pooled_deviation};

/// The number of exchanges at a core during a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Presence {
    /// A steady state, with the mean number Q.
    Steady(f64),
    /// A part of the exchanges of a batch. All exchanges of a batch begin at the same time, and their number decreases by one
    /// whenever an exchange is completed: here from `to` to `from`.
    Batch {
        /// The number of exchanges that remain after this part; 0 if the part is the whole batch.
        from: u32,
        /// The number of exchanges at the beginning of this part.
        to: u32,
        /// The number of exchanges that the server admits at a time.
        workers: u32,
        /// The number of cores over which the exchanges are distributed.
        cores: u32,
    },
}

impl Presence {
    /// Returns the mean of a function of Q over the exchanges.
    fn mean(self, figure: impl Fn(f64) -> f64) -> f64 {
        match self {
            Presence::Steady(queue) => figure(queue),
            Presence::Batch { from, to, .. } => {
                let each = (from + 1..=to).map(|left| figure(self.with(left)));
                each.sum::<f64>() / f64::from(to.saturating_sub(from).max(1))
            }
        }
    }

    /// The largest Q.
    pub(crate) fn largest(self) -> f64 {
        match self {
            Presence::Steady(queue) => queue,
            Presence::Batch { to, .. } => self.with(to),
        }
    }

    /// Q while `left` exchanges of a batch remain.
    fn with(self, left: u32) -> f64 {
        match self {
            Presence::Steady(queue) => queue,
            Presence::Batch { workers, cores, .. } => {
                f64::from(left.min(workers)) / f64::from(cores.max(1))
            }
        }
    }
}

/// A law with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "law")]
pub enum Law {
    /// Each exchange needs the same CPU time.
    Constant {
        /// The CPU time of an exchange, in seconds.
        demand_s: f64,
    },
    /// Exchanges share wake-ups.
    WakeUps {
        /// The CPU time of an exchange among many, in seconds: D.
        demand_s: f64,
        /// The additional CPU time of a single exchange, in seconds: w.
        wake_up_s: f64,
        /// The number of cores that are busy without load: B.
        background_cores: f64,
    },
    /// The measured CPU times, interpolated linearly in the logarithm of 1 + Q between the loads, and constant beyond
    /// them: mean value analysis with service demands that vary with the load (MVASD: Kattepur and Nambiar, "Performance
    /// modeling of multi-tiered web applications with varying service demands", IPDPS workshops, 2015).
    Interpolated {
        /// The loads, in ascending order of Q.
        points: Vec<MeasuredDemand>,
    },
}

/// The CPU time of an exchange at a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredDemand {
    /// The mean number of exchanges at a core: Q.
    pub queue: f64,
    /// The CPU time of an exchange, in seconds.
    pub demand_s: f64,
}

/// The kinds of laws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LawKind {
    /// [`Law::Constant`].
    Constant,
    /// [`Law::WakeUps`].
    WakeUps,
    /// [`Law::Interpolated`].
    Interpolated,
}

/// The prior mean of the share w / (D + w). Light loads hardly determine this share, but the throughput of a saturated server
/// depends on it. The value comes from all loads of one server with two workloads (`embedded` in the published run of
/// almeida96: 0.56 and 0.51).
pub const WAKE_UP_SHARE: f64 = 0.53;
/// The prior standard deviation of the share, a judgement.
pub const WAKE_UP_DEVIATION: f64 = 0.15;
/// The largest share w / (D + w) that a fit tries.
const LARGEST_SHARE: f64 = 0.95;
/// The number of steps from a share of 0 to [`LARGEST_SHARE`].
const STEPS: u32 = 95;

/// The standard deviation of `Discrepancy::log`: the error of a law that was fitted only to single exchanges, for an exchange
/// among infinitely many. It is the root mean square over three servers (`nginx` 0.13, `embedded` 0.13 and `httpd` 0.30; both
/// workloads of almeida96, fitted to loads up to 60 % of the highest throughput).
pub const DISCREPANCY_DEVIATION: f64 = 0.2;

/// The model discrepancy: a factor between the true CPU time and the law, for queues that are longer than in the fitted
/// loads. The factor grows with the part of a wake-up that exchanges share in these queues, but not in the fitted
/// loads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Discrepancy {
    /// The largest mean number of exchanges at a core in the fitted loads.
    pub(crate) seen: f64,
    /// The logarithm of the factor for an exchange among infinitely many, if only single exchanges were fitted.
    pub(crate) log: f64,
}

impl Discrepancy {
    /// Returns the factor of the CPU time if `queue` exchanges are at a core.
    pub(crate) fn factor(&self, queue: f64) -> f64 {
        let unseen = alone(self.seen) - alone(queue);
        (self.log * unseen.max(0.0)).exp()
    }

    /// The smallest and the largest factor of the CPU time.
    pub(crate) fn range(&self) -> (f64, f64) {
        let last = self.factor(f64::INFINITY);
        (last.min(1.0), last.max(1.0))
    }
}

/// A law and the evidence against it.
#[derive(Debug, Clone, PartialEq)]
pub struct LawFit {
    /// The law.
    pub law: Law,
    /// The sum of the squared deviations of the loads and of the assumed share, each divided by its variance.
    pub misfit: f64,
}

impl LawKind {
    /// Returns the kinds that a fit tries, the simplest first. Interpolation needs bursts, because only bursts have the
    /// long queues of a saturated server.
    pub fn tried(has_bursts: bool) -> &'static [LawKind] {
        match has_bursts {
            false => &[LawKind::Constant, LawKind::WakeUps],
            true => &[LawKind::Constant, LawKind::WakeUps, LawKind::Interpolated],
        }
    }

    /// The minimum number of loads that determine the law. The assumed share counts as one more observation.
    fn least_loads(self) -> usize {
        match self {
            LawKind::Constant => 1,
            LawKind::WakeUps | LawKind::Interpolated => 2,
        }
    }

    /// The name of the kind in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            LawKind::Constant => "constant CPU time per exchange",
            LawKind::WakeUps => "CPU time with wake-ups that exchanges share",
            LawKind::Interpolated => "CPU time interpolated between the loads",
        }
    }

    /// Fits the law to the loads by their relative deviations; `None` if the loads do not determine the law, or its
    /// parameters are not plausible. `presences` has the number of exchanges at a core for each load; `share` is the assumed
    /// share of wake-ups, as [`WAKE_UP_SHARE`].
    pub fn fit(self, loads: &[Load], presences: &[Presence], share: f64) -> Option<LawFit> {
        if loads.len() < self.least_loads() {
            return None;
        }
        let deviation = deviation(loads);
        let points: Vec<Point> = loads
            .iter()
            .zip(presences)
            .map(|(load, &presence)| Point {
                rate: load.throughput(),
                presence,
                busy: load.mean(|reading| reading.busy),
            })
            .collect();
        let misfit = |law: &Law| -> f64 {
            let squares = points.iter().map(|point| {
                let expected = law.expected(point.rate, point.presence).0;
                let relative = expected * point.rate.0 / point.busy - 1.0;
                (relative / deviation).powi(2)
            });
            squares.sum()
        };
        match self {
            LawKind::Constant => {
                let ratios = || points.iter().map(|point| point.rate.0 / point.busy);
                let squares: f64 = ratios().map(|ratio| ratio * ratio).sum();
                let law = Law::Constant {
                    demand_s: ratios().sum::<f64>() / squares,
                };
                Some(LawFit {
                    misfit: misfit(&law),
                    law,
                })
            }
            LawKind::WakeUps => {
                let candidates = (0..=STEPS).filter_map(|step| {
                    let found = LARGEST_SHARE * f64::from(step) / f64::from(STEPS);
                    let law = with_share(found, &points)?;
                    let assumed = ((found - share) / WAKE_UP_DEVIATION).powi(2);
                    Some(LawFit {
                        misfit: misfit(&law) + assumed,
                        law,
                    })
                });
                candidates.min_by(|left, right| left.misfit.total_cmp(&right.misfit))
            }
            LawKind::Interpolated => {
                let mut points: Vec<MeasuredDemand> = points
                    .iter()
                    .map(|point| MeasuredDemand {
                        queue: point.presence.largest(),
                        demand_s: point.busy / point.rate.0,
                    })
                    .collect();
                points.sort_by(|left, right| left.queue.total_cmp(&right.queue));
                let law = Law::Interpolated { points };
                Some(LawFit { law, misfit: 0.0 })
            }
        }
    }
}

/// A load, as an input of a fit.
struct Point {
    rate: PerSecond,
    presence: Presence,
    busy: f64,
}

/// Returns the share of a wake-up that counts for an exchange if `queue` exchanges are at its core.
fn alone(queue: f64) -> f64 {
    1.0 / (1.0 + queue)
}

/// Returns the CPU time, interpolated between the loads. There must be at least one load.
fn interpolated(points: &[MeasuredDemand], queue: f64) -> f64 {
    let scale = |queue: f64| queue.ln_1p();
    let after = points.partition_point(|point| point.queue <= queue);
    let (Some(low), Some(high)) = (after.checked_sub(1).map(|n| points[n]), points.get(after))
    else {
        let nearest = points.get(after).or(points.last());
        return nearest.map_or(f64::NAN, |point| point.demand_s);
    };
    let way = (scale(queue) - scale(low.queue)) / (scale(high.queue) - scale(low.queue));
    low.demand_s + way * (high.demand_s - low.demand_s)
}

/// Fits the law of wake-ups with a given share w / (D + w): least squares of the relative deviations, with the background
/// work and the CPU time of a single exchange as parameters. The background work is not negative.
fn with_share(share: f64, points: &[Point]) -> Option<Law> {
    let (mut bb, mut be, mut ee, mut b, mut e) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points {
        let alone = point.presence.mean(alone);
        let idle = match point.presence {
            Presence::Steady(_) => alone / point.busy,
            Presence::Batch { .. } => 0.0,
        };
        let work = point.rate.0 * (1.0 - share + share * alone) / point.busy;
        bb += idle * idle;
        be += idle * work;
        ee += work * work;
        b += idle;
        e += work;
    }
    let determinant = bb * ee - be * be;
    let mut background_cores = (b * ee - e * be) / determinant;
    let mut cost = (e * bb - b * be) / determinant;
    if !(background_cores.is_finite() && background_cores >= 0.0) {
        background_cores = 0.0;
        cost = e / ee;
    }
    (cost.is_finite() && cost > 0.0).then_some(Law::WakeUps {
        demand_s: (1.0 - share) * cost,
        wake_up_s: share * cost,
        background_cores,
    })
}

/// Returns the relative standard deviation of a load's CPU time that a fit assumes.
fn deviation(loads: &[Load]) -> f64 {
    let demand = |reading: &Reading| reading.busy / reading.throughput.0;
    ACCEPTED.max(pooled_deviation(loads, demand) / readings_each(loads).sqrt())
}

/// Returns the part of [`deviation`] that resampling the readings does not produce.
pub(crate) fn doubt(loads: &[Load]) -> f64 {
    let demand = |reading: &Reading| reading.busy / reading.throughput.0;
    let noise = pooled_deviation(loads, demand) / readings_each(loads).sqrt();
    (ACCEPTED.powi(2) - noise.powi(2)).max(0.0).sqrt()
}

/// Returns the mean number of readings of a load, at least one.
fn readings_each(loads: &[Load]) -> f64 {
    let readings: usize = loads.iter().map(|load| load.readings.len()).sum();
    (readings as f64 / loads.len().max(1) as f64).max(1.0)
}

impl Law {
    /// The kind of the law.
    pub fn kind(&self) -> LawKind {
        match self {
            Law::Constant { .. } => LawKind::Constant,
            Law::WakeUps { .. } => LawKind::WakeUps,
            Law::Interpolated { .. } => LawKind::Interpolated,
        }
    }

    /// The number of parameters that the loads determine.
    pub fn parameters(&self) -> usize {
        match self {
            Law::Constant { .. } => 1,
            Law::WakeUps { .. } => 2,
            Law::Interpolated { points } => points.len(),
        }
    }

    /// Returns the number of busy cores at a throughput and a mean number of exchanges at a core.
    pub fn busy(&self, rate: PerSecond, queue: f64) -> f64 {
        match self {
            Law::Constant { demand_s } => rate.0 * demand_s,
            Law::WakeUps {
                demand_s,
                wake_up_s,
                background_cores,
            } => rate.0 * demand_s + (rate.0 * wake_up_s + background_cores) * alone(queue),
            Law::Interpolated { points } => rate.0 * interpolated(points, queue),
        }
    }

    /// The shortest CPU time of an exchange: the time among infinitely many exchanges, or the shortest measured time.
    pub fn least(&self) -> Seconds {
        match self {
            Law::Constant { demand_s } | Law::WakeUps { demand_s, .. } => Seconds(*demand_s),
            Law::Interpolated { points } => {
                let demands = points.iter().map(|point| point.demand_s);
                Seconds(demands.fold(f64::INFINITY, f64::min))
            }
        }
    }

    /// Returns the longest CPU time of an exchange at throughputs of at least `lowest`, the lowest measured throughput.
    pub(crate) fn most(&self, lowest: PerSecond) -> Seconds {
        match self {
            Law::Constant { .. } | Law::WakeUps { .. } => self.demand(lowest, 0.0),
            Law::Interpolated { points } => {
                let demands = points.iter().map(|point| point.demand_s);
                Seconds(demands.fold(0.0, f64::max))
            }
        }
    }

    /// Returns the CPU time of an exchange.
    pub fn demand(&self, rate: PerSecond, queue: f64) -> Seconds {
        Seconds(self.busy(rate, queue) / rate.0)
    }

    /// Returns the expected CPU time of an exchange of a load. For a batch it is the mean over its exchanges, without
    /// background work.
    fn expected(&self, rate: PerSecond, presence: Presence) -> Seconds {
        match (presence, self) {
            (Presence::Steady(queue), _) => self.demand(rate, queue),
            (
                Presence::Batch { .. },
                Law::WakeUps {
                    demand_s,
                    wake_up_s,
                    ..
                },
            ) => Seconds(demand_s + wake_up_s * presence.mean(alone)),
            (Presence::Batch { .. }, _) => {
                Seconds(presence.mean(|queue| self.demand(rate, queue).0))
            }
        }
    }

    /// Returns the relative deviation of the loads from the law: the root of the sum of squares divided by the degrees
    /// of freedom; `None` if there are no degrees of freedom. An interpolation fits the loads exactly.
    pub fn residual(&self, loads: &[Load], presences: &[Presence]) -> Option<f64> {
        if self.kind() == LawKind::Interpolated {
            return Some(0.0);
        }
        let freedom = loads.len().checked_sub(self.parameters())?;
        let squares: f64 = loads
            .iter()
            .zip(presences)
            .map(|(load, &presence)| {
                let rate = load.throughput();
                let busy = load.mean(|reading| reading.busy);
                (self.expected(rate, presence).0 * rate.0 / busy - 1.0).powi(2)
            })
            .sum();
        (freedom > 0).then(|| (squares / freedom as f64).sqrt())
    }
}

/// A residual is accepted up to this share, or up to [`NOISE`] standard errors of the replicates.
pub(crate) const ACCEPTED: f64 = 0.05;
/// The largest accepted residual, in standard errors; see [`ACCEPTED`].
pub(crate) const NOISE: f64 = 2.5;

/// Returns the largest accepted residual of a figure of these loads.
pub(crate) fn limit(loads: &[Load], figure: impl Fn(&Reading) -> f64) -> f64 {
    ACCEPTED.max(NOISE * pooled_deviation(loads, figure) / readings_each(loads).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discrepancy_begins_where_no_load_was_fitted() {
        let discrepancy = Discrepancy {
            seen: 1.0,
            log: -0.4,
        };
        assert_eq!(discrepancy.factor(0.5), 1.0);
        assert_eq!(discrepancy.factor(1.0), 1.0);
        // With one more exchange, half of a wake-up is shared; with three more, three quarters.
        assert!((discrepancy.factor(3.0) - (-0.1_f64).exp()).abs() < 1e-12);
        assert_eq!(discrepancy.range(), ((-0.2_f64).exp(), 1.0));
    }

    #[test]
    fn an_interpolation_has_its_points_straight_lines_between_and_its_ends_beyond() {
        let point = |queue, demand_s| MeasuredDemand { queue, demand_s };
        let points = [point(0.0, 4.0), point(3.0, 2.0), point(15.0, 1.0)];
        for (queue, demand) in [
            (0.0, 4.0),
            // Half the way from 1 to 4, and from 4 to 16, on a logarithmic scale.
            (1.0, 3.0),
            (3.0, 2.0),
            (7.0, 1.5),
            (15.0, 1.0),
            (99.0, 1.0),
        ] {
            assert!(
                (interpolated(&points, queue) - demand).abs() < 1e-12,
                "{queue}"
            );
        }
        assert_eq!(interpolated(&points[1..], 0.5), 2.0);
    }

    #[test]
    fn a_batch_shrinks_and_workers_limit_it() {
        let batch = |from: u32, to: u32, workers: u32| Presence::Batch {
            from,
            to,
            workers,
            cores: 1,
        };
        // The mean of 1/2, 1/3 and 1/4 is 13/36.
        assert!((batch(0, 3, 9).mean(alone) - 13.0 / 36.0).abs() < 1e-12);
        // With one worker, half of each wake-up is shared, independent of the number of waiting exchanges.
        assert!((batch(0, 4, 1).mean(alone) - 0.5).abs() < 1e-12);
        // The first two exchanges of a batch of four: two exchanges remain after them.
        assert!((batch(2, 4, 9).mean(|queue| queue) - 3.5).abs() < 1e-12);
        assert_eq!(batch(2, 4, 3).largest(), 3.0);
        assert_eq!(Presence::Steady(0.4).largest(), 0.4);
    }

    #[test]
    fn further_exchanges_of_batches_determine_what_many_share() {
        let truth = Law::WakeUps {
            demand_s: 2.0,
            wake_up_s: 3.0,
            background_cores: 0.0,
        };
        let presences = [
            Presence::Steady(0.2),
            Presence::Steady(1.0),
            Presence::Batch {
                from: 64,
                to: 256,
                workers: 400,
                cores: 1,
            },
        ];
        let loads = presences.map(|presence| {
            let rate = PerSecond(0.1);
            Load {
                users: 1,
                readings: vec![Reading {
                    throughput: rate,
                    response: Seconds(1.0),
                    percentiles: Default::default(),
                    busy: rate.0 * truth.expected(rate, presence).0,
                    errors: 0.0,
                    disk: None,
                    wire_bytes: None,
                }],
                has_all_latencies: true,
            }
        });
        // A different share is assumed.
        let found = LawKind::WakeUps.fit(&loads, &presences, 0.3).unwrap().law;
        let demand = found.demand(PerSecond(0.5), 30.0).0;
        let expected = truth.demand(PerSecond(0.5), 30.0).0;
        assert!(
            (demand / expected - 1.0).abs() < 0.02,
            "found {demand} s, expected {expected} s"
        );
        assert_eq!(
            found.residual(&loads, &presences).map(|found| found < 0.02),
            Some(true)
        );
    }
}
