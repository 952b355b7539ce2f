//! The self-test: runs every planted bottleneck, and compares the verdict with the planted limit.

use std::path::PathBuf;

use fathometer_analysis::bottleneck::{Confusion, Named, Resource, Verdict, html};
use fathometer_model::Seed;
use serde::Serialize;

use super::error::SearchError;
use super::planted::{PLANTED, PlantedBottleneck};
use super::record::{Found, Record, WIDTH};
use super::run::{self, Repetitions, Request};
use fathometer_files::whole_file;
use fathometer_sys::stderr::say;

/// Options of the self-test.
#[derive(Debug, Clone)]
pub struct Options {
    /// The names of the planted bottlenecks that are run. An empty list means all.
    pub only: Vec<String>,
    /// The maximum number of replicates. The trials end earlier if the verdict is settled.
    pub most_replicates: u32,
    /// The seed of all random choices.
    pub seed: Seed,
    /// The folder for the observations and the table.
    pub folder: Option<PathBuf>,
    /// Whether progress is hidden.
    pub quiet: bool,
}

/// The result of one planted bottleneck.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// The name of the planted bottleneck.
    pub plant: String,
    /// A description of the planted bottleneck.
    pub built_in: String,
    /// The resource that is the bottleneck.
    pub limit: Resource,
    /// The verdict; `None` if the set-up could not run.
    pub named: Option<Named>,
    /// The verdict as a sentence, or the reason why the set-up could not run.
    pub verdict: String,
    /// Whether the verdict was right.
    pub outcome: Became,
}

/// The outcome of a planted bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Became {
    /// The verdict named the planted bottleneck.
    Right,
    /// The measurements were valid, but the verdict named another resource or no resource.
    Wrong,
    /// The measurements were invalid: this machine was too busy or too slow.
    Invalid,
    /// The set-up cannot run on this machine.
    Impossible,
}

impl Became {
    /// The outcome as one word.
    pub const fn word(self) -> &'static str {
        match self {
            Became::Right => "right",
            Became::Wrong => "WRONG",
            Became::Invalid => "invalid",
            Became::Impossible => "not tried",
        }
    }
}

/// Runs the planted bottlenecks and writes the table to the folder. Returns `None` if the user interrupts the test.
pub fn run(
    options: &Options,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Vec<Tried>>, SearchError> {
    for name in &options.only {
        if PLANTED.iter().all(|plant| plant.name != name) {
            let known: Vec<&str> = PLANTED.iter().map(|plant| plant.name).collect();
            return Err(SearchError::UnknownPlanted {
                name: name.clone(),
                known: known.join(", "),
            });
        }
    }
    if let Some(folder) = &options.folder {
        std::fs::create_dir(folder).map_err(|error| SearchError::Folder {
            folder: folder.clone(),
            error,
        })?;
    }
    let mut tried = Vec::new();
    let mut verdicts = Vec::new();
    for plant in PLANTED.iter() {
        if !options.only.is_empty() && options.only.iter().all(|name| name != plant.name) {
            continue;
        }
        if !options.quiet {
            say(format_args!("{}: {}", plant.name, plant.built_in));
        }
        let (one, verdict) = attempt(plant, options, interrupted)?;
        verdicts
            .extend(verdict.map(|verdict| (format!("{}: {}", one.plant, one.built_in), verdict)));
        tried.push(one);
        if interrupted() {
            return Ok(None);
        }
    }
    if let Some(folder) = &options.folder {
        let table = confusion(&tried);
        let verdicts: Vec<(String, &Verdict)> = verdicts
            .iter()
            .map(|(name, verdict)| (name.clone(), verdict))
            .collect();
        for (file, content) in [
            ("confusion.txt", &text(&tried)),
            ("confusion.csv", &table.csv()),
            ("confusion.json", &json(&tried)?),
            (
                "confusion.html",
                &html::page("Planted bottlenecks", &verdicts, Some(&table)),
            ),
        ] {
            whole_file::write(&folder.join(file), content.as_bytes())?;
        }
    }
    Ok(Some(tried))
}

/// Runs one planted bottleneck.
pub fn attempt(
    plant: &PlantedBottleneck,
    options: &Options,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<(Tried, Option<Verdict>), SearchError> {
    let became = |named, verdict: String, outcome| Tried {
        plant: plant.name.to_owned(),
        built_in: plant.built_in.to_owned(),
        limit: plant.limit,
        named,
        verdict,
        outcome,
    };
    let impossible =
        |error: SearchError| (became(None, error.to_string(), Became::Impossible), None);
    let setup = match plant.setup(options.seed) {
        Ok(setup) => setup,
        Err(error) => return Ok(impossible(error)),
    };
    let request = Request {
        setup,
        resources: run::resources(),
        step: plant.step,
        repetitions: Repetitions::UntilSettled {
            most: options.most_replicates,
        },
        seed: options.seed,
        quiet: options.quiet,
    };
    let folder = options
        .folder
        .as_ref()
        .map(|folder| folder.join(plant.name));
    let mut record = Record::begin(&request, folder.as_deref())?;
    let findings = match run::explore(&request, interrupted, &mut |seen| record.keep(seen)) {
        Ok(findings) => findings,
        Err(error) => return Ok(impossible(error)),
    };
    let found: Found = record.end(findings)?;
    let outcome = match found.named() {
        Named::Invalid => Became::Invalid,
        named if named == Named::Resource(plant.limit) => Became::Right,
        _ => Became::Wrong,
    };
    let tried = became(Some(found.named()), found.verdict.summary.clone(), outcome);
    Ok((tried, Some(found.verdict)))
}

/// Returns the confusion matrix of the planted resources and the named resources.
pub fn confusion(tried: &[Tried]) -> Confusion {
    let mut table = Confusion::new();
    for one in tried {
        if let Some(named) = one.named {
            table.record(&one.plant, one.limit, named);
        }
    }
    table
}

/// Returns the outcomes as JSON.
pub fn json(tried: &[Tried]) -> Result<String, SearchError> {
    Ok(serde_json::to_string_pretty(tried)?)
}

/// Returns the table, and the reasons for all outcomes except right verdicts.
pub fn text(tried: &[Tried]) -> String {
    let mut text = confusion(tried).text(WIDTH);
    for one in tried.iter().filter(|one| one.outcome != Became::Right) {
        text += &format!(
            "\n{} ({}): {}\n  {}\n",
            one.plant,
            one.built_in,
            one.outcome.word(),
            one.verdict
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_named_rightly_says_why() {
        let tried = |plant: &str, limit, named, outcome| Tried {
            plant: plant.to_owned(),
            built_in: "something".to_owned(),
            limit,
            named,
            verdict: format!("of {plant}"),
            outcome,
        };
        let named = |resource| Some(Named::Resource(resource));
        let text = text(&[
            tried("a", Resource::Cpu, named(Resource::Cpu), Became::Right),
            tried(
                "b",
                Resource::Memory,
                named(Resource::DiskBytes),
                Became::Wrong,
            ),
            tried("c", Resource::Backlog, None, Became::Impossible),
        ]);
        assert!(
            text.contains("1 of 2 verdicts named the known limit"),
            "{text}"
        );
        assert!(text.contains("b (something): WRONG\n  of b"), "{text}");
        assert!(text.contains("c (something): not tried\n  of c"), "{text}");
        assert!(!text.contains("of a"), "{text}");
    }
}
