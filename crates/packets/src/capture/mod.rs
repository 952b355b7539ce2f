//! Reads capture files (classic pcap and pcapng) one packet at a time.
//!
//! The reader takes any [`Read`], makes one pass and stores one block at a time, so memory does not grow with the file.
//! A length field alone allocates no memory: buffers grow only as bytes are read. From a truncated or damaged file, the
//! reader returns every packet before the damage; [`Capture::integrity`] then reports the offset and the problem. This
//! module does not interpret packets.
//!
//! Files compressed with gzip or zstd are decompressed while they are read. Offsets refer to the decompressed
//! capture.
//!
//! Formats: `draft-ietf-opsawg-pcap` (both byte orders, microseconds and nanoseconds) and
//! `draft-ietf-opsawg-pcapng` (both byte orders, several sections, any time resolution and offset).

mod pcap;
mod pcapng;
mod source;
mod window;

use std::io::{self, ErrorKind, Read};

use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

pub use self::source::Zstd;

use self::source::Source;
use self::window::Window;

/// Maximum size of a block or packet record that is read into memory; real records are far smaller.
const BLOCK_LIMIT: usize = 16 << 20;

/// Number of bytes that an error quotes from a file that is not a capture.
const QUOTED: usize = 8;

/// The reason why a capture could not be opened, or why reading stopped.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The first bytes match no capture format.
    #[error("not a capture: it begins with {beginning}, which is neither pcap nor pcapng")]
    Unrecognised {
        /// The first bytes, in hexadecimal.
        beginning: String,
    },
    /// The file is compressed in a format that this reader does not support.
    #[error("the capture is compressed with {with}: decompress it first (or pipe it in as -)")]
    Compressed {
        /// The name of the compression format.
        with: &'static str,
    },
    /// The header of the file is incomplete or invalid, so that no packet can be read.
    #[error("the file's header is unusable at byte {offset}: {what}")]
    Header {
        /// Distance from the beginning of the file.
        offset: u64,
        /// The problem at this offset.
        what: String,
    },
    /// The accounting needs more memory than its limit.
    #[error(
        "its {connections} connections, up to packet {packets}, need more than {limit} of memory: use a part of the \
         capture (with editcap or a capture filter), or allow more memory"
    )]
    Memory {
        /// Number of packets read.
        packets: u64,
        /// Number of connections in these packets.
        connections: u64,
        /// The memory limit.
        limit: Bytes,
    },
    /// The system failed to read the file.
    #[error("failed to read at byte {offset}: {source}")]
    Io {
        /// Distance from the beginning of the file.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
}

/// The integrity of a capture file: complete, truncated or damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Integrity {
    /// The file was read to its end.
    #[default]
    Whole,
    /// The file ends inside a block, because its writer was stopped. All packets before that block were read.
    Truncated {
        /// Offset of the incomplete block, in bytes from the beginning of the file.
        offset: u64,
    },
    /// The file is invalid from an offset on. All packets before that offset were read.
    Damaged {
        /// Offset of the invalid block, in bytes from the beginning of the file.
        offset: u64,
        /// The problem at this offset.
        what: String,
    },
}

impl Integrity {
    /// Whether the file could be read to its end.
    pub fn is_whole(&self) -> bool {
        *self == Integrity::Whole
    }
}

/// Writes the offset and the problem as part of a sentence; writes `whole` for an intact file.
impl std::fmt::Display for Integrity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Integrity::Whole => f.write_str("whole"),
            Integrity::Truncated { offset } => {
                write!(
                    f,
                    "the file ends inside the block that begins at byte {offset}"
                )
            }
            Integrity::Damaged { offset, what } => {
                write!(f, "the file is damaged at byte {offset}: {what}")
            }
        }
    }
}

/// The link type of captured packets, as a registered `LINKTYPE_*` number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkType(pub u16);

/// A network interface at which packets were captured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The name of the interface, if the file contains it.
    pub name: Option<String>,
    /// The link layer of the interface's packets.
    pub link: LinkType,
    /// Maximum number of captured bytes per packet (snap length); 0: unlimited.
    pub snap_length: u32,
    /// Number of packets that the capture itself lost at the interface, if the file reports it.
    pub lost: u64,
    /// The resolution of the interface's time stamps.
    #[serde(skip)]
    resolution: Resolution,
}

