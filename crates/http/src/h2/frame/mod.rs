//! Frames (RFC 9113 sections 4 and 6, RFC 7838 section 4, RFC 9218 section 7.1).
//!
//! [`Reader`] turns bytes into [`Frame`]s. Any split of the input gives the same frames. DATA is not copied. The parts
//! of a header block in CONTINUATION frames are joined. The reader checks everything that does not depend on the state
//! of streams. [`write`](mod@write) appends frames to a buffer.
//!
//! The client and server connections decode header blocks and handle stream states and flow control.

mod fuzz;
mod reader;
pub mod write;

use super::StreamId;
use super::error::ErrorCode;

pub use self::fuzz::fuzz;
pub use self::reader::{Limits, Reader};

/// Bytes of a frame header.
pub const HEADER_LENGTH: usize = 9;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameType(pub u8);

impl FrameType {
    /// `DATA`
    pub const DATA: FrameType = FrameType(0x0);
    /// `HEADERS`
    pub const HEADERS: FrameType = FrameType(0x1);
    /// `PRIORITY`
    pub const PRIORITY: FrameType = FrameType(0x2);
    /// `RST_STREAM`
    pub const RST_STREAM: FrameType = FrameType(0x3);
    /// `SETTINGS`
    pub const SETTINGS: FrameType = FrameType(0x4);
    /// `PUSH_PROMISE`
    pub const PUSH_PROMISE: FrameType = FrameType(0x5);
    /// `PING`
    pub const PING: FrameType = FrameType(0x6);
    /// `GOAWAY`
    pub const GOAWAY: FrameType = FrameType(0x7);
    /// `WINDOW_UPDATE`
    pub const WINDOW_UPDATE: FrameType = FrameType(0x8);
    /// `CONTINUATION`
    pub const CONTINUATION: FrameType = FrameType(0x9);
    /// `ALTSVC`
    pub const ALTSVC: FrameType = FrameType(0xa);
    /// `PRIORITY_UPDATE`
    pub const PRIORITY_UPDATE: FrameType = FrameType(0x10);
}

/// Frame flags. The frame type determines which flags are valid.
pub mod flags {
    /// DATA, HEADERS: this is the sender's last frame on the stream.
    pub const END_STREAM: u8 = 0x1;
    /// SETTINGS, PING: this is an acknowledgement.
    pub const ACK: u8 = 0x1;
    /// HEADERS, PUSH_PROMISE, CONTINUATION: the header block ends with this frame.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS, PUSH_PROMISE: the payload starts with the padding length and ends with padding.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: a dependency precedes the header block.
    pub const PRIORITY: u8 = 0x20;
}

/// The nine-byte frame header (section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The length of the payload in bytes; below 2^24.
    pub length: u32,
    /// The type.
    pub kind: FrameType,
    /// The flags.
    pub flags: u8,
    /// The stream.
    pub stream: StreamId,
}

impl Header {
    /// Parses a header.
    pub fn parse(bytes: &[u8; HEADER_LENGTH]) -> Header {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Header {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: FrameType(kind),
            flags,
            stream: StreamId::new(u32::from_be_bytes(stream)),
        }
    }

    /// Encodes the header.
    pub fn bytes(self) -> [u8; HEADER_LENGTH] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.number().to_be_bytes();
        [a, b, c, self.kind.0, self.flags, d, e, f, g]
    }

    /// Whether the header has this flag.
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The dependency of a stream in the priority scheme of RFC 7540 (section 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    /// The parent stream; [`StreamId::CONNECTION`] if there is no parent.
    pub on: StreamId,
    /// Whether the other dependents of the parent stream become dependents of this stream.
    pub exclusive: bool,
    /// The weight among the dependents of the same parent. The values 0 to 255 mean the weights 1 to 256.
    pub weight: u8,
}

impl Dependency {
    /// Parses a dependency.
    pub fn parse(bytes: [u8; 5]) -> Dependency {
        let [a, b, c, d, weight] = bytes;
        Dependency {
            on: StreamId::new(u32::from_be_bytes([a, b, c, d])),
            exclusive: a & 0x80 != 0,
            weight,
        }
    }

    /// Encodes the dependency.
    pub fn bytes(self) -> [u8; 5] {
        let exclusive = u32::from(self.exclusive) << 31;
        let [a, b, c, d] = (self.on.number() | exclusive).to_be_bytes();
        [a, b, c, d, self.weight]
    }
}

