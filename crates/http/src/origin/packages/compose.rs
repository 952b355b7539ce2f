//! Packages that consist of pieces: heads and ends as text, files by reference.

use std::sync::Arc;

use super::Format;
use super::parts::{Gathered, LivePart, Part};
use crate::origin::conditions::{ETAG_LENGTH, Validators};
use crate::origin::encoding::Coding;
use crate::origin::index::{digest, etag_text};
use crate::origin::live::{Packed, of_unknown_state};
use crate::origin::ranges::ByteRange;
use crate::origin::render::Segment;
use crate::origin::store::{FileHandle, Resource, Store};
use crate::origin::{Described, Located, Origin, Selected};
use fathometer_model::Body;
use fathometer_package::archive::{self, tar, zip};
use fathometer_package::{
    Attributes, Checksum, Encoder, Entry, Limits, Piece as PackagePiece, Version,
};

/// The number of bytes that are read from a file in one step.
const READ: usize = 64 * 1024;

/// The maximum number of bytes that are read from files into memory, for an archive that cannot be written in pieces.
const LARGEST_IN_MEMORY: u64 = 256 << 20;

/// A package that consists of pieces, or that is composed during sending.
#[derive(Debug)]
pub(in crate::origin) struct Composed {
    /// The texts of all pieces, in order.
    text: Vec<u8>,
    pieces: Vec<Piece>,
    about: About,
    /// Set if the package is composed during sending. There are then no pieces.
    recipe: Option<Recipe>,
}

/// The parts of a package that is composed during sending.
#[derive(Debug)]
pub(in crate::origin) struct Recipe {
    /// The entries of the package, in order.
    pub entries: Vec<Entry>,
    /// The content of each entry. Unused for a file that the client already has.
    pub contents: Vec<Packed>,
    /// Whether the sizes of all files are known.
    pub is_sized: bool,
}

/// The checksums that a package includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checked {
    /// No checksums, because the format has none.
    Never,
    /// Only known checksums. The others are computed when the files are sent.
    Known,
    /// All checksums. Unknown checksums are computed immediately, from the complete files.
    All,
}

/// The properties of a package, without its pieces.
#[derive(Debug, Clone)]
pub(in crate::origin) struct About {
    pub format: Format,
    pub length: u64,
    /// The opaque part of the entity tag, in quotes.
    pub etag: [u8; ETAG_LENGTH],
    pub weak: bool,
    /// The address of the package's page; empty for a folder.
    pub base: Arc<str>,
    /// Whether a file in the package has, or might have had, a content coding.
    pub is_coded: bool,
}

#[derive(Debug)]
enum Piece {
    /// The next bytes of the text.
    Text(usize),
    /// All bytes of a representation.
    File(Selected, u64),
}

impl Composed {
    /// Composes a package of these files. `None` if the format cannot contain the files, or if a file could not be
    /// read.
    ///
    /// Files with an unknown checksum are read during sending, slice by slice. With `at_once`, these files are read
    /// immediately, so that the package always consists of pieces.
    pub(super) fn new(
        origin: &Origin,
        format: Format,
        gathered: &Gathered,
        at_once: bool,
    ) -> Option<Composed> {
        let (base, parts) = (&gathered.base, &gathered.parts);
        let (etag, weak) = tag(origin, format, base, parts);
        let mut composed = Composed {
            text: Vec::new(),
            pieces: Vec::with_capacity(2 * parts.len() + 2),
            about: About {
                format,
                length: 0,
                etag,
                weak,
                base: Arc::clone(base),
                is_coded: gathered.is_coded,
            },
            recipe: None,
        };
        match format {
            Format::Package(_) => composed.package(origin, parts, at_once)?,
            Format::Tar => composed.tar(origin, parts)?,
            Format::Zip => composed.zip(origin, parts)?,
        }
        Some(composed)
    }

    /// Creates a package that was built earlier, as one piece.
    pub fn of_whole(about: About, whole: Arc<Resource>) -> Composed {
        let length = about.length;
        Composed {
            text: Vec::new(),
            pieces: vec![Piece::File(Selected::of_resource(whole), length)],
            about,
            recipe: None,
        }
    }

