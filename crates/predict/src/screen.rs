//! A prediction as text: the answer first, the table, and what it rests on.

use std::fmt::Write as _;

use crate::law::Law;
use crate::prediction::{Compared, Figure, Prediction, Row};

/// The text of a prediction.
pub fn render(prediction: &Prediction) -> String {
    let mut text = String::new();
    // A String never fails to grow.
    let _ = write_all(&mut text, prediction);
    text
}

fn write_all(text: &mut String, prediction: &Prediction) -> std::fmt::Result {
    writeln!(text, "{}, {}", prediction.series, prediction.scenario)?;
    if let Some(effect) = &prediction.effect {
        writeln!(
            text,
            "{} at {} users: throughput {}, mean latency {}",
            prediction.scenario,
            effect.users,
            percent(effect.throughput_share),
            percent(effect.mean_share)
        )?;
    }
    if let Some(best) = most(&prediction.rows) {
        let until = match best.saturated {
            true => format!("the {} is saturated", best.bottleneck),
            false => format!(
                "no station is saturated; the {} is the busiest",
                best.bottleneck
            ),
        };
        writeln!(
            text,
            "highest throughput {} exchanges/s at {} users: {until}; queueing from {:.0} users on",
            range(best.throughput_per_s),
            best.users,
            prediction.crossing_users
        )?;
    }
    writeln!(text)?;
    table(text, prediction)?;
    writeln!(text)?;
    writeln!(
        text,
        "In parentheses: 90 % prediction intervals. f fitted, x extrapolated beyond the fitted loads; errors are \
         predicted over measured minus 1, ! outside of the interval."
    )?;
    basis(text, prediction)
}

/// The row of the highest throughput; of equal ones the first.
fn most(rows: &[Row]) -> Option<&Row> {
    let mut best: Option<&Row> = None;
    for row in rows {
        if best.is_none_or(|best| row.throughput_per_s.value > 1.001 * best.throughput_per_s.value)
        {
            best = Some(row);
        }
    }
    best
}

fn table(text: &mut String, prediction: &Prediction) -> std::fmt::Result {
    let is_compared = prediction
        .rows
        .iter()
        .any(|row| row.throughput_compared.is_some());
    let tail = format!("p{} ms", prediction.tail_percent);
    let mut lines = vec![
        [
            "users",
            "exchanges/s",
            "mean ms",
            "p50 ms",
            &tail,
            "CPU %",
            "link %",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    if is_compared {
        lines[0]
            .extend(["measured/s", "error", "mean ms", "error", &tail, "error"].map(str::to_owned));
    }
    for row in &prediction.rows {
        let mark = match (row.fitted, row.extrapolated) {
            (true, _) => " f",
            (false, true) => " x",
            (false, false) => "  ",
        };
        let mut line = vec![
            format!("{}{mark}", row.users),
            range(row.throughput_per_s),
            range(row.mean_ms),
            range(row.p50_ms),
            range(row.tail_ms),
            format!("{:.0}", 100.0 * row.processor_share),
            row.link_share
                .map_or_else(String::new, |share| format!("{:.0}", 100.0 * share)),
        ];
        for compared in [
            &row.throughput_compared,
            &row.mean_compared,
            &row.tail_compared,
        ] {
            line.extend(columns(compared.as_ref()));
        }
        line.truncate(lines[0].len());
        lines.push(line);
    }
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for line in &lines {
        let fields = line
            .iter()
            .zip(&widths)
            .map(|(field, width)| format!("{field:>width$}"));
        writeln!(text, "{}", fields.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn columns(compared: Option<&Compared>) -> [String; 2] {
    match compared {
        None => [String::new(), String::new()],
        Some(compared) => [
            digits(compared.measured),
            format!(
                "{:+.0} %{}",
                100.0 * compared.error_share,
                if compared.within { " " } else { "!" }
            ),
        ],
    }
}

/// The model and its check.
fn basis(text: &mut String, prediction: &Prediction) -> std::fmt::Result {
    let users: Vec<String> = prediction.fitted_users.iter().map(u32::to_string).collect();
    writeln!(
        text,
        "Model: closed network of a delay of {} ms, the link, and {:.2} cores; think time {} ms. {}",
        digits(prediction.delay_ms),
        prediction.cores,
        digits(prediction.think_ms),
        law(&prediction.law)
    )?;
    writeln!(
        text,
        "Fitted to {} readings at {} users. Residuals (accepted): processor time {}, throughput {}, mean latency {}.",
        prediction.fitted_readings,
        users.join(", "),
        residual(prediction.residual_busy),
        residual(prediction.residual_throughput),
        residual(prediction.residual_mean)
    )?;
    if prediction.other_laws > 0 {
        writeln!(
            text,
            "{} more complex or less close laws of the processor time fit too; the intervals contain them.",
            prediction.other_laws
        )?;
    }
    for reason in &prediction.rejected {
        writeln!(text, "Rejected: {reason}.")?;
    }
    for note in &prediction.notes {
        writeln!(text, "Note: {note}.")?;
    }
    Ok(())
}

fn law(law: &Law) -> String {
    match law {
        Law::Constant { demand_s } => format!(
            "Processor time per exchange: {} us.",
            digits(1e6 * demand_s)
        ),
        Law::WakeUps {
            demand_s,
            wake_up_s,
            background_cores,
        } => format!(
            "Processor time: {} us per exchange among many, {} us more for one alone, and {:.4} cores in idle time.",
            digits(1e6 * demand_s),
            digits(1e6 * wake_up_s),
            background_cores
        ),
    }
}

fn residual([found, limit]: [f64; 2]) -> String {
    format!("{:.1} % ({:.1} %)", 100.0 * found, 100.0 * limit)
}

/// `+61 % (+54 to +68)`
fn percent(share: Figure) -> String {
    format!(
        "{:+.0} % ({:+.0} to {:+.0})",
        100.0 * share.value,
        100.0 * share.low,
        100.0 * share.high
    )
}

/// `12.3 (11.8 to 13.1)`
fn range(figure: Figure) -> String {
    format!(
        "{} ({} to {})",
        digits(figure.value),
        digits(figure.low),
        digits(figure.high)
    )
}

/// Three significant digits.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}
