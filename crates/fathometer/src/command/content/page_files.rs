//! What documents load, in fewer files: style sheets and scripts concatenated, small images as sprites; alone, and
//! together with the other treatments.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use fathometer_content::{Coding, CodingError, KeptWhiteSpace, rewrite_html};
use fathometer_http::html::{Resolution, Resolver};

use super::concatenation::Concatenations;
use super::minified::{Minifiable, minify};
use super::place::{location, place};
use super::source::SiteFile;
#[cfg(feature = "images")]
use super::sprites::Sprites;
use super::table::Row;
use super::treatment::Sums;

/// Bytes of the documents, style sheets and scripts of a site, which are in memory together.
const MOST_BYTES: usize = 32 << 20;
/// The codings of concatenated files.
const CODINGS: [Option<Coding>; 3] = [None, Some(Coding::Gzip(6)), Some(STRONGEST)];
/// The coding that makes text smallest.
const STRONGEST: Coding = Coding::Brotli(11);
/// The row of all treatments together.
pub const ALL_TOGETHER: &str = "lossless images, sprites, minified, concatenated, brotli 11";

/// The documents of a site, with their style sheets and scripts.
#[derive(Debug)]
pub struct PageFiles {
    /// The site's folder, if it is one.
    folder: PathBuf,
    files: BTreeMap<String, Held>,
    bytes: usize,
    is_full: bool,
}

#[derive(Debug)]
struct Held {
    kind: HeldKind,
    content: Vec<u8>,
    /// Host and target, which relative URLs begin at.
    location: (String, String),
    /// Whether it is of an archive or a list: a query is then a part of a file's name.
    has_url: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeldKind {
    Html,
    Css,
    Script,
}

/// The sizes of the rows that these are compared with, by the names of their treatments.
pub type Bases<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Changes the images of a document, and returns it with the requests that this saves.
type Images<'a> = &'a dyn Fn(&Held) -> Option<(Vec<u8>, u64)>;

/// Files that are no longer loaded, and those in their place.
#[derive(Debug, Default)]
struct Change {
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
    /// Bytes of images, treated as far as the row has it.
    images_before: u64,
    images_after: u64,
    requests: u64,
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
    pub fn note(&mut self, file: &SiteFile) {
        let kind = if file.is_html() {
            HeldKind::Html
        } else if file.is_css() {
            HeldKind::Css
        } else if file.is_script() {
            HeldKind::Script
        } else {
            return;
        };
        self.bytes += file.content.len();
        if self.is_full || self.bytes > MOST_BYTES {
            self.is_full = true;
            self.files.clear();
            return;
        }
        if let Some(location) = location(&self.folder, file) {
            let held = Held {
                kind,
                content: file.content.clone(),
                has_url: file.media_type.is_some(),
                location,
            };
            let place = place(&held.location.0, &held.location.1);
            self.files.insert(place, held);
        }
    }

    fn of(&self, kind: HeldKind) -> impl Iterator<Item = &Held> {
        self.files.values().filter(move |file| file.kind == kind)
    }

    /// The rows, and what is not in them.
    pub fn rows(
        self,
        site_bytes: u64,
        bases: Bases<'_>,
        kept: &KeptWhiteSpace,
        #[cfg(feature = "images")] mut sprites: Sprites,
    ) -> Result<(Vec<Row>, Vec<String>), CodingError> {
        let mut notes = Vec::new();
        let mut rows = Vec::new();
        if self.is_full {
            let most = MOST_BYTES >> 20;
            notes.push(format!(
                "no concatenation and no sprites: documents, style sheets and scripts have more than {most} MiB"
            ));
            return Ok((rows, notes));
        }
        let is_free = |place: &str| !self.files.contains_key(place);
        let concatenations = self.concatenations(is_free, &mut notes);
        let plain = |_: HeldKind, content: &[u8]| content.to_vec();
        let mut push = |name: String, base: &str, coding, change: &Change| {
            if let (Some(base), true) = (bases(base), change.requests > 0) {
                let bytes = change.applied_to(base, coding)?;
                rows.push(row(name, site_bytes, bytes, change.requests));
            }
            Ok(())
        };
        let change = self.change(Some(&concatenations), &plain, &|_| None);
        for coding in CODINGS {
            let base = coding.map_or(String::new(), |coding| coding.to_string());
            let name = match coding {
                None => "concatenated".to_owned(),
                Some(coding) => format!("concatenated, {coding}"),
            };
            push(name, &base, coding, &change)?;
        }
        let short = |kind: HeldKind, content: &[u8]| minified(kind, content, kept);
        #[cfg(feature = "images")]
        {
            let made = self.sprites(&mut sprites).unwrap_or_else(|error| {
                notes.push(format!("no sprites: {error}"));
                Vec::new()
            });
            let sum = |bytes: fn(&super::sprites::SpriteFile) -> u64| made.iter().map(bytes).sum();
            let apply = |file: &Held| sprites.apply(&file.content, |url| file.place_of(url));
            let mut change = self.change(None, &plain, &apply);
            change.images_before = sum(|sprite| sprite.images_bytes);
            change.images_after = sum(|sprite| sprite.content.len() as u64);
            push("sprites".to_owned(), "", None, &change)?;
            let mut change = self.change(Some(&concatenations), &short, &apply);
            change.images_before = sum(|sprite| sprite.treated_bytes);
            change.images_after = sum(|sprite| sprite.content.len() as u64);
            let base = super::pictures::MINIFIED;
            let base = bases(base).map_or("minified, brotli 11", |_| base);
            push(ALL_TOGETHER.to_owned(), base, Some(STRONGEST), &change)?;
        }
        #[cfg(not(feature = "images"))]
        {
            let change = self.change(Some(&concatenations), &short, &|_| None);
            let base = "minified, brotli 11";
            push(ALL_TOGETHER.to_owned(), base, Some(STRONGEST), &change)?;
        }
        Ok((rows, notes))
    }

