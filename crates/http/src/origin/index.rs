//! The index of a site: the file at each path, and the representations of each file with their validators.

use std::collections::HashMap;
use std::sync::Arc;

use fathometer_model::{Body, FileId, Site};

use super::conditions::{ETAG_LENGTH, Modified, Validators};
use super::date::{DATE_LENGTH, format_date};
use super::encoding::Coding;
use super::target;
use super::text::hexadecimal;

/// A representation of a file: without a coding, or in one content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RepresentationId(u32);

impl RepresentationId {
    /// The index of the representation among all representations of the site.
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}

/// Precomputed data of a representation.
#[derive(Debug, Clone)]
pub(super) struct Representation {
    pub file: FileId,
    /// The index of the representation in [`fathometer_model::File::encoded`]; `None` for the bytes without a
    /// coding.
    stored: Option<u8>,
    pub coding: Option<Coding>,
    pub length: u64,
    pub etag: [u8; ETAG_LENGTH],
}

#[derive(Debug)]
struct Entry {
    /// The index of the file's first representation, which has no coding. Representations with codings follow.
    first: u32,
    last_modified: u64,
    last_modified_text: [u8; DATE_LENGTH],
}

/// The reason why a site cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// A path that no request can contain.
    #[error("{path:?} is not an absolute path")]
    BadPath {
        /// The path.
        path: String,
    },
    /// Two files with the same path.
    #[error("two files have the path {path:?}")]
    RepeatedPath {
        /// The path.
        path: String,
    },
    /// A media type that is invalid in a field value.
    #[error("{content_type:?} is not a media type")]
    BadContentType {
        /// The media type.
        content_type: String,
    },
}

/// The site and its precomputed data.
#[derive(Debug)]
pub(super) struct Index {
    site: Arc<Site>,
    paths: HashMap<Box<[u8]>, FileId>,
    entries: Vec<Entry>,
    representations: Vec<Representation>,
}

impl Index {
    pub fn new(site: Arc<Site>) -> Result<Index, SiteError> {
        let mut paths = HashMap::with_capacity(site.files.len() + 1);
        let mut entries = Vec::with_capacity(site.files.len());
        let mut representations = Vec::with_capacity(site.files.len());
        let mut scratch = Vec::new();
        for (place, file) in site.files.iter().enumerate() {
            let id = FileId(place as u32);
            let path = file.path.clone();
            let plain = path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'?');
            let Ok(Some(canonical)) = target::canonical(path.as_bytes(), &mut scratch) else {
                return Err(SiteError::BadPath { path });
            };
            if !path.starts_with('/') || !plain {
                return Err(SiteError::BadPath { path });
            }
            if paths.insert(canonical.into(), id).is_some() {
                return Err(SiteError::RepeatedPath { path });
            }
            let content_type = &file.content_type;
            if content_type.is_empty()
                || !content_type.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            {
                return Err(SiteError::BadContentType {
                    content_type: content_type.clone().into_owned(),
                });
            }
            entries.push(Entry {
                first: representations.len() as u32,
                last_modified: file.last_modified,
                last_modified_text: format_date(file.last_modified),
            });
            representations.push(representation(id, None, &file.body));
            for (stored, (coding, body)) in file.encoded.iter().enumerate() {
                let stored = Some((stored as u8, Coding::from(*coding)));
                representations.push(representation(id, stored, body));
            }
        }
        if let Some(page) = site.pages.first() {
            paths.entry(Box::from(*b"/")).or_insert(page.base);
        }
        Ok(Index {
            site,
            paths,
            entries,
            representations,
        })
    }

    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// The number of representations, summed over all files.
    pub fn representation_count(&self) -> usize {
        self.representations.len()
    }

    /// The file at a canonical path.
    pub fn file(&self, path: &[u8]) -> Option<FileId> {
        self.paths.get(path).copied()
    }

    /// The canonical path of the page that is served for the root.
    pub fn root_page<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let page = self.site.file(self.file(b"/")?);
        target::canonical(page.path.as_bytes(), scratch).ok()?
    }

    /// All representations of a file. The representation without a coding comes first.
    pub fn representations(
        &self,
        file: FileId,
    ) -> impl Iterator<Item = (RepresentationId, &Representation)> {
        let first = self.entries[file.0 as usize].first;
        let last = first + self.site.file(file).encoded.len() as u32;
        (first..=last).map(|id| (RepresentationId(id), &self.representations[id as usize]))
    }

    pub fn representation(&self, id: RepresentationId) -> &Representation {
        &self.representations[id.0 as usize]
    }

    pub fn validators(&self, id: RepresentationId) -> Validators<'_> {
        let representation = self.representation(id);
        let entry = &self.entries[representation.file.0 as usize];
        Validators {
            etag: &representation.etag,
            weak: false,
            modified: Some(Modified {
                second: entry.last_modified,
                text: &entry.last_modified_text,
            }),
        }
    }

    pub fn content_type(&self, id: RepresentationId) -> &[u8] {
        let file = self.representation(id).file;
        self.site.file(file).content_type.as_bytes()
    }

    pub fn body(&self, id: RepresentationId) -> &Body {
        let representation = self.representation(id);
        let file = self.site.file(representation.file);
        match representation.stored {
            None => &file.body,
            Some(stored) => &file.encoded[stored as usize].1,
        }
    }
}

