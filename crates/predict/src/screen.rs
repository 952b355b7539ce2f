//! A prediction as text: first the answer, then the table, the model and its check. Elasticities as text: the table.

use std::fmt::Write as _;

use fathometer_analysis::statistics::{Estimate, Interval};
use fathometer_model::Bytes;
use fathometer_queueing::limited::WORKERS;

use crate::elasticities::Elasticities;
use crate::law::{Law, MeasuredDemand};
use crate::prediction::{Compared, Figure, Prediction, Row, WorkersModel};
use crate::scalability::{Parameter, ScalabilityPrediction};
use crate::series::Series;

/// Returns the text of a prediction.
pub fn render(prediction: &Prediction) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_all(&mut text, prediction);
    text
}

/// Returns the measurements of a series that no network fits, as text.
pub fn measured(series: &Series) -> String {
    let mut text = format!(
        "{}, as measured\n{:>7}  {:>12}  {:>8}  {:>15}\n",
        series.name, "users", "exchanges/s", "mean ms", "CPU us/exchange"
    );
    for load in series.measured() {
        let busy = load.mean(|reading| reading.busy);
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{:>7}  {:>12}  {:>8}  {:>15}",
            load.users,
            digits(load.throughput().0),
            match load.has_all_latencies {
                true => digits(load.response().ms()),
                false => String::new(),
            },
            match series.has_processor_time {
                true => digits(1e6 * busy / load.throughput().0),
                false => String::new(),
            }
        );
    }
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
        writeln!(
            text,
            "highest throughput {} exchanges/s at {} users: {}; queueing from {:.0} users on",
            range(best.throughput_per_s),
            best.users,
            limit(prediction, best),
            prediction.crossing_users
        )?;
    }
    let shortage = prediction
        .workers
        .and_then(|workers| shortage(&workers, &prediction.rows));
    if let Some(sentence) = shortage {
        writeln!(text, "{sentence}")?;
    }
    writeln!(text)?;
    table(text, prediction)?;
    writeln!(text)?;
    writeln!(
        text,
        "In parentheses: 90 % prediction intervals. f fitted, {}x extrapolated beyond the fitted loads; errors are \
         predicted over measured minus 1, ! outside of the interval.",
        match prediction.burst_users.is_empty() {
            true => "",
            false => "b burst (only its CPU time was used), ",
        }
    )?;
    basis(text, prediction)
}

/// Returns a phrase that names the limit of the throughput of a row.
fn limit(prediction: &Prediction, row: &Row) -> String {
    match (row.bottleneck == WORKERS, row.saturated, prediction.workers) {
        (true, true, Some(workers)) => format!(
            "all {} workers are busy, and the processor is at {:.0} %",
            workers.count,
            100.0 * row.processor_share
        ),
        (true, false, _) => "no station is saturated; the workers are the busiest".to_owned(),
        (_, true, _) => format!("the {} is saturated", row.bottleneck),
        (_, false, _) => format!(
            "no station is saturated; the {} is the busiest",
            row.bottleneck
        ),
    }
}

/// Returns a sentence about connections without a worker: the number of users from which the accept queue overflows or
/// clients give up, and the share of errors.
fn shortage(workers: &WorkersModel, rows: &[Row]) -> Option<String> {
    let errors = |row: &Row| row.workers.map_or(0.0, |workers| workers.errors_share);
    let overflows = |row: &&Row| {
        row.workers
            .is_some_and(|workers| workers.overflows_per_exchange > 0.0)
    };
    let share = |row: &Row| format!("{} % at {} users", digits(100.0 * errors(row)), row.users);
    let fails = |row: &&Row| errors(row) > 0.0;
    let worst = rows
        .iter()
        .filter(fails)
        .max_by(|one, other| errors(one).total_cmp(&errors(other)));
    let failures = match (rows.iter().find(fails), worst) {
        (Some(first), Some(worst)) if worst.users != first.users => {
            Some(format!("{}, {}", share(first), share(worst)))
        }
        (Some(first), _) => Some(share(first)),
        (None, _) => None,
    };
    Some(match (rows.iter().find(overflows), failures) {
        (Some(first), Some(failures)) => format!(
            "the accept queue of {} overflows from {} users on; exchanges that fail: {failures}",
            workers.backlog, first.users
        ),
        (Some(first), None) => format!(
            "the accept queue of {} overflows from {} users on: connections are retried, after 1 s if their SYN is dropped",
            workers.backlog, first.users
        ),
        (None, Some(failures)) => {
            format!("clients give up before they have a response: {failures}")
        }
        (None, None) => return None,
    })
}

