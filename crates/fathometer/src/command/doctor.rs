//! `fathometer doctor`: tests which experiments this machine can run.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use fathometer_lab::abilities::{self, Group, TRIAL};
use fathometer_lab::leftovers;
use fathometer_sys::Machine;
use fathometer_sys::cgroup::{self, Controller};
use fathometer_sys::privilege::Ability;

use super::Failure;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Remove the control groups and temporary folders (in TMPDIR) that killed runs left behind, list them, and run no
    /// tests. Exit code 1 if a removal failed
    #[arg(long, conflicts_with = "json")]
    clean: bool,
}

/// Examines the machine. Exit code 1 if experiments cannot run here.
pub fn run(arguments: &DoctorArguments) -> Result<ExitCode, Failure> {
    // Runs before the tests, because these create control groups to find the resources that can be limited.
    let removal = leftovers::remove();
    if arguments.clean {
        let _ = write!(std::io::stdout(), "{}", leftovers::description(&removal));
        return Ok(match removal.refused.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::from(1),
        });
    }
    let facts = Machine::read().facts();
    let controllers = cgroup::controllers();
    let groups = abilities::test()?;
    let mut all = groups.iter().flat_map(|group| &group.abilities);
    let able = all.all(|ability| ability.state.is_ok() || !ability.required);
    if arguments.json {
        let value = serde_json::json!({
            "machine": facts,
            "control_groups": controllers.iter().map(controller_json).collect::<Vec<_>>(),
            "abilities": groups.iter().flat_map(abilities_json).collect::<Vec<_>>(),
            "experiments_possible": able,
        });
        println!("{value:#}");
    } else {
        println!("machine");
        for (name, value) in &facts {
            println!("  {name:<14} {value}");
        }
        println!("control groups");
        for controller in &controllers {
            let name = controller.name;
            match &controller.interface {
                Some((version, top)) => {
                    println!("  {name:<14} version {version}, in {}", top.display());
                }
                None => println!("  {name:<14} in no mounted hierarchy"),
            }
        }
        for group in &groups {
            print_group(group);
        }
        let mut limits = groups[1].abilities.iter();
        let trials = limits.all(|ability| ability.name != TRIAL || ability.state.is_ok());
        println!(
            "{}",
            match (able, trials) {
                (true, true) => "experiments can be run here",
                (true, false) =>
                    "page studies can be run here; load studies and bottleneck cannot: see the line \"host of a trial\"",
                (false, _) => "experiments cannot be run here: see the lines marked NO",
            }
        );
    }
    Ok(if able {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

fn print_group(group: &Group) {
    println!("{}", group.title);
    for ability in &group.abilities {
        let (mark, detail) = match &ability.state {
            Ok(detail) => ("yes", detail),
            Err(reason) if ability.required => ("NO ", reason),
            Err(reason) => ("no ", reason),
        };
        println!("  {mark} {:<24} {detail}", ability.name);
        // A server's name is enough; other abilities need their purpose.
        if group.name != "servers" {
            println!("      {:<24} for {}", "", ability.purpose);
        }
    }
}

fn abilities_json(group: &Group) -> Vec<serde_json::Value> {
    let json = |ability: &Ability| {
        serde_json::json!({
            "group": group.name,
            "name": ability.name,
            "purpose": ability.purpose,
            "required": ability.required,
            "able": ability.state.is_ok(),
            "detail": match &ability.state { Ok(text) | Err(text) => text },
        })
    };
    group.abilities.iter().map(json).collect()
}

fn controller_json(controller: &Controller) -> serde_json::Value {
    let (version, top) = controller.interface.clone().unzip();
    serde_json::json!({ "controller": controller.name, "version": version, "top": top })
}