    /// Creates a package with dynamic members: version 2, without a length and without an entity tag. `None` for the
    /// same reasons as [`new`](Composed::new).
    pub(super) fn of_open(origin: &Origin, gathered: &Gathered) -> Option<Composed> {
        let room = gathered.parts.len() + gathered.live.len() + 1;
        let (mut entries, mut contents) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let push_live = |entries: &mut Vec<Entry>, part: &LivePart, critical| {
            entries.push(Entry {
                name: part.name.to_string(),
                size: None,
                checksum: part
                    .live
                    .file()
                    .and_then(|file| origin.known_checksum(file)),
                media_type: Some(part.live.content_type().to_owned()),
                attributes: attributes(part.live.content_type().as_bytes()),
                critical,
                ..Entry::default()
            });
            Packed::Live(part.live.clone())
        };
        if let Some(page) = &gathered.page {
            contents.push(push_live(&mut entries, page, true));
        }
        for part in &gathered.parts {
            let entry = entry(origin, part, Checked::Known)?;
            contents.push(packed(part, &entry));
            entries.push(entry);
        }
        for part in &gathered.live {
            contents.push(push_live(&mut entries, part, false));
        }
        // Creates an encoder in advance, so that an error occurs before any part of the package is sent.
        Encoder::new(Version::Two, entries.clone(), &Limits::default()).ok()?;
        let of = of_unknown_state(b"");
        Some(Composed {
            text: Vec::new(),
            pieces: Vec::new(),
            about: About {
                format: Format::Package(Version::Two),
                length: 0,
                etag: *of.validators.etag,
                weak: of.validators.weak,
                base: Arc::clone(&gathered.base),
                is_coded: gathered.is_coded,
            },
            recipe: Some(Recipe {
                entries,
                contents,
                is_sized: false,
            }),
        })
    }

    /// The recipe, if the package is composed during sending.
    pub fn recipe(&self) -> Option<&Recipe> {
        self.recipe.as_ref()
    }

    /// Whether the length is unknown until the end of the package.
    pub fn is_open(&self) -> bool {
        self.recipe.as_ref().is_some_and(|recipe| !recipe.is_sized)
    }

    /// The properties of the package.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The length of the package in bytes.
    pub fn length(&self) -> u64 {
        self.about.length
    }

    /// The value of `Content-Location`; `None` for a folder.
    pub fn base(&self) -> Option<&str> {
        (!self.about.base.is_empty()).then_some(&*self.about.base)
    }

