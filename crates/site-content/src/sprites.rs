//! Joins small images of documents into sprites.
//!
//! An `<img>` remains an `<img>` with the same text and size. It selects its part of the sprite with `object-position`,
//! which corresponds to the background position of other elements.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fathometer_content::image::{Format, Image, ImageError, Limits, Picture, Sprite, by_palette};
use fathometer_content::{ImageTag, Unchanged, image_tags, names_element, rewrite_html};

use super::treatment::{Applied, FileCosts, timed};

/// The maximum size of a small image, in bytes.
const LARGEST: usize = 4096;
/// The maximum size of a small image, in pixels.
const MOST_PIXELS: u64 = 1 << 16;
/// The maximum number of recorded images.
const MOST_IMAGES: usize = 2000;
/// The maximum number of pixels of all recorded images, at four bytes per pixel.
const MOST_PIXELS_NOTED: u64 = 1 << 23;
/// The maximum number of recorded references.
const MOST_USED: usize = 100_000;

/// The small images of a site, and the documents that show them.
#[derive(Debug, Default)]
pub struct Sprites {
    /// The references to files, by place of the file.
    uses: HashMap<String, Uses>,
    images: BTreeMap<String, Small>,
    documents: usize,
    /// The number of pixels of all recorded images.
    pixels: u64,
    /// The positions of images in the sprites, once the sprites are created.
    placed: HashMap<String, Placed>,
}

/// The references to an image.
#[derive(Debug, Default)]
struct Uses {
    /// The documents that refer to the image.
    documents: BTreeSet<usize>,
    /// The number of references to the image.
    references: u64,
    /// The number of references by an `<img>` without attributes that may change the rendering, and the sizes in these
    /// tags.
    plain: u64,
    sizes: BTreeSet<[Option<u32>; 2]>,
}

#[derive(Debug)]
struct Small {
    picture: Picture,
    costs: FileCosts,
}

/// The position of an image in a sprite.
#[derive(Clone, Debug)]
struct Placed {
    /// The name of the sprite, which is in the folder of the image.
    name: String,
    at: [u32; 2],
    size: [u32; 2],
}

/// A finished sprite.
#[derive(Debug)]
pub struct SpriteFile {
    /// The place of the sprite.
    pub place: String,
    /// The content of the sprite, a PNG.
    pub content: Vec<u8>,
    /// The places of the images in the sprite.
    pub images: Vec<String>,
    /// The bytes of the sprite, and the CPU times to encode and decode it.
    pub applied: Applied,
}

