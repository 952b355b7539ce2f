//! The references between the files of a page, if the site's plan contains them.

use std::collections::HashMap;

use fathometer_model::{Page, Site};

use super::kind::FileKind;

/// The references of a page's files: a style sheet to its fonts, a script to the files that it requests. A browser
/// finds them by parsing and executing these files. This client reads the references from the graph, and follows each
/// reference at the time when a browser could find it.
///
/// References of the base file are found in its HTML as it arrives. References that are only in the graph are
/// followed when the base file is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageGraph {
    names: HashMap<String, Vec<(String, FileKind)>>,
}

impl PageGraph {
    /// Returns the graph of a page of a site.
    pub fn of(site: &Site, page: &Page) -> PageGraph {
        let mut graph = PageGraph::default();
        for (place, &embedded) in page.embedded.iter().enumerate() {
            let by = page.named_by.get(place).copied().flatten();
            let by = by.map_or(page.base, |by| page.embedded[usize::from(by)]);
            let file = site.file(embedded);
            let kind = FileKind::of_content_type(&file.content_type);
            graph.add(&site.file(by).path, &file.path, kind);
        }
        graph
    }

    /// Adds a reference from the file at `by` to the file at `target`.
    pub fn add(&mut self, by: &str, target: &str, kind: FileKind) {
        let named = self.names.entry(by.to_owned()).or_default();
        named.push((target.to_owned(), kind));
    }

    /// The references of a file, in order.
    pub(super) fn named_by(&self, target: &str) -> &[(String, FileKind)] {
        self.names.get(target).map_or(&[], Vec::as_slice)
    }
}
