//! A closed network fitted to light loads, and its exact solution.
//!
//! The network has three stations: a delay (the path, connection set-up, and all other times without queueing), the link, and
//! the processor. The processor has a server per core; a quota below one core is a single server that is slower by the quota.
//! Runs with disk reads have a fourth station, the disk.
//!
//! If a server has fewer workers than users, the network has a flow-equivalent server: an exchange needs a worker for all its
//! time except the round trips before its request arrives.

use fathometer_model::Bandwidth;
use fathometer_queueing::bounds::{asymptotic, crossing};
use fathometer_queueing::closed::{Network, Solution, Station};
use fathometer_queueing::limited::LimitedNetwork;
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::law::{Discrepancy, Law, LawFit, LawKind, Presence};
use crate::scenario::Scenario;
use crate::series::{Admission, FitData, Limits, Load, Series, disk_use};

/// The name of the processor's station.
pub const PROCESSOR: &str = "processor";
/// The name of the disk's station.
pub const DISK: &str = "disk";
/// The name of the link's station.
pub const LINK: &str = "link";

/// The parameters of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The CPU time of an exchange.
    pub law: Law,
    /// The misfit of the law ([`LawFit::misfit`]).
    pub misfit: f64,
    /// The model discrepancy of a bootstrap sample.
    pub(crate) discrepancy: Option<Discrepancy>,
    /// The number of exchanges at a core in each fitted load, in each burst, and in the batches.
    pub presences: Vec<Presence>,
    /// The time of an exchange outside the processor, the link and the disk.
    pub delay: Seconds,
    /// The think time of a user, from the response time law Z = N/X - R.
    pub think: Seconds,
    /// The server's CPU capacity, in cores.
    pub cores: f64,
    /// The time of an exchange on the link.
    pub link_time: Seconds,
    /// The rate of the link, if known.
    pub link: Option<Bandwidth>,
    /// The time of an exchange at the disk.
    pub disk: Seconds,
    /// The known limits of the server's concurrency.
    pub admission: Admission,
    /// The lowest fitted throughput. At lower throughputs, the law uses this value for the background work per exchange.
    pub lowest: PerSecond,
}

impl Fitted {
    /// Fits a network with a law of this kind; `None` if the loads do not determine the law. `share` is the assumed share of
    /// wake-ups, as [`crate::law::WAKE_UP_SHARE`].
    ///
    /// # Errors
    /// When the network has no solution.
    pub fn of(
        kind: LawKind,
        data: &FitData,
        series: &Series,
        share: f64,
    ) -> Result<Option<Fitted>, PredictError> {
        let loads = &data.loads;
        let count = loads.len() as f64;
        let link_time = link_time(series, loads).unwrap_or(Seconds(0.0));
        let pause = |load: &Load| f64::from(load.users) / load.throughput().0 - load.response().0;
        let think = loads.iter().map(pause).sum::<f64>() / count;
        let rates = loads.iter().map(|load| load.throughput().0);
        let mut fitted = Fitted {
            law: Law::Constant { demand_s: 0.0 },
            misfit: 0.0,
            discrepancy: None,
            presences: Vec::new(),
            delay: Seconds(0.0),
            think: Seconds(think.max(0.0)),
            cores: usable_cores(series.cores, &data.bursts),
            link_time,
            link: series.link,
            disk: disk_use(loads).time,
            admission: series.admission.clone(),
            lowest: PerSecond(rates.fold(f64::INFINITY, f64::min)),
        };
        fitted.fit_delay(loads)?;
        for burst in &data.bursts {
            let solution = fitted.solution(&Scenario::default(), burst.users, demand(burst))?;
            let queue = fitted.queue(&Scenario::default(), &solution);
            fitted.presences.push(Presence::Steady(queue));
        }
        let (cores, _) = fitted.processor(&Scenario::default(), Seconds(0.0));
        let workers = fitted.admission.workers(&Scenario::default());
        if let Some(batches) = &data.batches {
            fitted.presences.push(Presence::Batch {
                from: batches.from,
                to: batches.to,
                workers: workers.unwrap_or(u32::MAX),
                cores,
            });
        }
        Ok(kind
            .fit(&data.all(), &fitted.presences, share)
            .map(|LawFit { law, misfit }| Fitted {
                law,
                misfit,
                ..fitted
            }))
    }