impl Sprites {
    /// Records the images of a document. `place_of` returns the place of a URL in the document. `are_styled` states
    /// whether a style sheet may change the rendering of images.
    pub fn note_document(
        &mut self,
        html: &[u8],
        are_styled: bool,
        place_of: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Unchanged> {
        let document = self.documents;
        self.documents += 1;
        let mut named = Vec::new();
        rewrite_html(html, |url| {
            named.extend(place_of(url));
            None
        })?;
        for place in named {
            if self.uses.len() < MOST_USED || self.uses.contains_key(&place) {
                let uses = self.uses.entry(place).or_default();
                uses.references += 1;
                uses.documents.insert(document);
            }
        }
        if are_styled || styles_images(html)? {
            return Ok(());
        }
        image_tags(html, |tag| {
            if let Some(size) = size_of(&tag)
                && let Some(uses) = place_of(tag.source).and_then(|place| self.uses.get_mut(&place))
            {
                uses.plain += 1;
                uses.sizes.insert(size);
            }
        })
    }

    /// Records that a file other than a document refers to the file.
    pub fn note_reference(&mut self, place: String) {
        if self.uses.len() < MOST_USED || self.uses.contains_key(&place) {
            self.uses.entry(place).or_default().references += 1;
        }
    }

    /// Records an image of the site with this number of bytes.
    pub fn note_image(&mut self, place: String, picture: &Picture, bytes: usize) {
        let pixels = u64::from(picture.width) * u64::from(picture.height);
        let is_small = bytes <= LARGEST && pixels <= MOST_PIXELS;
        let has_room = self.images.len() < MOST_IMAGES && self.pixels + pixels <= MOST_PIXELS_NOTED;
        if is_small && has_room && Sprite::can_have(picture) {
            self.pixels += pixels;
            let small = Small {
                picture: picture.clone(),
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

    /// Returns the costs of the images at these places as separate files.
    pub fn files<'a>(&'a self, places: &'a [String]) -> impl Iterator<Item = &'a FileCosts> {
        places
            .iter()
            .filter_map(move |place| Some(&self.images.get(place)?.costs))
    }

    /// Creates the sprites (`repetitions` times). `is_free` returns whether a name is unused. Images share a sprite if
    /// they are in one folder and appear in the same documents, so that no document loads an image that it does not
    /// show.
    pub fn make(
        &mut self,
        repetitions: usize,
        is_free: impl Fn(&str) -> bool,
    ) -> Result<Vec<SpriteFile>, ImageError> {
        let mut groups: BTreeMap<(String, Vec<usize>), Vec<&String>> = BTreeMap::new();
        for (place, small) in &self.images {
            let Some(uses) = self.uses.get(place) else {
                continue;
            };
            let own = [small.picture.width, small.picture.height];
            let is_own = |size: &[Option<u32>; 2]| {
                size.iter()
                    .zip(own)
                    .all(|(given, own)| given.is_none_or(|given| given == own))
            };
            if uses.references == uses.plain && uses.sizes.iter().all(is_own) {
                let documents = uses.documents.iter().copied().collect();
                let key = (folder_of(place).to_owned(), documents);
                groups.entry(key).or_default().push(place);
            }
        }
        let mut made = Vec::new();
        let mut number = 0;
        for ((folder, _), places) in groups {
            let pictures: Vec<_> = places
                .iter()
                .map(|place| &self.images[*place].picture)
                .collect();
            for indices in by_palette(&pictures) {
                if indices.len() < 2 {
                    continue;
                }
                let parts: Vec<_> = indices.iter().map(|&index| pictures[index]).collect();
                let (sprite, content, applied) = encoded(&parts, repetitions)?;
                let place = loop {
                    number += 1;
                    let place = format!("{folder}sprite-{number}.png");
                    if is_free(&place) {
                        break place;
                    }
                };
                let images: Vec<String> =
                    indices.iter().map(|&index| places[index].clone()).collect();
                for (image, (at, picture)) in images.iter().zip(sprite.places().iter().zip(&parts))
                {
                    let placed = Placed {
                        name: place[folder.len()..].to_owned(),
                        at: *at,
                        size: [picture.width, picture.height],
                    };
                    self.placed.insert(image.clone(), placed);
                }
                made.push(SpriteFile {
                    place,
                    content,
                    images,
                    applied,
                });
            }
        }
        Ok(made)
    }

    /// Returns the document with its images from the sprites, and the number of requests that a first visit saves.
    /// `None` if nothing changes.
    pub fn apply(
        &self,
        html: &[u8],
        place_of: impl Fn(&str) -> Option<String>,
    ) -> Option<(Vec<u8>, u64)> {
        let mut out = Vec::with_capacity(html.len());
        let mut at = 0;
        let (mut images, mut sprites) = (BTreeSet::new(), BTreeSet::new());
        image_tags(html, |tag| {
            let Some(place) = place_of(tag.source) else {
                return;
            };
            let Some(placed) = self.placed.get(&place) else {
                return;
            };
            out.extend_from_slice(&html[at..tag.source_start]);
            out.extend_from_slice(placed.attributes(tag.source).as_bytes());
            at = tag.source_start + tag.source_bytes;
            sprites.insert((folder_of(&place).to_owned(), placed.name.clone()));
            images.insert(place);
        })
        .ok()?;
        out.extend_from_slice(&html[at..]);
        (!images.is_empty()).then_some((out, (images.len() - sprites.len()) as u64))
    }
}

impl Placed {
    /// Returns the attributes that replace the value of `src`, for this URL of the sprite.
    fn attributes(&self, source: &str) -> String {
        let ([left, top], [width, height]) = (self.at, self.size);
        let end = source.find(['?', '#']).unwrap_or(source.len());
        let url = format!("{}{}", folder_of(&source[..end]), self.name);
        let minus = |pixels: u32| match pixels {
            0 => "0".to_owned(),
            pixels => format!("-{pixels}px"),
        };
        format!(
            "\"{url}\" style=\"width:{width}px;height:{height}px;object-fit:none;object-position:{} {}\"",
            minus(left),
            minus(top)
        )
    }
}

/// Creates a sprite `repetitions` times, at least once, and checks that the decoded pixels are the same.
fn encoded(
    parts: &[&Picture],
    repetitions: usize,
) -> Result<(Sprite, Vec<u8>, Applied), ImageError> {
    let mut applied = Applied::default();
    loop {
        let ((sprite, content), encoding) = timed(|| {
            let sprite = Sprite::of(parts);
            let content = sprite.png();
            (sprite, content)
        });
        let content = content?;
        let picture = sprite.picture();
        let limits = Limits {
            pixels: u64::from(picture.width) * u64::from(picture.height),
            frames: 1,
        };
        let (decoded, decoding) = timed(|| Image::decode(Format::Png, &content, limits));
        if !decoded?.picture().shows_the_same(picture) {
            return Err(ImageError::Changed("a sprite".to_owned()));
        }
        applied.push(content.len(), encoding, Some(decoding));
        if applied.repetitions() >= repetitions {
            return Ok((sprite, content, applied));
        }
    }
}

/// Returns the size in a tag that shows the unchanged image. `None` if any part of the tag may change the rendering.
fn size_of(tag: &ImageTag<'_>) -> Option<[Option<u32>; 2]> {
    // A quote in an unquoted URL would end the new quoted URL.
    if !tag.is_plain || tag.source.contains(['"', '\'', '\\']) || !tag.source.is_ascii() {
        return None;
    }
    let mut size = [None; 2];
    for (given, text) in size.iter_mut().zip([tag.width, tag.height]) {
        if let Some(text) = text {
            *given = Some(text.trim().parse().ok()?);
        }
    }
    Some(size)
}

/// Returns whether a style sheet in the document or from another host may change the rendering of images.
fn styles_images(html: &[u8]) -> Result<bool, Unchanged> {
    let mut is_styled = false;
    let others =
        fathometer_content::style_sheets(html, |css| is_styled |= names_element(css, "img"))?;
    Ok(is_styled || others)
}

/// Returns the folder of a place, with its final slash.
fn folder_of(place: &str) -> &str {
    place.rfind('/').map_or("", |slash| &place[..=slash])
}

#[cfg(test)]
mod tests {
    use fathometer_content::image::Frame;

    use super::*;

    fn picture(width: u32, height: u32) -> Picture {
        Picture {
            width,
            height,
            frames: vec![Frame {
                rgba: [1, 2, 3, 255].repeat((width * height) as usize),
                delay: (0, 1),
            }],
            plays: 0,
            icc: None,
            exif: None,
            has_other_colours: false,
        }
    }

    fn place_of(url: &str) -> Option<String> {
        Some(url.to_owned())
    }

    /// Replaces the images of the document by sprites, on a site with the images `i/a` of 4 x 2 and `i/b` of 3 x 5
    /// pixels. Returns the document and the number of requests saved.
    fn treated(html: &str, are_styled: bool) -> Option<(String, u64)> {
        let mut sprites = Sprites::default();
        sprites
            .note_document(html.as_bytes(), are_styled, place_of)
            .unwrap();
        sprites.note_image("i/a".to_owned(), &picture(4, 2), 100);
        sprites.note_image("i/b".to_owned(), &picture(3, 5), 100);
        sprites.make(1, |_| true).unwrap();
        let (html, requests) = sprites.apply(html.as_bytes(), place_of)?;
        Some((String::from_utf8(html).unwrap(), requests))
    }

    #[test]
    fn tags_keep_their_text_and_show_their_part() {
        let html = "<img src=i/a><p><IMG ALT='x' SRC='i/b' width=3 height=5 />";
        let (after, requests) = treated(html, false).unwrap();
        assert_eq!(requests, 1);
        assert_eq!(
            after,
            "<img src=\"i/sprite-1.png\" style=\"width:4px;height:2px;object-fit:none;object-position:0 -5px\"><p>\
             <IMG ALT='x' SRC=\"i/sprite-1.png\" style=\"width:3px;height:5px;object-fit:none;object-position:0 0\" \
             width=3 height=5 />"
        );
    }

    #[test]
    fn images_that_are_shown_in_another_way_stay_files() {
        for html in [
            "<img src=i/a>",
            "<img src=i/a><img src=i/b class=x>",
            "<img src=i/a><img src=i/b width=6>",
            "<img src=i/a><img src=i/b><a href=i/b>x</a>",
            "<img src=i/a><img src=i/b><p style='background:url(i/b)'>",
            "<style>img{margin:0}</style><img src=i/a><img src=i/b>",
            "<link rel=stylesheet href=//other.test/x.css><img src=i/a><img src=i/b>",
        ] {
            assert_eq!(treated(html, false), None, "{html}");
        }
        assert_eq!(treated("<img src=i/a><img src=i/b>", true), None);
    }

    #[test]
    fn no_document_loads_images_of_another() {
        let mut sprites = Sprites::default();
        for html in ["<img src=a><img src=b>", "<img src=b><img src=c>"] {
            sprites
                .note_document(html.as_bytes(), false, place_of)
                .unwrap();
        }
        for place in ["a", "b", "c"] {
            sprites.note_image(place.to_owned(), &picture(2, 2), 100);
        }
        assert!(sprites.make(1, |_| true).unwrap().is_empty());
    }
}
