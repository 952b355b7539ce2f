//! `fathometer doctor`: what this machine can and cannot do, found out by trying.

use std::process::ExitCode;

use clap::Args;
use fathometer_sys::privilege::{self, Ability};
use fathometer_sys::{Machine, cgroup};

use super::Failure;
use crate::data;
use crate::server::{self, definition::Definition};
use crate::study::run::machine_facts;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Examines the machine. Exit code 1 when experiments cannot be run here.
pub fn run(arguments: &DoctorArguments) -> Result<ExitCode, Failure> {
    let facts = machine_facts(&Machine::read());
    let mut abilities = privilege::probe();
    abilities.extend(cgroup::available());
    for name in data::names("servers") {
        let definition = Definition::load(name)?;
        if let Some(program) = &definition.program {
            abilities.push(Ability {
                name: name.to_owned(),
                purpose: format!("{} as a server under test", definition.title),
                required: false,
                state: server::find(program)
                    .map(|installed| installed.version)
                    .ok_or_else(|| format!("not found; install the package {}", program.package)),
            });
        }
    }
    let able = abilities.iter().all(|a| a.state.is_ok() || !a.required);
    if arguments.json {
        let abilities: Vec<_> = abilities
            .iter()
            .map(|ability| {
                serde_json::json!({
                    "name": ability.name,
                    "purpose": ability.purpose,
                    "required": ability.required,
                    "able": ability.state.is_ok(),
                    "detail": match &ability.state { Ok(text) | Err(text) => text },
                })
            })
            .collect();
        let value = serde_json::json!({
            "machine": facts, "abilities": abilities, "experiments_possible": able,
        });
        println!("{value:#}");
    } else {
        println!("machine");
        for (name, value) in &facts {
            println!("  {name:<14} {value}");
        }
        println!("abilities");
        for ability in &abilities {
            let (mark, detail) = match &ability.state {
                Ok(detail) => ("yes", detail),
                Err(reason) if ability.required => ("NO ", reason),
                Err(reason) => ("no ", reason),
            };
            println!("  {mark} {:<24} {detail}", ability.name);
            println!("      {:<24} for {}", "", ability.purpose);
        }
        println!(
            "{}",
            if able {
                "experiments can be run here"
            } else {
                "experiments cannot be run here: see the lines with NO"
            }
        );
    }
    Ok(if able {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}
