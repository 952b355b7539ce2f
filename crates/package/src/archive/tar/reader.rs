//! Reads an archive while it arrives.

use ::tar::Header;

use super::{BLOCK, kind, to_block};
use crate::archive::{Event, LONGEST_NAME, is_name};

/// The length of the longest extended header, in bytes.
const LONGEST_EXTENSION: u64 = 64 * 1024;

/// The reason why an archive cannot be read. An offset is the position of a header, in bytes from the start of the
/// archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TarError {
    /// The checksum of a header is wrong: the archive is damaged, or the input is not a tar archive.
    #[error("not a tar archive, or damaged: the header at byte {offset} has a wrong checksum")]
    Checksum {
        /// The position of the header.
        offset: u64,
    },
    /// A number is unreadable or too large.
    #[error("the header at byte {offset} contains a malformed number")]
    Number {
        /// The position of the header.
        offset: u64,
    },
    /// A file has an invalid name ([`is_name`]).
    #[error("the header at byte {offset} has an invalid name")]
    Name {
        /// The position of the header.
        offset: u64,
    },
    /// An extended header is too long or malformed.
    #[error("the extended header at byte {offset} is malformed")]
    Extension {
        /// The position of the header.
        offset: u64,
    },
    /// The file is sparse, or continues in another archive.
    #[error(
        "the header at byte {offset} has an unsupported type (sparse file, or multi-volume archive)"
    )]
    Unsupported {
        /// The position of the header.
        offset: u64,
    },
    /// The input ends before the end of the archive.
    #[error("the archive is truncated after {bytes} bytes")]
    Truncated {
        /// The number of bytes before the end of the input.
        bytes: u64,
    },
}

/// The metadata in a file's header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The name of the file.
    pub name: String,
    /// The size of the file's content in bytes.
    pub size: u64,
    /// The last modification of the file, in seconds since the Unix epoch.
    pub last_modified: u64,
}

/// Reads an archive in pieces of any size.
///
/// Call [`poll`](Reader::poll) with each piece until it returns `None`, and [`end_of_input`](Reader::end_of_input)
/// after the last piece. Memory is limited for any input: one header, one extended header and one name.
#[derive(Debug)]
pub struct Reader {
    state: State,
    block: [u8; BLOCK],
    filled: usize,
    /// The number of bytes taken until now.
    taken: u64,
    /// The position of the current header.
    head: u64,
    /// The current extended header.
    extension: Vec<u8>,
    extended: Extended,
    entry: Entry,
    /// The number of files started until now.
    files: usize,
    passed_over: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next bytes belong to a header.
    Head,
    /// After one block of zeros.
    FirstZeros,
    Extension {
        kind: u8,
        left: u64,
        padding: u64,
    },
    Content {
        left: u64,
        padding: u64,
    },
    Skip {
        left: u64,
    },
    Finished,
    Failed(TarError),
}

/// The values in extended headers for the next file.
#[derive(Debug, Default)]
struct Extended {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    last_modified: Option<u64>,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

impl Reader {
    /// Creates a reader at the start of an archive.
    pub fn new() -> Reader {
        Reader {
            state: State::Head,
            block: [0; BLOCK],
            filled: 0,
            taken: 0,
            head: 0,
            extension: Vec::new(),
            extended: Extended::default(),
            entry: Entry::default(),
            files: 0,
            passed_over: 0,
        }
    }

    /// Returns the next event; `None` when all input is used. Input after the end of the archive is ignored. After an
    /// error, every call returns that error.
    pub fn poll<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, TarError> {
        loop {
            match self.state {
                State::Head | State::FirstZeros => {
                    let taken = self.take(input, (BLOCK - self.filled) as u64);
                    self.block[self.filled..self.filled + taken.len()].copy_from_slice(taken);
                    self.filled += taken.len();
                    if self.filled < BLOCK {
                        return Ok(None);
                    }
                    self.filled = 0;
                    self.head = self.taken - BLOCK as u64;
                    if let Err(error) = self.read_head() {
                        self.state = State::Failed(error);
                        return Err(error);
                    }
                    match self.state {
                        State::Content { .. } => {
                            self.files += 1;
                            let entry = self.files - 1;
                            return Ok(Some(Event::Start { entry }));
                        }
                        State::Finished => return Ok(Some(Event::Finished)),
                        _ => {}
                    }
                }
                State::Extension {
                    kind,
                    left,
                    padding,
                } => {
                    let taken = self.take(input, left);
                    self.extension.extend_from_slice(taken);
                    let left = left - taken.len() as u64;
                    self.state = State::Extension {
                        kind,
                        left,
                        padding,
                    };
                    if left > 0 {
                        return Ok(None);
                    }
                    self.state = State::Skip { left: padding };
                    if let Err(error) = self.read_extension(kind) {
                        self.state = State::Failed(error);
                        return Err(error);
                    }
                }
                State::Content { left: 0, padding } => {
                    self.state = State::Skip { left: padding };
                    let entry = self.files - 1;
                    return Ok(Some(Event::End { entry }));
                }
                State::Content { left, padding } => {
                    let content = self.take(input, left);
                    if content.is_empty() {
                        return Ok(None);
                    }
                    let left = left - content.len() as u64;
                    self.state = State::Content { left, padding };
                    let entry = self.files - 1;
                    return Ok(Some(Event::Data { entry, content }));
                }
                State::Skip { left } => {
                    let left = left - self.take(input, left).len() as u64;
                    self.state = State::Skip { left };
                    if left > 0 {
                        return Ok(None);
                    }
                    self.state = State::Head;
                }
                State::Finished => {
                    self.taken += input.len() as u64;
                    *input = &[];
                    return Ok(None);
                }
                State::Failed(error) => return Err(error),
            }
        }
    }

