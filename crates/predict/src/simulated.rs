//! A simulation of the fitted network in virtual time: percentiles, and all figures of a server with a quota.
//!
//! An exchange consists of rounds. A round is a round trip on the path, a visit of the link and a visit of the processor. The
//! connection is a round, and the request is another round. In saturation, every round waits in the same queue.
//!
//! A response that is longer than the initial window takes further round trips (RFC 5681, 3.1; RFC 6928). The server
//! has then already written the response to its socket, and the kernel sends the remaining data when acknowledgements
//! arrive. Further round trips are therefore a delay without queueing. If a tail is longer than slow start explains,
//! the server causes it, and it is modelled as more rounds.
//!
//! A quota is not a slower processor: an exchange runs at full speed, and waits for the next period only if the quota of the
//! current period is used up. Mean value analysis has no such station.
//!
//! If there are fewer workers than users, an exchange first has a single delay: the round trips before it needs a
//! worker. The remaining delay is divided between its rounds. A connection that finds the accept queue full is retried
//! in the same way as a SYN in Linux.

use fathometer_analysis::statistics::distributions::normal_quantile;
use fathometer_model::Seed;
use fathometer_queueing::Seconds;
use fathometer_queueing::simulation::{
    Admission, Discipline, Distribution, Handshake, Overflow, Quota, Retries, SimulatedStation,
    Simulation, SimulationResult, Source,
};

use crate::PredictError;
use crate::network::{DISK, Fitted, LINK, PROCESSOR, demand};
use crate::scenario::Scenario;
use crate::series::{Limits, Load, QuotaTimes, Series};

/// The largest number of rounds that a tail may add.
const MOST_ROUNDS: usize = 64;

/// The variation of the latency between exchanges, from the lightest load.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// The probabilities of 1, 2, 3, … rounds.
    pub rounds: Vec<f64>,
    /// The possible delays by further round trips, all with the same probability; empty if there are none.
    pub further: Vec<Seconds>,
    /// The coefficient of variation of the delay of a round.
    pub variation: f64,
    /// The coefficient of variation of the CPU time of a round; 1 for an exponential distribution.
    pub service_variation: f64,
}

/// The coefficients of variation of the CPU time that a fit tries. They exceed 1 if files have different sizes, or if the
/// processor is not always available.
pub(crate) const SERVICE_VARIATIONS: [f64; 7] = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0];

/// The maximum number of round trips that slow start adds. Ten segments, doubled as many times, are 3.7 MB.
const MOST_OF_SLOW_START: usize = 8;

/// The number of entries in [`Shape::further`].
const FURTHER: usize = 1_000;

impl Shape {
    /// Returns the shape of the lightest of these loads. An exchange has as many rounds as the median latency has round
    /// trips. Some exchanges have further round trips: from one to the number in the tail percentile, with equal
    /// probabilities, so that the mean latency is correct. If the round-trip time is unknown, there is one round, and
    /// the delay is lognormal with the percentiles of the load.
    pub fn of(loads: &[Load], series: &Series) -> Shape {
        let plain = |variation| Shape {
            rounds: vec![1.0],
            further: Vec::new(),
            variation,
            service_variation: 1.0,
        };
        let tail = series.tail();
        let Some(lightest) = loads.first() else {
            return plain(0.0);
        };
        let (Some(median), Some(high)) = (lightest.percentile(50), lightest.percentile(tail))
        else {
            return plain(0.0);
        };
        let deviation = (high.0 / median.0).ln() / normal_quantile(f64::from(tail) / 100.0);
        let variation = (deviation.powi(2).exp() - 1.0).max(0.0).sqrt();
        match series.round_trip {
            Some(trip) if median.0 >= trip.0 => {
                let usual = ((median.0 / trip.0).floor() as usize).min(MOST_ROUNDS);
                let more = ((high.0 - median.0) / trip.0).round() as usize;
                let longer = (lightest.response().0 - median.0) / trip.0;
                let more = more.min(MOST_ROUNDS);
                match more <= MOST_OF_SLOW_START {
                    true => Shape {
                        rounds: rounds(usual, 0, 0.0),
                        further: further(more, longer, trip),
                        ..plain(0.0)
                    },
                    // The server causes the tail, which hides the further round trips. Uses the further round trips of
                    // slow start.
                    false => {
                        let further = by_probability(&series.further_trips, trip);
                        let longer = longer - mean(&further).0 / trip.0;
                        Shape {
                            rounds: rounds(usual, more, longer),
                            further,
                            ..plain(0.0)
                        }
                    }
                }
            }
            _ => plain(variation),
        }
    }

    /// The mean number of rounds.
    pub fn mean_rounds(&self) -> f64 {
        let terms = self.rounds.iter().enumerate();
        terms.map(|(place, share)| (place + 1) as f64 * share).sum()
    }

    /// The mean delay of further round trips.
    pub fn mean_further(&self) -> Seconds {
        mean(&self.further)
    }
}

