//! The output of a search: the verdict on the screen, and a folder with every observation. The verdict can be derived
//! again from this folder.
//!
//! ```text
//! FOLDER/
//!   setup.json             the set-up, the machine, the parameters and the seed
//!   observations.ndjson    one line per trial, written when it ends
//!   verdict.json           the verdict, the resources that were not varied, the host's limits
//!   verdict.html           the verdict as an HTML page
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fathometer_analysis::bottleneck::{
    Named, Observation, Verdict, html, json, json::Document, judge, screen,
};
use fathometer_sys::Machine;
use fathometer_sys::cgroup::AppliedLimit;
use serde::{Deserialize, Serialize};

use super::error::SearchError;
use super::run::{Findings, Repetitions, Request, Skipped, now};
use super::setup::{Demand, Setup};
use fathometer_files::whole_file;
use fathometer_sys::stderr::say;

/// The set-up, the machine and the parameters of a search.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Facts {
    /// The program's version.
    pub version: String,
    /// The command line, program first.
    pub command: Vec<String>,
    /// Facts about the machine, as in a run.
    pub machine: BTreeMap<String, String>,
    /// Start, in seconds since the Unix epoch.
    pub started: f64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The factor by which limits were varied.
    pub step: f64,
    /// Replicates of every trial, or their maximum.
    pub replicates: u32,
    /// The number of replicates at the first planned look. The search could end there if the verdict was settled.
    /// `None` if the number of replicates was fixed.
    #[serde(default)]
    pub until_settled: Option<u32>,
    /// The number of users without pauses. `None` for other loads, and in records of older versions.
    #[serde(default)]
    pub users: Option<u32>,
    /// The CPU limit of the server's host, in cores. `None` without a limit, and in records of older versions.
    #[serde(default)]
    pub cpu: Option<f64>,
    /// The set-up as text, with all limits and defaults.
    pub setup: Vec<(String, String)>,
}

/// A record that is being written.
#[derive(Debug)]
pub struct Record {
    facts: Facts,
    folder: Option<(PathBuf, File)>,
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct Found {
    /// The set-up and the parameters of the search.
    pub facts: Facts,
    /// The verdict.
    pub verdict: Verdict,
    /// The resources that were not varied.
    pub skipped: Vec<Skipped>,
    /// The limits of the host, as read back from the kernel.
    pub limits: Vec<AppliedLimit>,
}

/// The content of `verdict.json` and of `--json`.
#[derive(Debug, Serialize, Deserialize)]
struct Published {
    setup: Facts,
    verdict: Document,
    not_varied: Vec<Skipped>,
    limits: Vec<AppliedLimit>,
}

/// The width of the output on the screen, in columns.
pub const WIDTH: usize = 100;

const SETUP: &str = "setup.json";
const OBSERVATIONS: &str = "observations.ndjson";
const VERDICT: &str = "verdict.json";

impl Facts {
    /// Derives the verdict from observations, at the confidence level of the last look.
    fn judge(&self, observations: &[Observation]) -> Verdict {
        let repetitions = match self.until_settled {
            None => Repetitions::Fixed(self.replicates),
            Some(_) => Repetitions::UntilSettled {
                most: self.replicates,
            },
        };
        let made = observations.iter().map(|seen| seen.replicate + 1).max();
        judge(observations, repetitions.intervals(made.unwrap_or(0)))
    }
}

impl Record {
    /// Starts a record, in `folder` if it is given. The folder must not exist yet.
    pub fn begin(request: &Request, folder: Option<&Path>) -> Result<Record, SearchError> {
        let facts = Facts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: fathometer_load::secrets::command_line(),
            machine: Machine::read().facts(),
            started: now(),
            seed: request.seed.0,
            step: request.step,
            replicates: request.repetitions.most(),
            until_settled: request.repetitions.least(),
            users: match request.setup.load.demand {
                Demand::Busy(users) => Some(users),
                Demand::Pausing(_) | Demand::Rate(_) => None,
            },
            cpu: request.setup.host.cpu,
            setup: words(&request.setup),
        };
        let folder = match folder {
            None => None,
            Some(folder) => {
                let refused = |error| SearchError::Folder {
                    folder: folder.to_owned(),
                    error,
                };
                fs::create_dir(folder).map_err(refused)?;
                let lines = File::create(folder.join(OBSERVATIONS)).map_err(refused)?;
                write_json(&folder.join(SETUP), &facts)?;
                Some((folder.to_owned(), lines))
            }
        };
        Ok(Record { facts, folder })
    }

