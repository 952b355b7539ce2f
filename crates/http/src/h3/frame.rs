//! Reads frames incrementally, and writes frames (RFC 9114 section 7).

use super::varint;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameType(pub u64);

impl FrameType {
    /// Content.
    pub const DATA: FrameType = FrameType(0x0);
    /// A field section.
    pub const HEADERS: FrameType = FrameType(0x1);
    /// The client refuses a push, or the server cancels a push.
    pub const CANCEL_PUSH: FrameType = FrameType(0x3);
    /// Settings; sent once by each side.
    pub const SETTINGS: FrameType = FrameType(0x4);
    /// Announces a push.
    pub const PUSH_PROMISE: FrameType = FrameType(0x5);
    /// The sender shuts the connection down, and accepts no more requests or pushes.
    pub const GOAWAY: FrameType = FrameType(0x7);
    /// The client permits pushes.
    pub const MAX_PUSH_ID: FrameType = FrameType(0xd);
    /// Changes the priority of a request (RFC 9218 section 7.2).
    pub const PRIORITY_UPDATE: FrameType = FrameType(0xf_0700);
    /// Changes the priority of a push.
    pub const PUSH_PRIORITY_UPDATE: FrameType = FrameType(0xf_0701);

    /// Whether this type is defined by HTTP/2 and reserved in HTTP/3, so that it must not be sent (section 7.2.8).
    pub const fn is_of_http2(self) -> bool {
        matches!(self.0, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// Returns a reserved type or identifier, which a receiver must ignore (sections 6.2.3, 7.2.4.1, 7.2.8).
pub(super) const fn reserved(number: u64) -> u64 {
    0x1f * number + 0x21
}

/// A part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'i> {
    /// A frame begins.
    Begin {
        kind: FrameType,
        /// The length of the payload in bytes.
        length: u64,
        /// The size of the type field and the length field on the wire, in bytes.
        header: u64,
    },
    /// The next bytes of the payload; never empty.
    Payload(&'i [u8]),
    /// The frame is complete.
    End,
}

/// The maximum size of the type field and the length field together, in bytes.
const MOST_HEADER: usize = 16;

/// Splits the bytes of one stream into frames. Only an incomplete type and length are buffered; payloads are not
/// copied.
#[derive(Debug, Clone, Default)]
pub(super) struct Frames {
    header: [u8; MOST_HEADER],
    have: u8,
    /// The number of payload bytes that have not arrived.
    left: u64,
    /// Whether a frame has begun and its end has not been reported yet.
    within: bool,
}

impl Frames {
    /// Whether the input is between two frames, so that the stream may end.
    pub fn is_between(&self) -> bool {
        !self.within && self.have == 0
    }

    /// Reads the next part from the front of `input`; `None` if all input is consumed.
    pub fn read<'i>(&mut self, input: &mut &'i [u8]) -> Option<Piece<'i>> {
        if self.within {
            if self.left == 0 {
                self.within = false;
                return Some(Piece::End);
            }
            if input.is_empty() {
                return None;
            }
            let length = usize::try_from(self.left).unwrap_or(usize::MAX);
            let (payload, rest) = input.split_at(length.min(input.len()));
            *input = rest;
            self.left -= payload.len() as u64;
            return Some(Piece::Payload(payload));
        }
        let have = usize::from(self.have);
        let new = input.len().min(MOST_HEADER - have);
        self.header[have..have + new].copy_from_slice(&input[..new]);
        let mut header = &self.header[..have + new];
        let whole = header.len();
        let found = varint::take(&mut header).zip(varint::take(&mut header));
        let Some((kind, length)) = found else {
            self.have = whole as u8;
            *input = &input[new..];
            return None;
        };
        let header = whole - header.len();
        *input = &input[header - have..];
        self.have = 0;
        self.left = length;
        self.within = true;
        Some(Piece::Begin {
            kind: FrameType(kind),
            length,
            header: header as u64,
        })
    }
}

/// Appends the type and the length of a frame; returns the number of bytes.
pub(super) fn write_header(kind: FrameType, length: u64, out: &mut Vec<u8>) -> u64 {
    varint::write(kind.0, out);
    varint::write(length, out);
    header_length(kind, length)
}

/// The size of the type field and the length field of a frame, in bytes.
pub(super) const fn header_length(kind: FrameType, length: u64) -> u64 {
    (varint::length(kind.0) + varint::length(length)) as u64
}

/// Appends a frame whose payload is one integer.
pub(super) fn write_number(kind: FrameType, number: u64, out: &mut Vec<u8>) {
    write_header(kind, varint::length(number) as u64, out);
    varint::write(number, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads `pieces`. Returns all frames with their payloads, and whether the stream ends between two frames.
    fn read<'i>(pieces: impl Iterator<Item = &'i [u8]>) -> (Vec<(u64, Vec<u8>)>, bool) {
        let mut frames = Frames::default();
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        for piece in pieces {
            let mut input = piece;
            while let Some(piece) = frames.read(&mut input) {
                match piece {
                    Piece::Begin { kind, .. } => found.push((kind.0, Vec::new())),
                    Piece::Payload(bytes) => found.last_mut().unwrap().1.extend(bytes),
                    Piece::End => {}
                }
            }
            assert!(input.is_empty());
        }
        (found, frames.is_between())
    }

    #[test]
    fn frames_are_found_and_counted() {
        let mut out = Vec::new();
        assert_eq!(write_header(FrameType::HEADERS, 100, &mut out), 3);
        out.extend_from_slice(&[7; 100]);
        assert_eq!(write_header(FrameType::DATA, 0, &mut out), 2);
        write_number(FrameType::GOAWAY, 1 << 20, &mut out);
        write_header(FrameType(reserved(5)), 1, &mut out);
        let (found, between) = read([&out[..]].into_iter());
        assert!(!between);
        let kinds: Vec<u64> = found.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [1, 0, 7, 0x1f * 5 + 0x21]);
        assert_eq!(found[0].1, [7; 100]);
        assert_eq!(found[2].1, [0x80, 0x10, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(input in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..40) {
            let whole = read([&input[..]].into_iter());
            prop_assert_eq!(&whole, &read(input.chunks(cut)));
            prop_assert_eq!(&whole, &read(input.chunks(1)));
        }
    }
}
