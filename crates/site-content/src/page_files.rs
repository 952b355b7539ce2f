//! The documents, style sheets and scripts of a site, and what changes when files of them are joined.

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

/// Bytes of the documents, style sheets and scripts of a site, which are in memory together.
pub const MOST_BYTES: usize = 32 << 20;

/// The documents of a site, with their style sheets and scripts.
#[derive(Debug)]
pub struct PageFiles {
    /// The site's folder, if it is one.
    folder: PathBuf,
    files: BTreeMap<String, Held>,
    bytes: usize,
    /// Whether there are more files than may be in memory; none is then.
    pub is_full: bool,
}

/// A file in memory.
#[derive(Debug)]
pub struct Held {
    kind: HeldKind,
    /// Its content.
    pub content: Vec<u8>,
    costs: FileCosts,
    /// Host and target, which relative URLs begin at.
    location: (String, String),
    /// Whether it is of an archive or a list: a query is then a part of a file's name.
    has_url: bool,
}

/// What a file in memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldKind {
    /// A document.
    Html,
    /// A style sheet.
    Css,
    /// A script.
    Script,
}

/// A document after a change, and how many requests fewer a first visit makes.
pub type JoinedDocument = (Vec<u8>, u64);

/// What is joined, and how the results are treated before a content coding.
#[derive(Clone, Copy)]
pub struct Joins<'a> {
    /// Style sheets and scripts.
    pub concatenations: Option<&'a Concatenations>,
    /// Changes the images of a document, and returns it with the requests that this saves.
    pub images: &'a dyn Fn(&Held) -> Option<JoinedDocument>,
    /// What is made of each document, style sheet and script.
    pub treat: &'a dyn Fn(HeldKind, &[u8]) -> Vec<u8>,
    /// How many times each file is made, for the spread of the CPU time.
    pub repetitions: usize,
}

/// Files that are no longer loaded, and those in their place.
#[derive(Debug, Default)]
pub struct Change<'a> {
    /// What the files cost that are no longer loaded as they are.
    pub gone: Vec<&'a FileCosts>,
    /// The files in their place.
    pub made: Vec<Made>,
    /// Requests fewer of first visits of all documents together.
    pub requests: u64,
}

/// A file that takes the place of others.
#[derive(Debug)]
pub struct Made {
    /// Its place.
    pub place: String,
    /// Its content.
    pub content: Vec<u8>,
    /// Bytes of the files that it takes the place of.
    pub others_bytes: u64,
    /// What it costs to make.
    pub cost: MakingCost,
}

/// The files that take the place of others of a site.
#[derive(Debug)]
pub struct JoinedSite {
    /// How they are joined, as in `concatenated`.
    pub name: &'static str,
    /// Their places, with their contents before a content coding.
    pub files: Vec<(String, Vec<u8>)>,
}

/// What a file costs that takes the place of others.
#[derive(Debug)]
pub enum MakingCost {
    /// CPU times to make a text, before a content coding.
    Text(Vec<Duration>),
    /// What was made of an image, which has no content coding.
    #[cfg_attr(
        not(feature = "images"),
        expect(dead_code, reason = "only the treatments of images make one")
    )]
    Image(Applied),
}

impl PageFiles {
    /// Those of a site in this folder, or elsewhere.
    pub fn new(folder: &Path) -> PageFiles {
        PageFiles {
            folder: folder.to_owned(),
            files: BTreeMap::new(),
            bytes: 0,
            is_full: false,
        }
    }

    /// Keeps the file if it is a document, a style sheet or a script.
    pub fn note(&mut self, file: &SiteFile, costs: FileCosts) {
        let kind = if file.is_html() {
            HeldKind::Html
        } else if file.is_css() {
            HeldKind::Css
        } else if file.is_script() {
            HeldKind::Script
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

    /// The files of this kind, in the order of their places.
    pub fn of(&self, kind: HeldKind) -> impl Iterator<Item = &Held> {
        self.files.values().filter(move |file| file.kind == kind)
    }

    /// The file at this place.
    pub fn get(&self, place: &str) -> Option<&Held> {
        self.files.get(place)
    }

    /// Whether the site has no file at this place.
    pub fn is_free(&self, place: &str) -> bool {
        let target = place.split_once('/').map_or("", |(_, target)| target);
        let path = self.folder.join(site_folder::name_of(target));
        !self.files.contains_key(place) && !path.exists()
    }

    /// What changes if files are joined.
    pub fn change(&self, joins: &Joins<'_>) -> Change<'_> {
        let mut change = Change::default();
        let mut runs = Runs::default();
        for (place, file) in &self.files {
            if file.kind != HeldKind::Html {
                continue;
            }
            if let Some(all) = joins.concatenations {
                runs.note(file, all);
            }
            let made = repeated(joins.repetitions, || {
                let (html, requests) = file.joined(joins)?;
                Some(((joins.treat)(HeldKind::Html, &html), requests))
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

    /// Adds the files that were joined, and removes those that nothing else names.
    fn concatenate<'a>(
        &'a self,
        all: &Concatenations,
        mut runs: Runs,
        joins: &Joins<'_>,
        change: &mut Change<'a>,
    ) {
        for sheet in self.of(HeldKind::Css) {
            rewrite_css(&sheet.content, |url| {
                runs.name(sheet.place_of(url));
                None
            });
        }
        for (place, times) in &runs.joined {
            // A file that is named elsewhere, too, is still loaded.
            let file = self.get(place).filter(|file| file.kind != HeldKind::Html);
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

/// The files that documents load one after the other.
#[derive(Debug, Default)]
struct Runs {
    /// How often files are named, by their places.
    named: HashMap<String, u64>,
    /// How often they are named as parts of runs that are joined.
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
    /// The document after the joins, and the requests that they save; `None` if nothing changes.
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

    /// The place of the file that the URL means in this one.
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