    /// The values for the response fields.
    pub fn describe(&self) -> Described<'_> {
        Described {
            validators: Validators {
                etag: &self.about.etag,
                weak: self.about.weak,
                // Packages have no modification date. A date would not change when a member is removed or replaced by
                // an older file.
                modified: None,
            },
            coding: None,
            length: self.about.length,
            content_type: self.about.format.content_type().as_bytes(),
            is_coded: self.about.is_coded,
            by_have: matches!(self.about.format, Format::Package(_)),
        }
    }

    /// Writes a range of the package in segments. Writes nothing if the package is composed during sending.
    pub fn write(&self, range: ByteRange, mut sink: impl FnMut(Segment<'_>)) {
        let mut text = &self.text[..];
        let mut passed = 0;
        for piece in &self.pieces {
            if passed >= range.end {
                break;
            }
            let length = match piece {
                Piece::Text(length) => *length as u64,
                Piece::File(_, length) => *length,
            };
            // The positions are relative to the start of the piece.
            let first = range.first.clamp(passed, passed + length) - passed;
            let end = range.end.clamp(passed, passed + length) - passed;
            passed += length;
            match piece {
                Piece::Text(length) => {
                    let (bytes, rest) = text.split_at(*length);
                    text = rest;
                    if first < end {
                        sink(Segment::Text(&bytes[first as usize..end as usize]));
                    }
                }
                Piece::File(selected, _) if first < end => {
                    sink(Segment::Body(selected, ByteRange { first, end }));
                }
                Piece::File(..) => {}
            }
        }
    }

    /// Passes all bytes of the package, files included, to `sink`. Stops if `sink` refuses bytes or a read fails.
    /// Returns whether all bytes were accepted.
    pub fn write_all(&self, origin: &Origin, sink: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut taken = true;
        let whole = ByteRange {
            first: 0,
            end: self.about.length,
        };
        self.write(whole, |segment| {
            taken = taken
                && match segment {
                    Segment::Text(text) => sink(text),
                    Segment::Body(selected, range) => read(origin, selected, range, sink),
                };
        });
        taken
    }

    fn push_text(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.text.extend_from_slice(bytes);
        self.about.length += bytes.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => *last += bytes.len(),
            _ => self.pieces.push(Piece::Text(bytes.len())),
        }
    }

    fn push_file(&mut self, part: &Part, length: u64) {
        if length > 0 {
            self.about.length += length;
            self.pieces.push(Piece::File(part.selected.clone(), length));
        }
    }

    fn package(&mut self, origin: &Origin, parts: &[Part], at_once: bool) -> Option<()> {
        let Format::Package(version) = self.about.format else {
            return None;
        };
        let checked = match (version, at_once) {
            (Version::One, _) => Checked::Never,
            (Version::Two, true) => Checked::All,
            (Version::Two, false) => Checked::Known,
        };
        let entries = parts
            .iter()
            .map(|part| entry(origin, part, checked))
            .collect::<Option<Vec<_>>>()?;
        let is_unknown = |entry: &Entry| {
            entry.checksum.is_none() && !entry.kept && entry.size.is_some_and(|size| size > 0)
        };
        if checked == Checked::Known && entries.iter().any(is_unknown) {
            // Creates an encoder in advance, so that an error occurs before any part of the package is sent.
            let encoder = Encoder::new(version, entries.clone(), &Limits::default()).ok()?;
            self.about.length = encoder.length()?;
            let contents = parts.iter().zip(&entries);
            self.recipe = Some(Recipe {
                contents: contents.map(|(part, entry)| packed(part, entry)).collect(),
                entries,
                is_sized: true,
            });
            return Some(());
        }
        let sizes: Vec<u64> = entries
            .iter()
            .map(|entry| entry.size.unwrap_or_default())
            .collect();
        let mut encoder = Encoder::new(version, entries, &Limits::default()).ok()?;
        while let Some(piece) = encoder.next() {
            match piece {
                PackagePiece::Bytes(bytes) => self.push_text(bytes),
                PackagePiece::Content { entry, .. } => {
                    let length = sizes[entry];
                    let framing = encoder.content_passed(length).ok()?;
                    self.push_text(&framing);
                    self.push_file(&parts[entry], length);
                    encoder.end_of_content().ok()?;
                }
            }
        }
        debug_assert_eq!(encoder.length(), Some(self.about.length));
        Some(())
    }

    fn tar(&mut self, origin: &Origin, parts: &[Part]) -> Option<()> {
        let mut head = Vec::new();
        for part in parts {
            if !archive::is_name(&part.name) {
                return None;
            }
            let of = origin.describe_selected(&part.selected);
            head.clear();
            tar::head(&part.name, of.length, modified(&of), &mut head);
            self.push_text(&head);
            self.push_file(part, of.length);
            self.push_text(tar::padding(of.length));
        }
        self.push_text(&tar::END);
        Some(())
    }

    /// Builds a zip archive completely in memory, because the directory of a zip archive is at its end.
    fn zip(&mut self, origin: &Origin, parts: &[Part]) -> Option<()> {
        let mut left = LARGEST_IN_MEMORY;
        let mut contents = Vec::with_capacity(parts.len());
        for part in parts {
            let length = origin.describe_selected(&part.selected).length;
            contents.push(match origin.content_of(&part.selected) {
                Located::Memory(body) => body.clone(),
                Located::File(_) => {
                    left = left.checked_sub(length)?;
                    let mut bytes = Vec::with_capacity(length as usize);
                    let whole = ByteRange {
                        first: 0,
                        end: length,
                    };
                    let is_read = read(origin, &part.selected, whole, &mut |piece| {
                        bytes.extend_from_slice(piece);
                        true
                    });
                    is_read.then(|| Body::from(bytes))?
                }
            });
        }
        let members = parts.iter().zip(&contents).map(|(part, content)| {
            let of = origin.describe_selected(&part.selected);
            archive::Member {
                name: &part.name,
                last_modified: modified(&of),
                content,
            }
        });
        let archive = zip::write(members).ok()?;
        self.about.length = archive.len() as u64;
        let resource = Arc::new(Resource::whole(
            self.about.format.content_type(),
            self.about.etag,
            Body::from(archive),
        ));
        self.pieces = vec![Piece::File(
            Selected::of_resource(resource),
            self.about.length,
        )];
        Some(())
    }
}

