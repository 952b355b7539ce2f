//! Builds a package: file contents pass through a buffer from their source to the output.
//!
//! Text may be compressed on the way. A small file is compressed in memory, if that makes it smaller, and gets
//! an entity tag. The compressed size of a large file is known only at its end.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathometer_http::origin::store::EntityTag;
use fathometer_model::{Body, ContentCoding};
use fathometer_package::{Attributes, EncodeError, Encoder, Entry, Limits, Piece, Version};
use fathometer_sys::Interrupt;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::PackageError;
use super::flow::CHUNK;
use super::output::Output;
use super::progress::Progress;
use super::source::{Folder, Item, Items};
use super::spool::Spooled;
use fathometer_files::site_folder::media_type;
use fathometer_origin::folder::SMALL;

/// A summary of the package.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packed {
    /// Number of files.
    pub files: u64,
    /// Bytes of their contents.
    pub content: u64,
    /// Bytes of the package.
    pub octets: u64,
}

/// Packs all items, in their order, and finishes the output. Items on disk are in `folder`.
///
/// Version 1 starts with the sizes, so all files are examined before the first is read. In version 2 each file
/// is examined when its turn comes, and text is compressed with `coding`.
pub fn pack(
    items: &mut dyn Items,
    folder: Option<&Folder>,
    (version, coding): (Version, Option<ContentCoding>),
    mut output: Output,
    progress: &mut Progress,
    interrupt: Interrupt,
) -> Result<Packed, PackageError> {
    let mut packer = Packer {
        folder,
        with_tags: version == Version::Two,
        coding: coding.filter(|_| version == Version::Two),
        known: Vec::new(),
        buffer: vec![0; CHUNK],
        packed: Packed::default(),
    };
    let mut encoder = match version {
        Version::One => packer.encoder_of_all(items, &mut output, interrupt)?,
        Version::Two if items.ascend() => Encoder::open_ascending(&Limits::default()),
        Version::Two => Encoder::open(&Limits::default()),
    };
    let mut current: Option<Opened> = None;
    loop {
        match encoder.next() {
            Some(Piece::Octets(octets)) => output.write(octets)?,
            Some(Piece::Content { entry, octets }) => {
                let mut opened = match current.take() {
                    Some(opened) if opened.place == entry => opened,
                    _ => packer.open_known(entry, &output)?,
                };
                packer.pass(&mut opened, octets, &mut encoder, &mut output)?;
                current = Some(opened);
                progress.tell(packer.packed.files, packer.packed.content);
            }
            None => {
                if encoder.is_complete() {
                    break;
                }
                if interrupt.is_raised() {
                    return Err(PackageError::Interrupted);
                }
                let Some(item) = items.next(&mut output)? else {
                    encoder.finish();
                    continue;
                };
                let opened = packer.open(&item, packer.packed.files as usize, &output)?;
                let unfit = |error| unfit(opened.path.clone(), error);
                encoder.push(opened.entry.clone()).map_err(unfit)?;
                packer.packed.files += 1;
                current = Some(opened);
                progress.tell(packer.packed.files, packer.packed.content);
            }
        }
    }
    packer.packed.octets = output.finish()?;
    Ok(packer.packed)
}

struct Packer<'f> {
    folder: Option<&'f Folder>,
    with_tags: bool,
    /// The content coding for text.
    coding: Option<ContentCoding>,
    /// Version 1: all files, with their sizes as stated at the start.
    known: Vec<(Item, u64)>,
    buffer: Vec<u8>,
    packed: Packed,
}

/// The file being packed.
struct Opened {
    place: usize,
    path: PathBuf,
    entry: Entry,
    content: Content,
}

enum Content {
    File {
        file: File,
        /// Its metadata when it was opened.
        before: Metadata,
    },
    Memory {
        octets: Arc<[u8]>,
        passed: usize,
    },
    Spool {
        content: Spooled,
        passed: u64,
    },
    /// One of the other kinds, being compressed.
    Coded {
        plain: Box<Content>,
        /// `None` when all of it has been compressed.
        coder: Option<Coder>,
        ready: Vec<u8>,
    },
}

/// The encoder of a content coding.
enum Coder {
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
}

