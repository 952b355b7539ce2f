//! Reads a package as it arrives.

mod gather;
mod record;
mod table;

use gather::HeaderBuffer;
use table::Table;

use super::layout::{self, END_LENGTH, FILE_FIXED, Fixed, HEADER_ONE, HEADER_TWO, IDENTIFICATION};
use super::roll::SeenNames;
use super::{Checksum, DecodeError, Entry, Limits, Version};

/// Reads a package in pieces of any length.
///
/// Pass each piece to [`poll`](Decoder::poll) until it returns `None`. Call [`end_of_input`](Decoder::end_of_input)
/// after the last piece. After an error there are no further events; files that ended earlier are complete.
///
/// The decoder stores the metadata of one file (in version 1, of all files), but no contents. [`Limits`] set its
/// maximum memory.
///
/// ```
/// use fathometer_package::{Decoder, DecodeError, Event, Limits};
///
/// fn files(mut package: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DecodeError> {
///     let mut decoder = Decoder::new(Limits::default());
///     let (mut files, mut content) = (Vec::new(), Vec::new());
///     while let Some(event) = decoder.poll(&mut package)? {
///         match event {
///             Event::Data { content: part, .. } => content.extend_from_slice(part),
///             Event::End { .. } => {
///                 files.push((decoder.entry().name.clone(), std::mem::take(&mut content)));
///             }
///             Event::Header | Event::Start { .. } | Event::Finished => {}
///         }
///     }
///     decoder.end_of_input()?;
///     Ok(files)
/// }
/// assert_eq!(files(b""), Err(DecodeError::Truncated));
/// assert_eq!(files(b"PK"), Err(DecodeError::NotAPackage));
/// ```
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    state: State,
    gather: HeaderBuffer,
    version: Option<Version>,
    files: Option<u32>,
    roll: SeenNames,
    table: Option<Box<Table>>,
    entry: Entry,
    /// The number of files that have started.
    started: usize,
    content: Content,
}

/// The part of the package that comes next in the input.
#[derive(Debug, Clone, Copy)]
enum State {
    Identification,
    HeaderOne,
    Table,
    HeaderTwo,
    /// The next file, or the end of the package.
    Between,
    /// Version 2: the first byte of a record.
    Kind,
    /// Version 2: the fixed part of a file's record.
    Fixed,
    /// Version 2: the remaining head of a file's record.
    Head(Fixed),
    /// Content, up to the end of the file or of the chunk.
    Content,
    /// Version 2: the length of a chunk.
    Chunk,
    /// Version 2: the checksum after a content.
    Checksum,
    /// A file is complete.
    FileEnd,
    /// Version 2: the end of the package.
    End,
    Finished,
    Failed(DecodeError),
}

/// The content that is being read.
#[derive(Debug, Default)]
struct Content {
    /// The remaining bytes of the file or of the chunk.
    left: u64,
    chunked: bool,
    /// The number of bytes of the file that were read.
    read: u64,
    checksum: crc32fast::Hasher,
}

/// An event of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// The input is a package, and [`Decoder::version`] is known. In version 2, [`Decoder::files`] is also known if the
    /// header states it; in version 1 it is known before the first file starts.
    Header,
    /// A file begins, described by [`Decoder::entry`].
    Start {
        /// The index of the file in the package, from 0.
        entry: usize,
    },
    /// A part of the content. It is never empty, and not yet verified.
    Data {
        /// The index of the file.
        entry: usize,
        /// The bytes.
        content: &'i [u8],
    },
    /// The file is complete and, in version 2, verified. The file's entry now contains the size and the checksum.
    End {
        /// The index of the file.
        entry: usize,
    },
    /// The package is complete.
    Finished,
}

impl Decoder {
    /// Creates a decoder at the start of a package.
    pub fn new(limits: Limits) -> Decoder {
        Decoder {
            limits,
            state: State::Identification,
            gather: HeaderBuffer::default(),
            version: None,
            files: None,
            roll: SeenNames::default(),
            table: None,
            entry: Entry::default(),
            started: 0,
            content: Content::default(),
        }
    }

