//! What the cells of a study name (paths, eras, servers), and which of the cells can be made here.

use std::collections::{BTreeMap, BTreeSet};

use fathometer_path::Profile;

use super::load::ability::{self, Lacking};
use super::run::RunError;
use super::spec::{Cell, Study};
use crate::data;
use crate::era::Era;
use crate::server::definition::Definition;
use crate::server::{self, Installed};

/// Everything that cells name, loaded once.
pub(super) struct Materials {
    pub(super) profiles: BTreeMap<String, (Profile, String)>,
    pub(super) eras: BTreeMap<String, Era>,
    pub(super) servers: BTreeMap<String, (Definition, Option<Installed>)>,
}

impl Materials {
    /// Loads what these cells name.
    pub(super) fn load(cells: &[Cell]) -> Result<Materials, RunError> {
        let levels = |factor: &str| -> BTreeSet<String> {
            cells
                .iter()
                .map(|cell| cell.level(factor).to_owned())
                .collect()
        };
        let mut profiles = BTreeMap::new();
        for name in levels("path") {
            let text = data::load("paths", "path profile", &name)?;
            let profile = Profile::from_toml(&text, &name)?;
            profiles.insert(name, (profile, text));
        }
        let mut eras = BTreeMap::new();
        for name in levels("era") {
            eras.insert(name.clone(), Era::load(&name)?);
        }
        let mut servers = BTreeMap::new();
        let names: BTreeSet<&str> = cells.iter().flat_map(Cell::servers).collect();
        for name in names {
            let name = name.to_owned();
            let definition = Definition::load(&name)?;
            let installed = definition.program.as_ref().and_then(server::find);
            servers.insert(name, (definition, installed));
        }
        Ok(Materials {
            profiles,
            eras,
            servers,
        })
    }

    /// The cells that this machine and its servers can make; a note for what is left out.
    pub(super) fn possible(&self, cells: Vec<Cell>, notes: &mut Vec<String>) -> Vec<Cell> {
        let mut missing: BTreeMap<&str, u32> = BTreeMap::new();
        let mut unable: BTreeMap<&str, u32> = BTreeMap::new();
        let mut can = |levels: &BTreeMap<String, String>| {
            let (name, (definition, installed)) = self
                .servers
                .get_key_value(&levels["server"])
                .expect("the servers of all cells were loaded");
            if definition.program.is_some() && installed.is_none() {
                *missing.entry(name).or_default() += 1;
                return false;
            }
            let able = levels
                .iter()
                .all(|(factor, level)| definition.can(factor, level));
            if !able {
                *unable.entry(name).or_default() += 1;
            }
            able
        };
        let kept = cells
            .into_iter()
            .filter(|cell| cell.asked().iter().all(&mut can))
            .collect();
        for (name, count) in missing {
            let package = self.servers[name]
                .0
                .program
                .as_ref()
                .map_or("", |program| program.package.as_str());
            notes.push(format!(
                "{name} is not installed: {count} cells left out; the Debian package is {package}"
            ));
        }
        for (name, count) in unable {
            notes.push(format!(
                "{name} cannot do {count} cells, which are left out"
            ));
        }
        kept
    }
}

/// The cells whose policy the load engine can carry out; a note for what is left out.
pub(super) fn askable(cells: Vec<Cell>, notes: &mut Vec<String>) -> Vec<Cell> {
    let mut left_out: BTreeMap<(String, &str), u32> = BTreeMap::new();
    let kept = cells
        .into_iter()
        .filter(|cell| {
            let policies = [
                Some(cell.level("policy")),
                cell.beside().map(|(policy, _)| policy),
            ];
            let refused = policies.into_iter().flatten().find_map(|policy| {
                let why = policy.parse().ok().and_then(crate::load::cannot)?;
                Some((policy.to_owned(), why))
            });
            let Some(refused) = refused else {
                return true;
            };
            *left_out.entry(refused).or_default() += 1;
            false
        })
        .collect();
    for ((policy, why), count) in left_out {
        notes.push(format!("policy {policy}: {count} cells left out; {why}"));
    }
    kept
}

/// The cells whose hosts can be limited as they ask; a note for what is left out.
pub(super) fn limitable(
    study: &Study,
    cells: Vec<Cell>,
    lacking: &Lacking,
    notes: &mut Vec<String>,
) -> Vec<Cell> {
    let mut left_out: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let kept = cells
        .into_iter()
        .filter(|cell| match ability::missing(study, cell, lacking) {
            Some(missing) => {
                *left_out.entry(missing).or_default() += 1;
                false
            }
            None => true,
        })
        .collect();
    for ((limit, reason), count) in left_out {
        notes.push(format!(
            "a host cannot be given a {limit} here: {count} cells left out; {reason}"
        ));
    }
    kept
}
