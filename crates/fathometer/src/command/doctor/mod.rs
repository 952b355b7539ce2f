//! `fathometer doctor`: tests what this machine can and cannot do.

mod probes;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use fathometer_sys::abilities;
use fathometer_sys::cgroup::{self, Controller, Limits};
use fathometer_sys::privilege::{self, Ability};
use fathometer_sys::{Machine, Namespace};

use super::Failure;
use fathometer_lab::data;
use fathometer_lab::leftovers;
use fathometer_lab::server::{self, definition::Definition};
use fathometer_lab::trial;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Remove the control groups and temporary folders (in TMPDIR) that killed runs left behind, list them, and
    /// run no tests. Exit code 1 if one could not be removed
    #[arg(long, conflicts_with = "json")]
    clean: bool,
}

/// The ability that load studies depend on.
const TRIAL: &str = "host of a trial";

/// Abilities of one kind.
struct Group {
    /// The name in JSON.
    name: &'static str,
    /// The heading.
    title: &'static str,
    abilities: Vec<Ability>,
}

/// Examines the machine. Exit code 1 if experiments cannot run here.
pub fn run(arguments: &DoctorArguments) -> Result<ExitCode, Failure> {
    // The tests below create groups, to find out which resources can be limited.
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
    let group = |name, title, abilities| Group {
        name,
        title,
        abilities,
    };
    let mut groups = [
        group("laboratory", "laboratory", abilities::probe()),
        group("limits", "limits of a host", cgroup::available()),
        group("probes", "probes", probes::available()),
        group("servers", "servers under test", servers()?),
    ];
    // These come last because they may change the user of this process.
    groups[1].abilities.extend(other_limits());
    groups[1].abilities.push(host_of_a_trial());
    groups[0].abilities.push(probes::priorities());
    groups[0].abilities.push(probes::page_cache());
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
                None => println!("  {name:<14} no mounted hierarchy has it"),
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
                    "page studies can be run here; load studies and bottleneck cannot: see the line of the host of a trial",
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

/// Limits that control groups do not provide. Moves this process into a user namespace if it needs one.
fn other_limits() -> Vec<Ability> {
    let (_, most) = fathometer_sys::machine::open_files();
    let few = Limits {
        descriptors: Some(64),
        ..Limits::default()
    };
    let descriptors = cgroup::test_limits(&few)
        .map(|_| format!("in every process that a host starts, up to {most}"));
    let backlog = privilege::acquire()
        .and_then(|_| Namespace::new()?.set_listen_backlog(16))
        .map(|applied| {
            let names: Vec<String> = applied.into_iter().map(|limit| limit.what).collect();
            format!("by {}", names.join(" and "))
        });
    [
        (
            "descriptors limit",
            "servers that run out of them",
            descriptors,
        ),
        ("backlog limit", "servers with a short backlog", backlog),
    ]
    .into_iter()
    .map(|(name, purpose, state)| Ability {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        required: false,
        state: state.map_err(|error| error.to_string()),
    })
    .collect()
}

/// The host of a load study's trial, built by the code that trials use. Requires the right to create
/// namespaces.
fn host_of_a_trial() -> Ability {
    Ability {
        name: TRIAL.to_owned(),
        purpose: "load studies and bottleneck: a host that receives packets within its limits"
            .to_owned(),
        required: false,
        state: trial::test_limits().map_err(|error| error.to_string()),
    }
}

fn servers() -> Result<Vec<Ability>, Failure> {
    let mut servers = Vec::new();
    for name in data::names("servers") {
        let definition = Definition::load(name)?;
        servers.push(Ability {
            name: name.to_owned(),
            purpose: definition.title.clone(),
            required: false,
            state: match &definition.program {
                None => Ok("built in".to_owned()),
                Some(program) => server::find(program)
                    .map(|installed| installed.version)
                    .ok_or_else(|| {
                        format!("not found: install the Debian package {}", program.package)
                    }),
            },
        });
    }
    Ok(servers)
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
        // The purpose of a server is obvious.
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
