//! `cargo xtask fuzz`: builds the targets of `fuzz/` and runs each for a bounded time.
//!
//! The flags are those of cargo-fuzz for targets without a sanitizer. A stable compiler accepts them, so neither
//! cargo-fuzz nor a nightly compiler is needed. The targets are safe Rust with all checks enabled. The fuzzer can
//! therefore find panics, broken invariants, endless loops and unbounded memory.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Coverage for libFuzzer: counters and tables for every edge, and a trace of comparisons.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 \
    --cfg fuzzing";

/// The longest input, in bytes. The limits of the state machines are below it.
const LONGEST_INPUT: u32 = 65_536;
/// Seconds after which an input counts as an endless loop.
const ENDLESS: u32 = 10;
/// Resident memory, in MiB, above which a target counts as unbounded.
const MEMORY: u32 = 1024;

/// Build the fuzz targets and run each for a bounded time.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only these targets [default: all].
    targets: Vec<String>,
    /// Seconds for each target, in addition to the replay of its seeds.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Seed of libFuzzer's mutations; 0 chooses a new seed and prints it.
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// Targets to run at the same time [default: one for each processor].
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
}

/// Builds and runs the targets that `arguments` select.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let fuzz = root.join("fuzz");
    let all = targets(&fuzz)?;
    if let Some(unknown) = arguments.targets.iter().find(|name| !all.contains(name)) {
        return Err(format!(
            "unknown fuzz target {unknown:?}; the targets are {}",
            all.join(", ")
        ));
    }
    let chosen = if arguments.targets.is_empty() {
        &all
    } else {
        &arguments.targets
    };
    let binaries = build(&fuzz)?;
    // A target uses one thread, so each running target has its own processor.
    let jobs = match arguments.jobs {
        Some(jobs) => jobs.get(),
        None => thread::available_parallelism().map_or(1, NonZero::get),
    };
    let sound = side_by_side(chosen, jobs, |target| {
        fuzz_one(&fuzz, &binaries, target, arguments)
    })?;
    let broken: Vec<&str> = chosen
        .iter()
        .zip(sound)
        .filter(|(_, sound)| !sound)
        .map(|(target, _)| target.as_str())
        .collect();
    if broken.is_empty() {
        println!("fuzz: {} targets, nothing found", chosen.len());
        Ok(ExitCode::SUCCESS)
    } else {
        println!(
            "fuzz: failures in {}; the inputs are in fuzz/artifacts; replay an input with \
             `{} fuzz/artifacts/TARGET/FILE`",
            broken.join(", "),
            binaries.join("TARGET").display()
        );
        Ok(ExitCode::FAILURE)
    }
}

/// Calls `work` for each item, on at most `jobs` threads. Returns the results in the order of the items, or the
/// first error in that order.
fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut results = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else {
                return results;
            };
            results.push((place, work(item)));
        }
    };
    let mut results: Vec<(usize, Result<R, String>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(items.len()))
            .map(|_| scope.spawn(worker))
            .collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results
            .flat_map(|results| results.expect("a worker does not panic"))
            .collect()
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the targets in alphabetical order; each is a file in `fuzz/targets`.
fn targets(fuzz: &Path) -> Result<Vec<String>, String> {
    let folder = fuzz.join("targets");
    let failed = |error| format!("failed to read {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Builds all targets and returns the folder that contains them.
fn build(fuzz: &Path) -> Result<PathBuf, String> {
    let host = host()?;
    let folder = match std::env::var_os("CARGO_TARGET_DIR") {
        // Like cargo: relative to the folder in which cargo was called.
        Some(folder) => std::path::absolute(PathBuf::from(folder).join("fuzz"))
            .map_err(|error| format!("failed to find the target folder: {error}"))?,
        None => fuzz.join("target"),
    };
    // With an explicit `--target`, cargo applies the flags to the targets and not to build scripts.
    let mut command = Command::new(env!("CARGO"));
    // Uses the compiler in cargo's own folder. Cargo runs the compiler in a dependency's folder, where rustup's `rustc`
    // would obey a toolchain file.
    let compiler = Path::new(env!("CARGO")).with_file_name("rustc");
    if std::env::var_os("RUSTC").is_none() && compiler.is_file() {
        command.env("RUSTC", compiler);
    }
    let status = command
        .args(["build", "--release", "--bins", "--target", &host])
        .arg("--target-dir")
        .arg(&folder)
        .env("RUSTFLAGS", COVERAGE)
        .current_dir(fuzz)
        .status()
        .map_err(|error| format!("failed to run cargo build: {error}"))?;
    if !status.success() {
        return Err("failed to build the fuzz targets".to_owned());
    }
    Ok(folder.join(host).join("release"))
}

/// Returns the target triple of this machine, as the compiler reports it.
fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("-vV")
        .output()
        .map_err(|error| format!("failed to run rustc: {error}"))?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| "rustc -vV reports no host".to_owned())
}

/// Runs one target on its seeds and then on mutations of them. Returns true if it found no fault.
fn fuzz_one(
    fuzz: &Path,
    binaries: &Path,
    target: &str,
    arguments: &Arguments,
) -> Result<bool, String> {
    let corpus = fuzz.join("corpus").join(target);
    let artifacts = fuzz.join("artifacts").join(target);
    let seeds = fuzz.join("seeds").join(target);
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder)
            .map_err(|error| format!("failed to make {}: {error}", folder.display()))?;
    }
    // libFuzzer writes interesting inputs to the first folder, and only reads the other folders.
    let mut command = Command::new(binaries.join(target));
    command
        .arg(format!("-max_total_time={}", arguments.seconds.max(1)))
        .arg(format!("-max_len={LONGEST_INPUT}"))
        .arg(format!("-timeout={ENDLESS}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-verbosity=0"])
        .arg(format!("-seed={}", arguments.seed))
        .arg(&corpus);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    let output = command
        .output()
        .map_err(|error| format!("failed to run {target}: {error}"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!(
            "fuzz: {target}: {} inputs, nothing found",
            statistic(&report, "stat::number_of_executed_units:").unwrap_or("no count of")
        );
    } else {
        eprintln!("{report}");
    }
    Ok(output.status.success())
}

/// Returns one figure of libFuzzer's final statistics.
fn statistic<'a>(report: &'a str, name: &str) -> Option<&'a str> {
    report
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_their_items_for_any_number_of_jobs() {
        let items: Vec<usize> = (0..20).collect();
        for jobs in [1, 2, 7, 50] {
            let doubled = side_by_side(&items, jobs, |item| Ok(2 * item)).unwrap();
            assert_eq!(
                doubled,
                items.iter().map(|item| 2 * item).collect::<Vec<_>>()
            );
            let odd = side_by_side(&items, jobs, |item| match item % 10 {
                7 => Err(item.to_string()),
                _ => Ok(()),
            });
            assert_eq!(odd.unwrap_err(), "7");
        }
        assert!(side_by_side(&items[..0], 2, |_| Ok(())).unwrap().is_empty());
    }

    /// The manifest lists the targets one by one; cargo would never build a file without an entry.
    #[test]
    fn every_target_is_in_the_manifest_and_has_seeds() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
        let targets = targets(&fuzz).unwrap();
        assert!(!targets.is_empty());
        for target in targets {
            assert!(
                manifest.contains(&format!("path = \"targets/{target}.rs\"")),
                "{target}"
            );
            let seeds = fs::read_dir(fuzz.join("seeds").join(&target)).unwrap();
            assert!(seeds.count() > 0, "{target} has no seeds");
        }
    }
}