impl Packer<'_> {
    /// The encoder of version 1, which needs all entries in advance.
    fn encoder_of_all(
        &mut self,
        items: &mut dyn Items,
        output: &mut Output,
        interrupt: Interrupt,
    ) -> Result<Encoder, PackageError> {
        let mut entries = Vec::new();
        while let Some(item) = items.next(output)? {
            if interrupt.is_raised() {
                return Err(PackageError::Interrupted);
            }
            let opened = self.open(&item, self.known.len(), output)?;
            self.known.push((item, opened.entry.size.unwrap_or(0)));
            entries.push(opened.entry);
        }
        self.packed.files = entries.len() as u64;
        let limits = Limits::default();
        let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        Encoder::new(Version::One, entries, &limits).map_err(|error| {
            // Find the file that caused the error by encoding each one alone.
            let alone = names.into_iter().find(|name| {
                let entry = Entry {
                    name: name.clone(),
                    size: Some(0),
                    ..Entry::default()
                };
                Encoder::new(Version::One, vec![entry], &limits).is_err()
            });
            unfit(
                PathBuf::from(alone.unwrap_or_else(|| "these files".to_owned())),
                error,
            )
        })
    }

    /// Version 1: opens a file whose content is due.
    fn open_known(&mut self, place: usize, output: &Output) -> Result<Opened, PackageError> {
        let (item, size) = self.known[place].clone();
        let opened = self.open(&item, place, output)?;
        // The size stated at the start must still be right.
        match opened.entry.size == Some(size) {
            true => Ok(opened),
            false => Err(PackageError::Changed(opened.path)),
        }
    }

    fn open(&mut self, item: &Item, place: usize, output: &Output) -> Result<Opened, PackageError> {
        match item {
            Item::Spooled(resource) => {
                let path = PathBuf::from(&resource.entry.name);
                let mut entry = resource.entry.clone();
                let content = Content::Spool {
                    content: resource.content.clone(),
                    passed: 0,
                };
                let content = self.code(content, &mut entry, &path)?;
                Ok(Opened {
                    place,
                    path,
                    entry,
                    content,
                })
            }
            Item::OnDisk {
                name,
                path,
                critical,
            } => {
                let folder = self.folder.ok_or_else(|| {
                    PackageError::Source(format!("{} is in no folder", path.display()))
                })?;
                let (file, before) = folder.file(path)?;
                let path = folder.shown(path);
                if output.is(&before) {
                    return Err(PackageError::Source(format!(
                        "{} is what the package is written to: write it elsewhere than into what is packed",
                        path.display()
                    )));
                }
                let mut entry = entry(name.clone(), &path, &before, *critical);
                let content = match self.with_tags && before.len() <= SMALL {
                    true => self.read(file, &path, &before, &mut entry)?,
                    false => Content::File { file, before },
                };
                let content = self.code(content, &mut entry, &path)?;
                Ok(Opened {
                    place,
                    path,
                    entry,
                    content,
                })
            }
        }
    }

    /// Reads a small file completely, to compute its entity tag; our origin uses the same tag for the same
    /// bytes.
    fn read(
        &mut self,
        mut file: File,
        path: &Path,
        before: &Metadata,
        entry: &mut Entry,
    ) -> Result<Content, PackageError> {
        let length = before.len() as usize;
        let mut filled = 0;
        while filled < length {
            match file.read(&mut self.buffer[filled..length]) {
                Ok(0) => return Err(PackageError::Changed(path.to_owned())),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(PackageError::system("read", path)(error)),
            }
        }
        check_unchanged(&file, before, path)?;
        let octets: Arc<[u8]> = self.buffer[..length].into();
        let tag = EntityTag::of_content(None, &Body::from(Arc::clone(&octets)));
        entry.etag = Some(tag.to_string());
        Ok(Content::Memory { octets, passed: 0 })
    }

    /// Compresses a content if it is text. A small one stays as it is unless it becomes smaller.
    fn code(
        &mut self,
        mut content: Content,
        entry: &mut Entry,
        path: &Path,
    ) -> Result<Content, PackageError> {
        let Some(coding) = self.coding.filter(|_| !entry.attributes.binary) else {
            return Ok(content);
        };
        let mut coder = Coder::new(coding);
        let length = entry.size.unwrap_or(0);
        if length > SMALL {
            (entry.size, entry.coding, entry.etag) = (None, Some(coding), None);
            return Ok(Content::Coded {
                plain: Box::new(content),
                coder: Some(coder),
                ready: Vec::new(),
            });
        }
        let mut plain = Vec::with_capacity(length as usize);
        while (plain.len() as u64) < length {
            let read = content.read(&mut self.buffer, path)?;
            if read == 0 {
                return Err(PackageError::Changed(path.to_owned()));
            }
            plain.extend_from_slice(&self.buffer[..read]);
        }
        let mut octets = Vec::new();
        coder.push(&plain, &mut octets, path)?;
        coder.finish(&mut octets, path)?;
        let octets: Arc<[u8]> = match octets.len() < plain.len() {
            true => {
                let octets: Arc<[u8]> = octets.into();
                let tag = EntityTag::of_content(Some(coding), &Body::from(Arc::clone(&octets)));
                entry.size = Some(octets.len() as u64);
                entry.coding = Some(coding);
                entry.etag = Some(tag.to_string());
                octets
            }
            false => plain.into(),
        };
        Ok(Content::Memory { octets, passed: 0 })
    }

    /// Writes the next part of a file's content; `left` bytes remain, if known.
    fn pass(
        &mut self,
        opened: &mut Opened,
        left: Option<u64>,
        encoder: &mut Encoder,
        output: &mut Output,
    ) -> Result<(), PackageError> {
        let most = left.map_or(CHUNK, |left| left.min(CHUNK as u64) as usize);
        let octets = match &mut opened.content {
            Content::Memory { octets, passed } => {
                let part = &octets[*passed..octets.len().min(*passed + most)];
                *passed += part.len();
                part
            }
            Content::Coded {
                plain,
                coder,
                ready,
            } => {
                ready.clear();
                while ready.is_empty()
                    && let Some(coding) = coder
                {
                    let read = plain.read(&mut self.buffer, &opened.path)?;
                    self.packed.content += read as u64;
                    coding.push(&self.buffer[..read], ready, &opened.path)?;
                    if read == 0
                        && let Some(coding) = coder.take()
                    {
                        coding.finish(ready, &opened.path)?;
                        plain.check_unchanged(&opened.path)?;
                    }
                }
                if ready.is_empty() {
                    return encoder
                        .end_of_content()
                        .map_err(|error| unfit(opened.path.clone(), error));
                }
                let framing = encoder
                    .content(ready)
                    .map_err(|error| unfit(opened.path.clone(), error))?;
                output.write(&framing)?;
                return output.write(ready);
            }
            content => {
                let read = content.read(&mut self.buffer[..most], &opened.path)?;
                &self.buffer[..read]
            }
        };
        if octets.is_empty() {
            return Err(PackageError::Changed(opened.path.clone()));
        }
        let framing = encoder
            .content(octets)
            .map_err(|error| unfit(opened.path.clone(), error))?;
        output.write(&framing)?;
        output.write(octets)?;
        let passed = octets.len() as u64;
        self.packed.content += passed;
        match left == Some(passed) {
            true => opened.content.check_unchanged(&opened.path),
            false => Ok(()),
        }
    }
}

