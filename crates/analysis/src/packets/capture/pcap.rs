//! The classic format: one header, then packet records.

use std::io::{self, Read};

use super::window::Window;
use super::{BLOCK_LIMIT, Found, Interface, LinkType, Resolution, Step};

/// Octets of the header.
pub(super) const HEADER_LENGTH: usize = 24;
/// Octets before the packet in a record.
const RECORD_HEADER_LENGTH: usize = 16;

/// How this file's numbers are written.
#[derive(Debug)]
pub(super) struct State {
    big_endian: bool,
    nanoseconds: bool,
}

/// Whether a file that begins with these octets is a classic capture.
pub(super) fn is_magic(magic: [u8; 4]) -> bool {
    reading(magic).is_some()
}

/// Reads the header, all of whose octets are at hand.
pub(super) fn open(header: &[u8]) -> Result<(State, Interface), String> {
    let (big_endian, nanoseconds) = reading([header[0], header[1], header[2], header[3]])
        .ok_or_else(|| "not a magic number of pcap".to_owned())?;
    let state = State {
        big_endian,
        nanoseconds,
    };
    let major = state.u16(header, 4);
    if major != 2 {
        return Err(format!("version {major} of pcap; only version 2 is known"));
    }
    let interface = Interface {
        name: None,
        // The upper half of the field tells of a frame check sequence behind each packet, which
        // the length of the IP packet excludes anyway.
        link: LinkType(state.u32(header, 20) as u16),
        snap_length: state.u32(header, 16),
        lost: 0,
        resolution: Resolution::default(),
    };
    Ok((state, interface))
}

impl State {
    /// Looks for the next packet.
    #[inline]
    pub(super) fn step<R: Read>(
        &mut self,
        window: &mut Window<R>,
        _interfaces: &[Interface],
    ) -> io::Result<Step> {
        if !window.fill(RECORD_HEADER_LENGTH)? {
            return Ok(match window.octets() {
                [] => Step::End,
                _ => Step::Truncated,
            });
        }
        let header = window.octets();
        let seconds = u64::from(self.u32(header, 0));
        let fraction = u64::from(self.u32(header, 4));
        let kept = self.u32(header, 8) as usize;
        let original_length = self.u32(header, 12);
        if kept > BLOCK_LIMIT {
            return Ok(Step::Damaged(format!(
                "a packet record claims {kept} octets"
            )));
        }
        let length = RECORD_HEADER_LENGTH + kept;
        if !window.fill(length)? {
            return Ok(Step::Truncated);
        }
        let scale = if self.nanoseconds { 1 } else { 1_000 };
        Ok(Step::Packet(Found {
            length,
            interface: 0,
            time: Some(seconds * 1_000_000_000 + fraction * scale),
            original_length,
            data: RECORD_HEADER_LENGTH..length,
            options: 0..0,
            big_endian: self.big_endian,
        }))
    }

    fn u16(&self, octets: &[u8], at: usize) -> u16 {
        let array = [octets[at], octets[at + 1]];
        match self.big_endian {
            true => u16::from_be_bytes(array),
            false => u16::from_le_bytes(array),
        }
    }

    #[inline]
    fn u32(&self, octets: &[u8], at: usize) -> u32 {
        super::pcapng::u32_at(octets, at, self.big_endian)
    }
}

/// Byte order (big-endian?) and resolution (nanoseconds?) by the magic number.
fn reading(magic: [u8; 4]) -> Option<(bool, bool)> {
    match magic {
        [0xa1, 0xb2, 0xc3, 0xd4] => Some((true, false)),
        [0xd4, 0xc3, 0xb2, 0xa1] => Some((false, false)),
        [0xa1, 0xb2, 0x3c, 0x4d] => Some((true, true)),
        [0x4d, 0x3c, 0xb2, 0xa1] => Some((false, true)),
        _ => None,
    }
}
