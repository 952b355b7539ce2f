//! The site that is requested: an existing folder, or a workload's site, which is written to a temporary folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathometer_model::{Bytes, Seed};
use fathometer_workload::plan::{Choice, Pages, Plan, Sessions, Target, Weights};
use fathometer_workload::webstone;

use super::error::SearchError;
use fathometer_files::scratch::Scratch;
use fathometer_files::site_folder;
use fathometer_load::workload;

/// A site on disk, and the plan of its requests.
#[derive(Debug)]
pub struct SiteOnDisk {
    /// The name of the site on the command line.
    pub name: String,
    /// The requests.
    pub plan: Arc<Plan>,
    /// The folder with the site's files.
    pub folder: PathBuf,
    /// The total size of the site's files, in bytes.
    pub size: Bytes,
    /// Notes about the workload for the user.
    pub notes: Vec<String>,
    // The temporary folder. It is removed when the site is dropped.
    _scratch: Option<Scratch>,
}

impl SiteOnDisk {
    /// Loads the folder of this name if it exists, otherwise the workload of this name.
    pub fn of(name: &str, seed: Seed) -> Result<SiteOnDisk, SearchError> {
        let path = Path::new(name);
        if path.is_dir() {
            return SiteOnDisk::folder(name, path);
        }
        let loaded = workload::load(name, seed, &mut |_, _| {})?;
        let notes = loaded.notes();
        let site = loaded.site(seed);
        SiteOnDisk::write(name, &site, loaded.into_plan(), notes)
    }

    /// Creates a site of `count` files of `bytes` bytes each. All files are requested with equal probability.
    pub fn alike(count: u32, bytes: u64, seed: Seed) -> Result<SiteOnDisk, SearchError> {
        let lines: String = (0..count)
            .map(|n| format!("/file{n}.bin 1 #{bytes}\n"))
            .collect();
        let name = format!("{count} files of {}", Bytes(bytes));
        let workload = webstone::parse(&name, &lines)?;
        let site = workload.site(fathometer_workload::synthetic::TEXT_RATIO, seed);
        SiteOnDisk::write(&name, &site, workload.plan, Vec::new())
    }

    fn write(
        name: &str,
        site: &fathometer_model::Site,
        plan: Plan,
        notes: Vec<String>,
    ) -> Result<SiteOnDisk, SearchError> {
        let scratch = Scratch::new()?;
        // The site is in a subfolder, so that the server's own files are outside the site.
        let folder = scratch.path().join("site");
        site_folder::write_for_servers(site, &folder)?;
        Ok(SiteOnDisk {
            name: name.to_owned(),
            plan: Arc::new(plan),
            folder,
            size: site.files.iter().map(|file| file.body.len()).sum(),
            notes,
            _scratch: Some(scratch),
        })
    }

    /// Loads a site from a folder: every file is a page, and all pages are requested with equal probability.
    fn folder(name: &str, path: &Path) -> Result<SiteOnDisk, SearchError> {
        let site = site_folder::read(path)?;
        let targets: Vec<Target> = site
            .files
            .iter()
            .map(|file| Target::get(&file.path, Some(file.body.len())))
            .collect();
        let count = targets.len() as u32;
        let plan = Plan {
            name: name.to_owned(),
            pages: Pages::single(count),
            targets,
            choice: Choice::Weighted(
                Weights::new((0..count).map(|_| 1)).ok_or(SearchError::NoFile)?,
            ),
            sessions: Sessions::ENDLESS,
            recorded: None,
        };
        Ok(SiteOnDisk {
            name: name.to_owned(),
            size: site.files.iter().map(|file| file.body.len()).sum(),
            plan: Arc::new(plan),
            folder: path.canonicalize()?,
            notes: Vec::new(),
            _scratch: None,
        })
    }
}
