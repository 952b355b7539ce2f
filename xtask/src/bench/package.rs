//! `cargo xtask bench package`: packing and unpacking, by the state machines alone and by commands against tar.
//!
//! A benchmark of the state machines' crate measures them in memory. The commands (`fathometer pack` and `unpack`,
//! and `tar`) work on trees of files in memory (`/dev/shm`), so that no disk influences the result. The commands
//! alternate in rounds. Each round gives one ratio, and the median ratio is judged. tar verifies no checksums of
//! contents and overwrites existing files. Our commands compute and verify checksums, and give each file its name
//! only when it is complete. Both programs write the same files with the same times.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::trace::{build, median};

/// Rounds of each tree.
const ROUNDS: usize = 9;
/// Trees: number of files, and bytes in each.
const TREES: [(usize, usize); 3] = [(20_000, 4 << 10), (4_000, 64 << 10), (64, 4 << 20)];
/// Upper bounds of our CPU time relative to tar's CPU time, for packing and for unpacking. Our program also computes
/// checksums and the entity tags of small files, and gives each file its name only when it is complete.
const MOST: [f64; 2] = [1.25, 1.3];

/// Measures, prints the results, and fails when a target is missed or a file differs.
pub(crate) fn run(root: &Path) -> Result<ExitCode, String> {
    machines(root)?;
    let ours = build(root)?;
    let ours = ours.to_str().ok_or("the target folder is not UTF-8")?;
    let memory = Memory::new()?;
    let mut all_met = true;
    println!(
        "\n{:28}{:>12}{:>12}{:>9}{:>12}{:>12}{:>9}",
        "", "ours CPU", "tar CPU", "ratio", "ours", "tar", "ratio"
    );
    for (files, size) in TREES {
        memory.write_tree(files, size)?;
        let mut rows: [Vec<[Spent; 2]>; 2] = Default::default();
        for _ in 0..ROUNDS {
            let scripts = [
                [
                    format!("{ours} pack in -o x.objp --force >&2"),
                    "tar -cf x.tar -C in .".to_owned(),
                ],
                [
                    format!("{ours} unpack x.objp out-ours >&2"),
                    "mkdir out-tar && tar -xf x.tar -C out-tar".to_owned(),
                ],
            ];
            for (row, [ours, tar]) in rows.iter_mut().zip(&scripts) {
                row.push([memory.timed(ours)?, memory.timed(tar)?]);
            }
            memory.compare_and_clear()?;
        }
        for ((what, row), most) in ["pack", "unpack"].iter().zip(&rows).zip(MOST) {
            let figure = |of: fn(&[Spent; 2]) -> f64| median(row.iter().map(of).collect());
            let ratio = figure(|[ours, tar]| ours.processor / tar.processor);
            let met = ratio <= most;
            all_met &= met;
            println!(
                "{:28}{:>10.1} ms{:>10.1} ms{:>9.2}{:>10.1} ms{:>10.1} ms{:>9.2}  CPU at most {most}: {}",
                format!("{what} {files} x {} kB", size >> 10),
                1e3 * figure(|[ours, _]| ours.processor),
                1e3 * figure(|[_, tar]| tar.processor),
                ratio,
                1e3 * figure(|[ours, _]| ours.elapsed),
                1e3 * figure(|[_, tar]| tar.elapsed),
                figure(|[ours, tar]| ours.elapsed / tar.elapsed),
                if met { "met" } else { "MISSED" }
            );
        }
    }
    Ok(match all_met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Measures the state machines alone: runs a benchmark of their crate, which prints its own table.
fn machines(root: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "bench",
            "--quiet",
            "--package",
            "fathometer-package",
            "--bench",
            "package",
        ])
        .current_dir(root)
        .status()
        .map_err(|error| format!("failed to run cargo: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err("the benchmark of the state machines failed".to_owned()),
    }
}

/// The time that a command used, in seconds.
#[derive(Debug, Clone, Copy)]
struct Spent {
    /// CPU time (user and system) of the command and its children.
    processor: f64,
    elapsed: f64,
}

/// A folder in memory, removed when the bench ends.
struct Memory(PathBuf);

impl Memory {
    fn new() -> Result<Memory, String> {
        let shared = Path::new("/dev/shm");
        let parent = match shared.is_dir() {
            true => shared.to_owned(),
            false => std::env::temp_dir(),
        };
        let folder = parent.join(format!("fathometer-bench-package-{}", std::process::id()));
        fs::create_dir_all(&folder)
            .map_err(|error| format!("failed to make {}: {error}", folder.display()))?;
        Ok(Memory(folder))
    }

    /// Writes a tree of files with different and incompressible contents, 100 files in each folder.
    fn write_tree(&self, files: usize, size: usize) -> Result<(), String> {
        let tree = self.0.join("in");
        let write = || -> std::io::Result<()> {
            if tree.exists() {
                fs::remove_dir_all(&tree)?;
            }
            let mut state = 1u64;
            for n in 0..files {
                let folder = tree.join(format!("{:03}", n / 100));
                if n % 100 == 0 {
                    fs::create_dir_all(&folder)?;
                }
                let words = (0..size / 8).flat_map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state.to_ne_bytes()
                });
                fs::write(
                    folder.join(format!("{n:06}.html")),
                    words.collect::<Vec<u8>>(),
                )?;
            }
            Ok(())
        };
        write().map_err(|error| format!("failed to write {}: {error}", tree.display()))
    }

    /// Runs a script in this folder and returns the time that it used.
    fn timed(&self, script: &str) -> Result<Spent, String> {
        let output = Command::new("bash")
            .args([
                "-c",
                "TIMEFORMAT='%3U %3S %3R'; { time bash -c \"$1\" 2>errors; }",
                "bash",
            ])
            .arg(script)
            .env("LC_ALL", "C")
            .current_dir(&self.0)
            .output()
            .map_err(|error| format!("failed to run bash: {error}"))?;
        if !output.status.success() {
            let errors = fs::read_to_string(self.0.join("errors")).unwrap_or_default();
            return Err(format!("{script} failed: {errors}"));
        }
        let times = String::from_utf8_lossy(&output.stderr);
        let times: Option<Vec<f64>> = times.split_whitespace().map(|t| t.parse().ok()).collect();
        match times.as_deref() {
            Some(&[user, system, elapsed]) => Ok(Spent {
                processor: user + system,
                elapsed,
            }),
            _ => Err(format!("the time of {script} cannot be read")),
        }
    }

    /// Checks that both programs wrote the original files, then deletes the results.
    fn compare_and_clear(&self) -> Result<(), String> {
        for folder in ["out-ours", "out-tar"] {
            let same = Command::new("diff")
                .args(["-rq", "in", folder])
                .current_dir(&self.0)
                .output()
                .map_err(|error| format!("failed to run diff: {error}"))?;
            if !same.status.success() {
                return Err(format!("{folder} differs from the packed files"));
            }
            let path = self.0.join(folder);
            fs::remove_dir_all(&path)
                .map_err(|error| format!("failed to remove {}: {error}", path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The files occupy memory until they are removed. An error of the removal cannot be handled here.
        let _ = fs::remove_dir_all(&self.0);
    }
}
