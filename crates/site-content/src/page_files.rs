//! The documents, style sheets and scripts of a site, and the changes when files are joined.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathometer_content::{rewrite_css, rewrite_html};
use fathometer_files::site_folder;
use fathometer_http::html::{Resolution, Resolver};

use super::concatenation::Concatenations;
use super::place::{location, place};
use super::source::SiteFile;
use super::treatment::{Applied, FileCosts, repeated};

/// The maximum size in bytes of the documents, style sheets and scripts of a site, which are all in memory.
pub const MOST_BYTES: usize = 32 << 20;

/// The documents of a site, with their style sheets and scripts.
#[derive(Debug)]
pub struct PageFiles {
    /// The folder of the site, if the site is a folder.
    folder: PathBuf,
    files: BTreeMap<String, Held>,
    bytes: usize,
    /// Whether the files exceed the memory limit. No files are then stored.
    pub is_full: bool,
}

/// A file in memory.
#[derive(Debug)]
pub struct Held {
    kind: PageFileKind,
    /// The content of the file.
    pub content: Vec<u8>,
    costs: FileCosts,
    /// The host and target of the file, which are the base of relative URLs.
    location: (String, String),
    /// Whether the file comes from an archive or a list, so that a query is part of its name.
    has_url: bool,
}

/// The kind of a file in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFileKind {
    /// A document.
    Html,
    /// A style sheet.
    Css,
    /// A script.
    Script,
}

/// A changed document, and the number of requests that a first visit saves.
pub type JoinedDocument = (Vec<u8>, u64);

/// The files to join, and the treatment of the results before a content coding.
#[derive(Clone, Copy)]
pub struct Joins<'a> {
    /// Style sheets and scripts.
    pub concatenations: Option<&'a Concatenations>,
    /// Changes the images of a document. Returns the document, and the number of requests saved.
    pub images: &'a dyn Fn(&Held) -> Option<JoinedDocument>,
    /// Treats the content of each document, style sheet and script.
    pub treat: &'a dyn Fn(PageFileKind, &[u8]) -> Vec<u8>,
    /// The number of times that each file is created, so that the CPU time has a spread.
    pub repetitions: usize,
}

/// The files that are no longer loaded, and the files that replace them.
#[derive(Debug, Default)]
pub struct Change<'a> {
    /// The costs of the files that are no longer loaded in their original form.
    pub gone: Vec<&'a FileCosts>,
    /// The files that replace them.
    pub made: Vec<Made>,
    /// The number of requests saved in first visits of all documents together.
    pub requests: u64,
}

/// A file that replaces other files.
#[derive(Debug)]
pub struct Made {
    /// The place of the file.
    pub place: String,
    /// The content of the file.
    pub content: Vec<u8>,
    /// The bytes of the files that this file replaces.
    pub others_bytes: u64,
    /// The cost of creating the file.
    pub cost: MakingCost,
}

/// The files that replace other files of a site.
#[derive(Debug)]
pub struct JoinedSite {
    /// The kind of joining, such as `concatenated`.
    pub name: &'static str,
    /// The places of the files, with their contents before a content coding.
    pub files: Vec<(String, Vec<u8>)>,
}

/// The cost of creating a file that replaces other files.
#[derive(Debug)]
pub enum MakingCost {
    /// The CPU times to create a text, before a content coding.
    Text(Vec<Duration>),
    /// The result for an image, which has no content coding.
    #[cfg_attr(
        not(feature = "images"),
        expect(dead_code, reason = "only built with the feature `images`")
    )]
    Image(Applied),
}

impl PageFiles {
    /// Creates an empty collection for a site in this folder, or from another source.
    pub fn new(folder: &Path) -> PageFiles {
        PageFiles {
            folder: folder.to_owned(),
            files: BTreeMap::new(),
            bytes: 0,
            is_full: false,
        }
    }

    /// Stores the file if it is a document, a style sheet or a script.
    pub fn note(&mut self, file: &SiteFile, costs: FileCosts) {
        let kind = if file.is_html() {
            PageFileKind::Html
        } else if file.is_css() {
            PageFileKind::Css
        } else if file.is_script() {
            PageFileKind::Script
        } else {
            return;
        };
        self.bytes += file.content.len() + costs.size();
        if self.is_full || self.bytes > MOST_BYTES {
            self.is_full = true;
            self.files.clear();
            return;
        }
        if let Some(location) = location(&self.folder, file) {
            let held = Held {
                kind,
                content: file.content.clone(),
                costs,
                has_url: file.media_type.is_some(),
                location,
            };
            let place = place(&held.location.0, &held.location.1);
            self.files.insert(place, held);
        }
    }

    /// Returns the files of this kind, in the order of their places.
    pub fn of(&self, kind: PageFileKind) -> impl Iterator<Item = &Held> {
        self.files.values().filter(move |file| file.kind == kind)
    }

