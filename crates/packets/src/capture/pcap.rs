//! The classic format: one header, then packet records.
//!
//! Old writers used several record formats; this reader follows libpcap. Before version 2.3, and in version 543.0
//! (DG/UX), the original length comes before the captured length in a record. In version 2.3, both orders occur.
//! Kuznetsov's variant of old Linux systems has 8 more bytes before each packet.

use std::io::{self, Read};

use super::window::Window;
use super::{BLOCK_LIMIT, Found, Interface, LinkType, Resolution, Step};

/// Length of the header in bytes.
pub(super) const HEADER_LENGTH: usize = 24;
/// Number of bytes before the packet in a record.
const RECORD_HEADER_LENGTH: usize = 16;
/// Number of bytes before the packet in a record of Kuznetsov's variant, which adds interface, protocol and
/// packet type.
const PATCHED_RECORD_HEADER_LENGTH: usize = 24;

/// The encoding of the numbers in this file.
#[derive(Debug)]
pub(super) struct State {
    big_endian: bool,
    nanoseconds: bool,
    record_header_length: usize,
    lengths: Lengths,
}

/// The order of the two lengths in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    /// The captured length, then the original length.
    KeptFirst,
    /// The original length, then the captured length.
    OriginalFirst,
    /// Both orders occur: the smaller length is the captured length.
    Either,
}

/// Whether a file that begins with these bytes is a classic capture.
pub(super) fn is_magic(magic: [u8; 4]) -> bool {
    reading(magic).is_some()
}

/// Parses the complete header.
pub(super) fn open(header: &[u8]) -> Result<(State, Interface), String> {
    let mut state = reading([header[0], header[1], header[2], header[3]])
        .ok_or_else(|| "not a magic number of pcap".to_owned())?;
    state.lengths = match (state.u16(header, 4), state.u16(header, 6)) {
        (2, ..3) | (543, 0) => Lengths::OriginalFirst,
        (2, 3) => Lengths::Either,
        (2, _) => Lengths::KeptFirst,
        (major, minor) => {
            return Err(format!(
                "version {major}.{minor} of pcap; only version 2 is supported"
            ));
        }
    };
    let interface = Interface {
        name: None,
        // The upper 16 bits describe the frame check sequence after each packet. The length in the IP header excludes
        // that sequence.
        link: LinkType(state.u32(header, 20) as u16),
        snap_length: state.u32(header, 16),
        lost: 0,
        resolution: Resolution::default(),
    };
    Ok((state, interface))
}

impl State {
    /// Finds the next packet.
    #[inline]
    pub(super) fn step<R: Read>(
        &mut self,
        window: &mut Window<R>,
        _interfaces: &[Interface],
    ) -> io::Result<Step> {
        let before = self.record_header_length;
        if !window.fill(before)? {
            return Ok(match window.bytes() {
                [] => Step::End,
                _ => Step::Truncated,
            });
        }
        let header = window.bytes();
        let seconds = u64::from(self.u32(header, 0));
        let fraction = u64::from(self.u32(header, 4));
        let (mut kept, mut original_length) = (self.u32(header, 8), self.u32(header, 12));
        let swapped = match self.lengths {
            Lengths::KeptFirst => false,
            Lengths::OriginalFirst => true,
            Lengths::Either => kept > original_length,
        };
        if swapped {
            std::mem::swap(&mut kept, &mut original_length);
        }
        let kept = kept as usize;
        if kept > BLOCK_LIMIT {
            return Ok(Step::Damaged(format!(
                "a packet record has the invalid length {kept}"
            )));
        }
        let length = before + kept;
        if !window.fill(length)? {
            return Ok(Step::Truncated);
        }
        let scale = if self.nanoseconds { 1 } else { 1_000 };
        Ok(Step::Packet(Found {
            length,
            interface: 0,
            time: Some(seconds * 1_000_000_000 + fraction * scale),
            original_length,
            data: before..length,
            options: 0..0,
            big_endian: self.big_endian,
        }))
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let array = [bytes[at], bytes[at + 1]];
        match self.big_endian {
            true => u16::from_be_bytes(array),
            false => u16::from_le_bytes(array),
        }
    }

    #[inline]
    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        super::pcapng::u32_at(bytes, at, self.big_endian)
    }
}

/// Returns the number encoding that the magic number states.
fn reading(magic: [u8; 4]) -> Option<State> {
    let (big_endian, value) = match magic[0] {
        0xa1 => (true, u32::from_be_bytes(magic)),
        _ => (false, u32::from_le_bytes(magic)),
    };
    let (nanoseconds, record_header_length) = match value {
        0xa1b2_c3d4 => (false, RECORD_HEADER_LENGTH),
        0xa1b2_3c4d => (true, RECORD_HEADER_LENGTH),
        0xa1b2_cd34 => (false, PATCHED_RECORD_HEADER_LENGTH),
        _ => return None,
    };
    Some(State {
        big_endian,
        nanoseconds,
        record_header_length,
        lengths: Lengths::KeptFirst,
    })
}
