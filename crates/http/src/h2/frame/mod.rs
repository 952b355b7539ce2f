//! Frames (RFC 9113 sections 4 and 6, RFC 7838 section 4, RFC 9218 section 7.1).
//!
//! [`Reader`] turns octets into [`Frame`]s: any split of the input gives the same frames, DATA goes
//! through without being kept, and header blocks are joined over their CONTINUATION frames. Whatever
//! of a frame can be judged without knowing the state of streams is judged here. [`write`](mod@write)
//! appends frames to a buffer.
//!
//! What header blocks mean, the states of streams, and flow control are left to the machines.

mod fuzz;
mod reader;
pub mod write;

use super::StreamId;
use super::error::ErrorCode;

pub use self::fuzz::fuzz;
pub use self::reader::{Limits, Reader};

/// Octets of a frame header.
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

/// Flags of frames; which of them a frame may have depends on its type.
pub mod flags {
    /// DATA, HEADERS: the sender's last frame on the stream.
    pub const END_STREAM: u8 = 0x1;
    /// SETTINGS, PING: an acknowledgement.
    pub const ACK: u8 = 0x1;
    /// HEADERS, PUSH_PROMISE, CONTINUATION: the header block ends.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS, PUSH_PROMISE: padding, and its length first.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: a dependency comes before the block.
    pub const PRIORITY: u8 = 0x20;
}

/// The nine octets that each frame starts with (section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Octets of the payload; below 2^24.
    pub length: u32,
    /// The type.
    pub kind: FrameType,
    /// The flags.
    pub flags: u8,
    /// The stream.
    pub stream: StreamId,
}

impl Header {
    /// Reads one.
    pub fn parse(octets: &[u8; HEADER_LENGTH]) -> Header {
        let [a, b, c, kind, flags, stream @ ..] = *octets;
        Header {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: FrameType(kind),
            flags,
            stream: StreamId::new(u32::from_be_bytes(stream)),
        }
    }

    /// Its octets.
    pub fn octets(self) -> [u8; HEADER_LENGTH] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.number().to_be_bytes();
        [a, b, c, self.kind.0, self.flags, d, e, f, g]
    }

    /// Whether it has this flag.
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What a stream waits for, in the priorities of RFC 7540 section 5.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    /// The stream that comes first; [`StreamId::CONNECTION`]: none.
    pub on: StreamId,
    /// Whether whatever else waits for that stream waits for this one from now on.
    pub exclusive: bool,
    /// The share among those that wait for the same stream: 0 to 255 stand for 1 to 256.
    pub weight: u8,
}

impl Dependency {
    /// Reads one.
    pub fn parse(octets: [u8; 5]) -> Dependency {
        let [a, b, c, d, weight] = octets;
        Dependency {
            on: StreamId::new(u32::from_be_bytes([a, b, c, d])),
            exclusive: a & 0x80 != 0,
            weight,
        }
    }

    /// Its octets.
    pub fn octets(self) -> [u8; 5] {
        let exclusive = u32::from(self.exclusive) << 31;
        let [a, b, c, d] = (self.on.number() | exclusive).to_be_bytes();
        [a, b, c, d, self.weight]
    }
}

/// What a peer sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A piece of a DATA frame.
    Data(DataPiece<'a>),
    /// HEADERS with all its CONTINUATION frames.
    Headers(HeaderBlock<'a>),
    /// PRIORITY
    Priority {
        /// The stream.
        stream: StreamId,
        /// What it waits for; it may be the stream itself, which is a fault.
        dependency: Dependency,
    },
    /// RST_STREAM
    Reset {
        /// The stream.
        stream: StreamId,
        /// Why.
        code: ErrorCode,
    },
    /// SETTINGS
    Settings(SettingsList<'a>),
    /// SETTINGS with ACK.
    SettingsAcknowledged,
    /// PUSH_PROMISE with all its CONTINUATION frames.
    Push {
        /// The stream that is promised.
        promised: StreamId,
        /// The request; its stream is the one that the promise came on.
        block: HeaderBlock<'a>,
    },
    /// PING
    Ping {
        /// Whether it answers one.
        acknowledges: bool,
        /// Eight octets that mean nothing to the receiver of a PING that is no answer.
        payload: [u8; 8],
    },
    /// GOAWAY
    GoAway {
        /// The last stream that is or may be dealt with.
        last: StreamId,
        /// Why.
        code: ErrorCode,
        /// Whatever the peer wants to say about it.
        debug: &'a [u8],
    },
    /// WINDOW_UPDATE
    WindowUpdate {
        /// The stream, or the connection.
        stream: StreamId,
        /// Octets that may be sent in addition; not 0.
        increment: u32,
    },
    /// PRIORITY_UPDATE
    PriorityUpdate {
        /// The stream that it is about; not the connection.
        stream: StreamId,
        /// The value of a `priority` field.
        field: &'a [u8],
    },
    /// ALTSVC
    AltSvc {
        /// The stream whose origin it is about, or the connection.
        stream: StreamId,
        /// The origin that it is about. To be there on the connection, and nowhere else.
        origin: &'a [u8],
        /// The value of an `Alt-Svc` field.
        value: &'a [u8],
    },
    /// A frame of a type that is not known, told when its header came; its payload is passed over. And an
    /// ALTSVC whose payload cannot be read, which is to be ignored.
    Unknown(Header),
}

/// A piece of a DATA frame: as much of it as came at once. A frame is told in at least one piece,
/// even if it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataPiece<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Octets of the whole frame's payload, padding and its length included: what counts for flow
    /// control. The same in every piece of the frame.
    pub length: u32,
    /// Whether it is the first piece of its frame.
    pub first: bool,
    /// Whether it is the last piece of its frame.
    pub last: bool,
    /// Whether it is the last piece of its frame, and that is the last of the stream.
    pub end_stream: bool,
    /// Octets of content.
    pub content: &'a [u8],
    /// Octets on the wire that this piece is: the frame's header where it is the first, content,
    /// padding and its length.
    pub wire: u32,
}

/// A header block and the frames that it came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderBlock<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Whether the stream ends (HEADERS).
    pub end_stream: bool,
    /// The stream's place in the old tree of priorities, if it was told (HEADERS); it may wait for
    /// itself, which is a fault.
    pub dependency: Option<Dependency>,
    /// The compressed fields.
    pub block: &'a [u8],
    /// Octets of all its frames, their headers and padding included.
    pub wire: u32,
}

/// The settings of a SETTINGS frame, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingsList<'a> {
    /// Six octets each.
    entries: &'a [[u8; 6]],
}

impl<'a> SettingsList<'a> {
    /// Reads the payload of a SETTINGS frame, or of an HTTP2-Settings field; `None` if its length is
    /// no multiple of six.
    pub fn parse(payload: &'a [u8]) -> Option<SettingsList<'a>> {
        let (entries, rest) = payload.as_chunks::<6>();
        rest.is_empty().then_some(SettingsList { entries })
    }

    /// How many they are.
    pub fn len(self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.entries.is_empty()
    }

    /// Identifiers and values.
    pub fn iter(self) -> impl Iterator<Item = (u16, u32)> + use<'a> {
        self.entries.iter().map(|&[a, b, c, d, e, f]| {
            (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))
        })
    }
}

#[cfg(test)]
mod tests;
