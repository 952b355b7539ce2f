//! `load URL --against BASELINE`: two servers, interleaved, so that the machine's drift falls out.
//!
//! The test is a sequence of rounds. A round has four short slices in the order baseline, URL, URL, baseline (ABBA), so
//! that a drift that is linear within a round cancels. A round gives one pair of samples of each metric.

use std::process::ExitCode;
use std::time::Duration;

use fathometer_analysis::compare::{Better, Comparison, Design, Metric, Scale, Side, screen};
use fathometer_analysis::load::{LoadResult, Summary};
use fathometer_analysis::statistics::Resolution;
use fathometer_load::{Limit, Options};
use fathometer_sys::{Clock, Interrupt};

use super::super::compare::{Limits, exit_code};
use super::output::Format;
use super::probes::Probes;
use super::{LoadArguments, Ready};
use crate::command::{Failure, usage};

/// Length of the measured window of a slice.
const SLICE: Duration = Duration::from_millis(400);
/// Time before it in which connections are opened and caches warm up.
const WARM_UP: Duration = Duration::from_millis(100);
/// Default length of the test.
const TIME: Duration = Duration::from_secs(40);
/// The order of the slices of a round; true is the baseline.
const ORDER: [bool; 4] = [true, false, false, true];

/// Figures of a slice.
struct Slice {
    rate: f64,
    quantiles: [f64; 4],
    errors: f64,
    generator_cpu: f64,
    server_cpu: Option<f64>,
    completed: u64,
}

/// Runs the rounds and prints the comparison.
pub fn run(arguments: &LoadArguments, baseline: &str) -> Result<ExitCode, Failure> {
    if arguments.requests.is_some() || arguments.rate.is_some() || !arguments.save.is_empty() {
        return Err(usage(
            "--against takes -c, -d, --policy, --workload and --probe: a closed loop of a given duration, \
             without --save",
        ));
    }
    if !matches!(arguments.format, Format::Screen | Format::Json) || arguments.report.is_some() {
        return Err(usage("--against prints a screen, or --json"));
    }
    let clock = Clock::start();
    let sides = [
        Ready::of(arguments, baseline, clock)?,
        Ready::of(arguments, &arguments.url, clock)?,
    ];
    let interrupt = Interrupt::install()?;
    let each = (SLICE + WARM_UP) * ORDER.len() as u32;
    let length = arguments.duration.unwrap_or(TIME);
    let rounds = (length.as_nanos() / each.as_nanos()).max(2);
    let mut pairs: Vec<[Vec<Slice>; 2]> = Vec::new();
    let mut invalid: Vec<String> = Vec::new();
    for _ in 0..rounds {
        let mut pair = [Vec::new(), Vec::new()];
        let mut fault = None;
        for is_baseline in ORDER {
            let side = &sides[usize::from(!is_baseline)];
            let options = Options {
                limit: Limit::Time(SLICE),
                warm_up: WARM_UP,
                ..side.options(arguments)
            };
            let probes = Probes::start(&arguments.probe, clock)?;
            let mut result =
                fathometer_load::run(options, clock, &|| interrupt.is_raised(), &mut |_| {})?;
            result.server = probes.map(|probes| probes.stop(&result));
            if interrupt.is_raised() {
                eprintln!("interrupted");
                return Ok(ExitCode::from(1));
            }
            match slice(&result) {
                Ok(slice) => pair[usize::from(!is_baseline)].push(slice),
                Err(reason) => fault = Some(reason),
            }
        }
        match fault {
            None => pairs.push(pair),
            Some(reason) => invalid.push(reason),
        }
    }
    let dropped = invalid.len();
    if dropped > 0 {
        eprintln!(
            "{dropped} of {rounds} rounds are INVALID and left out: {}",
            invalid[0]
        );
    }
    // A few rounds with noise are left out on both sides alike.
    if 2 * pairs.len() > dropped {
        invalid.clear();
    }
    invalid.truncate(1);
    let metrics = [metrics(&pairs, 0), metrics(&pairs, 1)];
    let [before, after] = metrics;
    let side = |name: &str, metrics, invalid| Side {
        name: name.to_owned(),
        invalid,
        metrics,
        ..Side::default()
    };
    let before = side(baseline, before, Vec::new());
    let after = side(&arguments.url, after, invalid);
    let Limits { gate, equal } = &arguments.limits;
    let mut comparison = Comparison::of(&before, &after, Design::Paired, equal / 100.0);
    if let Some(gate) = gate {
        comparison.gate = gate.judge(&comparison);
    }
    let is_json = arguments.json || arguments.format == Format::Json;
    match is_json {
        true => print!("{}", comparison.to_json()),
        false => print!("{}", screen::render(&comparison)),
    }
    Ok(exit_code(&comparison))
}

