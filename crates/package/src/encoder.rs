//! Writes a package, except for the contents of its files.

use std::collections::VecDeque;
use std::ops::Deref;

use super::layout::{self, END_LENGTH, HEADER_ONE, HEADER_TWO};
use super::roll::SeenNames;
use super::{Checksum, EncodeError, Entry, Limits, Version, checks, name};

/// The number of collected bytes of heads at which the next head is left for the next piece.
const BATCH: usize = 16 * 1024;

/// Writes a package piece by piece.
///
/// ```
/// use fathometer_package::{Encoder, Entry, Limits, Piece, Version};
///
/// let contents: [&[u8]; 2] = [b"<html>", b"GIF89a"];
/// let entries = ["index.html", "logo.gif"].iter().zip(contents).map(|(name, content)| Entry {
///     name: (*name).to_owned(),
///     size: Some(content.len() as u64),
///     ..Entry::default()
/// });
/// let mut encoder = Encoder::new(Version::Two, entries.collect(), &Limits::default())?;
/// let length = encoder.length();
/// let mut package = Vec::new();
/// while let Some(piece) = encoder.next() {
///     match piece {
///         Piece::Bytes(bytes) => package.extend_from_slice(bytes),
///         Piece::Content { entry, .. } => {
///             // One or more parts of the file's content; here the whole content.
///             let framing = encoder.content(contents[entry])?;
///             package.extend_from_slice(&framing);
///             package.extend_from_slice(contents[entry]);
///             encoder.end_of_content()?;
///         }
///     }
/// }
/// assert_eq!(length, Some(package.len() as u64));
/// # Ok::<(), fathometer_package::EncodeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Encoder {
    version: Version,
    limits: Limits,
    roll: SeenNames,
    ascending: bool,
    /// Version 2: the number of files, if it is known in advance.
    counted: Option<u32>,
    /// Files that are not yet written.
    waiting: VecDeque<Entry>,
    /// Whether more files may be added.
    open: bool,
    /// The number of files that were started.
    begun: usize,
    state: State,
    content: Content,
    buffer: Vec<u8>,
    length: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Between,
    Content,
    Complete,
}

/// The content that is being written.
#[derive(Debug, Clone, Default)]
struct Content {
    /// The remaining bytes; `None` if the size is unknown.
    left: Option<u64>,
    /// The number of bytes that were written.
    written: u64,
    ended: bool,
    given: Option<Checksum>,
    computed: crc32fast::Hasher,
}

/// The next part to write.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'e> {
    /// Bytes to write unchanged.
    Bytes(&'e [u8]),
    /// Content of a file, in any number of parts. Pass each part to [`Encoder::content`], or its length to
    /// [`Encoder::content_passed`]. Write the framing that the call returns, then the part.
    Content {
        /// The index of the file in the package, from 0.
        entry: usize,
        /// The number of remaining bytes; `None`: any number until [`Encoder::end_of_content`].
        bytes: Option<u64>,
    },
}

/// The bytes that precede a part of the content: empty, or the length of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Framing {
    bytes: [u8; 4],
    length: usize,
}

impl Deref for Framing {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Encoder {
    /// Creates an encoder for a package of `entries`, in this order; critical files must come first. `limits` are the
    /// limits of the readers. Names, sizes and metadata are checked before anything is written.
    ///
    /// Version 1 omits metadata that it cannot express. It refuses files whose content could not be interpreted
    /// without such metadata: files of unknown size, content codings and kept files.
    pub fn new(
        version: Version,
        entries: Vec<Entry>,
        limits: &Limits,
    ) -> Result<Encoder, EncodeError> {
        let files = u32::try_from(entries.len()).map_err(|_| EncodeError::TooManyFiles)?;
        let ascending = version == Version::Two && others_ascend(&entries);
        let mut encoder = Encoder::with(version, ascending, Some(files), limits);
        encoder.open = false;
        for entry in &entries {
            encoder.admit(entry)?;
        }
        if version == Version::One {
            let names: usize = entries.iter().map(|entry| entry.name.len() + 1).sum();
            if names > limits.table_bytes {
                return Err(EncodeError::TableTooLarge);
            }
        }
        encoder.roll.close();
        encoder.length = length(version, &entries);
        encoder.waiting = entries.into();
        Ok(encoder)
    }

