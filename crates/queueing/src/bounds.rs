//! Bounds of closed networks with given demands.
//!
//! Source: Lazowska, Zahorjan, Graham, Sevcik: "Quantitative System Performance" (1984), chapter 5.

use crate::closed::{Network, Servers};
use crate::{PerSecond, Seconds};

/// Bounds of the throughput, and the bounds of the response time that follow from them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The lower bound of the throughput.
    pub least: PerSecond,
    /// The upper bound of the throughput.
    pub most: PerSecond,
    /// The lower bound of the response time.
    pub fastest: Seconds,
    /// The upper bound of the response time.
    pub slowest: Seconds,
}

/// The demands of an exchange, and the users.
struct Needs {
    /// The sum of all demands.
    total: f64,
    /// The largest demand per server.
    largest: f64,
    users: f64,
    think: f64,
}

impl Needs {
    fn bounds(&self, least: f64, most: f64) -> Bounds {
        // Little's law: N = X (R + Z).
        let response = |throughput: f64| Seconds((self.users / throughput - self.think).max(0.0));
        Bounds {
            least: PerSecond(least),
            most: PerSecond(most),
            fastest: response(most),
            slowest: response(least),
        }
    }
}

fn needs(network: &Network, users: u32) -> Needs {
    let largest = network
        .stations
        .iter()
        .map(|station| match station.servers {
            Servers::Count(servers) => station.demand.0 / f64::from(servers),
            Servers::Unlimited => 0.0,
        });
    Needs {
        total: network
            .stations
            .iter()
            .map(|station| station.demand.0)
            .sum(),
        largest: largest.fold(0.0, f64::max),
        users: f64::from(users),
        think: network.think.0,
    }
}

/// Returns the asymptotic bounds, section 5.2. The upper bound of the throughput is the lower of two throughputs:
/// without queueing, and at the saturated bottleneck. The lower bound assumes that every exchange waits for all others
/// at every station.
pub fn asymptotic(network: &Network, users: u32) -> Bounds {
    let needs = needs(network, users);
    let most = (needs.users / (needs.total + needs.think)).min(1.0 / needs.largest);
    let least = needs.users / (needs.users * needs.total + needs.think);
    needs.bounds(least, most)
}

/// Returns the number of users from which exchanges queue: where the two asymptotes of the throughput cross (5.2.1).
pub fn crossing(network: &Network) -> f64 {
    let needs = needs(network, 1);
    (needs.total + needs.think) / needs.largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::Station;

    #[test]
    fn the_exact_solution_lies_within_the_bounds() {
        for think in [0.0, 0.1, 5.0] {
            let network = Network {
                think: Seconds(think),
                stations: vec![
                    Station::queue("cpu", Seconds(0.02), 1),
                    Station::queue("disk", Seconds(0.035), 1),
                    Station::delay("path", Seconds(0.01)),
                ],
            };
            for users in [1, 2, 5, 17, 90, 400] {
                let exact = network.solve(users).unwrap();
                let bounds = asymptotic(&network, users);
                let x = exact.throughput.0;
                assert!(
                    bounds.least.0 <= x * (1.0 + 1e-12),
                    "{users} users: {bounds:?}, throughput {x}"
                );
                assert!(
                    bounds.most.0 >= x * (1.0 - 1e-12),
                    "{users} users: {bounds:?}, throughput {x}"
                );
                assert!(bounds.fastest.0 <= exact.response.0 * (1.0 + 1e-9));
                assert!(bounds.slowest.0 >= exact.response.0 * (1.0 - 1e-9));
            }
        }
    }

    #[test]
    fn several_servers_bound_the_throughput_together() {
        let network = Network {
            think: Seconds(0.0),
            stations: vec![Station::queue("cpu", Seconds(0.02), 4)],
        };
        assert_eq!(asymptotic(&network, 100).most, PerSecond(200.0));
        assert_eq!(crossing(&network), 4.0);
    }
}