    /// The joined files of the site as it is.
    fn concatenations(
        &self,
        is_free: impl Fn(&str) -> bool,
        notes: &mut Vec<String>,
    ) -> Concatenations {
        let mut concatenations = Concatenations::default();
        for file in self.of(HeldKind::Html) {
            // A document that cannot be scanned stays as it is; the note on minification counts it.
            let _ = concatenations.note(&file.content, |url| file.place_of(url));
        }
        let content_of = |place: &str| Some(self.files.get(place)?.content.clone());
        let (_, left) = concatenations.make(content_of, is_free);
        if let Some(first) = left.first() {
            notes.push(format!(
                "{} groups of files are not concatenated; the first: {first}",
                left.len()
            ));
        }
        concatenations
    }

    #[cfg(feature = "images")]
    fn sprites(
        &self,
        sprites: &mut Sprites,
    ) -> Result<Vec<super::sprites::SpriteFile>, fathometer_content::image::ImageError> {
        let mut are_styled = false;
        for file in self.of(HeldKind::Css) {
            are_styled |= fathometer_content::names_element(&file.content, "img");
            fathometer_content::rewrite_css(&file.content, |url| {
                if let Some(place) = file.place_of(url) {
                    sprites.note_reference(place);
                }
                None
            });
        }
        for file in self.of(HeldKind::Html) {
            let _ = sprites.note_document(&file.content, are_styled, |url| file.place_of(url));
        }
        sprites.make(|_| true)
    }

    /// What changes if files are joined, and documents changed by `images`. Each content is treated before it counts.
    fn change(
        &self,
        concatenations: Option<&Concatenations>,
        treat: &dyn Fn(HeldKind, &[u8]) -> Vec<u8>,
        images: Images<'_>,
    ) -> Change {
        let mut change = Change::default();
        let mut named: HashMap<String, u64> = HashMap::new();
        let mut joined: HashMap<String, u64> = HashMap::new();
        let mut made = HashSet::new();
        for file in self.of(HeldKind::Html) {
            let place_of = |url: &str| file.place_of(url);
            let with_images = images(file);
            let source = with_images.as_ref().map_or(&file.content, |(html, _)| html);
            let applied = concatenations.and_then(|all| all.apply(source, place_of));
            let counted = rewrite_html(&file.content, |url| {
                if let Some(place) = place_of(url) {
                    *named.entry(place).or_default() += 1;
                }
                None
            });
            if let (Some(all), Ok(_)) = (concatenations, counted) {
                for run in all.joined_runs(&file.content, place_of) {
                    run.1
                        .iter()
                        .for_each(|place| *joined.entry(place.clone()).or_default() += 1);
                    made.insert(run);
                }
            }
            let requests = [&with_images, &applied].map(|one| one.as_ref().map_or(0, |one| one.1));
            let Some((html, _)) = applied.or(with_images) else {
                continue;
            };
            change.requests += requests.iter().sum::<u64>();
            change.before.push(treat(HeldKind::Html, &file.content));
            change.after.push(treat(HeldKind::Html, &html));
        }
        // A file that is named elsewhere, too, is still loaded.
        for (place, times) in joined {
            if named.get(&place) == Some(&times)
                && let Some(file) = self.files.get(&place)
            {
                change.before.push(treat(file.kind, &file.content));
            }
        }
        let treated = |place: &str| {
            let file = self.files.get(place)?;
            Some(treat(file.kind, &file.content))
        };
        if let Some(all) = concatenations {
            let joined = made.iter().filter_map(|files| all.joined(files, treated));
            change.after.extend(joined);
        }
        change
    }
}

impl Change {
    /// The bytes of a row with this change, whose bytes without it are `base`. A coding that makes a file no smaller is not
    /// used.
    fn applied_to(&self, base: u64, coding: Option<Coding>) -> Result<u64, CodingError> {
        let sum = |contents: &[Vec<u8>]| -> Result<u64, CodingError> {
            let mut sum = 0;
            for content in contents {
                let coded = coding.map(|coding| coding.encode(content)).transpose()?;
                let bytes = coded.map_or(content.len(), |coded| coded.len().min(content.len()));
                sum += bytes as u64;
            }
            Ok(sum)
        };
        let after = base + sum(&self.after)? + self.images_after;
        Ok(after.saturating_sub(sum(&self.before)? + self.images_before))
    }
}

impl Held {
    /// The place of the file that the URL means in this one.
    fn place_of(&self, url: &str) -> Option<String> {
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

fn minified(kind: HeldKind, content: &[u8], kept: &KeptWhiteSpace) -> Vec<u8> {
    let minifiable = match kind {
        HeldKind::Html => Minifiable::Html,
        HeldKind::Css => Minifiable::Css,
        HeldKind::Script => return content.to_vec(),
    };
    minify(minifiable, content, kept).unwrap_or_else(|_| content.to_vec())
}

fn row(name: String, site_bytes: u64, bytes: u64, requests: u64) -> Row {
    let sums = Sums {
        bytes,
        ..Sums::default()
    };
    let mut row = Row::new(name, site_bytes, sums);
    row.requests_saved = Some(requests);
    row
}