/// Returns the row with the highest throughput; the first of several rows with about the same throughput.
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
    let has_disk = prediction.rows.iter().any(|row| row.disk_share.is_some());
    let has_workers = shows_workers(prediction);
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
    if has_disk {
        lines[0].push("disk %".to_owned());
    }
    if has_workers {
        lines[0].extend(["workers %", "errors %"].map(str::to_owned));
    }
    if is_compared {
        lines[0]
            .extend(["measured/s", "error", "mean ms", "error", &tail, "error"].map(str::to_owned));
    }
    for row in &prediction.rows {
        let mark = match (row.fitted, row.burst, row.extrapolated) {
            (true, _, _) => " f",
            (_, true, _) => " b",
            (_, _, true) => " x",
            _ => "  ",
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
        if has_disk {
            let share = row.disk_share.map(|share| format!("{:.0}", 100.0 * share));
            line.push(share.unwrap_or_default());
        }
        if has_workers {
            line.extend(worker_columns(row));
        }
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
    write_aligned(text, &lines)
}

/// Writes lines with the same number of fields, aligned on the right. There must be at least one line.
fn write_aligned(text: &mut String, lines: &[Vec<String>]) -> std::fmt::Result {
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for line in lines {
        let fields = line
            .iter()
            .zip(&widths)
            .map(|(field, width)| format!("{field:>width$}"));
        writeln!(text, "{}", fields.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Returns a prediction by the scalability law, as text.
pub fn scalability(prediction: &ScalabilityPrediction) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_scalability(&mut text, prediction);
    text
}

fn write_scalability(text: &mut String, prediction: &ScalabilityPrediction) -> std::fmt::Result {
    writeln!(text, "{}, Universal Scalability Law", prediction.series)?;
    match prediction.peak_users {
        Some(users) => writeln!(text, "the throughput is highest at {users:.0} users\n")?,
        None => writeln!(text, "the throughput never falls with more users\n")?,
    }
    let header = [
        "users",
        "exchanges/s",
        "mean ms",
        "measured/s",
        "error",
        "mean ms",
        "error",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for row in &prediction.rows {
        let mark = match (row.fitted, row.extrapolated) {
            (true, _) => " f",
            (_, true) => " x",
            _ => "  ",
        };
        let mut line = vec![
            format!("{}{mark}", row.users),
            range(row.throughput_per_s),
            range(row.mean_ms),
        ];
        for compared in [&row.throughput_compared, &row.mean_compared] {
            line.extend(columns(compared.as_ref()));
        }
        lines.push(line);
    }
    write_aligned(text, &lines)?;
    let parameter = |parameter: Parameter| {
        format!(
            "{} (standard error {})",
            digits(parameter.value),
            digits(parameter.error)
        )
    };
    writeln!(
        text,
        "\nIn parentheses: 90 % prediction intervals. f fitted, x extrapolated beyond the fitted loads; errors are predicted \
         over measured minus 1, ! outside of the interval."
    )?;
    writeln!(
        text,
        "Model: {} exchanges/s of one user, contention {} %, coherency {} %; think time {} ms. Fitted to {} readings at {} \
         users. Residual (accepted): throughput {}.",
        parameter(prediction.rate_per_s),
        parameter(percent_of(prediction.contention)),
        parameter(percent_of(prediction.coherency)),
        digits(prediction.think_ms),
        prediction.fitted_readings,
        users(&prediction.fitted_users),
        residual(prediction.residual_throughput)
    )?;
    for note in &prediction.notes {
        writeln!(text, "Note: {note}.")?;
    }
    Ok(())
}

/// Returns a share as a percentage.
fn percent_of(share: Parameter) -> Parameter {
    Parameter {
        value: 100.0 * share.value,
        error: 100.0 * share.error,
    }
}

/// Returns the predicted and the measured elasticities of a series, as text.
pub fn elasticities(found: &Elasticities) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_elasticities(&mut text, found);
    text
}

fn write_elasticities(text: &mut String, found: &Elasticities) -> std::fmt::Result {
    writeln!(
        text,
        "{}: elasticities at {} users, predicted and measured by fathometer bottleneck",
        found.series, found.users
    )?;
    writeln!(text, "measured: {}\n", found.measured_setup)?;
    let header = [
        "limit",
        "step",
        "throughput",
        "measured",
        "mean latency",
        "measured",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for step in &found.steps {
        let predicted = |figure: Option<Figure>, measured: Estimate| match figure {
            None => "-".to_owned(),
            Some(figure) => {
                let interval = Interval {
                    low: figure.low,
                    high: figure.high,
                };
                let mark = match measured.interval {
                    Some(measured) if !overlap(interval, measured) => "!",
                    _ => "",
                };
                format!("{}{mark}", elasticity(figure.value, Some(interval)))
            }
        };
        let measured = |figure: Estimate| elasticity(figure.value, figure.interval);
        lines.push(vec![
            step.resource.name().to_owned(),
            format!("{}x", digits(step.factor)),
            predicted(step.throughput, step.throughput_measured),
            measured(step.throughput_measured),
            predicted(step.mean, step.mean_measured),
            measured(step.mean_measured),
        ]);
    }
    write_aligned(text, &lines)?;
    writeln!(
        text,
        "\nElasticity to relief: the change in percent when the limit is relieved by one percent. In parentheses: the 90 % \
         interval of the model, and the 95 % interval of the measurement; ! they do not overlap."
    )?;
    if found.has_other_quota {
        writeln!(
            text,
            "Note: predicted for the quota of the measurement, {:.2} cores; the model was fitted at another quota.",
            found.cores
        )?;
    }
    for step in &found.steps {
        if let Some(reason) = &step.not_predicted {
            writeln!(
                text,
                "Note: {} is not predicted: {reason}.",
                step.resource.name()
            )?;
        }
    }
    Ok(())
}

fn overlap(one: Interval, other: Interval) -> bool {
    one.low <= other.high && other.low <= one.high
}

/// `0.93 (0.90 to 0.96)`
fn elasticity(value: f64, interval: Option<Interval>) -> String {
    // Removes the sign of a negative zero.
    let rounded = |value: f64| format!("{:.2}", (100.0 * value).round() / 100.0 + 0.0);
    match interval {
        None => rounded(value),
        Some(Interval { low, high }) => {
            format!("{} ({} to {})", rounded(value), rounded(low), rounded(high))
        }
    }
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

/// Whether the workers have an effect at one of the loads.
fn shows_workers(prediction: &Prediction) -> bool {
    let mut rows = prediction.rows.iter().filter_map(|row| row.workers);
    rows.any(|workers| workers.busy_share >= SHOWN)
}

/// Workers are shown if their busy share is at least this at one of the loads.
const SHOWN: f64 = 0.05;

/// Returns two columns: the busy share of the workers, and the share of errors from a full accept queue with the
/// measured share.
fn worker_columns(row: &Row) -> [String; 2] {
    let Some(workers) = row.workers else {
        return [String::new(), String::new()];
    };
    let errors = digits(100.0 * workers.errors_share);
    [
        format!("{:.0}", 100.0 * workers.busy_share),
        match workers.errors_measured_share {
            Some(measured) => format!("{errors} (measured {})", digits(100.0 * measured)),
            None => errors,
        },
    ]
}

/// Returns the model and its check.
fn basis(text: &mut String, prediction: &Prediction) -> std::fmt::Result {
    writeln!(
        text,
        "Model: closed network of a delay of {} ms, the link, and {:.2} cores; think time {} ms. {}",
        digits(prediction.delay_ms),
        prediction.cores,
        digits(prediction.think_ms),
        law(&prediction.law)
    )?;
    if let Some(cache) = prediction.page_cache {
        writeln!(
            text,
            "Page cache: {}, which holds the files of {:.0} % of the requests (LRU); {} reads from disk and {} ms at the disk per exchange.",
            Bytes(cache.bytes),
            100.0 * cache.hits_share,
            digits(cache.reads_per_exchange),
            digits(cache.disk_ms)
        )?;
    }
    if let Some(workers) = prediction.workers.filter(|_| shows_workers(prediction)) {
        writeln!(
            text,
            "Workers: {}, each held for {} ms without queueing; an accept queue of {}; {}.",
            workers.count,
            digits(workers.held_ms),
            workers.backlog,
            match workers.timeout_s {
                Some(seconds) => format!("clients give up after {seconds} s"),
                None => "clients do not give up".to_owned(),
            }
        )?;
    }
    writeln!(
        text,
        "Fitted to {} readings at {} users{}{}. Residuals (accepted): CPU time {}, throughput {}, mean latency {}.",
        prediction.fitted_readings,
        users(&prediction.fitted_users),
        match prediction.burst_users.as_slice() {
            [] => String::new(),
            bursts => format!(", and the CPU time of bursts of {} users", users(bursts)),
        },
        match prediction.batch_sizes.as_slice() {
            [] => String::new(),
            sizes => format!(
                ", and the CPU time of the further exchanges in batches of {}",
                users(sizes)
            ),
        },
        residual(prediction.residual_busy),
        residual(prediction.residual_throughput),
        residual(prediction.residual_mean)
    )?;
    if prediction.other_laws > 0 {
        writeln!(
            text,
            "{} other laws of the CPU time also pass the check; the intervals include them.",
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

fn users(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    texts.join(", ")
}

fn law(law: &Law) -> String {
    match law {
        Law::Constant { demand_s } => {
            format!("CPU time per exchange: {} us.", digits(1e6 * demand_s))
        }
        Law::WakeUps {
            demand_s,
            wake_up_s,
            background_cores,
        } => format!(
            "CPU time: {} us per exchange among many, {} us more for a single exchange, and {:.4} cores in idle time.",
            digits(1e6 * demand_s),
            digits(1e6 * wake_up_s),
            background_cores
        ),
        Law::Interpolated { points } => {
            let at = |point: &MeasuredDemand| {
                format!(
                    "{} us at {}",
                    digits(1e6 * point.demand_s),
                    digits(point.queue)
                )
            };
            let each: Vec<String> = points.iter().map(at).collect();
            format!(
                "CPU time per exchange, interpolated over the exchanges at a core: {}.",
                each.join(", ")
            )
        }
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

/// Formats a number with three significant digits.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 || size == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}
