//! The abilities of this machine, determined by tests.

mod probes;

use fathometer_sys::abilities;
use fathometer_sys::cgroup::{self, Limits};
use fathometer_sys::privilege::{self, Ability};
use fathometer_sys::{Namespace, machine};

use crate::data;
use crate::server::definition::{Definition, DefinitionError};
use crate::{server, trial};

/// The name of the ability that load studies require.
pub const TRIAL: &str = "host of a trial";

/// Abilities of one kind.
pub struct Group {
    /// The name in JSON.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// The tested abilities.
    pub abilities: Vec<Ability>,
}

/// Tests the machine. May move this process into a user namespace.
///
/// # Errors
/// If the definition of a server cannot be read.
pub fn test() -> Result<[Group; 4], DefinitionError> {
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
    // These tests run last, because they may change the user of this process.
    groups[1].abilities.extend(other_limits());
    groups[1].abilities.push(host_of_a_trial());
    groups[0].abilities.push(probes::priorities());
    groups[0].abilities.push(probes::page_cache());
    Ok(groups)
}

/// Tests the limits that control groups do not provide. Moves this process into a user namespace if necessary.
fn other_limits() -> Vec<Ability> {
    let (_, most) = machine::open_files();
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
            "servers that run out of descriptors",
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

/// Tests the host of a load study's trial, which the code of trials builds. Requires the right to create namespaces.
fn host_of_a_trial() -> Ability {
    Ability {
        name: TRIAL.to_owned(),
        purpose: "load studies and bottleneck: a host that receives packets within its limits"
            .to_owned(),
        required: false,
        state: trial::test_limits().map_err(|error| error.to_string()),
    }
}

fn servers() -> Result<Vec<Ability>, DefinitionError> {
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