fn modified(of: &Described<'_>) -> u64 {
    of.validators.modified.map_or(0, |modified| modified.second)
}

/// Creates the package entry of a file, with the checksum if it is known or required.
fn entry(origin: &Origin, part: &Part, checked: Checked) -> Option<Entry> {
    let of = origin.describe_selected(&part.selected);
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    Some(Entry {
        name: part.name.to_string(),
        size: Some(if part.kept { 0 } else { of.length }),
        checksum: match checked {
            Checked::All if !part.kept => Some(origin.checksum(&part.selected)?),
            Checked::Known if !part.kept => origin.known_checksum(&part.selected),
            _ => None,
        },
        media_type: text(of.content_type),
        etag: Some(of.validators.tag_text()),
        last_modified: of.validators.modified.map(|modified| modified.second),
        coding: of
            .coding
            .filter(|_| !part.kept)
            .and_then(Coding::in_packages),
        attributes: attributes(of.content_type),
        critical: part.critical,
        kept: part.kept,
    })
}

/// Returns the content source of a file.
fn packed(part: &Part, entry: &Entry) -> Packed {
    Packed::File(part.selected.clone(), entry.size.unwrap_or_default())
}

/// Returns the archive attributes of a file with this media type.
fn attributes(content_type: &[u8]) -> Attributes {
    Attributes {
        binary: !content_type.starts_with(b"text/"),
        ..Attributes::default()
    }
}

/// Computes the entity tag of a package: a digest of all data that determine the bytes.
fn tag(origin: &Origin, format: Format, base: &str, parts: &[Part]) -> ([u8; ETAG_LENGTH], bool) {
    let mut known = Vec::with_capacity(parts.len() * 96);
    known.push(format.place() as u8);
    known.extend_from_slice(base.as_bytes());
    let mut weak = false;
    for part in parts {
        let of = origin.describe_selected(&part.selected);
        weak |= of.validators.weak;
        let flags = u8::from(part.critical) | u8::from(part.kept) << 1;
        // The lengths of the texts are hashed too, so that different lists never give the same input.
        for text in [part.name.as_bytes(), of.content_type, of.validators.etag] {
            known.extend_from_slice(&(text.len() as u64).to_le_bytes());
            known.extend_from_slice(text);
        }
        known.extend_from_slice(&[flags, of.coding.map_or(0, |coding| coding as u8 + 1)]);
        known.extend_from_slice(&modified(&of).to_le_bytes());
        known.extend_from_slice(&of.length.to_le_bytes());
    }
    (etag_text(digest(None, &known)), weak)
}

/// Passes bytes of a representation to `sink`. Returns whether all bytes were read and accepted.
pub(in crate::origin) fn read(
    origin: &Origin,
    selected: &Selected,
    range: ByteRange,
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> bool {
    match (origin.content_of(selected), &origin.store) {
        (Located::Memory(body), _) => body.pieces_of(range.first..range.end).all(sink),
        (Located::File(file), Some(store)) => read_file(store.as_ref(), file, range, sink),
        (Located::File(_), None) => false,
    }
}

/// Passes bytes of a file behind a descriptor to `sink`. Returns whether all bytes were read and accepted.
pub(super) fn read_file(
    store: &dyn Store,
    file: &FileHandle,
    range: ByteRange,
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> bool {
    let mut room = vec![0; READ.min(range.length() as usize)];
    let mut at = range.first;
    while at < range.end {
        let most = room.len().min((range.end - at) as usize);
        match store.read(file, at, &mut room[..most]) {
            Some(bytes) if bytes > 0 && sink(&room[..bytes]) => at += bytes as u64,
            _ => return false,
        }
    }
    true
}

/// Computes the checksum of a representation.
pub(super) fn checksum(origin: &Origin, selected: &Selected) -> Option<Checksum> {
    let mut hasher = crc32fast::Hasher::new();
    let whole = ByteRange {
        first: 0,
        end: origin.describe_selected(selected).length,
    };
    read(origin, selected, whole, &mut |bytes| {
        hasher.update(bytes);
        true
    })
    .then(|| Checksum(hasher.finalize()))
}
