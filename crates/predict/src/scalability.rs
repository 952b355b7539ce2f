//! Predictions by the Universal Scalability Law ([`fathometer_queueing::scalability`]), for a series without a network: its
//! results have no CPU time of the server, or no law of the CPU time fits.
//!
//! The law describes throughput alone, by contention (as for a lock) and coherency. It has no resources, so it predicts other
//! numbers of users, but no percentiles, utilisations or changes of the server. Latency follows from the response time law,
//! R = N/X - Z.

use fathometer_analysis::statistics::distributions::student_t_quantile;
use fathometer_queueing::scalability::{Estimated, Scalability};
use fathometer_queueing::{PerSecond, Seconds};
use serde::Serialize;

use crate::PredictError;
use crate::law::limit;
use crate::prediction::{Compared, Figure, LEVEL, Options, compared};
use crate::series::{Load, Series};

/// A parameter of the law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parameter {
    /// The estimate.
    pub value: f64,
    /// The standard error.
    pub error: f64,
}

impl From<Estimated> for Parameter {
    fn from(estimated: Estimated) -> Parameter {
        Parameter {
            value: estimated.value,
            error: estimated.error,
        }
    }
}

/// The prediction for one number of users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalabilityRow {
    /// The number of users.
    pub users: u32,
    /// Whether the load was used for the fit.
    pub fitted: bool,
    /// Whether the number of users is larger than in all fitted loads.
    pub extrapolated: bool,
    /// The number of completed exchanges per second.
    pub throughput_per_s: Figure,
    /// The mean latency of completed exchanges.
    pub mean_ms: Figure,
    /// The throughput, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_compared: Option<Compared>,
    /// The mean latency, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_compared: Option<Compared>,
}

/// The predictions for a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScalabilityPrediction {
    /// The name of the series.
    pub series: String,
    /// The throughput of one user, in exchanges per second.
    pub rate_per_s: Parameter,
    /// Contention: the share of the work that is serial.
    pub contention: Parameter,
    /// Coherency: the cost per pair of users.
    pub coherency: Parameter,
    /// The number of users with the highest throughput; absent if the throughput never falls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_users: Option<f64>,
    /// The residual of the throughput and its limit, as shares.
    pub residual_throughput: [f64; 2],
    /// The think time of a user.
    pub think_ms: f64,
    /// The numbers of users of the fitted loads.
    pub fitted_users: Vec<u32>,
    /// The number of fitted replicates or results.
    pub fitted_readings: usize,
    /// The predictions by number of users.
    pub rows: Vec<ScalabilityRow>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
}

/// Predicts a series; `reason` is the reason why it has no network.
///
/// # Errors
/// When the loads do not determine the law, or deviate from it too much.
pub fn predict(
    series: &Series,
    options: &Options,
    reason: &str,
) -> Result<ScalabilityPrediction, PredictError> {
    let loads = series.fit_data(&options.fit)?.loads;
    let points: Vec<(u32, PerSecond)> = loads
        .iter()
        .flat_map(|load| {
            let readings = load.readings.iter();
            readings.map(|reading| (load.users, reading.throughput))
        })
        .collect();
    let law = Scalability::fit(&points)?;
    let residual = [
        deviation(&law, &loads),
        limit(&loads, |reading| reading.throughput.0),
    ];
    if residual[0] > residual[1] {
        return Err(PredictError::NoModel(format!(
            "the throughput deviates from the scalability law by {:.0} %; at most {:.0} % is accepted",
            100.0 * residual[0],
            100.0 * residual[1]
        )));
    }
    let pause = |load: &Load| f64::from(load.users) / load.throughput().0 - load.response().0;
    let think = loads.iter().map(pause).sum::<f64>() / loads.len() as f64;
    let context = Context {
        series,
        loads: &loads,
        law: &law,
        think: Seconds(think.max(0.0)),
    };
    let mut notes = vec![format!("no network predicts this series: {reason}")];
    notes.extend(series.notes.iter().cloned());
    Ok(ScalabilityPrediction {
        series: series.name.clone(),
        rate_per_s: law.rate.into(),
        contention: law.contention.into(),
        coherency: law.coherency.into(),
        peak_users: law.peak(),
        residual_throughput: residual,
        think_ms: context.think.ms(),
        fitted_users: loads.iter().map(|load| load.users).collect(),
        fitted_readings: points.len(),
        rows: context.rows(&options.users),
        notes,
    })
}

/// Returns the root mean square of the relative deviations of the loads' mean throughputs from the law.
fn deviation(law: &Scalability, loads: &[Load]) -> f64 {
    let squares = loads.iter().map(|load| {
        let expected = law.throughput(load.users.into()).0;
        (load.throughput().0 / expected - 1.0).powi(2)
    });
    let freedom = loads.len().saturating_sub(PARAMETERS).max(1);
    (squares.sum::<f64>() / freedom as f64).sqrt()
}

/// The number of the law's parameters.
const PARAMETERS: usize = 3;

struct Context<'a> {
    series: &'a Series,
    loads: &'a [Load],
    law: &'a Scalability,
    think: Seconds,
}

impl Context<'_> {
    /// Returns the predictions for these numbers of users; for none, the measured numbers and twice the largest. A
    /// number of users at which the law has no positive throughput is left out.
    fn rows(&self, users: &[u32]) -> Vec<ScalabilityRow> {
        let mut users = users.to_vec();
        if users.is_empty() {
            users = self.series.measured().map(|load| load.users).collect();
            users.sort_unstable();
            users.extend(users.last().map(|most| 2 * most));
        }
        users
            .into_iter()
            .filter(|&users| self.law.throughput(users.into()).0 > 0.0)
            .map(|users| self.row(users))
            .collect()
    }

    fn row(&self, users: u32) -> ScalabilityRow {
        let rate = self.law.throughput(users.into()).0;
        // The error of the law and the deviation of a reading, combined.
        let error = self
            .law
            .error(users.into())
            .0
            .hypot(self.law.residual * rate);
        let half = error * student_t_quantile(0.5 * (1.0 + LEVEL), self.law.freedom.into());
        // A throughput of almost zero has an interval of the latency that is too wide to print.
        let least = 0.01 * rate;
        let throughput = Figure {
            value: rate,
            low: (rate - half).max(least),
            high: rate + half,
        };
        let latency = |rate: f64| {
            let time = f64::from(users) / rate - self.think.0;
            Seconds(time.max(0.0)).ms()
        };
        let mean = Figure {
            value: latency(rate),
            low: latency(throughput.high),
            high: latency(throughput.low),
        };
        let load = self.series.measured().find(|load| load.users == users);
        let timed = load.filter(|load| load.has_all_latencies);
        let is_among = |load: &Load| load.users == users;
        ScalabilityRow {
            users,
            fitted: self.loads.iter().any(is_among),
            extrapolated: self.loads.iter().all(|load| load.users < users),
            throughput_per_s: throughput,
            mean_ms: mean,
            throughput_compared: load.map(|load| compared(throughput, load.throughput().0)),
            mean_compared: timed.map(|load| compared(mean, load.response().ms())),
        }
    }
}
