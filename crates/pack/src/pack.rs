//! Builds a package. File contents are copied through a buffer from the folder to the output.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fathometer_files::site_folder::media_type;
use fathometer_http::origin::store::EntityTag;
use fathometer_model::Body;
use fathometer_origin::folder::SMALL;
use fathometer_package::{Attributes, EncodeError, Encoder, Entry, Limits, Piece, Version};
use fathometer_sys::Interrupt;

use super::PackageError;
use super::flow::CHUNK;
use super::folder::Folder;
use super::output::Output;

/// A summary of the package.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packed {
    /// The number of files.
    pub files: u64,
    /// The bytes of their contents.
    pub content: u64,
    /// The bytes of the package.
    pub bytes: u64,
}

/// Packs files of a folder, and finishes the output. The files are given by name and path, in ascending order
/// of the names.
///
/// Version 1 starts with the sizes, so all files are examined before the first one is read. In version 2 each file is
/// examined just before it is read, and small files get an entity tag.
pub fn pack(
    folder: &Folder,
    files: &[(String, PathBuf)],
    version: Version,
    mut output: Output,
    interrupt: Interrupt,
) -> Result<Packed, PackageError> {
    let limits = Limits::default();
    let mut packer = Packer {
        folder,
        with_tags: version == Version::Two,
        buffer: vec![0; CHUNK],
        packed: Packed::default(),
    };
    let mut sizes = Vec::new();
    let mut encoder = match version {
        Version::Two => Encoder::open_ascending(&limits),
        Version::One => {
            let mut entries = Vec::new();
            for file in files {
                stop_if(interrupt)?;
                let Opened { path, entry, .. } = packer.open(file, &output)?;
                // Each file is checked separately, so that the message contains the path of a file that version 1
                // cannot contain.
                Encoder::new(version, vec![entry.clone()], &limits).map_err(unfit(&path))?;
                sizes.push(entry.size);
                entries.push(entry);
            }
            Encoder::new(version, entries, &limits).map_err(unfit(&folder.shown(Path::new(""))))?
        }
    };
    let mut waiting = files.iter();
    let mut current: Option<Opened> = None;
    loop {
        match encoder.next() {
            Some(Piece::Bytes(bytes)) => output.write(bytes)?,
            Some(Piece::Content { entry, bytes }) => {
                if version == Version::One && bytes == sizes[entry] {
                    let opened = packer.open(&files[entry], &output)?;
                    if opened.entry.size != bytes {
                        return Err(PackageError::Changed(opened.path));
                    }
                    current = Some(opened);
                }
                if let Some(opened) = &mut current {
                    let left = bytes.unwrap_or_default();
                    packer.pass(opened, left, &mut encoder, &mut output)?;
                }
            }
            None => {
                if encoder.is_complete() {
                    break;
                }
                stop_if(interrupt)?;
                match waiting.next() {
                    None => encoder.finish(),
                    Some(file) => {
                        let opened = packer.open(file, &output)?;
                        encoder
                            .push(opened.entry.clone())
                            .map_err(unfit(&opened.path))?;
                        current = Some(opened);
                    }
                }
            }
        }
    }
    packer.packed.files = files.len() as u64;
    packer.packed.bytes = output.finish()?;
    Ok(packer.packed)
}

struct Packer<'f> {
    folder: &'f Folder,
    with_tags: bool,
    buffer: Vec<u8>,
    packed: Packed,
}

/// The file being packed.
struct Opened {
    path: PathBuf,
    file: File,
    /// The metadata of the file when it was opened.
    before: Metadata,
    entry: Entry,
    /// Whether the whole content of the file is in the buffer.
    is_read: bool,
}

impl Packer<'_> {
    fn open(
        &mut self,
        (name, path): &(String, PathBuf),
        output: &Output,
    ) -> Result<Opened, PackageError> {
        let (file, before) = self.folder.file(path)?;
        let path = self.folder.shown(path);
        if output.is(&before) {
            return Err(PackageError::Source(format!(
                "{} is the output file: choose a file outside of the packed folder",
                path.display()
            )));
        }
        let mut opened = Opened {
            entry: entry(name.clone(), &path, &before),
            path,
            file,
            before,
            is_read: false,
        };
        if self.with_tags && opened.before.len() <= SMALL {
            self.read(&mut opened)?;
        }
        Ok(opened)
    }

    /// Reads a small file completely, to compute its entity tag. The origin uses the same tag for the same bytes.
    fn read(&mut self, opened: &mut Opened) -> Result<(), PackageError> {
        let length = opened.before.len() as usize;
        let mut filled = 0;
        while filled < length {
            filled += opened.read(&mut self.buffer[filled..length])?;
        }
        opened.check_unchanged()?;
        let content = Body::from(&self.buffer[..length]);
        opened.entry.etag = Some(EntityTag::of_content(None, &content).to_string());
        opened.is_read = true;
        Ok(())
    }

    /// Writes the next part of a file's content. `left` is the number of bytes that remain.
    fn pass(
        &mut self,
        opened: &mut Opened,
        left: u64,
        encoder: &mut Encoder,
        output: &mut Output,
    ) -> Result<(), PackageError> {
        let most = left.min(CHUNK as u64) as usize;
        let read = match opened.is_read {
            true => most,
            false => opened.read(&mut self.buffer[..most])?,
        };
        let part = &self.buffer[..read];
        let framing = encoder.content(part).map_err(unfit(&opened.path))?;
        output.write(&framing)?;
        output.write(part)?;
        self.packed.content += read as u64;
        match left == read as u64 && !opened.is_read {
            true => opened.check_unchanged(),
            false => Ok(()),
        }
    }
}

impl Opened {
    /// Reads the next bytes of the file, at least one.
    fn read(&mut self, room: &mut [u8]) -> Result<usize, PackageError> {
        loop {
            match self.file.read(room) {
                Ok(0) => return Err(PackageError::Changed(self.path.clone())),
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(PackageError::system("read", &self.path)(error)),
            }
        }
    }

    /// Fails if the file has changed since it was opened, because its content may then be a mixture of two states.
    fn check_unchanged(&self) -> Result<(), PackageError> {
        let state = |data: &Metadata| (data.size(), data.mtime(), data.mtime_nsec());
        let after = self
            .file
            .metadata()
            .map_err(PackageError::system("examine", &self.path))?;
        match state(&after) == state(&self.before) {
            true => Ok(()),
            false => Err(PackageError::Changed(self.path.clone())),
        }
    }
}

/// Creates the entry of a file on disk.
fn entry(name: String, path: &Path, data: &Metadata) -> Entry {
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
        ..Entry::default()
    }
}

/// Returns whether a media type is a text type.
fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.starts_with("text/")
        || matches!(
            essence,
            "application/json" | "application/xml" | "image/svg+xml" | "application/javascript"
        )
}

fn stop_if(interrupt: Interrupt) -> Result<(), PackageError> {
    match interrupt.is_raised() {
        true => Err(PackageError::Interrupted),
        false => Ok(()),
    }
}

fn unfit(path: &Path) -> impl Fn(EncodeError) -> PackageError + use<> {
    let path = path.to_owned();
    move |error| PackageError::Unfit {
        path: path.clone(),
        error,
    }
}
