//! Images that HTML and CSS could replace, with the tags that show them. These are proposals, which are never applied.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fathometer_analysis::content_page::{ImageFile, Replaced};
use fathometer_content::image::{Format, Picture, Replacement};
use fathometer_content::{ImageTag, Unchanged, image_tags};
use fathometer_http::html::{Resolution, Resolver};

use crate::place::{location, place};
use crate::source::SiteFile;

/// The maximum number of images whose tags are recorded.
const MOST_SHOWN: usize = 100_000;
/// The maximum number of proposed images; additional images are only counted.
const MOST_FOUND: usize = 500;
/// The maximum number of bytes of all these images.
const MOST_BYTES: usize = 8 << 20;
/// The largest considered image, in bytes: images of one colour and images of text are smaller.
const LARGEST: usize = 256 << 10;
/// The maximum number of different sizes at which an image is shown.
const MOST_SIZES: usize = 50;
/// The longest accepted text, in bytes.
const LONGEST_TEXT: usize = 1_000;

/// The proposals until now.
#[derive(Debug)]
pub struct Proposals {
    /// The folder of the site, if the site is a folder.
    folder: PathBuf,
    shown: HashMap<String, Shown>,
    found: Vec<Found>,
    bytes: usize,
    left_out: u64,
}

/// The tags that show an image.
#[derive(Debug, Default)]
struct Shown {
    tags: u64,
    bytes: u64,
    /// The first non-empty text of these tags.
    alt: Option<String>,
    /// The widths and heights in the tags, each with the number of tags.
    sizes: Vec<([Option<u32>; 2], u64)>,
    /// Whether the size in a tag is not a number of pixels, or there are too many sizes.
    has_odd_size: bool,
    /// Whether a tag has attributes that a replacement would also need.
    has_attributes: bool,
}

/// An image that could be replaced.
#[derive(Debug)]
struct Found {
    path: String,
    /// The place of the image in the site, as returned by [`place`].
    place: String,
    file: ImageFile,
    replacement: Replacement,
}

impl Proposals {
    /// Creates proposals for a site in this folder, or from another source.
    pub fn new(folder: &Path) -> Proposals {
        Proposals {
            folder: folder.to_owned(),
            shown: HashMap::new(),
            found: Vec::new(),
            bytes: 0,
            left_out: 0,
        }
    }

    /// Records the images that a document shows.
    pub fn note_document(&mut self, file: &SiteFile) {
        let Some((authority, target)) = location(&self.folder, file) else {
            return;
        };
        let resolver = Resolver::new(&authority, &target);
        let mut tags = Vec::new();
        if image_tags(&file.content, |tag| tags.push(tag)) == Err(Unchanged::Base) {
            return;
        }
        // If a construct depends on the element tree, the tags before it are still counted.
        for tag in tags {
            let Resolution::Target(target) = resolver.resolve(tag.source.as_bytes()) else {
                continue;
            };
            let place = place(&authority, &target);
            if self.shown.len() < MOST_SHOWN || self.shown.contains_key(&place) {
                self.shown.entry(place).or_default().add(&tag);
            }
        }
    }

    /// Records an image if it could be replaced.
    pub fn note_image(&mut self, file: &SiteFile, format: Format, picture: &Picture) {
        if file.content.len() > LARGEST {
            return;
        }
        let Some((authority, target)) = location(&self.folder, file) else {
            return;
        };
        let Some(replacement) = Replacement::of(picture) else {
            return;
        };
        if self.found.len() == MOST_FOUND || self.bytes + file.content.len() > MOST_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += file.content.len();
        self.found.push(Found {
            path: file.path.display().to_string(),
            place: place(&authority, &target),
            file: ImageFile {
                media_type: format.media_type(),
                content: file.content.clone(),
            },
            replacement,
        });
    }

    /// Returns the proposals, in descending order of their savings, and notes on images without a proposal.
    pub fn take(&mut self) -> (Vec<Replaced>, Vec<String>) {
        let mut notes = Vec::new();
        if self.left_out > 0 {
            let more = self.left_out;
            notes.push(format!(
                "{more} more images may be replaceable by HTML and CSS"
            ));
        }
        let (mut not_shown, mut scaled) = (0_u64, 0_u64);
        let mut proposals = Vec::new();
        for found in std::mem::take(&mut self.found) {
            let Some(shown) = self.shown.get(&found.place) else {
                not_shown += 1;
                continue;
            };
            let Some((html, bytes_after)) = shown.replaced_by(&found.replacement) else {
                scaled += 1;
                continue;
            };
            let is_exact = found.replacement.is_exact() && !shown.has_attributes;
            proposals.push(Replaced {
                path: found.path,
                is_exact,
                has_text: shown.alt.is_some() || found.replacement.is_exact(),
                tags: shown.tags,
                bytes_before: found.file.content.len() as u64 + shown.bytes,
                bytes_after,
                html,
                file: found.file,
            });
        }
        if scaled > 0 {
            notes.push(format!(
                "{scaled} images of bands or text are scaled in the HTML: no replacement is proposed"
            ));
        }
        if not_shown > 0 {
            notes.push(format!(
                "{not_shown} images of flat colour or text have no <img> in the HTML: no replacement is proposed"
            ));
        }
        proposals.sort_by_key(Replaced::added_bytes);
        (proposals, notes)
    }
}

