//! The Universal Scalability Law, fitted to measured throughputs.
//!
//! X(N) = λN / (1 + σ(N-1) + κN(N-1)). Contention σ bounds the throughput; because of coherency κ, the throughput falls beyond
//! its peak.
//! Source: Gunther: "Guerrilla Capacity Planning" (2007), chapters 4 to 6.

use crate::{ModelError, PerSecond, linear};

/// A parameter with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimated {
    /// The estimate.
    pub value: f64,
    /// The standard error; the distribution is Student's t with [`Scalability::freedom`] degrees of freedom.
    pub error: f64,
}

/// The fitted law.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalability {
    /// λ: the throughput of one user, in exchanges per second.
    pub rate: Estimated,
    /// σ, contention: the share of the work that is serial.
    pub contention: Estimated,
    /// κ, coherency: the cost per pair of users.
    pub coherency: Estimated,
    /// The standard deviation of measured throughputs from the law, as a share.
    pub residual: f64,
    /// The degrees of freedom of the residual.
    pub freedom: u32,
    /// The covariance of λ, σ and κ.
    covariance: Vec<Vec<f64>>,
}

impl Scalability {
    /// Fits the law to pairs of users and throughput by non-linear least squares of relative deviations
    /// (Levenberg, Quarterly of Applied Mathematics 2, 1944), starting from the solution of the linear form N/X.
    ///
    /// # Errors
    /// When the data do not identify three parameters: there are fewer than four loads, or the loads are too similar.
    pub fn fit(points: &[(u32, PerSecond)]) -> Result<Scalability, ModelError> {
        for (users, rate) in points {
            if *users == 0 || !rate.0.is_finite() || rate.0 <= 0.0 {
                return Err(ModelError::Parameter {
                    what: format!("the throughput of {users} users"),
                    found: rate.0,
                    range: "above 0, of at least one user",
                });
            }
        }
        let mut loads: Vec<u32> = points.iter().map(|(users, _)| *users).collect();
        loads.sort_unstable();
        loads.dedup();
        if loads.len() < 4 {
            return Err(ModelError::NotIdentified(format!(
                "{} loads do not determine the three parameters of the scalability law; measure at least 4",
                loads.len()
            )));
        }
        let mut parameters = start(points).ok_or_else(singular)?;
        let mut sum = squares(points, &parameters);
        let mut damping = 1e-3;
        for _ in 0..200 {
            let (mut normal, gradient) = normal_equations(points, &parameters);
            for (k, row) in normal.iter_mut().enumerate() {
                row[k] *= 1.0 + damping;
            }
            let step = scaled_solve(&normal, &gradient).ok_or_else(singular)?;
            let moved: Vec<f64> = parameters.iter().zip(&step).map(|(p, s)| p + s).collect();
            let found = squares(points, &moved);
            if found.is_finite() && found <= sum {
                let converged = sum - found <= 1e-14 * sum;
                (parameters, sum, damping) = (moved, found, damping * 0.3);
                if converged {
                    break;
                }
            } else {
                damping *= 10.0;
                if damping > 1e12 {
                    break;
                }
            }
        }
        let freedom = points.len() - 3;
        let variance = sum / freedom as f64;
        let (normal, _) = normal_equations(points, &parameters);
        let mut covariance = scaled_inverse(&normal).ok_or_else(singular)?;
        for entry in covariance.iter_mut().flatten() {
            *entry *= variance;
        }
        let estimated = |k: usize| Estimated {
            value: parameters[k],
            error: covariance[k][k].max(0.0).sqrt(),
        };
        let law = Scalability {
            rate: estimated(0),
            contention: estimated(1),
            coherency: estimated(2),
            residual: variance.sqrt(),
            freedom: freedom as u32,
            covariance,
        };
        match law.rate.error < law.rate.value {
            true => Ok(law),
            false => Err(singular()),
        }
    }

    /// Returns the throughput of a number of users.
    pub fn throughput(&self, users: f64) -> PerSecond {
        PerSecond(law(&self.parameters(), users))
    }

    /// Returns the standard error of [`Scalability::throughput`], by the delta method. It is the error of the law, not
    /// of a measurement.
    pub fn error(&self, users: f64) -> PerSecond {
        let slopes = slopes(&self.parameters(), users);
        let mut variance = 0.0;
        for (row, one) in self.covariance.iter().zip(slopes) {
            for (entry, other) in row.iter().zip(slopes) {
                variance += one * entry * other;
            }
        }
        PerSecond(variance.max(0.0).sqrt())
    }

    /// The number of users at which the throughput is highest; `None` if the throughput never falls.
    pub fn peak(&self) -> Option<f64> {
        let (contention, coherency) = (self.contention.value, self.coherency.value);
        (coherency > 0.0 && contention < 1.0).then(|| ((1.0 - contention) / coherency).sqrt())
    }

    fn parameters(&self) -> [f64; 3] {
        [self.rate.value, self.contention.value, self.coherency.value]
    }
}

fn singular() -> ModelError {
    ModelError::NotIdentified(
        "the loads do not separate the parameters of the scalability law; measure loads that are \
         further apart"
            .to_owned(),
    )
}

fn denominator(parameters: &[f64], n: f64) -> f64 {
    1.0 + parameters[1] * (n - 1.0) + parameters[2] * n * (n - 1.0)
}

fn law(parameters: &[f64], n: f64) -> f64 {
    parameters[0] * n / denominator(parameters, n)
}

/// Returns the derivatives of the law by λ, σ and κ.
fn slopes(parameters: &[f64], n: f64) -> [f64; 3] {
    let d = denominator(parameters, n);
    let common = -parameters[0] * n / (d * d);
    [n / d, common * (n - 1.0), common * n * (n - 1.0)]
}