    /// Finds the delay with which the network has the measured latency, and the queues, both with the measured CPU
    /// times. Latency is the delay plus the time at the stations. This time depends little on the delay, so the
    /// iteration converges in a few steps. The mean of the loads' relative deviations becomes zero.
    fn fit_delay(&mut self, loads: &[Load]) -> Result<(), PredictError> {
        let unchanged = Scenario::default();
        for _ in 0..6 {
            let (mut deviation, mut weights) = (0.0, 0.0);
            self.presences.clear();
            for load in loads {
                let solution = self.solution(&unchanged, load.users, demand(load))?;
                let measured = load.response().0;
                deviation += (measured - solution.response.0) / measured;
                weights += 1.0 / measured;
                let queue = self.queue(&unchanged, &solution);
                self.presences.push(Presence::Steady(queue));
            }
            self.delay.0 = (self.delay.0 + deviation / weights).max(0.0);
        }
        Ok(())
    }

    /// Returns the number of servers of the processor's station, and the service time of an exchange with the CPU time
    /// `demand`.
    pub fn processor(&self, scenario: &Scenario, demand: Seconds) -> (u32, Seconds) {
        let cores = scenario.cores(self.cores);
        let servers = servers(cores);
        (servers as u32, Seconds(demand.0 * servers / cores))
    }

    /// Returns the time of an exchange on the link.
    pub fn on_link(&self, scenario: &Scenario) -> Seconds {
        Seconds(scenario.link_s(self.link_time.0, self.link))
    }

    /// Returns the time of an exchange at the disk.
    pub fn on_disk(&self, scenario: &Scenario) -> Seconds {
        scenario.disk.unwrap_or(self.disk)
    }

    /// Returns the network in which an exchange has the CPU time `demand`, with an unlimited number of workers.
    pub fn network(&self, scenario: &Scenario, demand: Seconds) -> Network {
        Network {
            think: self.think,
            stations: self.stations(scenario, demand, self.delay),
        }
    }

    fn stations(&self, scenario: &Scenario, demand: Seconds, delay: Seconds) -> Vec<Station> {
        let (servers, service) = self.processor(scenario, demand);
        let mut stations = vec![
            Station::delay("delay", delay),
            Station::queue(LINK, self.on_link(scenario), 1),
            Station::queue(PROCESSOR, service, servers),
        ];
        let disk = self.on_disk(scenario);
        if disk.0 > 0.0 {
            stations.push(Station::queue(DISK, disk, 1));
        }
        stations
    }

    /// Returns the delay before an exchange needs a worker, and the delay while it holds a worker.
    pub fn delays(&self, before: Seconds) -> (Seconds, Seconds) {
        let before = self.delay.0.min(before.0);
        (Seconds(before), Seconds(self.delay.0 - before))
    }

    /// Returns the time for which an exchange with the CPU time `demand` holds a worker, without queueing.
    pub fn held(&self, scenario: &Scenario, demand: Seconds) -> Seconds {
        let (_, delay) = self.delays(self.admission.before);
        let stations = self.stations(scenario, demand, delay);
        stations.iter().map(|station| station.demand).sum()
    }

    /// Returns the network with a limited number of workers in which an exchange has the CPU time `demand`.
    fn limited(&self, scenario: &Scenario, demand: Seconds, limits: Limits) -> LimitedNetwork {
        let (before, delay) = self.delays(limits.before);
        LimitedNetwork {
            think: self.think,
            before,
            stations: self.stations(scenario, demand, delay),
            workers: limits.workers,
        }
    }

    /// Returns the solution in which an exchange has the CPU time `demand`: exact, or with a flow-equivalent server for
    /// the workers and an unlimited backlog.
    ///
    /// # Errors
    /// When the number of users is out of range.
    pub fn solution(
        &self,
        scenario: &Scenario,
        users: u32,
        demand: Seconds,
    ) -> Result<Solution, PredictError> {
        Ok(match self.admission.limits(scenario, users) {
            None => self.network(scenario, demand).solve(users)?,
            Some(limits) => self.limited(scenario, demand, limits).solve(users)?,
        })
    }

    /// Returns the asymptotic bound of the throughput: the lower of the network's bound and the workers' bound. An
    /// exchange holds a worker at least for its time without queueing.
    pub fn bound(&self, scenario: &Scenario, users: u32, demand: Seconds) -> PerSecond {
        let network = self.network(scenario, demand);
        let bound = asymptotic(&network, users).most.0;
        let workers = self.admission.limits(scenario, users);
        let most = workers.map(|limits| self.most_of_workers(scenario, demand, limits));
        PerSecond(bound.min(most.unwrap_or(f64::INFINITY)))
    }

