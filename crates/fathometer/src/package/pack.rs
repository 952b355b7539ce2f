//! Making a package: files go through a buffer from where they are to where the package is written.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathometer_http::origin::store::EntityTag;
use fathometer_http::package::{Attributes, EncodeError, Encoder, Entry, Limits, Piece, Version};
use fathometer_model::Body;
use fathometer_sys::Interrupt;

use super::PackageError;
use super::flow::CHUNK;
use super::output::Output;
use super::progress::Progress;
use super::source::{Folder, Item, Items};
use crate::origin::folder::SMALL;
use crate::site_folder::media_type;

/// What was packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packed {
    /// Files.
    pub files: u64,
    /// Octets of them.
    pub content: u64,
    /// Octets of the package.
    pub octets: u64,
}

/// Packs all items, in their order, and finishes the output. Those on disk are in `folder`.
///
/// Version 1 begins with sizes: all files are looked at before the first is read. In version 2 each is
/// looked at when its turn comes.
pub fn pack(
    items: &mut dyn Items,
    folder: Option<&Folder>,
    version: Version,
    mut output: Output,
    progress: &mut Progress,
    interrupt: Interrupt,
) -> Result<Packed, PackageError> {
    let mut packer = Packer {
        folder,
        with_tags: version == Version::Two,
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
    /// Version 1: all files, with the sizes that were said of them.
    known: Vec<(Item, u64)>,
    buffer: Vec<u8>,
    packed: Packed,
}

/// A file whose turn it is.
struct Opened {
    place: usize,
    path: PathBuf,
    entry: Entry,
    content: Content,
}

enum Content {
    File {
        file: File,
        /// What it was like when it was opened.
        before: Metadata,
    },
    Memory {
        octets: Arc<[u8]>,
        passed: usize,
    },
}

impl Packer<'_> {
    /// The encoder of version 1, which is told everything before.
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
            // Which one it was is found by trying each alone.
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
        // What was said of it in front of everything must hold.
        match opened.entry.size == Some(size) {
            true => Ok(opened),
            false => Err(PackageError::Changed(opened.path)),
        }
    }

    fn open(&mut self, item: &Item, place: usize, output: &Output) -> Result<Opened, PackageError> {
        match item {
            Item::InMemory(resource) => Ok(Opened {
                place,
                path: PathBuf::from(&resource.entry.name),
                entry: resource.entry.clone(),
                content: Content::Memory {
                    octets: Arc::clone(&resource.content),
                    passed: 0,
                },
            }),
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
                Ok(Opened {
                    place,
                    path,
                    entry,
                    content,
                })
            }
        }
    }

    /// Reads a small file whole, for its tag: the one that our origin gives the same octets.
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

    /// Passes on the next part of a file's content, of which `left` octets are to come.
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
            Content::File { file, .. } => {
                let read = file
                    .read(&mut self.buffer[..most])
                    .map_err(PackageError::system("read", &opened.path))?;
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
        match &opened.content {
            Content::File { file, before } if left == Some(passed) => {
                check_unchanged(file, before, &opened.path)
            }
            _ => Ok(()),
        }
    }
}

/// Fails when a file is not what it was when it was opened: its content may be of two states.
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

/// What is known of a file on disk.
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

/// Whether what has this media type is text.
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
