//! The pages of a study, by workload.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathometer_http::driver::{FileKind, PageGraph};
use fathometer_model::{Seed, Site};

use super::super::run::RunError;
use super::super::spec::Cell;
use crate::site_folder;
use crate::workload;

/// A page to be retrieved, and the site that it is on.
pub struct PageSite {
    /// The site, in memory.
    pub site: Arc<Site>,
    /// The same on disk, for programs. Empty when no cell has a program for its server.
    pub folder: PathBuf,
    /// The target of the page's base file.
    pub base: String,
    /// What its files name.
    pub graph: Arc<PageGraph>,
}

impl PageSite {
    /// The first page of a workload.
    fn new(name: &str, seed: Seed, folder: PathBuf) -> Result<PageSite, RunError> {
        let loaded = workload::load(name, seed, &mut |_, _| {})?;
        let site = loaded.site(seed);
        let page = site.pages.first();
        let page = page.ok_or_else(|| RunError::Workload(name.to_owned()))?;
        let base = site.file(page.base).path.clone();
        let graph = Arc::new(PageGraph::of(&site, page));
        Ok(PageSite {
            base,
            graph,
            folder,
            site: Arc::new(site),
        })
    }

    /// A server's plan of what goes with the page: every embedded file that `wanted` says, in document
    /// order. Empty when there is none.
    pub(super) fn companions(&self, wanted: impl Fn(FileKind) -> bool) -> String {
        let page = &self.site.pages[0];
        let files = page.embedded.iter().map(|&file| self.site.file(file));
        let chosen = files.filter(|file| wanted(FileKind::of_content_type(&file.content_type)));
        let targets: Vec<&str> = chosen.map(|file| file.path.as_str()).collect();
        match targets.is_empty() {
            true => String::new(),
            false => format!("{} {}\n", self.base, targets.join(" ")),
        }
    }
}

/// The pages that cells name, with their files in folders below `scratch` where programs serve them.
pub fn load(
    cells: &[Cell],
    seed: Seed,
    on_disk: bool,
    scratch: &Path,
) -> Result<BTreeMap<String, PageSite>, RunError> {
    let names: BTreeSet<&str> = cells.iter().map(|cell| cell.level("workload")).collect();
    let mut pages = BTreeMap::new();
    for name in names {
        let folder = scratch.join(name.replace(['/', ':'], "-"));
        let page = PageSite::new(name, seed, folder)?;
        if on_disk {
            site_folder::write(&page.site, &page.folder)?;
        }
        pages.insert(name.to_owned(), page);
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_today_has_a_graph_and_companions() {
        let page = PageSite::new("today", Seed(1), PathBuf::new()).unwrap();
        assert_eq!(page.base, "/index.html");
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
        let page = PageSite::new("microscape", Seed(1), PathBuf::new()).unwrap();
        assert_eq!(page.base, "/microscape.html");
        assert_eq!(page.companions(FileKind::is_critical), "");
        assert_eq!(page.companions(|_| true).split_whitespace().count(), 43);
    }
}