    /// The description of the set-up as text, one line per part.
    pub fn description(&self) -> String {
        description(&self.facts)
    }

    /// Writes an observation.
    pub fn keep(&mut self, observation: &Observation) -> Result<(), SearchError> {
        if let Some((folder, lines)) = &mut self.folder {
            let mut line = serde_json::to_vec(observation)?;
            line.push(b'\n');
            lines
                .write_all(&line)
                .map_err(|error| SearchError::Observation {
                    folder: folder.clone(),
                    error,
                })?;
        }
        Ok(())
    }

    /// Derives the verdict, and writes it.
    pub fn end(self, findings: Findings) -> Result<Found, SearchError> {
        let found = Found {
            verdict: self.facts.judge(&findings.observations),
            facts: self.facts,
            skipped: findings.skipped,
            limits: findings.limits,
        };
        if let Some((folder, _)) = &self.folder {
            write_json(&folder.join(VERDICT), &found.published())?;
            let title = &found.facts.setup[0].1;
            let page = html::page(title, &[(String::new(), &found.verdict)], None);
            write(&folder.join("verdict.html"), page.as_bytes())?;
        }
        Ok(found)
    }
}

/// Reads the folder of a search, even of an interrupted one, and derives the verdict from its observations.
pub fn read(folder: &Path) -> Result<Found, SearchError> {
    let text = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| SearchError::Read { path, error })
    };
    let facts: Facts = serde_json::from_str(&text(SETUP)?)
        .map_err(|error| SearchError::Form { file: SETUP, error })?;
    let lines = text(OBSERVATIONS)?;
    // If the writer was killed, the last line may be truncated.
    let whole = lines.rfind('\n').map_or("", |end| &lines[..end]);
    let observations = whole
        .lines()
        .enumerate()
        .map(|(n, line)| {
            serde_json::from_str(line).map_err(|error| SearchError::Line {
                line: n + 1,
                file: OBSERVATIONS,
                error,
            })
        })
        .collect::<Result<Vec<Observation>, SearchError>>()?;
    let (skipped, limits) = match text(VERDICT) {
        Err(_) => (Vec::new(), Vec::new()),
        Ok(text) => match serde_json::from_str::<Published>(&text) {
            Ok(published) => (published.not_varied, published.limits),
            // The verdict comes from the observations. Only the skipped resources and the host's limits come from this
            // file.
            Err(error) => {
                say(format_args!(
                    "warning: cannot read {}: {error}: the resources that were not varied and the host's limits are not shown",
                    folder.join(VERDICT).display()
                ));
                (Vec::new(), Vec::new())
            }
        },
    };
    Ok(Found {
        verdict: facts.judge(&observations),
        facts,
        skipped,
        limits,
    })
}

impl Found {
    fn published(&self) -> Published {
        Published {
            setup: self.facts.clone(),
            verdict: Document {
                format: json::FORMAT,
                named: self.verdict.named(),
                verdict: self.verdict.clone(),
            },
            not_varied: self.skipped.clone(),
            limits: self.limits.clone(),
        }
    }

    /// Returns the resource that the verdict names.
    pub fn named(&self) -> Named {
        self.verdict.as_named()
    }

    /// Returns the verdict as JSON, which is the content of `verdict.json`.
    pub fn json(&self) -> Result<String, SearchError> {
        Ok(serde_json::to_string_pretty(&self.published())?)
    }

