//! Selects the cells of a study, loads the paths, eras, servers and workloads that the cells name, and determines the
//! cells that can run on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fathometer_analysis::run::{LeftOut, Mode};
use fathometer_path::Profile;

use super::experiment::{Experiment, Servers};
use super::spec::{Cell, SpecError, Study};
use fathometer_files::sha256;
use fathometer_lab::catalog::{Catalog, Item};
use fathometer_lab::data::{self, DataError};
use fathometer_lab::era::{Era, EraError};
use fathometer_lab::nearest::{suggestion, with_suggestion};
use fathometer_lab::server;
use fathometer_lab::server::definition::{Definition, DefinitionError};

/// The reason why cells cannot be selected, or why a file that they name cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum MaterialsError {
    /// The study is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A path, era, server or workload that the study names is not available.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An era is invalid.
    #[error(transparent)]
    Era(#[from] EraError),
    /// A server is invalid.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A path profile is invalid.
    #[error("{0}")]
    Profile(String),
    /// No cell has the requested levels.
    #[error("no cell of the study is left to run: {0}")]
    Empty(String),
    /// This machine cannot run any of the requested cells.
    #[error("no cell of the study is left to run: {0}")]
    Impossible(String),
}

impl MaterialsError {
    /// Converts the error of a profile. For an unknown key, adds the nearest known key.
    fn profile(error: &fathometer_path::ProfileError) -> MaterialsError {
        MaterialsError::Profile(with_suggestion(error))
    }
}

/// Returns the requested cells, including cells that this machine cannot run. `replicates` overrides the number in the
/// study.
pub(super) fn requested_cells(
    study: &Study,
    mode: Mode,
    only: &[(String, String)],
    replicates: Option<u32>,
) -> Result<Vec<Cell>, MaterialsError> {
    let mut cells = wanted_cells(study, mode, only)?;
    if let Some(replicates) = replicates {
        for cell in &mut cells {
            cell.replicates = replicates;
        }
    }
    Ok(cells)
}

/// Returns the cells of a mode that have the requested levels.
fn wanted_cells(
    study: &Study,
    mode: Mode,
    only: &[(String, String)],
) -> Result<Vec<Cell>, MaterialsError> {
    let factors: BTreeSet<&str> = only.iter().map(|(factor, _)| factor.as_str()).collect();
    let cells = study.cells(mode)?;
    for (factor, wanted) in only {
        if factor != "block" && !study.defaults.contains_key(factor) {
            return Err(MaterialsError::Empty(format!(
                "the study has no factor {factor:?}; it has block, {}{}",
                study
                    .defaults
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", "),
                suggestion(factor, study.defaults.keys().map(String::as_str))
            )));
        }
        let known: BTreeSet<&str> = cells.iter().map(|cell| level_of(cell, factor)).collect();
        if !known.contains(wanted.as_str()) {
            return Err(MaterialsError::Empty(format!(
                "the study has no {factor}={wanted}; {factor} can be {}{}",
                known.iter().copied().collect::<Vec<_>>().join(", "),
                suggestion(wanted, known.iter().copied())
            )));
        }
    }
    let kept: Vec<Cell> = cells
        .into_iter()
        .filter(|cell| {
            factors.iter().all(|factor| {
                only.iter()
                    .any(|(f, level)| f == factor && level_of(cell, f) == level)
            })
        })
        .collect();
    if kept.is_empty() {
        let wanted: Vec<String> = only
            .iter()
            .map(|(f, level)| format!("{f}={level}"))
            .collect();
        return Err(MaterialsError::Empty(format!(
            "no cell has all of {}",
            wanted.join(", ")
        )));
    }
    Ok(kept)
}

/// Returns the level of a factor. The name of the block can be selected like the level of a factor `block`.
fn level_of<'a>(cell: &'a Cell, factor: &str) -> &'a str {
    if factor == "block" {
        &cell.block
    } else {
        cell.level(factor)
    }
}

/// The selected cells, and the inputs that they name.
pub(super) struct Selection {
    pub(super) materials: Materials,
    /// The cells that this machine can run.
    pub(super) cells: Vec<Cell>,
    /// The cells that this machine cannot run.
    pub(super) left_out: Vec<LeftOut>,
}

