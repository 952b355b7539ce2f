//! Open networks of M/M/c stations with Poisson arrivals.
//!
//! Source: Jackson: "Networks of waiting lines", Operations Research 5 (1957). In the steady state, each station is an
//! M/M/c system; its arrival rate is the solution of the traffic equations.

use crate::{ModelError, PerSecond, Seconds, erlang, linear, not_negative};

/// A station.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenStation {
    /// The name of the station.
    pub name: String,
    /// The mean service time of a visit.
    pub service: Seconds,
    /// The number of servers; 0 for a delay without queueing.
    pub servers: u32,
    /// The rate of arrivals from outside the network.
    pub arrivals: PerSecond,
    /// The probability that a customer continues at each station; with the remaining probability, it leaves the network.
    pub routing: Vec<f64>,
}

/// The steady state of a station.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenSolution {
    /// The rate of all arrivals, from outside and from other stations.
    pub throughput: PerSecond,
    /// The mean share of the station's servers that are busy; 0 for a delay.
    pub utilisation: f64,
    /// The mean number of customers, including those in service.
    pub customers: f64,
    /// The mean time of a visit, including waiting.
    pub residence: Seconds,
}

/// Solves a network.
///
/// # Errors
/// When a station is saturated, or a parameter is out of its range.
pub fn solve(stations: &[OpenStation]) -> Result<Vec<OpenSolution>, ModelError> {
    let n = stations.len();
    // Traffic equations: x(j) = arrivals(j) + sum over i of x(i) p(i, j).
    let mut matrix = vec![vec![0.0; n]; n];
    let mut right = vec![0.0; n];
    for (i, station) in stations.iter().enumerate() {
        right[i] = not_negative("the arrival rate", station.arrivals.0)?;
        not_negative("the service time", station.service.0)?;
        for (j, &share) in station.routing.iter().enumerate().take(n) {
            matrix[j][i] -= not_negative("a routing probability", share)?;
        }
        matrix[i][i] += 1.0;
    }
    let rates = linear::solve(matrix, right)
        .ok_or_else(|| ModelError::NotIdentified("customers never leave the network".to_owned()))?;
    let all = stations.iter().zip(rates);
    all.map(|(station, rate)| visit(station, PerSecond(rate)))
        .collect()
}

/// Returns the steady state of a station at an arrival rate.
fn visit(station: &OpenStation, rate: PerSecond) -> Result<OpenSolution, ModelError> {
    let load = rate * station.service;
    let c = f64::from(station.servers);
    if station.servers > 0 && load >= c {
        return Err(ModelError::Saturated {
            station: station.name.clone(),
            offered: load / c,
        });
    }
    let wait = match station.servers {
        0 => 0.0,
        servers => erlang::waiting(load, servers) * station.service.0 / (c - load),
    };
    let residence = Seconds(station.service.0 + wait);
    Ok(OpenSolution {
        throughput: rate,
        utilisation: if station.servers == 0 { 0.0 } else { load / c },
        customers: rate * residence,
        residence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(service: f64, servers: u32, arrivals: f64, routing: &[f64]) -> OpenStation {
        OpenStation {
            name: "station".to_owned(),
            service: Seconds(service),
            servers,
            arrivals: PerSecond(arrivals),
            routing: routing.to_vec(),
        }
    }

    #[test]
    fn one_station_is_m_m_1_and_m_m_c() {
        let [single] = &solve(&[station(0.1, 1, 8.0, &[])]).unwrap()[..] else {
            panic!()
        };
        // R = S / (1 - U).
        assert!((single.residence.0 - 0.5).abs() < 1e-12);
        assert!((single.customers - 4.0).abs() < 1e-12);
        let [double] = &solve(&[station(0.1, 2, 16.0, &[])]).unwrap()[..] else {
            panic!()
        };
        // M/M/2: R = S / (1 - U^2).
        assert!((double.residence.0 - 0.1 / (1.0 - 0.64)).abs() < 1e-12);
    }

    #[test]
    fn feedback_multiplies_the_rate() {
        // Half of the visits to the second station return to the first.
        let solution = solve(&[
            station(0.01, 1, 10.0, &[0.0, 1.0]),
            station(0.02, 1, 0.0, &[0.5, 0.0]),
        ])
        .unwrap();
        assert!((solution[0].throughput.0 - 20.0).abs() < 1e-12);
        assert!((solution[1].utilisation - 0.4).abs() < 1e-12);
    }

    #[test]
    fn a_saturated_station_and_a_closed_cycle_are_errors() {
        assert!(matches!(
            solve(&[station(0.1, 1, 10.0, &[])]),
            Err(ModelError::Saturated { .. })
        ));
        assert!(solve(&[station(0.1, 1, 1.0, &[1.0])]).is_err());
    }
}