    /// Returns the file at this place.
    pub fn get(&self, place: &str) -> Option<&Held> {
        self.files.get(place)
    }

    /// Returns whether the site has no file at this place.
    pub fn is_free(&self, place: &str) -> bool {
        let target = place.split_once('/').map_or("", |(_, target)| target);
        let path = self.folder.join(site_folder::name_of(target));
        !self.files.contains_key(place) && !path.exists()
    }

    /// Returns the changes if files are joined.
    pub fn change(&self, joins: &Joins<'_>) -> Change<'_> {
        let mut change = Change::default();
        let mut runs = Runs::default();
        for (place, file) in &self.files {
            if file.kind != PageFileKind::Html {
                continue;
            }
            if let Some(all) = joins.concatenations {
                runs.note(file, all);
            }
            let made = repeated(joins.repetitions, || {
                let (html, requests) = file.joined(joins)?;
                Some(((joins.treat)(PageFileKind::Html, &html), requests))
            });
            if let Some(((content, requests), times)) = made {
                change.requests += requests;
                change.gone.push(&file.costs);
                change.made.push(Made {
                    place: place.clone(),
                    content,
                    others_bytes: file.costs.bytes,
                    cost: MakingCost::Text(times),
                });
            }
        }
        if let Some(all) = joins.concatenations {
            self.concatenate(all, runs, joins, &mut change);
        }
        change
    }

    /// Adds the joined files, and removes the files that have no other reference.
    fn concatenate<'a>(
        &'a self,
        all: &Concatenations,
        mut runs: Runs,
        joins: &Joins<'_>,
        change: &mut Change<'a>,
    ) {
        for sheet in self.of(PageFileKind::Css) {
            rewrite_css(&sheet.content, |url| {
                runs.name(sheet.place_of(url));
                None
            });
        }
        for (place, times) in &runs.joined {
            // A file with another reference is still loaded.
            let file = self
                .get(place)
                .filter(|file| file.kind != PageFileKind::Html);
            if runs.named.get(place) == Some(times) {
                change.gone.extend(file.map(|file| &file.costs));
            }
        }
        let treated = |place: &str| {
            let file = self.get(place)?;
            Some((joins.treat)(file.kind, &file.content))
        };
        for files in &runs.made {
            let made = repeated(joins.repetitions, || all.joined(files, treated));
            if let (Some((content, times)), Some(place)) = (made, all.place(files)) {
                let others = files.1.iter().filter_map(|place| self.get(place));
                change.made.push(Made {
                    place,
                    content,
                    others_bytes: others.map(|file| file.costs.bytes).sum(),
                    cost: MakingCost::Text(times),
                });
            }
        }
    }
}

/// The joined runs of all documents.
#[derive(Debug, Default)]
struct Runs {
    /// The number of references to each file, by place.
    named: HashMap<String, u64>,
    /// The number of references to each file within joined runs, by place.
    joined: HashMap<String, u64>,
    made: BTreeSet<super::concatenation::Files>,
}

impl Runs {
    fn note(&mut self, file: &Held, all: &Concatenations) {
        let counted = rewrite_html(&file.content, |url| {
            self.name(file.place_of(url));
            None
        });
        if counted.is_err() {
            return;
        }
        for run in all.joined_runs(&file.content, |url| file.place_of(url)) {
            for place in &run.1 {
                *self.joined.entry(place.clone()).or_default() += 1;
            }
            self.made.insert(run);
        }
    }

    fn name(&mut self, place: Option<String>) {
        if let Some(place) = place {
            *self.named.entry(place).or_default() += 1;
        }
    }
}

impl Held {
    /// Returns the document after joining, and the number of requests saved; `None` if nothing changes.
    fn joined(&self, joins: &Joins<'_>) -> Option<JoinedDocument> {
        let with_images = (joins.images)(self);
        let source = with_images.as_ref().map_or(&self.content, |(html, _)| html);
        let applied = joins
            .concatenations
            .and_then(|all| all.apply(source, |url| self.place_of(url)));
        let requests = [&with_images, &applied].map(|one| one.as_ref().map_or(0, |one| one.1));
        let (html, _) = applied.or(with_images)?;
        Some((html, requests.iter().sum()))
    }

    /// Returns the place of the file to which the URL refers in this document or style sheet.
    pub fn place_of(&self, url: &str) -> Option<String> {
        let (authority, target) = &self.location;
        match Resolver::new(authority, target).resolve(url.as_bytes()) {
            Resolution::Target(target) => {
                let target = match self.has_url {
                    true => target.as_str(),
                    false => target.split('?').next()?,
                };
                Some(place(authority, target))
            }
            _ => None,
        }
    }
}
