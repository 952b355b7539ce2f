//! Closed networks in which an exchange needs a worker at some of the stations: a server with at most W exchanges in
//! service, in front of which further exchanges wait.
//!
//! An exchange holds a worker over several stations, and such a network has no product form. The approximation is the
//! flow-equivalent server. The stations that need a worker are solved as a separate network, for each number j of exchanges
//! in them. They are then replaced by one station that serves at the throughput X(min(j, W)) of this solution (Lazowska,
//! Zahorjan, Graham, Sevcik: "Quantitative System Performance", 1984, chapter 9.3, memory-constrained subsystems; Chandy,
//! Herzog, Woo, IBM Journal of Research and Development 19, 1975). The approximation is exact
//!
//! - if there are as many workers as users,
//! - if only one station, with exponential service, needs a worker, and
//! - if exchanges hold a worker only for a delay: the workers are then servers.
//!
//! In other cases it deviates from the exact solution; `simulation/admission_tests.rs` has the deviations.
//!
//! H are the constants of the users outside, and G the constants of the stations that need a worker. The constants T of
//! the whole network are sums of positive terms, so that no digits are lost:
//!
//! ```text
//! T(N) = sum over n of f(n) H(N - n),   f(n) = G(n) up to W,   f(n) = f(n-1) / X(W) beyond
//! ```

use crate::closed::{Network, Servers, Solution, Station, StationSolution, mean_customers};
use crate::wide::Wide;
use crate::{ModelError, PerSecond, Seconds};

/// The name of the station that represents the workers in a solution.
pub const WORKERS: &str = "workers";

/// Probabilities below this are left out of means.
const NEGLIGIBLE: f64 = 1e-13;

/// A network with workers.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitedNetwork {
    /// The mean time that a user thinks between exchanges.
    pub think: Seconds,
    /// The time of an exchange before it needs a worker, without queueing.
    pub before: Seconds,
    /// The stations that an exchange visits with a worker.
    pub stations: Vec<Station>,
    /// The number of workers, at least one.
    pub workers: u32,
}

/// The normalisation constants and marginal figures for a population.
struct Constants {
    /// The constants of the stations that need a worker: G(0) to G(W).
    inside: Vec<Wide>,
    /// The probability of each number of exchanges with a worker.
    with_worker: Vec<f64>,
    /// The mean number of exchanges that wait for a worker.
    waiting: f64,
    throughput: PerSecond,
}

