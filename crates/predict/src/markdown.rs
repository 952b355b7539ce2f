//! A Markdown table of predictions and measurements.

use std::fmt::Write as _;

use fathometer_analysis::statistics::quantile_of_sorted;

use crate::prediction::{Compared, Figure, Prediction, Row};
use crate::screen::digits;

/// Returns the table of all measured loads, and the errors for the loads that were not used for the fit.
pub fn table(predictions: &[Prediction]) -> String {
    let tail = predictions
        .first()
        .map_or(99, |prediction| prediction.tail_percent);
    let mut text = format!(
        "| series | users | exchanges/s | measured | error | mean ms | measured | error | p{tail} ms | measured | error |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for prediction in predictions {
        for row in &prediction.rows {
            line(&mut text, &prediction.series, row);
        }
    }
    text.push('\n');
    for (what, of) in FIGURES {
        let rows = predictions.iter().flat_map(|prediction| &prediction.rows);
        // A burst does not test the model, because its CPU time was fitted.
        let predicted = rows
            .filter(|row| !row.fitted && !row.burst)
            .filter_map(of)
            .collect::<Vec<Compared>>();
        // Writing to a String does not fail.
        let _ = writeln!(text, "- {}", errors(what, &predicted, tail));
    }
    text
}

type Pick = fn(&Row) -> Option<Compared>;

const FIGURES: [(&str, Pick); 3] = [
    ("throughput", |row| row.throughput_compared),
    ("mean latency", |row| row.mean_compared),
    ("tail latency", |row| row.tail_compared),
];

fn line(text: &mut String, series: &str, row: &Row) {
    let Some(rate) = row.throughput_compared else {
        return;
    };
    let mark = match (row.fitted, row.burst) {
        (true, _) => " (fitted)",
        (_, true) => " (burst)",
        _ => "",
    };
    let _ = write!(text, "| {series} | {}{mark} |", row.users);
    let cells = [
        (row.throughput_per_s, Some(rate)),
        (row.mean_ms, row.mean_compared),
        (row.tail_ms, row.tail_compared),
    ];
    for (figure, compared) in cells {
        text.push_str(&fields(figure, compared));
    }
    text.push('\n');
}

/// Returns the prediction with its interval, the measured mean, and the error; bold if the mean is outside the
/// interval.
fn fields(figure: Figure, compared: Option<Compared>) -> String {
    let (measured, error) = match compared {
        None => (String::new(), String::new()),
        Some(compared) => {
            let error = format!("{:+.0} %", 100.0 * compared.error_share);
            let error = if compared.within {
                error
            } else {
                format!("**{error}**")
            };
            (digits(compared.measured), error)
        }
    };
    format!(
        " {} ({} to {}) | {measured} | {error} |",
        digits(figure.value),
        digits(figure.low),
        digits(figure.high)
    )
}

/// Returns the median and the largest error, and the number of measured means within their interval.
fn errors(what: &str, predicted: &[Compared], tail: u32) -> String {
    let what = match what {
        "tail latency" => format!("p{tail}"),
        _ => what.to_owned(),
    };
    let mut sizes: Vec<f64> = predicted
        .iter()
        .map(|compared| compared.error_share.abs())
        .collect();
    sizes.sort_by(f64::total_cmp);
    let Some(worst) = sizes.last() else {
        return format!("{what}: no measured load to compare; all are fitted loads or bursts");
    };
    let median = quantile_of_sorted(&sizes, 0.5);
    format!(
        "{what} of {} loads (without fitted loads and bursts): median error {:.0} %, largest {:.0} %; {} within the interval",
        sizes.len(),
        100.0 * median,
        100.0 * worst,
        predicted.iter().filter(|compared| compared.within).count()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(share: f64) -> Compared {
        Compared {
            measured: 100.0,
            error_share: share,
            within: true,
        }
    }

    #[test]
    fn the_median_of_an_even_number_of_errors_is_the_mean_of_the_middle_two() {
        let text = errors("throughput", &[0.1, -0.2, 0.0, 0.4].map(error), 99);
        assert!(text.contains("of 4 loads"), "{text}");
        assert!(text.contains("median error 15 %, largest 40 %"), "{text}");
        assert!(errors("throughput", &[], 99).contains("no measured load to compare"));
    }
}