/// The figures of a slice, or why it is INVALID.
fn slice(result: &LoadResult) -> Result<Slice, String> {
    if let Some(reason) = result.validity.reasons.first() {
        return Err(reason.clone());
    }
    let summary = Summary::of(result);
    let rate = summary.measured.rates.achieved_per_s.unwrap_or(0.0);
    let Some(phase) = summary.measured.phases.corrected.filter(|_| rate > 0.0) else {
        return Err("no exchange was completed in a slice".to_owned());
    };
    let server = summary.server.as_ref().map(|server| {
        let cpu: f64 = server.programs.iter().map(|program| program.cpu_s).sum();
        1e6 * cpu / (rate * server.watched_s)
    });
    Ok(Slice {
        rate,
        quantiles: [phase.p50_ms, phase.p90_ms, phase.p99_ms, phase.mean_ms],
        errors: summary.measured.rates.errors_share.unwrap_or(0.0),
        generator_cpu: summary.generator.cpu_per_exchange_us.unwrap_or(0.0),
        server_cpu: server.filter(|cost| cost.is_finite() && *cost > 0.0),
        completed: summary.measured.counts.completed,
    })
}

/// The metrics of a side, each with one sample per round: the geometric mean of the round's slices.
fn metrics(pairs: &[[Vec<Slice>; 2]], side: usize) -> Vec<Metric> {
    let of = |value: &dyn Fn(&Slice) -> f64| -> Vec<f64> {
        let rounds = pairs.iter().map(|pair| {
            let slices = &pair[side];
            let logs = slices.iter().map(|slice| value(slice).ln()).sum::<f64>();
            (logs / slices.len() as f64).exp()
        });
        rounds.collect()
    };
    let mut metrics = vec![metric(
        "rate",
        "/s",
        Better::Higher,
        of(&|slice| slice.rate),
    )];
    for (place, name) in ["p50", "p90", "p99", "mean"].into_iter().enumerate() {
        let samples = of(&|slice| slice.quantiles[place]);
        metrics.push(metric(name, "ms", Better::Lower, samples));
    }
    let cpu = of(&|slice| slice.generator_cpu);
    metrics.push(metric("generator-cpu", "µs/exchange", Better::Neither, cpu));
    let slices = || pairs.iter().flat_map(|pair| &pair[side]);
    if slices().all(|slice| slice.server_cpu.is_some()) {
        let cpu = of(&|slice| slice.server_cpu.unwrap_or(f64::NAN));
        metrics.push(metric("server-cpu", "µs/exchange", Better::Lower, cpu));
    }
    let errors = pairs.iter().map(|pair| {
        let slices = &pair[side];
        slices.iter().map(|slice| slice.errors).sum::<f64>() / slices.len() as f64
    });
    let completed: u64 = slices().map(|slice| slice.completed).sum();
    metrics.push(Metric {
        scale: Scale::Difference,
        resolution: 3.0 / completed.max(1) as f64,
        instrument: Resolution {
            absolute: 1.0 / completed.max(1) as f64,
            relative: 0.0,
        },
        ..metric("errors", "", Better::Lower, errors.collect())
    });
    metrics
}

fn metric(name: &str, unit: &'static str, better: Better, samples: Vec<f64>) -> Metric {
    const WHY: &str = "fewer than two valid rounds";
    Metric::ratio(name, unit, better, samples, WHY)
}
