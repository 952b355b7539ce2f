//! How the processor time of an exchange depends on the throughput.
//!
//! The utilisation law gives the demand: busy cores over throughput (Lazowska and others, "Quantitative System
//! Performance", 1984, 3.3). It often falls with the load, because one wake-up then serves several requests.

use serde::Serialize;

use fathometer_queueing::{PerSecond, Seconds};

use crate::series::{Load, pooled_deviation};

/// A law with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "law")]
pub enum Law {
    /// Each exchange needs the same.
    Constant {
        /// Processor time of an exchange.
        demand_s: f64,
    },
    /// Work that does not depend on the load, and the same for each exchange.
    Background {
        /// Cores that are busy without load.
        background_cores: f64,
        /// Processor time of an exchange beyond it.
        demand_s: f64,
    },
    /// Busy cores grow as a power of the throughput.
    Power {
        /// Cores that are busy at one exchange per second.
        cores: f64,
        /// The exponent; below 1 when exchanges share work under load.
        exponent: f64,
    },
}

/// The kinds of laws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LawKind {
    /// [`Law::Constant`].
    Constant,
    /// [`Law::Background`].
    Background,
    /// [`Law::Power`].
    Power,
}

impl LawKind {
    /// All of them, the simplest first.
    pub const ALL: [LawKind; 3] = [LawKind::Constant, LawKind::Background, LawKind::Power];

    /// The number of its parameters.
    pub fn parameters(self) -> usize {
        match self {
            LawKind::Constant => 1,
            LawKind::Background | LawKind::Power => 2,
        }
    }

    /// Its name in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            LawKind::Constant => "constant processor time per exchange",
            LawKind::Background => "constant processor time per exchange and a constant background",
            LawKind::Power => "processor time as a power of the throughput",
        }
    }

    /// The law that is closest to the readings, in relative deviations; `None` when they do not determine it or its
    /// parameters make no sense.
    pub fn fit(self, loads: &[Load]) -> Option<Law> {
        if loads.len() < self.parameters() {
            return None;
        }
        let readings = loads.iter().flat_map(|load| &load.readings);
        let points: Vec<(f64, f64)> = readings.map(|r| (r.throughput.0, r.busy)).collect();
        let sum =
            |term: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(x, u)| term(x, u)).sum::<f64>();
        let n = points.len() as f64;
        match self {
            LawKind::Constant => {
                let demand_s = sum(&|x, u| x / u) / sum(&|x, u| (x / u) * (x / u));
                Some(Law::Constant { demand_s })
            }
            LawKind::Background => {
                // Least squares of 1 = b/u + D x/u.
                let (bb, bd, dd) = (
                    sum(&|_, u| 1.0 / (u * u)),
                    sum(&|x, u| x / (u * u)),
                    sum(&|x, u| x * x / (u * u)),
                );
                let (b, d) = (sum(&|_, u| 1.0 / u), sum(&|x, u| x / u));
                let determinant = bb * dd - bd * bd;
                let background_cores = (b * dd - d * bd) / determinant;
                let demand_s = (d * bb - b * bd) / determinant;
                (background_cores >= 0.0 && demand_s > 0.0).then_some(Law::Background {
                    background_cores,
                    demand_s,
                })
            }
            LawKind::Power => {
                let (x, u) = (sum(&|x, _| x.ln()) / n, sum(&|_, u| u.ln()) / n);
                let slope =
                    sum(&|a, b| (a.ln() - x) * (b.ln() - u)) / sum(&|a, _| (a.ln() - x).powi(2));
                let is_sensible = slope > 0.1 && slope < 2.0;
                is_sensible.then(|| Law::Power {
                    cores: (u - slope * x).exp(),
                    exponent: slope,
                })
            }
        }
    }
}

impl Law {
    /// Its kind.
    pub fn kind(&self) -> LawKind {
        match self {
            Law::Constant { .. } => LawKind::Constant,
            Law::Background { .. } => LawKind::Background,
            Law::Power { .. } => LawKind::Power,
        }
    }

    /// Busy cores at a throughput.
    pub fn busy(&self, rate: PerSecond) -> f64 {
        match *self {
            Law::Constant { demand_s } => rate.0 * demand_s,
            Law::Background {
                background_cores,
                demand_s,
            } => background_cores + rate.0 * demand_s,
            Law::Power { cores, exponent } => cores * rate.0.powf(exponent),
        }
    }

    /// The processor time of an exchange at a throughput.
    pub fn demand(&self, rate: PerSecond) -> Seconds {
        Seconds(self.busy(rate) / rate.0)
    }

    /// The relative deviation of the loads from the law: root mean square of their means, over the degrees of freedom;
    /// `None` when there are none.
    pub fn residual(&self, loads: &[Load]) -> Option<f64> {
        let freedom = loads.len().checked_sub(self.kind().parameters())?;
        let squares: f64 = loads
            .iter()
            .map(|load| {
                let busy = load.mean(|reading| reading.busy);
                (self.busy(load.throughput()) / busy - 1.0).powi(2)
            })
            .sum();
        (freedom > 0).then(|| (squares / freedom as f64).sqrt())
    }
}

/// A residual is accepted up to this share, or up to [`NOISE`] standard errors of the replicates.
pub(crate) const ACCEPTED: f64 = 0.05;
/// See [`ACCEPTED`].
pub(crate) const NOISE: f64 = 2.5;

/// The largest accepted residual of a figure of these loads.
pub(crate) fn limit(loads: &[Load], figure: impl Fn(&crate::series::Reading) -> f64) -> f64 {
    let readings: usize = loads.iter().map(|load| load.readings.len()).sum();
    let each = (readings as f64 / loads.len().max(1) as f64).max(1.0);
    ACCEPTED.max(NOISE * pooled_deviation(loads, figure) / each.sqrt())
}
