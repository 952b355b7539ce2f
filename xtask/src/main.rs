//! Maintenance commands of this workspace: `cargo xtask tidy`, `fuzz`, `bench`, `soak`, `vm`, `package`,
//! `predicted-seconds`, `browsers` and `publish`.
//!
//! The commands are a Rust program and not scripts, so that they need only the Rust toolchain.

mod bench;
mod browsers;
mod fuzz;
mod package;
mod predicted_seconds;
mod publish;
mod scale;
mod soak;
mod tidy;
mod vm;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Maintenance commands of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check rules that the compiler and clippy do not check: floors, links, sources, unfinished work.
    Tidy,
    /// Build the fuzz targets and run each for a bounded time.
    Fuzz(fuzz::Arguments),
    /// Test the limits of hosts on a kernel that has only control groups v2.
    Vm(vm::Arguments),
    /// Measure the performance targets: limits relative to reference programs, or limits of time.
    Bench(bench::Arguments),
    /// Measure and simulate the limits of a load test with many ranks: the tables of docs/scale.md.
    Scale(scale::Arguments),
    /// Run the origin server under attack, together with a load of well-behaved clients.
    Soak(soak::Arguments),
    /// Build the Debian package, the archive and the content of the container image.
    Package(package::Arguments),
    /// Copy a run of a study to runs/published, with the packets of one replicate of each cell.
    Publish(publish::Arguments),
    /// Compare predicted with measured seconds of real pages.
    PredictedSeconds(predicted_seconds::Arguments),
    /// Retrieve the page of nielsen97 with Chromium over the paper's modem line, twice.
    Browsers(browsers::Arguments),
    /// Open a page in Chromium, behind the path of `browsers`.
    #[command(hide = true)]
    BrowserVisit(browsers::visit::Arguments),
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace");
    let result = match Arguments::parse().chore {
        Chore::Tidy => tidy::run(root),
        Chore::Fuzz(arguments) => fuzz::run(root, &arguments),
        Chore::Vm(arguments) => vm::run(root, &arguments),
        Chore::Bench(arguments) => bench::run(root, &arguments),
        Chore::Scale(arguments) => scale::run(root, &arguments),
        Chore::Soak(arguments) => soak::run(root, &arguments),
        Chore::Package(arguments) => package::run(root, &arguments),
        Chore::Publish(arguments) => publish::run(root, &arguments),
        Chore::PredictedSeconds(arguments) => predicted_seconds::run(root, &arguments),
        Chore::Browsers(arguments) => browsers::run(root, &arguments),
        Chore::BrowserVisit(arguments) => browsers::visit::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::FAILURE
    })
}