    /// Returns the number of users from which exchanges queue: where the asymptotes of the throughput cross.
    /// `most_users` is the largest number of users of interest.
    pub fn crossing(&self, scenario: &Scenario, most_users: u32, demand: Seconds) -> f64 {
        let network = self.network(scenario, demand);
        let demands = network.stations.iter().map(|station| station.demand.0);
        let alone = network.think.0 + demands.sum::<f64>();
        let stations = crossing(&network);
        match self.admission.limits(scenario, most_users) {
            None => stations,
            Some(limits) => stations.min(alone * self.most_of_workers(scenario, demand, limits)),
        }
    }

    fn most_of_workers(&self, scenario: &Scenario, demand: Seconds, limits: Limits) -> f64 {
        f64::from(limits.workers) / self.held(scenario, demand).0
    }

    /// Returns the solution for a number of users, and the CPU time of an exchange. Both are consistent: the law gives
    /// this CPU time for the throughput and the queue of the solution.
    ///
    /// # Errors
    /// When the number of users is out of range.
    pub fn solve(
        &self,
        scenario: &Scenario,
        users: u32,
    ) -> Result<(Solution, Seconds), PredictError> {
        // A longer CPU time means a lower throughput and a longer queue. If the background work is small, the law then
        // gives a shorter CPU time, so that there is exactly one solution.
        let (least, most) = self.discrepancy.map_or((1.0, 1.0), |one| one.range());
        let mut low = least * self.law.least().0;
        let mut high = most * self.law.most(self.lowest).0;
        let mut demand = low;
        for _ in 0..MOST_STEPS {
            demand = (low * high).sqrt();
            let solution = self.solution(scenario, users, Seconds(demand))?;
            let rate = PerSecond(solution.throughput.0.max(self.lowest.0));
            let queue = self.queue(scenario, &solution);
            let factor = self.discrepancy.map_or(1.0, |one| one.factor(queue));
            let law = factor * self.law.demand(rate, queue).0;
            match law > demand {
                true => low = demand,
                false => high = demand,
            }
            if high - low <= PRECISION * high {
                break;
            }
        }
        let demand = Seconds(demand);
        Ok((self.solution(scenario, users, demand)?, demand))
    }

    /// Returns the mean number of exchanges at a core of the processor.
    fn queue(&self, scenario: &Scenario, solution: &Solution) -> f64 {
        let (servers, _) = self.processor(scenario, Seconds(0.0));
        let stations = solution.stations.iter();
        let here = stations.filter(|station| station.name == PROCESSOR);
        here.map(|station| station.customers / f64::from(servers))
            .sum()
    }
}

/// Returns the time of an exchange on the link; `None` if its rate or the bytes of an exchange are unknown.
pub(crate) fn link_time(series: &Series, loads: &[Load]) -> Option<Seconds> {
    let rate = series.link?.as_bits_per_second() as f64;
    let readings = loads.iter().flat_map(|load| &load.readings);
    let bytes: Option<Vec<f64>> = readings.map(|reading| reading.wire_bytes).collect();
    let bytes = bytes.filter(|bytes| !bytes.is_empty())?;
    let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
    Some(Seconds(8.0 * mean / rate))
}

/// Returns the cores that a server can use. A server does not use the last few percent of its quota in each period; a
/// burst that keeps the processor busy shows the usable part.
fn usable_cores(cores: f64, bursts: &[Load]) -> f64 {
    let busy = bursts.iter().map(|load| load.mean(|reading| reading.busy));
    let most = busy.fold(0.0, f64::max);
    match most >= BUSY_BURST * cores {
        true => most.min(cores),
        false => cores,
    }
}

/// Returns the number of servers of a processor with this number of cores. If a server uses 1.98 of two cores, the
/// model has two slightly slower cores, not one fast core.
fn servers(cores: f64) -> f64 {
    match cores >= NEARLY_WHOLE * cores.ceil() {
        true => cores.ceil(),
        false => cores.floor().max(1.0),
    }
}

/// Cores count as whole from this share of the next whole number.
const NEARLY_WHOLE: f64 = 0.95;

/// A burst that uses at least this share of the processor keeps it busy.
const BUSY_BURST: f64 = 0.9;

/// Returns the measured CPU time of an exchange.
pub(crate) fn demand(load: &Load) -> Seconds {
    Seconds(load.mean(|reading| reading.busy) / load.throughput().0)
}

/// The maximum number of steps of the search for a CPU time, and the relative precision at which the search ends.
const MOST_STEPS: u32 = 60;
const PRECISION: f64 = 1e-5;

#[cfg(test)]
mod tests {
    use super::servers;

    #[test]
    fn nearly_whole_cores_are_whole() {
        let counts = [0.2, 0.97, 1.0, 1.5, 1.98, 2.0, 2.02, 7.9].map(servers);
        assert_eq!(counts, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 8.0]);
    }
}