impl LimitedNetwork {
    /// Returns the solution for a number of users. Its stations are the network's stations in their order, followed by
    /// [`WORKERS`] with the number of exchanges that wait for a worker and the share of busy workers.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn solve(&self, users: u32) -> Result<Solution, ModelError> {
        let inside = self.checked(users)?;
        let constants = self.constants(&inside, users);
        let throughput = constants.throughput;
        let mut stations = Vec::new();
        for (place, station) in self.stations.iter().enumerate() {
            let customers = customers(&inside, place, &constants);
            let utilisation = match station.servers {
                Servers::Unlimited => 0.0,
                Servers::Count(count) => throughput * station.demand / f64::from(count),
            };
            stations.push(StationSolution {
                name: station.name.clone(),
                residence: Seconds(customers / throughput.0),
                customers,
                utilisation: utilisation.min(1.0),
            });
        }
        let with_worker = constants.with_worker.iter().enumerate();
        let busy: f64 = with_worker.map(|(j, share)| j as f64 * share).sum();
        stations.push(StationSolution {
            name: WORKERS.to_owned(),
            residence: Seconds(constants.waiting / throughput.0),
            customers: constants.waiting,
            utilisation: (busy / f64::from(self.workers)).min(1.0),
        });
        let residences: Seconds = stations.iter().map(|station| station.residence).sum();
        Ok(Solution {
            users,
            throughput,
            response: self.before + residences,
            stations,
        })
    }

    /// Checks the parameters, and returns the stations that need a worker as a separate network.
    fn checked(&self, users: u32) -> Result<Network, ModelError> {
        let above_zero = |what: &str, found: f64| match found > 0.0 {
            true => Ok(()),
            false => Err(ModelError::Parameter {
                what: what.to_owned(),
                found,
                range: "above 0",
            }),
        };
        above_zero("the number of workers", f64::from(self.workers))?;
        let mut whole = Network {
            think: self.think,
            stations: self.stations.clone(),
        };
        whole.stations.push(Station::delay("before", self.before));
        whole.check(users)?;
        let held = self.stations.iter().map(|station| station.demand.0).sum();
        above_zero("the time of an exchange with a worker", held)?;
        Ok(Network {
            think: Seconds(0.0),
            stations: self.stations.clone(),
        })
    }

    fn constants(&self, inside: &Network, users: u32) -> Constants {
        let n = users as usize;
        let most = self.workers.min(users) as usize;
        let inside = inside.constants(most as u32, None);
        let slowest = inside[most].over(inside[most - 1]);
        let mut flow = inside.clone();
        for _ in most..n {
            flow.push(flow[flow.len() - 1] * slowest);
        }
        let outside = self.outside(users);
        let all = |population: usize| {
            (0..=population).fold(Wide::ZERO, |sum, j| sum + flow[j] * outside[population - j])
        };
        let whole = all(n);
        let mut with_worker = vec![0.0; most + 1];
        let mut waiting = 0.0;
        for (j, &weight) in flow.iter().enumerate() {
            let probability = (weight * outside[n - j]).over(whole);
            with_worker[j.min(most)] += probability;
            waiting += j.saturating_sub(most) as f64 * probability;
        }
        Constants {
            inside,
            with_worker,
            waiting,
            throughput: PerSecond(all(n - 1).over(whole)),
        }
    }

    /// Returns the constants of users who think or are on their way to the server: z^n / n!.
    fn outside(&self, users: u32) -> Vec<Wide> {
        let time = self.think.0 + self.before.0;
        let mut constants = vec![Wide::new(1.0)];
        for n in 1..=users {
            let last = constants[n as usize - 1];
            constants.push(last * (time / f64::from(n)));
        }
        constants
    }
}

