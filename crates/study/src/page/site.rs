//! The files that a page study retrieves, by workload: a page, or sets of files without a page.
//!
//! If the base file of a workload's first page is HTML, the workload is a page: this HTML file and the files that it
//! names. Any other workload consists of sets: each of its pages is a list of files. Replicates use the sets in
//! rotation, and a replicate uses the same sets in every cell. Sets are served from a disk, because they are used to
//! measure the cost of the disk.
//!
//! Some files may change between two visits. Then a separate folder contains a second version of the sets. Its
//! unchanged files are hard links to the first version, so they have the same modification times.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use fathometer_http::driver::{FileKind, PageGraph, PageList};
use fathometer_model::{FileId, Page, Seed, Site};

use super::factors;
use crate::experiment::{Preparation, PrepareError};
use fathometer_files::site_folder::{self, SiteFolderError};
use fathometer_load::workload::Loaded;
use fathometer_origin::folder::SETTLED;

/// The difference between the modification times of a changed file and of its original, in seconds.
const YOUNGER: u64 = 86_400;

/// A page or sets of files to retrieve, and their site.
pub(super) struct PageSite {
    /// The original version.
    pub first: Version,
    /// The changed versions, indexed by the number of changed files per page.
    pub changed: BTreeMap<u32, Version>,
    /// The target of the page's base file.
    pub base: String,
    /// The references between the page's files.
    pub graph: Arc<PageGraph>,
    /// The sets of files, if there is no page.
    pub sets: Vec<Arc<PageList>>,
}

/// One version of a site.
pub(super) struct Version {
    /// The site in memory.
    pub site: Arc<Site>,
    /// The folder with the site's files, if a server reads them from disk; otherwise an empty path.
    pub folder: PathBuf,
}

impl PageSite {
    /// Builds the page or the sets of a workload. The files of sets are written below `folder`; the files of a page are
    /// written there only if `on_disk` is set. `changes` contains the numbers of changed files per page for which
    /// further versions are built.
    fn new(
        name: &str,
        loaded: &Loaded,
        seed: Seed,
        folder: PathBuf,
        on_disk: bool,
        changes: &BTreeSet<u32>,
    ) -> Result<PageSite, PrepareError> {
        let site = loaded.site(seed);
        let page = site.pages.first();
        let page = page.ok_or_else(|| PrepareError::NoPage(name.to_owned()))?;
        let base = site.file(page.base);
        let essence = base.content_type.split(';').next().unwrap_or_default();
        let is_page = matches!(essence.trim(), "text/html" | "application/xhtml+xml");
        let mut page = PageSite {
            base: base.path.clone(),
            graph: Arc::new(PageGraph::of(&site, page)),
            sets: match is_page {
                true => Vec::new(),
                false => site.pages.iter().map(|set| list(&site, set)).collect(),
            },
            changed: BTreeMap::new(),
            first: Version {
                site: Arc::new(site),
                folder,
            },
        };
        let on_disk = on_disk || page.is_sets();
        if on_disk {
            site_folder::write_for_servers(&page.first.site, &page.first.folder)?;
        }
        // The other site has files of the same sizes with different contents.
        let other = loaded.site(seed.stream("changed"));
        for &count in changes.iter().filter(|count| **count > 0) {
            let chosen = chosen(&page.first.site, count, seed);
            let site = with_changes(&page.first.site, &other, &chosen);
            let mut folder = page.first.folder.clone().into_os_string();
            folder.push(format!("-changed-{count}"));
            let version = Version {
                site: Arc::new(site),
                folder: folder.into(),
            };
            if on_disk {
                write_changed(&version, &page.first, &chosen)?;
            }
            page.changed.insert(count, version);
        }
        Ok(page)
    }

    /// Whether the workload consists of sets of files instead of a page.
    pub fn is_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Returns the `count` sets that a replicate retrieves one after another; empty if the workload is a page.
    pub fn sets_of(&self, replicate: u32, count: usize) -> Vec<Arc<PageList>> {
        let first = replicate as usize * count;
        let sets = self.sets.len().max(1);
        (first..first + count)
            .filter_map(|place| self.sets.get(place % sets).cloned())
            .collect()
    }