impl Content {
    /// Reads its next bytes, up to the length of `room`; returns 0 at the end.
    fn read(&mut self, room: &mut [u8], path: &Path) -> Result<usize, PackageError> {
        match self {
            Content::File { file, .. } => {
                file.read(room).map_err(PackageError::system("read", path))
            }
            Content::Memory { octets, passed } => {
                let length = room.len().min(octets.len() - *passed);
                room[..length].copy_from_slice(&octets[*passed..*passed + length]);
                *passed += length;
                Ok(length)
            }
            Content::Spool { content, passed } => {
                let read = content
                    .read_at(room, *passed)
                    .map_err(PackageError::system("read", path))?;
                *passed += read as u64;
                Ok(read)
            }
            Content::Coded { .. } => Ok(0),
        }
    }

    /// Fails if its file has changed since it was opened.
    fn check_unchanged(&self, path: &Path) -> Result<(), PackageError> {
        match self {
            Content::File { file, before } => check_unchanged(file, before, path),
            _ => Ok(()),
        }
    }
}

impl Coder {
    fn new(coding: ContentCoding) -> Coder {
        let level = Compression::default();
        match coding {
            ContentCoding::Gzip => Coder::Gzip(GzEncoder::new(Vec::new(), level)),
            ContentCoding::Deflate => Coder::Deflate(ZlibEncoder::new(Vec::new(), level)),
        }
    }

    /// Compresses these bytes; appends the available output to `coded`.
    fn push(
        &mut self,
        octets: &[u8],
        coded: &mut Vec<u8>,
        path: &Path,
    ) -> Result<(), PackageError> {
        let (result, ready) = match self {
            Coder::Gzip(coder) => (coder.write_all(octets), coder.get_mut()),
            Coder::Deflate(coder) => (coder.write_all(octets), coder.get_mut()),
        };
        result.map_err(PackageError::system("code", path))?;
        coded.append(ready);
        Ok(())
    }

    fn finish(self, coded: &mut Vec<u8>, path: &Path) -> Result<(), PackageError> {
        let rest = match self {
            Coder::Gzip(coder) => coder.finish(),
            Coder::Deflate(coder) => coder.finish(),
        };
        coded.append(&mut rest.map_err(PackageError::system("code", path))?);
        Ok(())
    }
}

/// Fails if a file has changed since it was opened: its content may be a mixture of two states.
fn check_unchanged(file: &File, before: &Metadata, path: &Path) -> Result<(), PackageError> {
    let state = |data: &Metadata| (data.size(), data.mtime(), data.mtime_nsec());
    let after = file
        .metadata()
        .map_err(PackageError::system("look at", path))?;
    match state(&after) == state(before) {
        true => Ok(()),
        false => Err(PackageError::Changed(path.to_owned())),
    }
}

/// The entry of a file on disk.
fn entry(name: String, path: &Path, data: &Metadata, critical: bool) -> Entry {
    let media_type = media_type(path);
    Entry {
        name,
        size: Some(data.len()),
        media_type: Some(media_type.to_owned()),
        last_modified: u64::try_from(data.mtime()).ok(),
        attributes: Attributes {
            binary: !is_text(media_type),
            executable: data.mode() & 0o111 != 0,
            read_only: data.mode() & 0o222 == 0,
        },
        critical,
        ..Entry::default()
    }
}

/// Whether a media type denotes text.
pub(super) fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.starts_with("text/")
        || matches!(
            essence,
            "application/json" | "application/xml" | "image/svg+xml" | "application/javascript"
        )
}

fn unfit(path: PathBuf, error: EncodeError) -> PackageError {
    PackageError::Unfit { path, error }
}
