//! `fathometer list`: prints the available studies, paths, eras, servers and workloads.

use std::process::ExitCode;

use clap::Args;
use fathometer_path::Profile;

use super::Failure;
use fathometer_lab::data;
use fathometer_lab::era::Era;
use fathometer_lab::server::{self, definition::Definition};
use fathometer_load::workload;
use fathometer_study::spec::Study;

/// Arguments of `list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Lists studies, paths, eras, servers and workloads.
pub fn run(arguments: &ListArguments) -> Result<ExitCode, Failure> {
    let mut groups = Vec::new();
    let mut studies = Vec::new();
    for name in data::names("papers") {
        if let Some(text) = data::embedded(&format!("papers/{name}/study.toml")) {
            studies.push((name.to_owned(), Study::parse(text)?.title));
        }
    }
    groups.push(("studies", studies));
    let mut paths = Vec::new();
    for name in data::names("paths") {
        let profile = Profile::from_toml(&data::load("paths", "path profile", name)?, name)?;
        let rate = |direction: &fathometer_path::DirectionProfile| {
            direction
                .rate
                .map_or_else(|| "no limit".to_owned(), |rate| rate.to_string())
        };
        paths.push((
            name.to_owned(),
            format!(
                "up {}, down {}, one-way delay {:?} up, {:?} down",
                rate(&profile.up),
                rate(&profile.down),
                profile.up.propagation,
                profile.down.propagation
            ),
        ));
    }
    groups.push(("paths", paths));
    let mut eras = Vec::new();
    for name in data::names("eras") {
        eras.push((name.to_owned(), Era::load(name)?.title));
    }
    groups.push(("eras", eras));
    let mut servers = Vec::new();
    for name in data::names("servers") {
        let definition = Definition::load(name)?;
        let state = match &definition.program {
            None => definition.title,
            Some(program) => match server::find(program) {
                Some(installed) => format!("{}, {}", definition.title, installed.version),
                None => format!(
                    "{}, not installed (Debian package {})",
                    definition.title, program.package
                ),
            },
        };
        servers.push((name.to_owned(), state));
    }
    groups.push(("servers", servers));
    let workloads = workload::names();
    let described = |name: String| {
        let what = workload::describe(&name);
        (name, what)
    };
    groups.push(("workloads", workloads.into_iter().map(described).collect()));
    if arguments.json {
        let value: serde_json::Map<String, serde_json::Value> = groups
            .into_iter()
            .map(|(group, items)| {
                let items = items
                    .into_iter()
                    .map(|(name, what)| serde_json::json!({ "name": name, "what": what }))
                    .collect();
                (group.to_owned(), serde_json::Value::Array(items))
            })
            .collect();
        println!("{:#}", serde_json::Value::Object(value));
    } else {
        for (group, items) in groups {
            println!("{group}");
            for (name, what) in items {
                println!("  {name:<24} {what}");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
