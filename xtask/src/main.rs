//! Chores of this workspace: `cargo xtask tidy`, `fuzz`, `bench`, `soak` and `vm`.
//!
//! They are a program and not scripts so that they need nothing but the Rust tool chain.

mod bench;
mod fuzz;
mod soak;
mod tidy;
mod vm;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check what the compiler does not: floors, purity, links, sources, marks of unfinished work.
    Tidy,
    /// Build the fuzz targets and run each for a bounded time.
    Fuzz(fuzz::Arguments),
    /// Try the limits of hosts on a kernel that has control groups of version 2 alone.
    Vm(vm::Arguments),
    /// Measure the speed bars, each against the program it is measured by.
    Bench(bench::Arguments),
    /// Run our origin under attack beside an honest load.
    Soak(soak::Arguments),
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
        Chore::Soak(arguments) => soak::run(root, &arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::FAILURE
    })
}