    /// Returns the verdict as text for the screen.
    pub fn text(&self) -> String {
        let mut text = screen::render(&self.verdict, WIDTH);
        if !self.skipped.is_empty() {
            text.push_str("\nnot varied\n");
        }
        for Skipped { resource, reason } in &self.skipped {
            text.push_str(&format!("  {:16} {reason}\n", resource.name()));
        }
        text
    }
}

/// Formats the set-up as text, one line per part.
fn description(facts: &Facts) -> String {
    let lines = facts
        .setup
        .iter()
        .map(|(name, value)| format!("{name:12} {value}\n"));
    lines.collect()
}

/// Returns every part of a set-up with its value. A limit that is not set is also a part.
fn words(setup: &Setup) -> Vec<(String, String)> {
    let host = &setup.host;
    let or = |value: Option<String>, none: &str| value.unwrap_or_else(|| none.to_owned());
    let disk = [
        host.disk_operations.map(|limit| format!("{limit} reads/s")),
        host.disk_bytes
            .map(|limit| format!("{}/s", fathometer_model::Bytes(limit))),
    ];
    let disk: Vec<String> = disk.into_iter().flatten().collect();
    let demand = match setup.load.demand {
        Demand::Busy(users) => format!("{users} users without pauses"),
        Demand::Pausing(users) => format!("{users} users with pauses"),
        Demand::Rate(rate) => format!("{rate} sessions/s, Poisson"),
    };
    let parts = [
        ("server", setup.server.title()),
        (
            "site",
            format!(
                "{}: {} files, {}, {}",
                setup.site.name,
                setup.site.plan.targets.len(),
                setup.site.size,
                if setup.warm {
                    "every file requested once before"
                } else {
                    "nothing cached"
                }
            ),
        ),
        ("load", format!("{demand}, {}", setup.load.policy)),
        ("path", setup.profile.to_string()),
        ("era", setup.era.name.clone()),
        (
            "window",
            or(
                setup.window.map(|bytes| format!("{bytes} bytes")),
                "set by the kernel",
            ),
        ),
        (
            "cpu",
            or(
                host.cpu.map(|cores| format!("{cores} of a core")),
                "not limited",
            ),
        ),
        (
            "cores",
            or(host.cores.map(|count| count.to_string()), "all processors"),
        ),
        (
            "memory",
            or(host.memory.map(|limit| limit.to_string()), "not limited"),
        ),
        (
            "disk",
            match disk.as_slice() {
                [] => "not limited".to_owned(),
                limits => limits.join(", "),
            },
        ),
        (
            "backlog",
            or(
                host.backlog.map(|count| count.to_string()),
                "set by the server",
            ),
        ),
        (
            "workers",
            or(
                host.workers.map(|count| count.to_string()),
                "set by the server",
            ),
        ),
        (
            "measured",
            format!(
                "{:?} each after {:?}, time-out {:?}",
                setup.duration, setup.warm_up, setup.timeout
            ),
        ),
    ];
    let parts = parts.map(|(name, value)| (name.to_owned(), value));
    parts.into()
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), SearchError> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write(path, &text)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), SearchError> {
    whole_file::write(path, bytes).map_err(|error| SearchError::Write {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_verdict_does_not_prevent_another_judgement() {
        let folder = tempfile::tempdir().unwrap();
        let facts = Facts {
            version: "0.1.0".to_owned(),
            command: Vec::new(),
            machine: BTreeMap::new(),
            started: 0.0,
            seed: 1,
            step: 1.25,
            replicates: 1,
            until_settled: None,
            users: None,
            cpu: None,
            setup: vec![("server".to_owned(), "a test".to_owned())],
        };
        write_json(&folder.path().join(SETUP), &facts).unwrap();
        fs::write(folder.path().join(OBSERVATIONS), "").unwrap();
        let without = read(folder.path()).unwrap();
        fs::write(folder.path().join(VERDICT), "{\"setup\": {\"ver").unwrap();
        let found = read(folder.path()).unwrap();
        assert_eq!(found.verdict, without.verdict);
        assert!(found.skipped.is_empty());
    }
}
