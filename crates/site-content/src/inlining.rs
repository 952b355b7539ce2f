//! Inlines small images into the documents that show them: replaces the URL of the image by a `data:` URL (RFC 2397).

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fathometer_content::{Unchanged, image_tags, rewrite_html};

use super::table::Inlined;
use super::treatment::FileCosts;

/// The size in bytes of the largest image that is inlined.
const LARGEST: usize = 2048;
/// The maximum number of recorded images. They and their encoded forms are in memory.
const MOST_IMAGES: usize = 4000;
/// The maximum number of recorded references.
const MOST_USED: usize = 100_000;

/// The small images of a site, and the references to them. An image is inlined only if a single `<img>` is the only
/// reference on the site; otherwise the image would be stored several times.
#[derive(Debug, Default)]
pub struct Inlining {
    /// The references to files, by place of the file.
    uses: HashMap<String, Uses>,
    images: BTreeMap<String, Small>,
}

/// The references to a file.
#[derive(Debug, Default)]
struct Uses {
    references: u64,
    /// The number of references by an `<img>`, the bytes of its tag, and the bytes of the source in the tag.
    tags: u64,
    tag_bytes: u64,
    source_bytes: u64,
}

#[derive(Debug)]
struct Small {
    media_type: &'static str,
    content: Vec<u8>,
    costs: FileCosts,
}