fn representation(file: FileId, stored: Option<(u8, Coding)>, body: &Body) -> Representation {
    let coding = stored.map(|(_, coding)| coding);
    Representation {
        file,
        stored: stored.map(|(place, _)| place),
        coding,
        length: body.len().0,
        etag: etag_text(digest(coding, &body.bytes())),
    }
}

/// The opaque part of an entity tag, including the quotes.
pub(super) fn etag_text(digest: u64) -> [u8; ETAG_LENGTH] {
    let mut text = [b'"'; ETAG_LENGTH];
    text[1..ETAG_LENGTH - 1].copy_from_slice(&hexadecimal(digest));
    text
}

/// Computes a 64-bit digest of the content and its coding. The digest is the same on every machine and in every
/// version. The probability of an accidental collision is 2^-64. The digest does not protect against deliberate
/// collisions.
pub(super) fn digest(coding: Option<Coding>, body: &[u8]) -> u64 {
    let mut state = START;
    let coding = coding.map_or("", Coding::token);
    for part in [coding.as_bytes(), body] {
        state = fold(state, part.len() as u64 ^ 0x1319_8a2e_0370_7344);
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            state = fold(state, u64::from_le_bytes(*word)).rotate_left(23);
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        state = fold(state, u64::from_le_bytes(last));
    }
    fold(state, END)
}

/// Computes a 64-bit digest of words.
pub(super) fn digest_words(words: &[u64]) -> u64 {
    let state = words
        .iter()
        .fold(START ^ words.len() as u64, |state, &word| {
            fold(state, word).rotate_left(23)
        });
    fold(state, END)
}

const START: u64 = 0x243f_6a88_85a3_08d3;
const END: u64 = 0xa409_3822_299f_31d0;

/// Multiply and fold, as in wyhash and similar hashes: combines the upper and the lower half of each product.
fn fold(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_stable_and_depend_on_content_and_coding() {
        let cases = [
            digest(None, b""),
            digest(None, b"\0"),
            digest(None, b"abcdefgh"),
            digest(None, b"abcdefgi"),
            digest(Some(Coding::Gzip), b"abcdefgh"),
            digest(Some(Coding::Deflate), b"abcdefgh"),
        ];
        for (place, digest) in cases.iter().enumerate() {
            assert!(!cases[..place].contains(digest), "{place}");
        }
        // The values were computed by an independent implementation. The digests must not change, because entity tags
        // remain in the caches of clients when this program is updated.
        assert_eq!(cases[2], 0xb42176263aee6033);
    }
}
