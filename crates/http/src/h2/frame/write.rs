//! Functions that append frames to a buffer.
//!
//! They apply only one limit of the peer, the maximum frame size: a longer header block is split into CONTINUATION
//! frames.

use super::super::StreamId;
use super::super::error::ErrorCode;
use super::{Dependency, FrameType, HEADER_LENGTH, Header, flags};

/// Appends a frame header; the caller appends `length` bytes of payload.
pub fn header(out: &mut Vec<u8>, header: Header) {
    out.extend_from_slice(&header.bytes());
}

/// Appends the header of a DATA frame; the caller appends `length` bytes of content.
pub fn data_header(out: &mut Vec<u8>, stream: StreamId, length: u32, end_stream: bool) {
    let flags = if end_stream { flags::END_STREAM } else { 0 };
    frame(out, FrameType::DATA, flags, stream, length);
}

/// Appends SETTINGS.
pub fn settings(out: &mut Vec<u8>, entries: impl Iterator<Item = (u16, u32)>) {
    let start = out.len();
    frame(out, FrameType::SETTINGS, 0, StreamId::CONNECTION, 0);
    for (id, value) in entries {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    set_length(out, start);
}

/// Appends SETTINGS with ACK.
pub fn settings_acknowledged(out: &mut Vec<u8>) {
    frame(
        out,
        FrameType::SETTINGS,
        flags::ACK,
        StreamId::CONNECTION,
        0,
    );
}

/// Appends PING, or its answer.
pub fn ping(out: &mut Vec<u8>, acknowledges: bool, payload: [u8; 8]) {
    let flags = if acknowledges { flags::ACK } else { 0 };
    frame(out, FrameType::PING, flags, StreamId::CONNECTION, 8);
    out.extend_from_slice(&payload);
}

/// Appends GOAWAY.
pub fn go_away(out: &mut Vec<u8>, last: StreamId, code: ErrorCode, debug: &[u8]) {
    let length = 8 + debug.len() as u32;
    frame(out, FrameType::GOAWAY, 0, StreamId::CONNECTION, length);
    out.extend_from_slice(&last.number().to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(debug);
}

/// Appends WINDOW_UPDATE; `increment` is 1 to 2^31 − 1.
pub fn window_update(out: &mut Vec<u8>, stream: StreamId, increment: u32) {
    frame(out, FrameType::WINDOW_UPDATE, 0, stream, 4);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Appends RST_STREAM.
pub fn reset(out: &mut Vec<u8>, stream: StreamId, code: ErrorCode) {
    frame(out, FrameType::RST_STREAM, 0, stream, 4);
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends PRIORITY.
pub fn priority(out: &mut Vec<u8>, stream: StreamId, dependency: Dependency) {
    frame(out, FrameType::PRIORITY, 0, stream, 5);
    out.extend_from_slice(&dependency.bytes());
}

/// Appends PRIORITY_UPDATE with the value of a `priority` field.
pub fn priority_update(out: &mut Vec<u8>, stream: StreamId, field: &[u8]) {
    let length = 4 + field.len() as u32;
    frame(
        out,
        FrameType::PRIORITY_UPDATE,
        0,
        StreamId::CONNECTION,
        length,
    );
    out.extend_from_slice(&stream.number().to_be_bytes());
    out.extend_from_slice(field);
}

/// Appends ALTSVC with an origin (only on the connection) and the value of an `Alt-Svc` field.
pub fn alt_svc(out: &mut Vec<u8>, stream: StreamId, origin: &str, value: &str) {
    let length = (2 + origin.len() + value.len()) as u32;
    frame(out, FrameType::ALTSVC, 0, stream, length);
    out.extend_from_slice(&(origin.len() as u16).to_be_bytes());
    out.extend_from_slice(origin.as_bytes());
    out.extend_from_slice(value.as_bytes());
}

/// The type of the frame that carries a header block, and the other parts of that frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// HEADERS
    Headers {
        /// Whether the frame ends the stream.
        end_stream: bool,
        /// The stream's dependency under RFC 7540.
        dependency: Option<Dependency>,
    },
    /// PUSH_PROMISE
    Push {
        /// The promised stream.
        promised: StreamId,
    },
}

/// Appends HEADERS or PUSH_PROMISE with the header block that `encode` appends. A block longer than `max_frame_size` is
/// split into CONTINUATION frames. Returns the size of all frames in bytes.
pub fn header_block(
    out: &mut Vec<u8>,
    stream: StreamId,
    carrier: Carrier,
    max_frame_size: u32,
    encode: impl FnOnce(&mut Vec<u8>),
) -> u32 {
    let start = out.len();
    let (kind, flags) = match carrier {
        Carrier::Headers {
            end_stream,
            dependency,
        } => {
            let ends = if end_stream { flags::END_STREAM } else { 0 };
            let depends = dependency.map_or(0, |_| flags::PRIORITY);
            (FrameType::HEADERS, flags::END_HEADERS | ends | depends)
        }
        Carrier::Push { .. } => (FrameType::PUSH_PROMISE, flags::END_HEADERS),
    };
    frame(out, kind, flags, stream, 0);
    match carrier {
        Carrier::Headers { dependency, .. } => {
            if let Some(dependency) = dependency {
                out.extend_from_slice(&dependency.bytes());
            }
        }
        Carrier::Push { promised } => out.extend_from_slice(&promised.number().to_be_bytes()),
    }
    encode(out);
    let length = out.len() - start - HEADER_LENGTH;
    if length <= max_frame_size as usize {
        set_length(out, start);
    } else {
        continue_block(out, start, stream, max_frame_size);
    }
    (out.len() - start) as u32
}

/// Splits the frame at `start`, which is too long, into frames of at most the allowed size.
#[cold]
fn continue_block(out: &mut Vec<u8>, start: usize, stream: StreamId, max_frame_size: u32) {
    let rest = out.split_off(start + HEADER_LENGTH + max_frame_size as usize);
    out[start + 4] &= !flags::END_HEADERS;
    set_length(out, start);
    let mut pieces = rest.chunks(max_frame_size as usize).peekable();
    while let Some(piece) = pieces.next() {
        let last = pieces.peek().is_none();
        let flags = if last { flags::END_HEADERS } else { 0 };
        frame(
            out,
            FrameType::CONTINUATION,
            flags,
            stream,
            piece.len() as u32,
        );
        out.extend_from_slice(piece);
    }
}

fn frame(out: &mut Vec<u8>, kind: FrameType, flags: u8, stream: StreamId, length: u32) {
    header(
        out,
        Header {
            length,
            kind,
            flags,
            stream,
        },
    );
}

/// Sets the length of the frame that begins at `start` and is the last frame of `out`.
fn set_length(out: &mut [u8], start: usize) {
    let length = (out.len() - start - HEADER_LENGTH) as u32;
    out[start..start + 3].copy_from_slice(&length.to_be_bytes()[1..]);
}