/// One packet in the file.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The packet's number in the file, from 0.
    pub number: u64,
    /// The interface at which the packet was captured.
    pub interface: &'a Interface,
    /// Index of that interface in [`Capture::interfaces`].
    pub interface_index: usize,
    /// Nanoseconds since the Unix epoch; `None` if the format stores no time for the packet.
    pub time: Option<u64>,
    /// Length of the packet on the link, in bytes; `data` may be shorter.
    pub original_length: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    options: pcapng::Options<'a>,
}

impl<'a> Record<'a> {
    /// Whether these bytes occur anywhere in the packet's options: a fast check before [`Record::comments`].
    #[inline]
    pub fn mentions(&self, bytes: &[u8]) -> bool {
        self.options.mention(bytes)
    }

    /// Returns the packet's comments, in the order of the file. Comments that are not UTF-8 are left out.
    pub fn comments(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.options.comments()
    }
}

/// The format of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The classic pcap format, with one interface.
    Pcap,
    /// The pcapng block format, with any number of interfaces.
    Pcapng,
}

/// A reader of a capture file.
///
/// ```
/// use fathometer_packets::capture::Capture;
/// # use fathometer_packets::synthetic::CaptureWriter;
/// # let mut writer = CaptureWriter::pcapng(&[("client.tx", 101)]);
/// # writer.packet(0, 1_000, b"bytes", None);
/// # let bytes = writer.into_bytes();
/// let mut capture = Capture::open(&bytes[..])?;
/// while let Some(record) = capture.next_record()? {
///     assert_eq!(record.data, b"bytes");
/// }
/// # Ok::<(), fathometer_packets::capture::CaptureError>(())
/// ```
pub struct Capture<R: Read> {
    window: Window<Source<R>>,
    compression: Option<&'static str>,
    interfaces: Vec<Interface>,
    integrity: Integrity,
    finished: bool,
    /// Length of the last returned record, in bytes; the reader skips the record before it reads the next one.
    pending: usize,
    records: u64,
    dialect: Dialect,
}

#[derive(Debug)]
enum Dialect {
    Pcap(pcap::State),
    Pcapng(pcapng::State),
}

/// The location of a packet in the window. The reader locates a packet first and borrows its bytes in a second step.
#[derive(Debug, Clone)]
struct Found {
    /// Number of bytes to skip before the next record.
    length: usize,
    interface: usize,
    time: Option<u64>,
    original_length: u32,
    data: std::ops::Range<usize>,
    options: std::ops::Range<usize>,
    big_endian: bool,
}

/// The result of the search for the next packet.
enum Step {
    Packet(Found),
    End,
    Truncated,
    Damaged(String),
}

impl<R: Read> Capture<R> {
    /// Recognises the format and reads the file's header.
    pub fn open(reader: R) -> Result<Capture<R>, CaptureError> {
        let source = Source::open(reader)?;
        let compression = source.compression();
        let mut window = Window::new(source);
        if !fill(&mut window, 4)? {
            let beginning = window.bytes();
            return Err(match beginning {
                [] => CaptureError::Empty,
                _ => unrecognised(beginning),
            });
        }
        let magic = window.array::<4>(0);
        let mut interfaces = Vec::new();
        let dialect = match magic {
            pcapng::SECTION_MAGIC => Dialect::Pcapng(pcapng::State::default()),
            _ if pcap::is_magic(magic) => {
                if !fill(&mut window, pcap::HEADER_LENGTH)? {
                    return Err(CaptureError::Header {
                        offset: window.bytes().len() as u64,
                        what: "the file ends inside its header".to_owned(),
                    });
                }
                let (state, interface) = pcap::open(window.bytes())
                    .map_err(|what| CaptureError::Header { offset: 0, what })?;
                window.consume(pcap::HEADER_LENGTH);
                interfaces.push(interface);
                Dialect::Pcap(state)
            }
            _ => {
                // Read all bytes that the error quotes, even if the first read returned fewer bytes.
                fill(&mut window, QUOTED)?;
                return Err(unrecognised(window.bytes()));
            }
        };
        Ok(Capture {
            window,
            compression,
            interfaces,
            integrity: Integrity::Whole,
            finished: false,
            pending: 0,
            records: 0,
            dialect,
        })
    }