/// A received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A piece of a DATA frame.
    Data(DataPiece<'a>),
    /// HEADERS with its CONTINUATION frames.
    Headers(HeaderBlock<'a>),
    /// PRIORITY
    Priority {
        /// The stream.
        stream: StreamId,
        /// The stream's dependency. A stream that depends on itself is an error.
        dependency: Dependency,
    },
    /// RST_STREAM
    Reset {
        /// The stream.
        stream: StreamId,
        /// The error code.
        code: ErrorCode,
    },
    /// SETTINGS
    Settings(SettingsList<'a>),
    /// SETTINGS with ACK.
    SettingsAcknowledged,
    /// PUSH_PROMISE with its CONTINUATION frames.
    Push {
        /// The promised stream.
        promised: StreamId,
        /// The promised request; `block.stream` is the stream on which the promise was sent.
        block: HeaderBlock<'a>,
    },
    /// PING
    Ping {
        /// Whether the frame is an answer (ACK).
        acknowledges: bool,
        /// Eight opaque bytes.
        payload: [u8; 8],
    },
    /// GOAWAY
    GoAway {
        /// The last stream that the sender has processed or may process.
        last: StreamId,
        /// The error code.
        code: ErrorCode,
        /// Debug data from the peer.
        debug: &'a [u8],
    },
    /// WINDOW_UPDATE
    WindowUpdate {
        /// The stream, or 0 for the connection.
        stream: StreamId,
        /// The number of additional bytes that may be sent; not 0.
        increment: u32,
    },
    /// PRIORITY_UPDATE
    PriorityUpdate {
        /// The prioritised stream; never the connection.
        stream: StreamId,
        /// The value of a `priority` field.
        field: &'a [u8],
    },
    /// ALTSVC
    AltSvc {
        /// The stream whose origin the frame concerns, or 0 for the connection.
        stream: StreamId,
        /// The origin that the frame concerns. Empty on a stream; not empty on the connection.
        origin: &'a [u8],
        /// The value of an `Alt-Svc` field.
        value: &'a [u8],
    },
    /// A frame of an unknown type, or an ALTSVC frame with an invalid payload, which must be ignored. Reported when the
    /// header has arrived; the payload is skipped.
    Unknown(Header),
}

/// The part of a DATA frame that arrived in one piece. Every frame, even an empty one, is reported as at least one
/// piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataPiece<'a> {
    /// The stream.
    pub stream: StreamId,
    /// The payload length of the complete frame, with the padding and the padding length field, as flow control counts
    /// it. Equal in all pieces of a frame.
    pub length: u32,
    /// Whether this is the first piece of the frame.
    pub first: bool,
    /// Whether this is the last piece of the frame.
    pub last: bool,
    /// Whether this is the last piece of the stream's last frame.
    pub end_stream: bool,
    /// The content in this piece.
    pub content: &'a [u8],
    /// The size of this piece on the wire in bytes: content, padding and the padding length field. The first piece
    /// includes the frame header.
    pub wire: u32,
}

/// A complete header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderBlock<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Whether the HEADERS frame ends the stream.
    pub end_stream: bool,
    /// The stream's dependency (RFC 7540), if the HEADERS frame has one. A stream that depends on itself is an error.
    pub dependency: Option<Dependency>,
    /// The compressed fields.
    pub block: &'a [u8],
    /// The size of all frames of the block in bytes, with frame headers and padding.
    pub wire: u32,
}

/// The settings of a SETTINGS frame, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsList<'a> {
    /// The settings, six bytes each.
    entries: &'a [[u8; 6]],
}

impl<'a> SettingsList<'a> {
    /// Parses the payload of a SETTINGS frame or of an HTTP2-Settings field. `None` if the length is not a multiple of
    /// six.
    pub fn parse(payload: &'a [u8]) -> Option<SettingsList<'a>> {
        let (entries, rest) = payload.as_chunks::<6>();
        rest.is_empty().then_some(SettingsList { entries })
    }

    /// The number of settings.
    pub fn len(self) -> usize {
        self.entries.len()
    }

    /// Whether there are no settings.
    pub fn is_empty(self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the identifiers and values of the settings.
    pub fn iter(self) -> impl Iterator<Item = (u16, u32)> + use<'a> {
        self.entries.iter().map(|&[a, b, c, d, e, f]| {
            (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))
        })
    }
}

#[cfg(test)]
mod tests;
