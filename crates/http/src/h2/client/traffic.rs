//! Counts frames by type, as a protocol analyser does.

use fathometer_model::Bytes;

use crate::h2::frame::{FrameType, HEADER_LENGTH, Header};

/// The number of frame types with their own count, in the order of their type numbers. PRIORITY_UPDATE and all other
/// types use the last two counts.
const KNOWN: usize = 11;
const PRIORITY_UPDATE: usize = KNOWN;
const OTHERS: usize = KNOWN + 1;

/// The number and size of the frames that passed in one direction, by type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    frames: [u64; OTHERS + 1],
    bytes: [u64; OTHERS + 1],
}

impl Traffic {
    /// The number of frames of this type whose header was complete. All unknown types are counted as one type.
    pub fn frames(&self, kind: FrameType) -> u64 {
        self.frames[place(kind)]
    }

    /// The number of bytes in frames of this type, headers (9 bytes) included.
    pub fn bytes(&self, kind: FrameType) -> Bytes {
        Bytes(self.bytes[place(kind)])
    }

    /// The number of bytes in all frames.
    pub fn total(&self) -> Bytes {
        Bytes(self.bytes.iter().sum())
    }
}

fn place(kind: FrameType) -> usize {
    match kind {
        FrameType(kind) if usize::from(kind) < KNOWN => usize::from(kind),
        FrameType::PRIORITY_UPDATE => PRIORITY_UPDATE,
        _ => OTHERS,
    }
}

/// Parses the frame headers in the bytes of one direction, and counts the frames.
#[derive(Debug, Clone, Default)]
pub(super) struct Counter {
    traffic: Traffic,
    /// A frame header that may be incomplete, and the number of its bytes received so far.
    header: [u8; HEADER_LENGTH],
    have: usize,
    /// Remaining payload bytes of the current frame, and the index of its type.
    payload: usize,
    place: usize,
    /// The remaining bytes of the preface, which precedes the first frame.
    preface: usize,
}

impl Counter {
    /// Creates a counter for a direction that starts with a preface of `preface` bytes.
    pub(super) fn new(preface: usize) -> Counter {
        Counter {
            preface,
            ..Counter::default()
        }
    }

    pub(super) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Counts the given bytes.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        if self.preface > 0 {
            let skipped = self.preface.min(bytes.len());
            self.preface -= skipped;
            bytes = &bytes[skipped..];
        }
        loop {
            let passed = self.payload.min(bytes.len());
            self.payload -= passed;
            self.traffic.bytes[self.place] += passed as u64;
            bytes = &bytes[passed..];
            if bytes.is_empty() {
                return;
            }
            match bytes.first_chunk() {
                Some(header) if self.have == 0 => {
                    self.begin(*header);
                    bytes = &bytes[HEADER_LENGTH..];
                }
                _ => {
                    self.header[self.have] = bytes[0];
                    self.have += 1;
                    bytes = &bytes[1..];
                    if self.have == HEADER_LENGTH {
                        self.have = 0;
                        self.begin(self.header);
                    }
                }
            }
        }
    }

    /// Starts a new frame. Its header bytes are counted when the header is complete.
    fn begin(&mut self, header: [u8; HEADER_LENGTH]) {
        let header = Header::parse(&header);
        self.payload = header.length as usize;
        self.place = place(header.kind);
        self.traffic.frames[self.place] += 1;
        self.traffic.bytes[self.place] += HEADER_LENGTH as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::frame::write;
    use crate::h2::{PREFACE, StreamId};

    #[test]
    fn any_split_gives_the_same_counts() {
        let mut bytes = PREFACE.to_vec();
        write::settings(&mut bytes, [(1, 2), (3, 4)].into_iter());
        write::window_update(&mut bytes, StreamId::CONNECTION, 7);
        write::data_header(&mut bytes, StreamId::new(1), 3, true);
        bytes.extend_from_slice(b"abc");
        write::priority_update(&mut bytes, StreamId::new(1), b"u=1");
        write::alt_svc(&mut bytes, StreamId::CONNECTION, "https://h", "clear");
        bytes.extend_from_slice(&[0, 0, 0, 0xfa, 0, 0, 0, 0, 0]);
        for piece in 1..bytes.len() {
            let mut counter = Counter::new(PREFACE.len());
            for piece in bytes.chunks(piece) {
                counter.pass(piece);
            }
            let traffic = counter.traffic();
            for (kind, frames, bytes) in [
                (FrameType::SETTINGS, 1, 9 + 12),
                (FrameType::WINDOW_UPDATE, 1, 13),
                (FrameType::DATA, 1, 12),
                (FrameType::PRIORITY_UPDATE, 1, 9 + 4 + 3),
                (FrameType::ALTSVC, 1, 9 + 2 + 9 + 5),
                (FrameType(0xfb), 1, 9),
                (FrameType::PING, 0, 0),
            ] {
                assert_eq!(traffic.frames(kind), frames, "{kind:?}");
                assert_eq!(traffic.bytes(kind), Bytes(bytes), "{kind:?}");
            }
            assert_eq!(traffic.total(), Bytes((bytes.len() - PREFACE.len()) as u64));
        }
    }
}
