//! Closed networks of several classes of customers.
//!
//! Source: Reiser and Lavenberg, JACM 27 (1980), section 3; Lazowska and others (1984), 7.4. The solution visits every
//! population up to the full population, so that it is exact, but only suitable for small networks.

use crate::closed::{Servers, Station};
use crate::{ModelError, PerSecond, Seconds, not_negative};

/// The largest number of populations.
const MOST_POPULATIONS: f64 = 2e6;

/// A class of customers.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The number of customers in the class.
    pub users: u32,
    /// The customers' mean think time.
    pub think: Seconds,
    /// The demand at each station, in the order of the stations.
    pub demands: Vec<Seconds>,
}

/// The solution for a class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSolution {
    /// The throughput, in exchanges per second.
    pub throughput: PerSecond,
    /// The mean time of an exchange, without the think time.
    pub response: Seconds,
    /// The mean time at each station, including waiting.
    pub residences: Vec<Seconds>,
}

/// Solves a network of single servers and delays. The demands of `stations` are not used: each class has its own.
///
/// # Errors
/// When a station has several servers, there are too many populations, or a parameter is out of its range.
pub fn solve(stations: &[Station], classes: &[Class]) -> Result<Vec<ClassSolution>, ModelError> {
    check(stations, classes)?;
    let sizes: Vec<usize> = classes
        .iter()
        .map(|class| class.users as usize + 1)
        .collect();
    let populations: usize = sizes.iter().product();
    // Populations are numbered in mixed radix. The population with one customer of class c less has an index that is smaller
    // by `strides[c]`.
    let strides: Vec<usize> = (0..sizes.len())
        .map(|class| sizes[..class].iter().product())
        .collect();
    let m = stations.len();
    let mut queues = vec![0.0; populations * m];
    let mut solution = Vec::new();
    for number in 1..populations {
        let mut present = vec![0.0; m];
        solution.clear();
        for (class, parameters) in classes.iter().enumerate() {
            let count = number / strides[class] % sizes[class];
            if count == 0 {
                solution.push(empty(m));
                continue;
            }
            let before = &queues[(number - strides[class]) * m..][..m];
            let residences: Vec<Seconds> = stations
                .iter()
                .zip(&parameters.demands)
                .zip(before)
                .map(|((station, demand), waiting)| match station.servers {
                    Servers::Unlimited => *demand,
                    Servers::Count(_) => Seconds(demand.0 * (1.0 + waiting)),
                })
                .collect();
            let response: Seconds = residences.iter().copied().sum();
            let throughput = PerSecond(count as f64 / (parameters.think + response).0);
            for (queue, &residence) in present.iter_mut().zip(&residences) {
                *queue += throughput * residence;
            }
            solution.push(ClassSolution {
                throughput,
                response,
                residences,
            });
        }
        queues[number * m..][..m].copy_from_slice(&present);
    }
    Ok(solution)
}

fn empty(stations: usize) -> ClassSolution {
    ClassSolution {
        throughput: PerSecond(0.0),
        response: Seconds(0.0),
        residences: vec![Seconds(0.0); stations],
    }
}

fn check(stations: &[Station], classes: &[Class]) -> Result<(), ModelError> {
    for station in stations {
        if let Servers::Count(count) = station.servers
            && count != 1
        {
            return Err(ModelError::Parameter {
                what: format!("the number of servers of {}", station.name),
                found: f64::from(count),
                range: "1 in a network of several classes",
            });
        }
    }
    for class in classes {
        let mut total = not_negative("a think time", class.think.0)?;
        for demand in &class.demands {
            total += not_negative("a demand", demand.0)?;
        }
        if total <= 0.0 || class.demands.len() != stations.len() {
            return Err(ModelError::Parameter {
                what: "the time of an exchange, with a demand at each station,".to_owned(),
                found: total,
                range: "above 0",
            });
        }
    }
    let states: f64 = classes
        .iter()
        .map(|class| f64::from(class.users) + 1.0)
        .product();
    match (2.0..=MOST_POPULATIONS).contains(&states) {
        true => Ok(()),
        false => Err(ModelError::TooLarge {
            states,
            limit: MOST_POPULATIONS,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::Network;

    #[test]
    fn two_classes_of_one_customer_each_have_the_solution_by_hand() {
        let stations = [
            Station::queue("cpu", Seconds(0.0), 1),
            Station::queue("disk", Seconds(0.0), 1),
        ];
        let class = |cpu, disk| Class {
            users: 1,
            think: Seconds(0.0),
            demands: vec![Seconds(cpu), Seconds(disk)],
        };
        let solution = solve(&stations, &[class(0.105, 0.180), class(0.375, 0.480)]).unwrap();
        // An arriving customer finds the queues that the other customer alone has: the shares of that customer's demands.
        let a = 1.0 / (0.105 * (1.0 + 0.375 / 0.855) + 0.180 * (1.0 + 0.480 / 0.855));
        assert!((solution[0].throughput.0 - a).abs() < 1e-12);
        let b = 1.0 / (0.375 * (1.0 + 0.105 / 0.285) + 0.480 * (1.0 + 0.180 / 0.285));
        assert!((solution[1].throughput.0 - b).abs() < 1e-12);
    }

    #[test]
    fn two_equal_classes_are_one() {
        let stations = [
            Station::queue("cpu", Seconds(0.0), 1),
            Station::queue("disk", Seconds(0.0), 1),
            Station::delay("path", Seconds(0.0)),
        ];
        let demands = vec![Seconds(0.01), Seconds(0.015), Seconds(0.05)];
        let class = |users| Class {
            users,
            think: Seconds(0.3),
            demands: demands.clone(),
        };
        let solution = solve(&stations, &[class(7), class(13)]).unwrap();
        let network = Network {
            think: Seconds(0.3),
            stations: stations
                .iter()
                .zip(&demands)
                .map(|(station, &demand)| Station {
                    demand,
                    ..station.clone()
                })
                .collect(),
        };
        let single = network.solve(20).unwrap();
        let sum = solution[0].throughput.0 + solution[1].throughput.0;
        assert!((sum / single.throughput.0 - 1.0).abs() < 1e-10);
        assert!((solution[1].response.0 / single.response.0 - 1.0).abs() < 1e-10);
    }

    #[test]
    fn too_many_populations_and_several_servers_are_errors() {
        let class = Class {
            users: 2000,
            think: Seconds(1.0),
            demands: vec![Seconds(0.1)],
        };
        let single = [Station::queue("cpu", Seconds(0.0), 1)];
        assert!(matches!(
            solve(&single, &[class.clone(), class.clone()]),
            Err(ModelError::TooLarge { .. })
        ));
        let double = [Station::queue("cpu", Seconds(0.0), 2)];
        assert!(solve(&double, &[class]).is_err());
    }
}