impl Shown {
    fn add(&mut self, tag: &ImageTag<'_>) {
        self.tags += 1;
        self.bytes += tag.bytes as u64;
        self.has_attributes |= !tag.is_plain;
        let alt = tag.alt.filter(|alt| !alt.trim().is_empty());
        let alt = alt.filter(|alt| alt.len() <= LONGEST_TEXT);
        if let (None, Some(alt)) = (&self.alt, alt) {
            self.alt = Some(alt.to_owned());
        }
        let mut pixels = |text: Option<&str>| {
            let pixels = text.and_then(|text| text.trim().parse().ok());
            self.has_odd_size |= text.is_some() && pixels.is_none();
            pixels
        };
        let size = [pixels(tag.width), pixels(tag.height)];
        let is_full = self.sizes.len() == MOST_SIZES;
        match self.sizes.iter_mut().find(|(known, _)| *known == size) {
            Some((_, tags)) => *tags += 1,
            None if is_full => self.has_odd_size = true,
            None => self.sizes.push((size, 1)),
        }
    }

    /// Returns the replacement of the first tag, and the bytes of the replacements of all tags.
    fn replaced_by(&self, replacement: &Replacement) -> Option<(String, u64)> {
        if self.has_odd_size {
            return None;
        }
        let alt = self.alt.as_deref();
        let mut bytes = 0;
        for &(size, tags) in &self.sizes {
            bytes += replacement.html(alt, size)?.len() as u64 * tags;
        }
        Some((replacement.html(alt, self.sizes.first()?.0)?, bytes))
    }
}

#[cfg(test)]
mod tests {
    use fathometer_content::image::Frame;

    use super::*;

    fn file(path: &str, content: &str) -> SiteFile {
        SiteFile {
            path: PathBuf::from(path),
            content: content.as_bytes().to_vec(),
            media_type: None,
        }
    }

    #[test]
    fn tags_are_counted_for_the_image_that_they_mean() {
        let mut proposals = Proposals::new(Path::new("/site"));
        let html = "<img src=../i/a%20b.gif alt=' '><IMG SRC='/i/a b.gif' ALT='Hi'><img src=//b.test/i/c.gif>";
        proposals.note_document(&file("/site/pages/x.html", html));
        let (_, target) = location(&proposals.folder, &file("/site/i/a b.gif", "")).unwrap();
        let shown = &proposals.shown[&place("localhost", &target)];
        assert_eq!((shown.tags, shown.alt.as_deref()), (2, Some("Hi")));
        assert_eq!(proposals.shown.len(), 1);
    }

    #[test]
    fn every_size_of_a_flat_image_is_counted() {
        let mut proposals = Proposals::new(Path::new("/site"));
        let html = "<img src=a.gif width=9 height=1><img src=a.gif width=10 height=1><img src=a.gif width=9 height=1>";
        proposals.note_document(&file("/site/x.html", html));
        let picture = Picture {
            width: 1,
            height: 1,
            frames: vec![Frame {
                rgba: vec![0; 4],
                delay: (0, 1),
            }],
            plays: 0,
            icc: None,
            exif: None,
            has_other_colours: false,
        };
        proposals.note_image(&file("/site/a.gif", "GIF"), Format::Gif, &picture);
        proposals.note_image(&file("/site/b.gif", "GIF"), Format::Gif, &picture);
        let (replaced, notes) = proposals.take();
        let element = "<i style=\"display:inline-block;width:9px;height:1px\"></i>";
        assert_eq!(replaced[0].html, element);
        assert_eq!(replaced[0].bytes_after, 3 * element.len() as u64 + 1);
        assert_eq!(replaced[0].bytes_before, 3 + html.len() as u64);
        assert_eq!((replaced.len(), notes.len()), (1, 1));
        let mut based = Proposals::new(Path::new("/site"));
        based.note_document(&file("/site/x.html", "<base href=/y/><img src=a.gif>"));
        assert!(based.shown.is_empty());
        let mut odd = Proposals::new(Path::new("/site"));
        odd.note_document(&file("/site/x.html", "<img src=a.gif width=100%>"));
        odd.note_image(&file("/site/a.gif", "GIF"), Format::Gif, &picture);
        assert!(odd.take().0.is_empty());
    }
}
