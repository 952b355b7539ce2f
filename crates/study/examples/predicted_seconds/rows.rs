//! Formats the tables: each retrieval, and the distribution of the errors.

use crate::input::Arguments;
use crate::retrieving::Figures;

/// A page over a path with a policy.
pub(crate) struct Row {
    pub(crate) package: String,
    pub(crate) page: String,
    pub(crate) path: String,
    pub(crate) policy: String,
    pub(crate) measured: Result<Figures, String>,
    pub(crate) predicted: Result<(Figures, String), String>,
}

impl Row {
    /// Returns the relative errors of the time and of the packets.
    pub(crate) fn errors(&self) -> Option<(f64, f64)> {
        let (Ok(measured), Ok((predicted, _))) = (&self.measured, &self.predicted) else {
            return None;
        };
        let packets = |figures: &Figures| (figures.up + figures.down) as f64;
        Some((
            predicted.seconds / measured.seconds - 1.0,
            packets(predicted) / packets(measured) - 1.0,
        ))
    }

    pub(crate) fn csv(&self) -> String {
        let (measured, why) = match &self.measured {
            Ok(one) => (
                format!("{:.6},{},{}", one.seconds, one.up, one.down),
                String::new(),
            ),
            Err(error) => (",,".to_owned(), error.clone()),
        };
        let (predicted, remarks) = match &self.predicted {
            Ok((one, remarks)) => (
                format!("{:.6},{},{}", one.seconds, one.up, one.down),
                remarks.clone(),
            ),
            Err(error) => (",,".to_owned(), error.clone()),
        };
        let (time, packets) = self
            .errors()
            .map_or((String::new(), String::new()), |(time, packets)| {
                (format!("{time:.5}"), format!("{packets:.5}"))
            });
        format!(
            "{},{},{},{},{measured},{predicted},{time},{packets},{},{}",
            self.package,
            self.page,
            self.path,
            self.policy,
            remarks.replace(',', ";"),
            why.replace([',', '\n'], ";")
        )
    }
}

pub(crate) const COLUMNS: &str = "package,page,path,policy,measured_s,measured_up,measured_down,predicted_s,predicted_up,\
                       predicted_down,error,packets_error,extrapolates,invalid";

/// Formats the distribution of the errors of some rows as a line.
pub(crate) fn distribution(name: &str, rows: &[&Row]) -> String {
    let errors: Vec<(f64, f64)> = rows.iter().filter_map(|row| row.errors()).collect();
    let (times, packets): (Vec<f64>, Vec<f64>) = errors.iter().copied().unzip();
    let bias = times.iter().sum::<f64>() / times.len().max(1) as f64;
    format!(
        "{name},{},{:.4},{:.4},{:.4},{bias:.4},{:.4},{:.4}",
        errors.len(),
        quantile(&times, 0.5),
        quantile(&times, 0.9),
        quantile(&times, 1.0),
        quantile(&packets, 0.5),
        quantile(&packets, 0.9),
    )
}

/// Returns a quantile of the absolute errors: the smallest error that this share of the errors does not exceed.
fn quantile(errors: &[f64], share: f64) -> f64 {
    let mut sorted: Vec<f64> = errors.iter().copied().map(f64::abs).collect();
    sorted.sort_by(f64::total_cmp);
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(place.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

pub(crate) fn summary(rows: &[Row], arguments: &Arguments) -> String {
    let mut text = String::from(
        "retrievals,n,time_median,time_p90,time_worst,time_bias,packets_median,packets_p90\n",
    );
    for path in &arguments.paths {
        for policy in &arguments.policies {
            let cell: Vec<&Row> = rows
                .iter()
                .filter(|row| row.path == *path && row.policy == *policy)
                .collect();
            text.push_str(&distribution(&format!("{path} {policy}"), &cell));
            text.push('\n');
        }
    }
    let all: Vec<&Row> = rows.iter().collect();
    text.push_str(&distribution("all", &all));
    text.push('\n');
    text
}