    /// Returns the page's base file as a list, so that its references are not followed.
    pub fn base_alone(&self) -> Arc<PageList> {
        Arc::new(PageList {
            folder: "/".to_owned(),
            files: vec![self.base.clone()],
        })
    }

    /// Returns the version with this number of changed files per page; `None` if it was not built.
    pub fn version(&self, changed: u32) -> Option<&Version> {
        match changed {
            0 => Some(&self.first),
            count => self.changed.get(&count),
        }
    }

    /// Returns a server's plan of the files to push or announce with the page: every embedded file that `wanted`
    /// accepts, in document order. The plan is empty if there are no such files.
    pub(super) fn companions(&self, wanted: impl Fn(FileKind) -> bool) -> String {
        let site = &self.first.site;
        let files = site.pages[0].embedded.iter().map(|&file| site.file(file));
        let chosen = files.filter(|file| wanted(FileKind::of_content_type(&file.content_type)));
        let targets: Vec<&str> = chosen.map(|file| file.path.as_str()).collect();
        match targets.is_empty() {
            true => String::new(),
            false => format!("{} {}\n", self.base, targets.join(" ")),
        }
    }
}

/// Returns a page's files as a list, with the deepest folder that contains all of them.
fn list(site: &Site, set: &Page) -> Arc<PageList> {
    let files: Vec<String> = members(set)
        .map(|file| site.file(file).path.clone())
        .collect();
    let first = files[0].as_str();
    let holds = |folder: &&str| files.iter().all(|file| file.starts_with(folder));
    let mut folders = first.match_indices('/').map(|(end, _)| &first[..=end]);
    let folder = folders.rfind(holds).unwrap_or("/").to_owned();
    Arc::new(PageList { folder, files })
}

fn members(page: &Page) -> impl Iterator<Item = FileId> {
    std::iter::once(page.base).chain(page.embedded.iter().copied())
}

/// Chooses `count` files of each page, or all files if the page has fewer. A larger count also chooses all files of a
/// smaller count.
fn chosen(site: &Site, count: u32, seed: Seed) -> BTreeSet<FileId> {
    let order = seed.stream("changed.order");
    let of_page = |page: &Page| {
        let mut files: Vec<FileId> = members(page).collect();
        files.sort_by_key(|file| (order.draw(u64::from(file.0)), *file));
        files.truncate(count as usize);
        files
    };
    site.pages.iter().flat_map(of_page).collect()
}

/// Returns a copy of `site` in which the chosen files come from `other`.
fn with_changes(site: &Site, other: &Site, chosen: &BTreeSet<FileId>) -> Site {
    let mut changed = site.clone();
    for &id in chosen {
        let file = &mut changed.files[id.0 as usize];
        file.body = other.file(id).body.clone();
        file.encoded = other.file(id).encoded.clone();
        file.last_modified += YOUNGER;
    }
    changed
}

/// Writes the changed files. Creates hard links to the unchanged files of the earlier version.
fn write_changed(
    version: &Version,
    before: &Version,
    chosen: &BTreeSet<FileId>,
) -> Result<(), SiteFolderError> {
    let mut written = Site {
        files: Vec::new(),
        pages: Vec::new(),
        ..(*version.site).clone()
    };
    for (file, id) in version.site.files.iter().zip((0..).map(FileId)) {
        match chosen.contains(&id) {
            true => written.files.push(file.clone()),
            false => site_folder::link(&file.path, &before.folder, &version.folder)?,
        }
    }
    site_folder::write_for_servers(&written, &version.folder)?;
    Ok(())
}

