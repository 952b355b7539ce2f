//! The workloads of a load study, with their files on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use fathometer_workload::plan::Plan;

use crate::experiment::{Preparation, PrepareError};
use crate::spec::Cell;
use fathometer_files::site_folder;

/// A workload of a load study.
pub(super) struct LoadSite {
    /// The requests.
    pub(super) plan: Arc<Plan>,
    /// The folder with the site's files.
    pub(super) folder: PathBuf,
}

/// The workloads of all cells, by name.
pub(super) struct Sites(BTreeMap<String, LoadSite>);

impl Sites {
    /// Writes the workloads of the cells, each to its own folder in the temporary folder. Returns them with notes about
    /// them for the run's record.
    pub(super) fn write(
        preparation: &Preparation<'_>,
    ) -> Result<(Sites, Vec<String>), PrepareError> {
        let seed = preparation.seed;
        let cells = preparation.cells.iter();
        let names: BTreeSet<&str> = cells.map(|cell| cell.level("workload")).collect();
        let (mut sites, mut notes) = (BTreeMap::new(), Vec::new());
        for name in names {
            let loaded = preparation.workload(name)?;
            let folder = preparation.scratch.join(name.replace(['/', ':'], "-"));
            site_folder::write_for_servers(&loaded.site(seed), &folder)?;
            let of_workload = loaded.notes();
            notes.extend(of_workload.iter().map(|note| format!("{name}: {note}")));
            let site = LoadSite {
                plan: Arc::new(loaded.into_plan()),
                folder,
            };
            sites.insert(name.to_owned(), site);
        }
        Ok((Sites(sites), notes))
    }

    /// Returns the prepared workload of a cell.
    pub(super) fn of(&self, cell: &Cell) -> &LoadSite {
        let site = self.0.get(cell.level("workload"));
        site.expect("the workloads of all cells were written")
    }
}