    /// Creates an encoder for a package of version 2 whose list of files is not yet complete. Add files with
    /// [`push`](Encoder::push), then call [`finish`](Encoder::finish).
    pub fn open(limits: &Limits) -> Encoder {
        Encoder::with(Version::Two, false, None, limits)
    }

    /// Like [`open`](Encoder::open), for non-critical files whose names are in ascending byte order. A reader does not
    /// store these names, so the package may have far more files.
    pub fn open_ascending(limits: &Limits) -> Encoder {
        Encoder::with(Version::Two, true, None, limits)
    }

    fn with(version: Version, ascending: bool, counted: Option<u32>, limits: &Limits) -> Encoder {
        Encoder {
            version,
            limits: *limits,
            roll: SeenNames::new(ascending),
            ascending,
            counted,
            waiting: VecDeque::new(),
            open: true,
            begun: 0,
            state: State::Header,
            content: Content::default(),
            buffer: Vec::new(),
            length: None,
        }
    }

    /// Adds a file at the end. If the file is refused, the package continues without it.
    pub fn push(&mut self, entry: Entry) -> Result<(), EncodeError> {
        if !self.open {
            return Err(EncodeError::Finished);
        }
        self.admit(&entry)?;
        self.waiting.push_back(entry);
        Ok(())
    }

    /// Completes the list of files.
    pub fn finish(&mut self) {
        self.open = false;
    }

