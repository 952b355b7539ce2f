//! Which file of a page names which others, where the page's plan says so.

use std::collections::HashMap;

use fathometer_model::{Page, Site};

use super::kind::FileKind;

/// What the files of a page name: a style sheet its fonts, a script what it asks for. A browser finds
/// that out by reading and executing them; this client is told, and acts on it at the time when a
/// browser could know.
///
/// What the base file names is found in its HTML as that arrives; what is told of it here and was not
/// found there is known when the base file is whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageGraph {
    names: HashMap<String, Vec<(String, FileKind)>>,
}

impl PageGraph {
    /// The graph of a page of a site.
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

    /// Says that the file at `by` names the one at `target`.
    pub fn add(&mut self, by: &str, target: &str, kind: FileKind) {
        let named = self.names.entry(by.to_owned()).or_default();
        named.push((target.to_owned(), kind));
    }

    /// What a file names, in order.
    pub(super) fn named_by(&self, target: &str) -> &[(String, FileKind)] {
        self.names.get(target).map_or(&[], Vec::as_slice)
    }
}