    /// Takes bytes from the front of `input` up to the next event. `None`: all bytes were taken.
    ///
    /// After an error, every call returns that error.
    pub fn poll<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, DecodeError> {
        let result = self.step(input);
        if let Err(error) = result {
            self.state = State::Failed(error);
            // After an error this memory is not needed.
            self.table = None;
            self.roll.close();
        }
        result
    }

    /// Ends the input. Returns an error unless the package is complete.
    pub fn end_of_input(&mut self) -> Result<(), DecodeError> {
        match self.state {
            State::Finished => Ok(()),
            State::Failed(error) => Err(error),
            _ => {
                self.state = State::Failed(DecodeError::Truncated);
                Err(DecodeError::Truncated)
            }
        }
    }

    /// Returns the metadata of the file that started last.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Returns the version, if it is already known.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Returns the number of files in the package, including kept files, if the package states it.
    pub fn files(&self) -> Option<u64> {
        self.files.map(u64::from)
    }

    /// Returns whether the package is complete.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, DecodeError> {
        loop {
            match self.state {
                State::Identification => {
                    let identified = self.gather.fill(input, IDENTIFICATION);
                    let bytes = self.gather.bytes();
                    if !layout::MAGIC.starts_with(&bytes[..bytes.len().min(4)]) {
                        return Err(DecodeError::NotAPackage);
                    }
                    if !identified {
                        return Ok(None);
                    }
                    let number = bytes[4];
                    let version = Version::of_number(number);
                    self.version = version;
                    self.state = match version.ok_or(DecodeError::UnknownVersion(number))? {
                        Version::One => State::HeaderOne,
                        Version::Two => State::HeaderTwo,
                    };
                }
                State::HeaderOne => {
                    if !self.gather.fill(input, HEADER_ONE) {
                        return Ok(None);
                    }
                    let table = Table::new(self.gather.bytes(), &self.limits)?;
                    self.table = Some(Box::new(table));
                    self.gather.clear();
                    self.state = State::Table;
                    return Ok(Some(Event::Header));
                }
                State::Table => {
                    let Some(table) = &mut self.table else {
                        unreachable!("the table exists before this state")
                    };
                    if !table.read(input, &mut self.roll, &self.limits)? {
                        return Ok(None);
                    }
                    self.files = Some(self.roll.files());
                    self.roll.close();
                    self.state = State::Between;
                }
                State::HeaderTwo => {
                    if !self.gather.fill(input, HEADER_TWO) {
                        return Ok(None);
                    }
                    let header = record::header(self.gather.bytes(), &self.limits)?;
                    self.gather.clear();
                    self.roll = SeenNames::new(header.ascending);
                    self.files = header.files;
                    self.state = State::Between;
                    return Ok(Some(Event::Header));
                }
                State::Between => match &mut self.table {
                    None => self.state = State::Kind,
                    Some(table) => {
                        if !table.next(&mut self.entry) {
                            self.table = None;
                            self.state = State::Finished;
                            return Ok(Some(Event::Finished));
                        }
                        return Ok(Some(self.start()));
                    }
                },
                State::Kind => {
                    if !self.gather.fill(input, 1) {
                        return Ok(None);
                    }
                    self.state = match self.gather.bytes()[0] {
                        layout::END => State::End,
                        layout::FILE if self.files == Some(self.roll.files()) => {
                            return Err(DecodeError::WrongCount);
                        }
                        layout::FILE => State::Fixed,
                        kind => return Err(DecodeError::UnknownRecord(kind)),
                    };
                }
                State::Fixed => {
                    if !self.gather.fill(input, FILE_FIXED) {
                        return Ok(None);
                    }
                    let fixed = record::fixed(self.gather.bytes(), &self.limits)?;
                    self.state = State::Head(fixed);
                }
                State::Head(fixed) => {
                    if !self.gather.fill(input, fixed.head()) {
                        return Ok(None);
                    }
                    let head = self.gather.bytes();
                    record::entry(fixed, head, &self.limits, &mut self.entry)?;
                    self.gather.clear();
                    let (name, critical) = (&self.entry.name, self.entry.critical);
                    self.roll.admit(name, critical, &self.limits)?;
                    return Ok(Some(self.start()));
                }
                State::Content => match self.data(input) {
                    Some(content) => {
                        let entry = self.started - 1;
                        return Ok(Some(Event::Data { entry, content }));
                    }
                    None if self.content.left > 0 => return Ok(None),
                    None => {}
                },
                State::Chunk => {
                    if !self.gather.fill(input, 4) {
                        return Ok(None);
                    }
                    let length = u64::from(layout::word(self.gather.bytes(), 0));
                    self.gather.clear();
                    // This check of every chunk keeps the sum within the limit, so it cannot overflow.
                    if length > self.limits.file_bytes.saturating_sub(self.content.read) {
                        return Err(DecodeError::FileTooLarge);
                    }
                    self.content.left = length;
                    self.state = match length {
                        0 => State::Checksum,
                        _ => State::Content,
                    };
                }
                State::Checksum => {
                    if !self.gather.fill(input, 4) {
                        return Ok(None);
                    }
                    let stated = layout::word(self.gather.bytes(), 0);
                    self.gather.clear();
                    let computed = std::mem::take(&mut self.content.checksum).finalize();
                    if !layout::agree(stated, computed) {
                        let entry = self.started - 1;
                        return Err(DecodeError::ContentDamaged { entry });
                    }
                    self.entry.size = Some(self.content.read);
                    self.entry.checksum = Some(Checksum(stated));
                    self.state = State::FileEnd;
                }
                State::FileEnd => {
                    let entry = self.started - 1;
                    self.state = State::Between;
                    return Ok(Some(Event::End { entry }));
                }
                State::End => {
                    if !self.gather.fill(input, END_LENGTH) {
                        return Ok(None);
                    }
                    let files = record::end(self.gather.bytes())?;
                    self.gather.clear();
                    if files != self.roll.files()
                        || self.files.is_some_and(|stated| stated != files)
                    {
                        return Err(DecodeError::WrongCount);
                    }
                    self.files = Some(files);
                    self.roll.close();
                    self.state = State::Finished;
                    return Ok(Some(Event::Finished));
                }
                State::Finished if input.is_empty() => return Ok(None),
                State::Finished => return Err(DecodeError::Trailing),
                State::Failed(error) => return Err(error),
            }
        }
    }

    /// Starts the file that the entry describes.
    fn start<'i>(&mut self) -> Event<'i> {
        let entry = self.started;
        self.started += 1;
        self.content = Content {
            left: self.entry.size.unwrap_or_default(),
            chunked: self.entry.size.is_none(),
            ..Content::default()
        };
        self.state = match self.entry {
            Entry { kept: true, .. } => State::FileEnd,
            Entry { size: None, .. } => State::Chunk,
            Entry { size: Some(0), .. } => self.after_content(),
            Entry { .. } => State::Content,
        };
        Event::Start { entry }
    }

    /// Takes content; `None` if no bytes are available, or the content is complete.
    fn data<'i>(&mut self, input: &mut &'i [u8]) -> Option<&'i [u8]> {
        let length =
            usize::try_from(self.content.left).map_or(input.len(), |left| left.min(input.len()));
        let (content, rest) = input.split_at(length);
        *input = rest;
        self.content.left -= length as u64;
        self.content.read += length as u64;
        if self.version == Some(Version::Two) {
            self.content.checksum.update(content);
        }
        if self.content.left == 0 {
            self.state = match self.content.chunked {
                true => State::Chunk,
                false => self.after_content(),
            };
        }
        (!content.is_empty()).then_some(content)
    }

    /// Returns the state after the last byte of a content of known size.
    fn after_content(&self) -> State {
        match self.version {
            Some(Version::Two) => State::Checksum,
            _ => State::FileEnd,
        }
    }
}