    /// Returns the length of the whole package in bytes; `None` if it is not known in advance.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns the version that is written.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns whether all pieces have been returned.
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Returns the next piece to write. Each piece of bytes is returned once; a content is returned until it is
    /// complete.
    ///
    /// `None`: the package is complete, or the next file is not known yet while the list of files is
    /// [open](Encoder::open).
    #[expect(
        clippy::should_implement_trait,
        reason = "a piece borrows from the encoder, which an iterator cannot express"
    )]
    pub fn next(&mut self) -> Option<Piece<'_>> {
        self.buffer.clear();
        while self.buffer.len() < BATCH {
            match self.state {
                State::Header => self.begin(),
                State::Between => {
                    if !self.next_file() {
                        break;
                    }
                }
                State::Content if self.content.is_complete() => self.end_file(),
                State::Content if self.buffer.is_empty() => {
                    return Some(Piece::Content {
                        entry: self.begun - 1,
                        bytes: self.content.left,
                    });
                }
                State::Content | State::Complete => break,
            }
        }
        (!self.buffer.is_empty()).then_some(Piece::Bytes(&self.buffer))
    }

    /// Passes content that will be written next. Returns the framing that must be written before it.
    pub fn content(&mut self, bytes: &[u8]) -> Result<Framing, EncodeError> {
        let framing = self.count(bytes.len() as u64)?;
        if self.version == Version::Two && self.content.given.is_none() {
            self.content.computed.update(bytes);
        }
        Ok(framing)
    }

    /// Like [`content`](Encoder::content), for content that the caller writes without passing it to the encoder;
    /// `bytes` is its length. In version 2, the file's checksum must then be known in advance.
    pub fn content_passed(&mut self, bytes: u64) -> Result<Framing, EncodeError> {
        if self.version == Version::Two && self.content.given.is_none() {
            return Err(EncodeError::ChecksumUnknown);
        }
        self.count(bytes)
    }

    /// Returns whether the next content must be [passed](Encoder::content) to the encoder, because the file's checksum
    /// was not given.
    pub fn needs_content(&self) -> bool {
        self.version == Version::Two && self.state == State::Content && self.content.given.is_none()
    }

    /// Returns the checksum of the passed content, for the file that is being written or was written last.
    pub fn checksum(&self) -> Checksum {
        Checksum(self.content.computed.clone().finalize())
    }

    /// Ends a content. For a file of known size, this only checks that the content is complete.
    pub fn end_of_content(&mut self) -> Result<(), EncodeError> {
        if self.state != State::Content {
            return Err(EncodeError::NoContentDue);
        }
        match self.content.left {
            None | Some(0) => {
                self.content.ended = true;
                Ok(())
            }
            Some(left) => Err(EncodeError::ContentTooShort { left }),
        }
    }

    fn admit(&mut self, entry: &Entry) -> Result<(), EncodeError> {
        name::check(entry.name.as_bytes())?;
        let longest = self.limits.name_bytes.min(usize::from(u16::MAX));
        if entry.name.len() > longest {
            return Err(EncodeError::NameTooLong);
        }
        let largest = match self.version {
            Version::One => u64::from(u32::MAX),
            Version::Two => u64::MAX,
        };
        if entry.size.unwrap_or_default() > self.limits.file_bytes.min(largest) {
            return Err(EncodeError::FileTooLarge);
        }
        if self.version == Version::One {
            for (missing, what) in [
                (entry.size.is_none(), "a file of unknown size"),
                (entry.coding.is_some(), "a content coding"),
                (entry.kept, "an entry without content"),
            ] {
                if missing {
                    return Err(EncodeError::TakesVersion2(what));
                }
            }
        } else if !checks::metadata_fits(entry) {
            return Err(EncodeError::Metadata);
        } else if entry.kept && entry.etag.is_none() {
            return Err(EncodeError::KeptWithoutTag);
        }
        let critical = entry.critical && self.version == Version::Two;
        Ok(self.roll.admit(&entry.name, critical, &self.limits)?)
    }

    /// Writes the bytes before the first file.
    fn begin(&mut self) {
        match self.version {
            Version::One => layout::write_table(self.waiting.iter(), &mut self.buffer),
            Version::Two => layout::write_header(self.ascending, self.counted, &mut self.buffer),
        }
        self.state = State::Between;
    }

    /// Starts the next file, or ends the package. Returns whether anything was written.
    fn next_file(&mut self) -> bool {
        let Some(entry) = self.waiting.pop_front() else {
            if self.open {
                return false;
            }
            if self.version == Version::Two {
                layout::write_end(self.roll.files(), &mut self.buffer);
            }
            self.state = State::Complete;
            return true;
        };
        self.begun += 1;
        if self.version == Version::Two {
            layout::write_record(&entry, &mut self.buffer);
        }
        if !entry.kept {
            self.content = Content {
                left: entry.size,
                given: entry.checksum,
                ..Content::default()
            };
            self.state = State::Content;
        }
        true
    }

    /// Writes the bytes that follow a content.
    fn end_file(&mut self) {
        if self.version == Version::Two {
            if self.content.left.is_none() {
                self.buffer.extend_from_slice(&0u32.to_be_bytes());
            }
            let computed = std::mem::take(&mut self.content.computed).finalize();
            let checksum = self.content.given.map_or(computed, |given| given.0);
            self.buffer.extend_from_slice(&checksum.to_be_bytes());
        }
        self.state = State::Between;
    }

    fn count(&mut self, bytes: u64) -> Result<Framing, EncodeError> {
        if self.state != State::Content || self.content.ended {
            return Err(EncodeError::NoContentDue);
        }
        let written = self.content.written.saturating_add(bytes);
        if written > self.limits.file_bytes {
            return Err(EncodeError::FileTooLarge);
        }
        let mut framing = Framing::default();
        match &mut self.content.left {
            Some(left) => {
                let fewer = left.checked_sub(bytes);
                *left = fewer.ok_or(EncodeError::ContentTooLong)?;
            }
            // An empty chunk would end the content.
            None if bytes == 0 => {}
            None => {
                let length = u32::try_from(bytes).map_err(|_| EncodeError::ContentTooLong)?;
                framing = Framing {
                    bytes: length.to_be_bytes(),
                    length: 4,
                };
            }
        }
        self.content.written = written;
        Ok(framing)
    }
}

impl Content {
    fn is_complete(&self) -> bool {
        self.ended || self.left == Some(0)
    }
}

/// Returns whether the names of the non-critical files ascend.
fn others_ascend(entries: &[Entry]) -> bool {
    let others = || entries.iter().filter(|entry| !entry.critical);
    others()
        .zip(others().skip(1))
        .all(|(one, next)| one.name < next.name)
}

/// Computes the length of a package in bytes, if the sizes of all its files are known.
fn length(version: Version, entries: &[Entry]) -> Option<u64> {
    let mut total = match version {
        Version::One => HEADER_ONE as u64 + 4,
        Version::Two => (HEADER_TWO + END_LENGTH) as u64,
    };
    for entry in entries {
        let head = match version {
            Version::One => entry.name.len() as u64 + 1 + 4 + 1,
            Version::Two => layout::record_length(entry),
        };
        let content = match version {
            _ if entry.kept => 0,
            Version::One => entry.size?,
            Version::Two => entry.size?.checked_add(4)?,
        };
        total = total.checked_add(head)?.checked_add(content)?;
    }
    Some(total)
}