impl Inlining {
    /// Records the references of a document. `place_of` returns the place of a URL in the document.
    pub fn note_document(
        &mut self,
        html: &[u8],
        place_of: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Unchanged> {
        let mut named = Vec::new();
        rewrite_html(html, |url| {
            named.extend(place_of(url));
            None
        })?;
        named
            .into_iter()
            .for_each(|place| self.note_reference(place));
        image_tags(html, |tag| {
            // A browser that selects another file does not request this file.
            if tag.has_alternatives {
                return;
            }
            if let Some(uses) = place_of(tag.source).and_then(|place| self.uses.get_mut(&place)) {
                uses.tags += 1;
                uses.tag_bytes += tag.bytes as u64;
                uses.source_bytes += tag.source_bytes as u64;
            }
        })
    }

    /// Records that a document or a style sheet refers to the file.
    pub fn note_reference(&mut self, place: String) {
        if self.uses.len() < MOST_USED || self.uses.contains_key(&place) {
            self.uses.entry(place).or_default().references += 1;
        }
    }

    /// Records an image of the site.
    pub fn note_image(&mut self, place: String, media_type: &'static str, content: &[u8]) {
        if content.len() <= LARGEST && self.images.len() < MOST_IMAGES {
            let small = Small {
                media_type,
                content: content.to_vec(),
                costs: FileCosts::default(),
            };
            self.images.insert(place, small);
        }
    }

    /// Records the bytes and CPU times of an image after codings and lossless treatments.
    pub fn note_costs(&mut self, place: &str, costs: &FileCosts) {
        if let Some(small) = self.images.get_mut(place) {
            small.costs = costs.clone();
        }
    }

    /// Returns the document with its small images inlined, and the number of requests that a first visit saves. `None`
    /// if nothing changes.
    pub fn apply(
        &self,
        html: &[u8],
        place_of: impl Fn(&str) -> Option<String>,
    ) -> Option<(Vec<u8>, u64)> {
        let mut out = Vec::with_capacity(html.len());
        let (mut at, mut images) = (0, 0);
        image_tags(html, |tag| {
            let small = place_of(tag.source).and_then(|place| Some(self.inlined(&place)?.1));
            if let Some(small) = small {
                out.extend_from_slice(&html[at..tag.source_start]);
                // The URL needs quotes, because base64 may end with an equals sign, which is invalid in an unquoted
                // value.
                out.push(b'"');
                out.extend_from_slice(small.url().as_bytes());
                out.push(b'"');
                at = tag.source_start + tag.source_bytes;
                images += 1;
            }
        })
        .ok()?;
        out.extend_from_slice(&html[at..]);
        (images > 0).then_some((out, images))
    }

    /// Returns the costs of the inlined images as separate files.
    pub fn files(&self) -> impl Iterator<Item = &FileCosts> {
        self.all().map(|(_, small)| &small.costs)
    }

    /// Returns the inlined images, and the bytes of their tags. `None` if there are none.
    pub fn summary(&self) -> Option<Inlined> {
        let mut inlined = Inlined {
            limit_bytes: LARGEST,
            ..Inlined::default()
        };
        for (uses, small) in self.all() {
            inlined.images += 1;
            inlined.bytes += small.content.len() as u64 + uses.tag_bytes;
            inlined.inlined_bytes +=
                uses.tag_bytes - uses.source_bytes + small.url().len() as u64 + 2;
        }
        (inlined.images > 0).then_some(inlined)
    }

    fn all(&self) -> impl Iterator<Item = (&Uses, &Small)> {
        self.images
            .keys()
            .filter_map(move |place| self.inlined(place))
    }

    /// Returns the image at this place, if it is inlined.
    fn inlined(&self, place: &str) -> Option<(&Uses, &Small)> {
        let uses = self.uses.get(place)?;
        let is_alone = (uses.references, uses.tags) == (1, 1);
        Some((uses, self.images.get(place)?)).filter(|_| is_alone)
    }
}

impl Small {
    fn url(&self) -> String {
        format!(
            "data:{};base64,{}",
            self.media_type,
            BASE64_STANDARD.encode(&self.content)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(url: &str) -> Option<String> {
        Some(url.to_owned())
    }

    /// Inlines the images of a document, on a site with the images `a` and `b` and a style sheet that refers to `back`.
    fn treated(html: &str, back: &str) -> (Option<(String, u64)>, Option<Inlined>) {
        let mut inlining = Inlining::default();
        inlining.note_reference(back.to_owned());
        inlining.note_document(html.as_bytes(), place_of).unwrap();
        for (place, content) in [("a", b"GIF8".as_slice()), ("b", &[0; LARGEST + 1])] {
            inlining.note_image(place.to_owned(), "image/gif", content);
        }
        let applied = inlining.apply(html.as_bytes(), place_of);
        let applied = applied.map(|(html, images)| (String::from_utf8(html).unwrap(), images));
        (applied, inlining.summary())
    }

    #[test]
    fn a_small_image_becomes_a_part_of_the_tag_that_shows_it() {
        let html = "<p><IMG class=x SRC=a alt='A'><img src='b'>";
        let (applied, inlined) = treated(html, "c");
        let (after, images) = applied.unwrap();
        let tag = "<IMG class=x SRC=\"data:image/gif;base64,R0lGOA==\" alt='A'>";
        assert_eq!(after, format!("<p>{tag}<img src='b'>"));
        assert_eq!(images, 1);
        let inlined = inlined.unwrap();
        let before = "<IMG class=x SRC=a alt='A'>".len() + 4;
        assert_eq!((inlined.images, inlined.bytes), (1, before as u64));
        assert_eq!(inlined.inlined_bytes, tag.len() as u64);
    }

    #[test]
    fn an_image_that_is_named_elsewhere_too_stays_a_file() {
        for html in [
            "<img src=b>",
            "<img src=a><img src=a>",
            "<img src=a><a href=a>x</a>",
            "<img src=a><p style='background: url(a)'>",
            "<a href=a>x</a>",
            "<picture><source srcset=x><img src=a></picture>",
            "<img src=a srcset='x 2x'>",
        ] {
            let (applied, inlined) = treated(html, "c");
            assert!(applied.is_none() && inlined.is_none(), "{html}");
        }
        assert!(treated("<img src=a>", "a").0.is_none());
        assert!(treated("<img src=a>", "c").0.is_some());
    }
}
