//! `cargo xtask bench`: the performance targets of the project, which are limits relative to a reference program or
//! limits of time.
//!
//! Figures are ratios measured in one run on one machine, or times. Both are repeatable, and absolute throughput is
//! not. A missed target is a failure.

mod capacity;
mod content;
mod load;
mod package;
mod path;
mod predict;
mod ranks;
mod surge;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use self::trace::{Scratch, build};

/// Measure the performance targets.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Benchmark to run.
    #[arg(value_enum, default_value = "all")]
    bench: Bench,
    /// For `load`: parts to run [default: all].
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<load::Part>,
    /// For `ranks` and `content`: rounds of each comparison [default: 9 for ranks, 5 for content].
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// For `predict`: judge these existing runs of its studies instead of measuring.
    #[arg(long, value_name = "FOLDER")]
    run: Vec<PathBuf>,
    /// For `content`: the program to measure [default: a release build].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Bench {
    /// Cost per exchange: our client against wrk and others, our server against nginx.
    Load,
    /// The emulated path: bulk throughput and lateness.
    Path,
    /// Object packages, against tar.
    Package,
    /// SURGE with a million files and ten million requests.
    Surge,
    /// Packet accounting, against tshark.
    Trace,
    /// The capacity search, against bisection, in virtual time.
    Capacity,
    /// Compression: the origin against nginx's gzip and brotli, `content` against the programs gzip, brotli and
    /// zstd.
    Content,
    /// A load test of two ranks, against two independent processes and against one process.
    Ranks,
    /// Predictions for seven servers, about 2.5 hours; not part of `all`.
    Predict,
    /// All benches except `predict`.
    All,
}

/// A benchmark: takes the root of the workspace and the arguments; its exit code states whether all targets are met.
type Run = fn(&Path, &Arguments) -> Result<ExitCode, String>;

const BENCHES: &[(Bench, Run)] = &[
    (Bench::Path, |root, _| path::run(root)),
    (Bench::Trace, |root, _| trace::run(root)),
    (Bench::Package, |root, _| package::run(root)),
    (Bench::Surge, |root, _| surge::run(root)),
    (Bench::Capacity, |root, _| capacity::run(root)),
    (Bench::Ranks, |root, arguments| {
        ranks::run(root, arguments.rounds)
    }),
    (Bench::Predict, |root, arguments| {
        predict::run(root, &arguments.run)
    }),
    (Bench::Content, |root, arguments| {
        content::run(root, arguments.program.as_deref(), arguments.rounds)
    }),
    (Bench::Load, |root, arguments| {
        load::run(root, &arguments.only)
    }),
];

/// Runs the selected benches; fails if one of them fails.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let mut all_met = true;
    for (bench, run) in BENCHES {
        let is_of_all = arguments.bench == Bench::All && *bench != Bench::Predict;
        if is_of_all || arguments.bench == *bench {
            all_met &= run(root, arguments)? == ExitCode::SUCCESS;
        }
    }
    Ok(if all_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