/// Returns the mean of some delays; 0 if there are none.
fn mean(delays: &[Seconds]) -> Seconds {
    let sum: f64 = delays.iter().map(|delay| delay.0).sum();
    Seconds(sum / delays.len().max(1) as f64)
}

/// Returns the probabilities of 1, 2, … rounds: `usual` rounds, or from one to `more` additional rounds with equal
/// probabilities. `longer` is the mean number of additional rounds over all exchanges.
fn rounds(usual: usize, more: usize, longer: f64) -> Vec<f64> {
    let mut probabilities = vec![0.0; usual + more];
    let mean_more = (more as f64 + 1.0) / 2.0;
    let share = match more {
        0 => 0.0,
        _ => (longer / mean_more).clamp(0.0, 0.5),
    };
    probabilities[usual - 1] = 1.0 - share;
    for probability in &mut probabilities[usual..] {
        *probability = share / more as f64;
    }
    probabilities
}

/// Returns the delays by further round trips: no further round trip, or from one to `most` with equal probabilities.
/// `longer` is the mean number of further round trips over all exchanges.
fn further(most: usize, longer: f64, trip: Seconds) -> Vec<Seconds> {
    if most == 0 {
        return Vec::new();
    }
    let mean = (most as f64 + 1.0) / 2.0;
    let share = (longer / mean).clamp(0.0, 0.5);
    let each = (FURTHER as f64 * share / most as f64).round() as usize;
    let mut delays = vec![Seconds(0.0); FURTHER - each * most];
    for trips in 1..=most {
        delays.extend(vec![Seconds(trips as f64 * trip.0); each]);
    }
    delays
}

/// Returns the delays by 0, 1, 2, … further round trips with these probabilities.
fn by_probability(probabilities: &[f64], trip: Seconds) -> Vec<Seconds> {
    let each = probabilities.iter().enumerate();
    let delays = each.flat_map(|(trips, probability)| {
        let count = (FURTHER as f64 * probability).round() as usize;
        vec![Seconds(trips as f64 * trip.0); count]
    });
    delays.collect()
}

/// The parameters of a simulation, besides the fitted network.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The variation of the latency.
    pub shape: &'a Shape,
    /// The server's quota; `None` for whole cores.
    pub quota: Option<QuotaTimes>,
    /// The number of measured exchanges.
    pub exchanges: u32,
    /// The seed of all random numbers.
    pub seed: Seed,
}