/// Returns the mean number of exchanges at a station that needs a worker.
fn customers(inside: &Network, place: usize, constants: &Constants) -> f64 {
    let station = &inside.stations[place];
    let whole = &constants.inside;
    let most = whole.len() - 1;
    let others = match station.servers {
        Servers::Unlimited => Vec::new(),
        Servers::Count(_) => inside.constants(most as u32, Some(place)),
    };
    let mut mean = 0.0;
    for j in 1..=most {
        let probability = constants.with_worker[j];
        if probability < NEGLIGIBLE {
            continue;
        }
        let present = match station.servers {
            Servers::Unlimited => whole[j - 1].over(whole[j]) * station.demand.0,
            Servers::Count(count) => mean_customers(station.demand, count, &others[..=j], whole[j]),
        };
        mean += probability * present;
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64, relative: f64) {
        assert!(
            (left - right).abs() <= relative * right.abs(),
            "{left} is not {right}"
        );
    }

    fn stations() -> Vec<Station> {
        vec![
            Station::delay("backend", Seconds(0.02)),
            Station::queue("processor", Seconds(0.004), 2),
            Station::queue("disk", Seconds(0.003), 1),
        ]
    }

    fn limited(stations: Vec<Station>, workers: u32) -> LimitedNetwork {
        LimitedNetwork {
            think: Seconds(0.05),
            before: Seconds(0.01),
            stations,
            workers,
        }
    }

    #[test]
    fn as_many_workers_as_users_are_no_limit() {
        for users in [1, 5, 40, 600] {
            let mut whole = Network {
                think: Seconds(0.05),
                stations: stations(),
            };
            whole.stations.push(Station::delay("path", Seconds(0.01)));
            let free = whole.solve(users).unwrap();
            let found = limited(stations(), users).solve(users).unwrap();
            close(found.throughput.0, free.throughput.0, 1e-10);
            close(found.response.0, free.response.0, 1e-9);
            for (one, other) in found.stations.iter().zip(&free.stations).take(3) {
                close(one.customers, other.customers, 1e-9);
                assert_eq!(one.name, other.name);
                close(one.utilisation, other.utilisation, 1e-9);
            }
            assert_eq!(found.stations[3].customers, 0.0);
            // More workers than users change only the utilisation of the workers.
            let more = limited(stations(), 2 * users).solve(users).unwrap();
            assert_eq!(more.throughput, found.throughput);
            close(
                more.stations[3].utilisation,
                0.5 * found.stations[3].utilisation,
                1e-12,
            );
        }
    }

    #[test]
    fn workers_that_hold_one_station_are_its_servers() {
        // Exponential service at one server: any number of workers is M/M/1//N.
        let single = |servers| Network {
            think: Seconds(0.06),
            stations: vec![Station::queue("processor", Seconds(0.01), servers)],
        };
        let processor = || vec![Station::queue("processor", Seconds(0.01), 1)];
        for workers in [1, 3, 9] {
            let found = limited(processor(), workers).solve(30).unwrap();
            let exact = single(1).solve(30).unwrap();
            close(found.throughput.0, exact.throughput.0, 1e-12);
            close(found.response.0, 0.01 + exact.response.0, 1e-10);
        }
        // A delay with W workers is M/M/W//N.
        let delay = vec![Station::delay("backend", Seconds(0.01))];
        for workers in [1, 4, 16] {
            let found = limited(delay.clone(), workers).solve(30).unwrap();
            let exact = single(workers).solve(30).unwrap();
            close(found.throughput.0, exact.throughput.0, 1e-12);
            let here: f64 = found.stations.iter().map(|s| s.customers).sum();
            close(here, exact.stations[0].customers, 1e-10);
            close(
                found.stations[1].utilisation,
                exact.stations[0].utilisation,
                1e-10,
            );
        }
    }

    #[test]
    fn all_users_are_somewhere_and_workers_cap_the_throughput() {
        let mut last = 0.0;
        for workers in [1, 2, 4, 8, 16, 64] {
            let network = limited(stations(), workers);
            for users in [1, 8, 64, 1000] {
                let found = network.solve(users).unwrap();
                let customers: f64 = found.stations.iter().map(|s| s.customers).sum();
                let outside = found.throughput * Seconds(0.06);
                close(customers + outside, f64::from(users), 1e-9);
                // Each exchange holds a worker for 27 ms at least.
                assert!(found.throughput.0 <= f64::from(workers) / 0.027 * (1.0 + 1e-9));
                close(
                    found.throughput * found.response,
                    customers + found.throughput.0 * 0.01,
                    1e-9,
                );
            }
            let most = network.solve(1000).unwrap().throughput.0;
            assert!(most >= last);
            last = most;
        }
        // One worker serves one exchange after another: 1 / (20 + 4 + 3 ms).
        let one = limited(stations(), 1).solve(1000).unwrap();
        close(one.throughput.0, 1.0 / 0.027, 1e-9);
        close(one.stations[3].utilisation, 1.0, 1e-9);
    }

    #[test]
    fn parameters_outside_their_range_are_errors() {
        assert!(limited(stations(), 0).solve(1).is_err());
        assert!(limited(stations(), 1).solve(0).is_err());
        assert!(limited(Vec::new(), 1).solve(1).is_err());
        let slow = LimitedNetwork {
            before: Seconds(f64::NAN),
            ..limited(stations(), 1)
        };
        assert!(slow.solve(1).is_err());
        // Without think time and path, all users are at the server.
        let busy = LimitedNetwork {
            think: Seconds(0.0),
            before: Seconds(0.0),
            ..limited(stations(), 4)
        };
        let found = busy.solve(10).unwrap();
        close(found.stations[3].customers, 6.0, 1e-9);
    }
}