    /// Returns the metadata of the file that started last.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Returns the number of folders, links and devices that were skipped.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Checks at the end of the input whether the archive is complete. One block of zeros is accepted as the
    /// end of the archive.
    pub fn end_of_input(&mut self) -> Result<(), TarError> {
        match self.state {
            State::Finished => Ok(()),
            State::FirstZeros if self.filled == 0 => {
                self.state = State::Finished;
                Ok(())
            }
            State::Failed(error) => Err(error),
            _ => {
                let error = TarError::Truncated { bytes: self.taken };
                self.state = State::Failed(error);
                Err(error)
            }
        }
    }

    fn take<'i>(&mut self, input: &mut &'i [u8], most: u64) -> &'i [u8] {
        let length = input.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let (taken, rest) = input.split_at(length);
        *input = rest;
        self.taken += length as u64;
        taken
    }

    fn read_head(&mut self) -> Result<(), TarError> {
        let offset = self.head;
        if self.block == [0; BLOCK] {
            self.state = match self.state {
                State::FirstZeros => State::Finished,
                _ => State::FirstZeros,
            };
            return Ok(());
        }
        let header = Header::from_byte_slice(&self.block);
        if header.cksum().ok() != Some(checksum(&self.block)) {
            return Err(TarError::Checksum { offset });
        }
        let number = TarError::Number { offset };
        let mut size = header.entry_size().map_err(|_| number)?;
        let kind = header.as_old().linkflag[0];
        if matches!(
            kind,
            kind::EXTENDED | kind::EXTENDED_FOR_ALL | kind::GNU_LONG_NAME | kind::GNU_LONG_LINK
        ) {
            if size > LONGEST_EXTENSION {
                return Err(TarError::Extension { offset });
            }
            self.extension.clear();
            self.state = State::Extension {
                kind,
                left: size,
                padding: to_block(size),
            };
            return Ok(());
        }
        let extended = std::mem::take(&mut self.extended);
        size = extended.size.unwrap_or(size);
        // File systems do not support larger sizes, and sums of smaller sizes do not overflow.
        if size > i64::MAX as u64 {
            return Err(number);
        }
        let padding = to_block(size);
        match kind {
            kind::GNU_SPARSE | kind::GNU_CONTINUED => Err(TarError::Unsupported { offset }),
            kind::FILE | kind::OLD_FILE | kind::CONTIGUOUS_FILE => {
                let name = extended.name.unwrap_or_else(|| header.path_bytes().into());
                if kind == kind::OLD_FILE && name.ends_with(b"/") {
                    return self.pass_over(0);
                }
                let last_modified = extended.last_modified.or_else(|| header.mtime().ok());
                let name = str::from_utf8(&name).map_err(|_| TarError::Name { offset })?;
                // `tar -C folder .` writes names with the prefix `./`.
                let name = name.trim_start_matches("./");
                if !is_name(name) {
                    return Err(TarError::Name { offset });
                }
                self.entry = Entry {
                    name: name.to_owned(),
                    size,
                    last_modified: last_modified.unwrap_or(0),
                };
                self.state = State::Content {
                    left: size,
                    padding,
                };
                Ok(())
            }
            // For these types the size field has another meaning, and there is no content.
            kind::HARD_LINK..=kind::FIFO => self.pass_over(0),
            _ => self.pass_over(size + padding),
        }
    }

    fn pass_over(&mut self, left: u64) -> Result<(), TarError> {
        self.passed_over += 1;
        self.state = State::Skip { left };
        Ok(())
    }

    fn read_extension(&mut self, kind: u8) -> Result<(), TarError> {
        let broken = TarError::Extension { offset: self.head };
        match kind {
            kind::GNU_LONG_NAME => {
                let name = self.extension.split(|&byte| byte == 0).next();
                let name = name.unwrap_or_default();
                if name.len() > LONGEST_NAME {
                    return Err(broken);
                }
                self.extended.name = Some(name.to_vec());
            }
            kind::EXTENDED => {
                let mut rest = &self.extension[..];
                while !rest.is_empty() {
                    let (key, value) = record(&mut rest).ok_or(broken)?;
                    match key {
                        b"path" if value.len() > LONGEST_NAME => return Err(broken),
                        b"path" => self.extended.name = Some(value.to_vec()),
                        b"size" => self.extended.size = Some(digits(value).ok_or(broken)?),
                        // The value is in seconds, possibly with a fraction.
                        b"mtime" => {
                            let whole = value.split(|&byte| byte == b'.').next();
                            self.extended.last_modified = digits(whole.unwrap_or_default());
                        }
                        key if key.starts_with(b"GNU.sparse.") => {
                            return Err(TarError::Unsupported { offset: self.head });
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        self.extension.clear();
        Ok(())
    }
}

/// Computes the sum of all bytes of a header, with spaces instead of the checksum field.
fn checksum(block: &[u8; BLOCK]) -> u32 {
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    let own: u32 = block[148..156].iter().map(|&byte| u32::from(byte)).sum();
    sum - own + 8 * u32::from(b' ')
}

/// Takes a record of an extended header: `length key=value` and a line feed.
fn record<'r>(rest: &mut &'r [u8]) -> Option<(&'r [u8], &'r [u8])> {
    let space = rest.iter().take(8).position(|&byte| byte == b' ')?;
    let length = usize::try_from(digits(&rest[..space])?).ok()?;
    let (record, behind) = rest.split_at_checked(length)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&byte| byte == b'=')?;
    *rest = behind;
    Some((&record[..equals], &record[equals + 1..]))
}

fn digits(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}