/// Loads the workloads of cells. Files are written below `scratch` if programs serve them or if they belong to sets.
pub(super) fn load(
    preparation: &Preparation<'_>,
    on_disk: bool,
) -> Result<BTreeMap<String, PageSite>, PrepareError> {
    let mut wanted: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for cell in preparation.cells {
        let changes = wanted.entry(cell.level("workload")).or_default();
        // The levels were checked when the study was read.
        changes.extend(factors::CHANGED.of(cell));
    }
    let mut pages = BTreeMap::new();
    for (name, changes) in wanted {
        let folder = preparation.scratch.join(name.replace(['/', ':'], "-"));
        let loaded = preparation.workload(name)?;
        let page = PageSite::new(name, &loaded, preparation.seed, folder, on_disk, &changes)?;
        pages.insert(name.to_owned(), page);
    }
    // Entity tags of recently modified large files are weak, and would change before a second visit.
    if pages.values().any(PageSite::is_sets) {
        std::thread::sleep(SETTLED);
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn loaded(name: &str) -> Loaded {
        fathometer_load::workload::load(name, Seed(1), &mut |_, _| {}).unwrap()
    }

    fn page(name: &str) -> PageSite {
        PageSite::new(
            name,
            &loaded(name),
            Seed(1),
            PathBuf::new(),
            false,
            &BTreeSet::new(),
        )
        .unwrap()
    }

    #[test]
    fn a_page_of_today_has_a_graph_and_companions() {
        let page = page("today");
        assert_eq!(page.base, "/index.html");
        assert!(!page.is_sets());
        assert!(page.sets_of(3, 1).is_empty());
        assert_ne!(*page.graph, PageGraph::default());
        let critical = page.companions(FileKind::is_critical);
        assert!(critical.starts_with("/index.html /css/0.css"), "{critical}");
        assert_eq!(critical.matches(".woff2").count(), 4);
        assert_eq!(critical.matches(".webp").count(), 0);
        let all = page.companions(|_| true);
        assert_eq!(all.split_whitespace().count(), 80);
    }

    #[test]
    fn microscape_names_all_in_its_html() {
        let page = page("microscape");
        assert_eq!(page.base, "/microscape.html");
        assert_eq!(page.companions(FileKind::is_critical), "");
        assert_eq!(page.companions(|_| true).split_whitespace().count(), 43);
    }

    #[test]
    fn files_without_a_page_are_sets_that_replicates_take_in_turn() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("pareto-4k");
        let changes = BTreeSet::from([0, 5, 50]);
        let page = PageSite::new(
            "pareto-4k",
            &loaded("pareto-4k"),
            Seed(1),
            folder,
            false,
            &changes,
        )
        .unwrap();
        assert_eq!(page.sets.len(), 10);
        let folders = |replicate, count| -> Vec<String> {
            let sets = page.sets_of(replicate, count);
            sets.iter().map(|set| set.folder.clone()).collect()
        };
        assert_eq!(folders(3, 1), ["/set3/"]);
        assert_eq!(folders(13, 1), ["/set3/"]);
        assert_eq!(
            folders(1, 5),
            ["/set5/", "/set6/", "/set7/", "/set8/", "/set9/"]
        );
        assert_eq!(page.sets[9].files.len(), 100);
        assert_eq!(page.sets[9].files[99], "/set9/file99.txt");

        // Five files of each set differ, and they are among the fifty.
        let differing = |count| -> BTreeSet<String> {
            let (one, other) = (&page.first, page.version(count).unwrap());
            let paths = one.site.files.iter().map(|file| file.path.clone());
            let read = |version: &Version, path: &str| {
                fs::read(version.folder.join(path.trim_start_matches('/'))).unwrap()
            };
            paths
                .filter(|path| read(one, path) != read(other, path))
                .collect()
        };
        let (five, fifty) = (differing(5), differing(50));
        assert_eq!((five.len(), fifty.len()), (50, 500));
        assert!(five.is_subset(&fifty));
        // An unchanged file has the same inode. A changed file has the same size and is newer.
        let metadata = |version: &Version, path: &str| {
            fs::metadata(version.folder.join(path.trim_start_matches('/'))).unwrap()
        };
        let second = page.version(5).unwrap();
        for file in &page.first.site.files {
            let (before, after) = (
                metadata(&page.first, &file.path),
                metadata(second, &file.path),
            );
            assert_eq!(before.len(), after.len());
            match five.contains(&file.path) {
                true => assert!(after.mtime() > before.mtime()),
                false => assert_eq!(before.ctime(), after.ctime()),
            }
        }
        assert!(page.version(7).is_none());
    }
}