/// Returns the linear form: N/X = a + b (N-1) + c N (N-1), with weights that make deviations relative.
fn start(points: &[(u32, PerSecond)]) -> Option<Vec<f64>> {
    let mut normal = vec![vec![0.0; 3]; 3];
    let mut right = vec![0.0; 3];
    for (users, rate) in points {
        let n = f64::from(*users);
        let weight = rate.0 / n;
        let row = [1.0, n - 1.0, n * (n - 1.0)].map(|x| x * weight);
        for (k, &one) in row.iter().enumerate() {
            right[k] += one;
            for (entry, other) in normal[k].iter_mut().zip(row) {
                *entry += one * other;
            }
        }
    }
    let solution = scaled_solve(&normal, &right)?;
    let [a, b, c] = solution[..] else { return None };
    (a > 0.0).then(|| vec![1.0 / a, b / a, c / a])
}

/// Returns the sum of squared relative deviations.
fn squares(points: &[(u32, PerSecond)], parameters: &[f64]) -> f64 {
    let deviations = points
        .iter()
        .map(|(users, rate)| 1.0 - law(parameters, f64::from(*users)) / rate.0);
    deviations.map(|deviation| deviation * deviation).sum()
}

fn normal_equations(points: &[(u32, PerSecond)], parameters: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let mut normal = vec![vec![0.0; 3]; 3];
    let mut gradient = vec![0.0; 3];
    for (users, rate) in points {
        let n = f64::from(*users);
        let row = slopes(parameters, n).map(|slope| slope / rate.0);
        let deviation = 1.0 - law(parameters, n) / rate.0;
        for (k, &one) in row.iter().enumerate() {
            gradient[k] += one * deviation;
            for (entry, other) in normal[k].iter_mut().zip(row) {
                *entry += one * other;
            }
        }
    }
    (normal, gradient)
}

/// Returns the square roots of a matrix's diagonal, which scale its rows. λ, σ and κ differ by orders of magnitude, so
/// a pivot must be compared with the scale of its row.
fn scales(matrix: &[Vec<f64>]) -> Option<Vec<f64>> {
    let scales: Vec<f64> = (0..matrix.len()).map(|k| matrix[k][k].sqrt()).collect();
    scales
        .iter()
        .all(|scale| *scale > 0.0 && scale.is_finite())
        .then_some(scales)
}

fn scaled(matrix: &[Vec<f64>], scales: &[f64]) -> Vec<Vec<f64>> {
    let rows = matrix.iter().zip(scales);
    rows.map(|(row, one)| {
        row.iter()
            .zip(scales)
            .map(|(x, other)| x / (one * other))
            .collect()
    })
    .collect()
}

fn scaled_solve(matrix: &[Vec<f64>], right: &[f64]) -> Option<Vec<f64>> {
    let scales = scales(matrix)?;
    let right = right
        .iter()
        .zip(&scales)
        .map(|(x, scale)| x / scale)
        .collect();
    let solution = linear::solve(scaled(matrix, &scales), right)?;
    Some(
        solution
            .iter()
            .zip(&scales)
            .map(|(x, scale)| x / scale)
            .collect(),
    )
}

fn scaled_inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let scales = scales(matrix)?;
    Some(scaled(&linear::inverse(&scaled(matrix, &scales))?, &scales))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_model::Seed;

    fn points(parameters: [f64; 3], loads: &[u32], noise: f64) -> Vec<(u32, PerSecond)> {
        let seed = Seed(7).stream("noise");
        let each = loads.iter().enumerate();
        each.map(|(k, &n)| {
            let factor = 1.0 + noise * (2.0 * seed.uniform(k as u64) - 1.0);
            (n, PerSecond(law(&parameters, f64::from(n)) * factor))
        })
        .collect()
    }

    const LOADS: [u32; 10] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64];

    #[test]
    fn exact_data_return_their_parameters() {
        let fitted = Scalability::fit(&points([95.0, 0.027, 0.0011], &LOADS, 0.0)).unwrap();
        assert!((fitted.rate.value - 95.0).abs() < 1e-6);
        assert!((fitted.contention.value - 0.027).abs() < 1e-8);
        assert!((fitted.coherency.value - 0.0011).abs() < 1e-9);
        let peak = fitted.peak().unwrap();
        assert!((peak - ((1.0 - 0.027f64) / 0.0011).sqrt()).abs() < 1e-4);
        assert!(fitted.residual < 1e-9);
    }

    #[test]
    fn noisy_data_return_them_within_their_errors() {
        let fitted = Scalability::fit(&points([95.0, 0.05, 0.002], &LOADS, 0.04)).unwrap();
        for (found, truth) in [
            (fitted.rate, 95.0),
            (fitted.contention, 0.05),
            (fitted.coherency, 0.002),
        ] {
            // Student's t with 7 degrees of freedom: 3.5 is exceeded in 1 of 100.
            assert!((found.value - truth).abs() < 3.5 * found.error, "{found:?}");
            assert!(found.error > 0.0);
        }
        assert!(fitted.error(64.0).0 > 0.0);
        assert!(
            fitted.error(400.0).0 / fitted.throughput(400.0).0
                > fitted.error(16.0).0 / fitted.throughput(16.0).0
        );
    }

    #[test]
    fn three_loads_do_not_identify_the_law() {
        let few = points([95.0, 0.02, 0.001], &[1, 8, 8, 32, 32], 0.01);
        assert!(matches!(
            Scalability::fit(&few),
            Err(ModelError::NotIdentified(_))
        ));
    }
}