impl Run<'_> {
    /// Simulates the network in which an exchange has the CPU time `demand`.
    ///
    /// # Errors
    /// When a parameter is out of range.
    pub fn at(
        &self,
        fitted: &Fitted,
        scenario: &Scenario,
        users: u32,
        demand: Seconds,
    ) -> Result<SimulationResult, PredictError> {
        let rounds = self.shape.mean_rounds();
        let each = |time: Seconds| Seconds(time.0 / rounds);
        let further = self.shape.mean_further();
        let without_further = |delay: Seconds| Seconds((delay.0 - further.0).max(0.0));
        let (service, discipline) = self.processor(fitted, scenario, demand);
        let limits = fitted.admission.limits(scenario, users);
        let delays = match limits {
            None => self.delays(&[each(without_further(fitted.delay))]),
            Some(limits) => {
                let (before, with_worker) = fitted.delays(limits.before);
                let before = without_further(before);
                let way = match limits.connects {
                    true => Seconds(0.5 * before.0),
                    false => before,
                };
                self.delays(&[way, each(with_worker)])
            }
        };
        let mut stations = Vec::new();
        if further.0 > 0.0 {
            let delays = Distribution::Empirical(self.shape.further.clone());
            stations.push(station("delay", delays, Discipline::Delay));
        }
        stations.extend(delays);
        let once = stations.len() - 1;
        stations.push(station(
            LINK,
            Distribution::Deterministic(each(fitted.on_link(scenario))),
            Discipline::InOrder(1),
        ));
        stations.push(station(PROCESSOR, self.service(each(service)), discipline));
        let disk = fitted.on_disk(scenario);
        if disk.0 > 0.0 {
            let service = Distribution::Exponential(each(disk));
            stations.push(station(DISK, service, Discipline::InOrder(1)));
        }
        let simulation = Simulation {
            source: Source::Users {
                count: users,
                think: Distribution::Exponential(fitted.think),
            },
            stations,
            rounds: self.shape.rounds.clone(),
            rounds_from: once,
            admission: limits.map(|limits| Admission {
                before: once,
                workers: limits.workers,
                backlog: limits.queued(),
                overflow: Overflow::Retry(Retries::LINUX),
                handshake: handshake(fitted, limits),
            }),
            timeout: limits.and_then(|limits| limits.timeout),
            warm_up: self.warm_up(limits, users),
            measured: self.exchanges,
            seed: self.seed.child(u64::from(users)),
        };
        Ok(simulation.run()?)
    }

    /// Returns the distribution of the CPU time of a round.
    fn service(&self, mean: Seconds) -> Distribution {
        match self.shape.service_variation {
            1.0 => Distribution::Exponential(mean),
            variation => Distribution::Lognormal { mean, variation },
        }
    }

    /// Returns the number of exchanges before the measurement. If the backlog overflows, users wait for retries, and
    /// the steady state is reached later.
    fn warm_up(&self, limits: Option<Limits>, users: u32) -> u32 {
        match limits {
            Some(limits) if users > limits.room() => self.exchanges.max(10 * users),
            _ => 10 * users,
        }
    }

    /// Returns the service time of an exchange at the processor, over all rounds, and the processor's discipline.
    fn processor(
        &self,
        fitted: &Fitted,
        scenario: &Scenario,
        demand: Seconds,
    ) -> (Seconds, Discipline) {
        let (servers, slowed) = fitted.processor(scenario, demand);
        let cores = scenario.cores(fitted.cores);
        match self.quota {
            None => (slowed, Discipline::InOrder(servers)),
            Some(QuotaTimes { period, burst }) => {
                let quota = Quota {
                    servers: cores.ceil().max(1.0) as u32,
                    share: cores,
                    period,
                    // The burst changes in proportion to the quota, because a host's burst is its quota.
                    burst: Seconds(burst.0 * cores / fitted.cores),
                };
                (demand, Discipline::Quota(quota))
            }
        }
    }

    /// Returns delay stations in series, with these means. The variation of their summed delay is the variation of the
    /// shape.
    fn delays(&self, means: &[Seconds]) -> Vec<SimulatedStation> {
        let sum: f64 = means.iter().map(|mean| mean.0).sum();
        let squares: f64 = means.iter().map(|mean| mean.0 * mean.0).sum();
        let variation = match squares > 0.0 {
            true => self.shape.variation * (sum / squares.sqrt()),
            false => self.shape.variation,
        };
        let each = means.iter().map(|&mean| {
            let delay = Distribution::Lognormal { mean, variation };
            station("delay", delay, Discipline::Delay)
        });
        each.collect()
    }

    /// Fits the delay again, so that the mean of the relative deviations of the loads' mean latencies is zero. Also returns the
    /// sum of the squared deviations.
    ///
    /// # Errors
    /// The errors of [`Run::at`].
    pub fn with_delay(
        &self,
        mut fitted: Fitted,
        loads: &[Load],
    ) -> Result<(Fitted, f64), PredictError> {
        let mut squares = 0.0;
        for _ in 0..STEPS {
            let (mut deviation, mut weights) = (0.0, 0.0);
            squares = 0.0;
            for load in loads {
                let found = self.at(&fitted, &Scenario::default(), load.users, demand(load))?;
                let measured = load.response().0;
                let relative = (measured - found.completed.mean) / measured;
                squares += relative * relative;
                deviation += relative;
                weights += 1.0 / measured;
            }
            fitted.delay.0 = (fitted.delay.0 + deviation / weights).max(0.0);
        }
        Ok((fitted, squares))
    }
}

/// The number of steps of the fit of the delay. The latency depends almost linearly on the delay.
const STEPS: u32 = 4;

/// Returns the handshake of an exchange's own connection, if it takes time.
fn handshake(fitted: &Fitted, limits: Limits) -> Option<Handshake> {
    let (before, _) = fitted.delays(limits.before);
    (limits.connects && before.0 > 0.0).then(|| Handshake::linux(Seconds(0.5 * before.0)))
}

fn station(name: &str, service: Distribution, discipline: Discipline) -> SimulatedStation {
    SimulatedStation {
        name: name.to_owned(),
        service,
        discipline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_round_trips_have_the_mean_and_the_tail_of_the_lightest_load() {
        // Up to three further round trips, 0.27 on average.
        let shape = Shape {
            rounds: rounds(2, 0, 0.0),
            further: further(3, 0.27, Seconds(0.01)),
            variation: 0.0,
            service_variation: 1.0,
        };
        assert!((shape.mean_further().0 - 0.0027).abs() < 1e-4);
        assert_eq!(shape.further.len(), FURTHER);
        assert_eq!(shape.further.last(), Some(&Seconds(0.03)));
        assert_eq!(shape.rounds, [0.0, 1.0]);
        // No tail.
        assert!(further(0, 0.2, Seconds(0.01)).is_empty());
    }

    #[test]
    fn rounds_have_the_median_the_mean_and_the_tail_of_the_lightest_load() {
        // Usually two round trips; up to three further round trips, 0.27 on average.
        let shape = Shape {
            rounds: rounds(2, 3, 0.27),
            further: Vec::new(),
            variation: 0.0,
            service_variation: 1.0,
        };
        assert!((shape.mean_rounds() - 2.27).abs() < 1e-12);
        assert!((shape.rounds.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(shape.rounds[0], 0.0);
        assert!(shape.rounds[1] > 0.5 && shape.rounds[4] > 0.02);
        assert_eq!(rounds(1, 0, 0.2), [1.0]);
    }
}