    /// Returns the next packet; `None` at the end of the file, or where the file is truncated or damaged. Without
    /// inlining, the result is copied twice, which takes one eighth of the accounting's CPU time.
    #[inline(always)]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.finished {
            return Ok(None);
        }
        self.window.consume(std::mem::take(&mut self.pending));
        let step = match &mut self.dialect {
            Dialect::Pcap(state) => state.step(&mut self.window, &self.interfaces),
            Dialect::Pcapng(state) => state.step(&mut self.window, &mut self.interfaces),
        };
        let step = match step {
            Ok(step) => step,
            Err(error) => self.failed(error)?,
        };
        let offset = self.window.offset();
        match step {
            Step::Packet(found) => {
                self.pending = found.length;
                let number = self.records;
                self.records += 1;
                let bytes = self.window.bytes();
                Ok(Some(Record {
                    number,
                    interface: &self.interfaces[found.interface],
                    interface_index: found.interface,
                    time: found.time,
                    original_length: found.original_length,
                    data: &bytes[found.data],
                    options: pcapng::Options::new(&bytes[found.options], found.big_endian),
                }))
            }
            Step::End => {
                self.finished = true;
                Ok(None)
            }
            Step::Truncated => {
                self.finished = true;
                self.integrity = Integrity::Truncated { offset };
                Ok(None)
            }
            Step::Damaged(what) => {
                self.finished = true;
                if self.records == 0 && self.interfaces.is_empty() {
                    return Err(CaptureError::Header { offset, what });
                }
                self.integrity = Integrity::Damaged { offset, what };
                Ok(None)
            }
        }
    }

    /// Converts a read error to a step or to an error.
    #[cold]
    fn failed(&self, error: io::Error) -> Result<Step, CaptureError> {
        match (self.compression, error.kind()) {
            // The packets before the error are as reliable as in a truncated file without compression.
            (Some(_), ErrorKind::UnexpectedEof) => Ok(Step::Truncated),
            (Some(with), ErrorKind::InvalidData) => Ok(Step::Damaged(format!(
                "its {with} stream is damaged ({error})"
            ))),
            _ => Err(CaptureError::Io {
                offset: self.window.offset(),
                source: error,
            }),
        }
    }

    /// Returns the interfaces that were read so far; a pcapng file may declare interfaces between packets.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Returns the file's format.
    pub fn format(&self) -> Format {
        match self.dialect {
            Dialect::Pcap(_) => Format::Pcap,
            Dialect::Pcapng(_) => Format::Pcapng,
        }
    }

    /// Returns the integrity of the file so far; final after [`Capture::next_record`] has returned `None`.
    pub fn integrity(&self) -> &Integrity {
        &self.integrity
    }
}

/// The resolution of time stamps: the length of a tick, and the time of tick 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resolution {
    /// `if_tsresol`: a negative power of ten, or of two if the top bit is set.
    exponent: u8,
    /// `if_tsoffset`, in seconds.
    offset: i64,
}

impl Default for Resolution {
    /// Returns the default resolution: microseconds since the Unix epoch.
    fn default() -> Resolution {
        Resolution {
            exponent: 6,
            offset: 0,
        }
    }
}

impl Resolution {
    /// Converts a time stamp to nanoseconds since the Unix epoch, clamped to 64 bits (the year 2554).
    fn nanoseconds(self, ticks: u64) -> u64 {
        let since_offset = match self.exponent {
            // Fast paths without 128-bit arithmetic for the two resolutions that occur in practice.
            9 if self.offset == 0 => return ticks,
            6 if self.offset == 0 => return ticks.saturating_mul(1_000),
            binary if binary & 0x80 != 0 => {
                (u128::from(ticks) * 1_000_000_000) >> u32::from(binary & 0x7f)
            }
            decimal @ 0..=9 => u128::from(ticks) * 10u128.pow(u32::from(9 - decimal)),
            decimal => match 10u128.checked_pow(u32::from(decimal - 9)) {
                Some(divisor) => u128::from(ticks) / divisor,
                None => 0,
            },
        };
        // Both terms are below 2^94, so the sum cannot overflow.
        let shifted = since_offset as i128 + i128::from(self.offset) * 1_000_000_000;
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}

fn fill<R: Read>(window: &mut Window<Source<R>>, wanted: usize) -> Result<bool, CaptureError> {
    let offset = window.offset();
    window.fill(wanted).map_err(|source| match source.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData => CaptureError::Header {
            offset,
            what: format!("the compressed file is truncated or damaged ({source})"),
        },
        _ => CaptureError::Io { offset, source },
    })
}

fn unrecognised(beginning: &[u8]) -> CaptureError {
    let beginning: Vec<String> = beginning
        .iter()
        .take(QUOTED)
        .map(|b| format!("{b:02x}"))
        .collect();
    CaptureError::Unrecognised {
        beginning: beginning.join(" "),
    }
}

#[cfg(test)]
mod tests;
