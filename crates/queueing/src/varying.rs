//! Closed networks whose demands depend on the throughput.
//!
//! A busy server often needs less time for an exchange than an idle server: its caches are warm, and one wake-up handles
//! several requests. MVASD (Kattepur and Nambiar, "Performance modeling of multi-tiered web applications with varying
//! service demands", 2015) measures demands at a few loads, interpolates between them, and solves the network with the
//! interpolated demands. Its recursion uses the queues of smaller populations, which were computed with different demands.
//! Here each population is solved exactly, with the demands of its own throughput: a fixed point.

use crate::closed::{Network, Solution};
use crate::{ModelError, PerSecond, Seconds};

/// A demand as a function of the throughput: linear between the points, constant outside them.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    points: Vec<(PerSecond, Seconds)>,
}

impl Curve {
    /// Creates a curve through these points, in any order; points with the same throughput are averaged.
    ///
    /// # Errors
    /// When there is no point, or a coordinate is negative or not finite.
    pub fn through(mut points: Vec<(PerSecond, Seconds)>) -> Result<Curve, ModelError> {
        for (rate, demand) in &points {
            crate::not_negative("a throughput", rate.0)?;
            crate::not_negative("a demand", demand.0)?;
        }
        points.sort_by(|left, right| left.0.0.total_cmp(&right.0.0));
        let mut merged: Vec<(PerSecond, Seconds, f64)> = Vec::new();
        for (rate, demand) in points {
            match merged.last_mut() {
                Some((last, sum, count)) if *last == rate => {
                    sum.0 += demand.0;
                    *count += 1.0;
                }
                _ => merged.push((rate, demand, 1.0)),
            }
        }
        if merged.is_empty() {
            return Err(ModelError::NotIdentified(
                "a curve without a point".to_owned(),
            ));
        }
        Ok(Curve {
            points: merged
                .into_iter()
                .map(|(rate, sum, count)| (rate, Seconds(sum.0 / count)))
                .collect(),
        })
    }

    /// Returns the demand at a throughput.
    pub fn at(&self, rate: PerSecond) -> Seconds {
        let above = self.points.partition_point(|(known, _)| *known < rate);
        let last = self.points.len() - 1;
        match (above, self.points.get(above)) {
            (0, _) => self.points[0].1,
            (_, None) => self.points[last].1,
            (_, Some(&(right, high))) => {
                let (left, low) = self.points[above - 1];
                let share = (rate.0 - left.0) / (right.0 - left.0);
                Seconds(low.0 + share * (high.0 - low.0))
            }
        }
    }

    /// The highest throughput of the points.
    pub fn highest(&self) -> PerSecond {
        self.points[self.points.len() - 1].0
    }
}

/// Solves a network whose demands are a function of its throughput: the smallest throughput X at which the network with
/// the demands of X yields X.
///
/// # Errors
/// The errors of [`Network::solve`].
pub fn solve(
    network_at: &dyn Fn(PerSecond) -> Network,
    users: u32,
) -> Result<Solution, ModelError> {
    // Whether the network with the demands of `rate` has a higher throughput than `rate`.
    let yields_more = |rate: f64| -> Result<bool, ModelError> {
        Ok(network_at(PerSecond(rate)).throughput(users)?.0 > rate)
    };
    // Doubling starts below the throughput of one user, which has no queueing. It finds the first crossing, unless the curve
    // changes within a step.
    let mut low = 0.0;
    let mut high = network_at(PerSecond(0.0)).throughput(1)?.0;
    while yields_more(high)? {
        low = high;
        high *= 1.25;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        match yields_more(middle)? {
            true => low = middle,
            false => high = middle,
        }
        if high - low <= 1e-9 * high {
            break;
        }
    }
    network_at(PerSecond(0.5 * (low + high))).solve(users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::Station;

    fn network(demand: Seconds) -> Network {
        Network {
            think: Seconds(0.1),
            stations: vec![Station::queue("cpu", demand, 2)],
        }
    }

    #[test]
    fn a_constant_demand_gives_the_plain_solution() {
        for users in [1, 8, 64, 512] {
            let plain = network(Seconds(0.01)).solve(users).unwrap();
            let varying = solve(&|_| network(Seconds(0.01)), users).unwrap();
            assert!((varying.throughput.0 / plain.throughput.0 - 1.0).abs() < 1e-8);
            assert!((varying.response.0 / plain.response.0 - 1.0).abs() < 1e-8);
        }
    }

    #[test]
    fn a_falling_demand_raises_the_capacity_to_its_fixed_point() {
        // D(X) = 4 ms + 0.5/X: background work occupies 0.5 of two processors. 1.5 are left: X = 1.5 / 4 ms.
        let at = |rate: PerSecond| network(Seconds(0.004 + 0.5 / rate.0.max(1.0)));
        let solution = solve(&at, 2000).unwrap();
        assert!((solution.throughput.0 - 375.0).abs() < 0.5, "{solution:?}");
    }

    #[test]
    fn curves_interpolate_and_are_constant_outside() {
        let curve = Curve::through(vec![
            (PerSecond(200.0), Seconds(2.0)),
            (PerSecond(100.0), Seconds(4.0)),
            (PerSecond(200.0), Seconds(3.0)),
        ])
        .unwrap();
        assert_eq!(curve.at(PerSecond(10.0)), Seconds(4.0));
        assert_eq!(curve.at(PerSecond(150.0)), Seconds(3.25));
        assert_eq!(curve.at(PerSecond(1e6)), Seconds(2.5));
        assert_eq!(curve.highest(), PerSecond(200.0));
        assert!(Curve::through(vec![]).is_err());
    }
}