impl Selection {
    /// Loads the inputs that these cells name, and determines the cells that this machine can run.
    pub(super) fn of(
        study: &Study,
        experiment: &dyn Experiment,
        catalog: &Catalog,
        cells: Vec<Cell>,
    ) -> Result<Selection, MaterialsError> {
        let materials = Materials::load(&cells, catalog)?;
        let mut left_out = Vec::new();
        let cells = materials.possible(cells, &mut left_out);
        let needs = experiment.needs(study, &materials.servers);
        let cells = kept(cells, &mut left_out, needs);
        Ok(Selection {
            materials,
            cells,
            left_out,
        })
    }
}

/// The inputs that cells name, each loaded once.
pub(super) struct Materials {
    pub(super) profiles: BTreeMap<String, (Profile, String)>,
    pub(super) eras: BTreeMap<String, Era>,
    pub(super) servers: Servers,
    /// The names of the inputs. Each has the hash of its file or, for a program, the version.
    pub(super) data: BTreeMap<String, String>,
}

impl Materials {
    /// Loads all inputs that these cells name.
    fn load(cells: &[Cell], catalog: &Catalog) -> Result<Materials, MaterialsError> {
        let levels = |factor: &str| -> BTreeSet<String> {
            cells
                .iter()
                .map(|cell| cell.level(factor).to_owned())
                .collect()
        };
        let mut data = BTreeMap::new();
        let mut profiles = BTreeMap::new();
        for name in levels("path") {
            let reference = catalog.find(Item::Path, &name)?;
            let text = data::load("paths", "path profile", &reference)?;
            let profile = Profile::from_toml(&text, &name)
                .map_err(|error| MaterialsError::profile(&error))?;
            data.insert(format!("path {name}"), sha256::of(text.as_bytes()));
            profiles.insert(name, (profile, text));
        }
        let mut eras = BTreeMap::new();
        for name in levels("era") {
            let reference = catalog.find(Item::Era, &name)?;
            let text = data::load("eras", "era", &reference)?;
            data.insert(format!("era {name}"), sha256::of(text.as_bytes()));
            eras.insert(name, Era::load(&reference)?);
        }
        let mut servers = BTreeMap::new();
        let names: BTreeSet<&str> = cells.iter().flat_map(Cell::servers).collect();
        for name in names {
            let name = name.to_owned();
            let definition = Definition::load(&catalog.find(Item::Server, &name)?)?;
            let installed = definition.program.as_ref().and_then(server::find);
            for (file, text) in definition.texts()? {
                data.insert(format!("server {file}"), sha256::of(text.as_bytes()));
            }
            if let Some(installed) = &installed {
                data.insert(format!("program {name}"), installed.version.clone());
            }
            servers.insert(name, (definition, installed));
        }
        for name in levels("workload") {
            // Only names such as `log:access.log` and `har:page.har` contain the path of a file.
            let reference = catalog.workload(&name);
            let file = reference.split_once(':').map(|(_, file)| Path::new(file));
            if let Some(hash) = file.and_then(|file| sha256::of_file(file).ok()) {
                data.insert(format!("workload {name}"), hash);
            }
        }
        Ok(Materials {
            profiles,
            eras,
            servers,
            data,
        })
    }

    /// Returns the cells that this machine and its servers support. Adds all other cells to `left_out`.
    fn possible(&self, cells: Vec<Cell>, left_out: &mut Vec<LeftOut>) -> Vec<Cell> {
        let refused = |levels: &BTreeMap<String, String>| {
            let name = &levels["server"];
            let (definition, installed) = self
                .servers
                .get(name)
                .expect("the servers of all cells were loaded");
            if let (Some(program), None) = (&definition.program, installed) {
                return Some(format!(
                    "{name} is not installed; the Debian package is {}",
                    program.package
                ));
            }
            let mut asked = levels.iter();
            asked
                .find_map(|(factor, level)| definition.inability(factor, level))
                .map(|reason| format!("{name}: {reason}"))
        };
        kept(cells, left_out, |cell| {
            cell.asked().iter().find_map(refused)
        })
    }
}

/// Returns the cells that can run. Adds all other cells, with the reason, to `left_out`.
fn kept(
    cells: Vec<Cell>,
    left_out: &mut Vec<LeftOut>,
    refused: impl Fn(&Cell) -> Option<String>,
) -> Vec<Cell> {
    cells
        .into_iter()
        .filter(|cell| match refused(cell) {
            Some(reason) => {
                left_out.push(cell.left_out(reason));
                false
            }
            None => true,
        })
        .collect()
}
