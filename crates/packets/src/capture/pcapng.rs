//! The block format: sections, interfaces, packets with options.

use std::io::{self, Read};

use super::window::Window;
use super::{BLOCK_LIMIT, Found, Interface, LinkType, Resolution, Step};

/// The type of a section header block, the same in both byte orders.
pub(super) const SECTION_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// The obsolete packet block, which old programs still write.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;
const OPTION_INTERFACE_DROPS: u16 = 5;

/// Maximum number of interfaces. No real capture has as many; the limit protects against malicious files.
const INTERFACE_LIMIT: usize = 65_536;
/// Maximum number of stored bytes per interface name; protects against malicious files.
const NAME_LIMIT: usize = 256;

/// The state of the reader between blocks.
#[derive(Debug, Default)]
pub(super) struct State {
    big_endian: bool,
    /// Index of the section's first interface among all interfaces.
    first_interface: usize,
}

impl State {
    /// Finds the next packet, and skips blocks without a packet.
    pub(super) fn step<R: Read>(
        &mut self,
        window: &mut Window<R>,
        interfaces: &mut Vec<Interface>,
    ) -> io::Result<Step> {
        loop {
            if !window.fill(12)? {
                return Ok(match window.bytes() {
                    [] => Step::End,
                    _ => Step::Truncated,
                });
            }
            let header = window.array::<12>(0);
            if header[..4] == SECTION_MAGIC {
                match &header[8..] {
                    [0x1a, 0x2b, 0x3c, 0x4d] => self.big_endian = true,
                    [0x4d, 0x3c, 0x2b, 0x1a] => self.big_endian = false,
                    other => {
                        return Ok(Step::Damaged(format!(
                            "a section has the invalid byte-order magic {other:02x?}"
                        )));
                    }
                }
            }
            let kind = u32_at(&header, 0, self.big_endian);
            let length = u32_at(&header, 4, self.big_endian) as usize;
            if length < 12 || !length.is_multiple_of(4) {
                return Ok(Step::Damaged(format!(
                    "a block has the invalid length {length}"
                )));
            }
            if !matches!(
                kind,
                SECTION_HEADER
                    | INTERFACE_DESCRIPTION
                    | PACKET
                    | SIMPLE_PACKET
                    | INTERFACE_STATISTICS
                    | ENHANCED_PACKET
            ) {
                // Name resolution, secrets, journal and private blocks may be of any length.
                if !window.skip(length as u64)? {
                    return Ok(Step::Truncated);
                }
                continue;
            }
            if length > BLOCK_LIMIT {
                return Ok(Step::Damaged(format!(
                    "a block of type {kind} has the invalid length {length}"
                )));
            }
            if !window.fill(length)? {
                return Ok(Step::Truncated);
            }
            let block = Block {
                bytes: &window.bytes()[..length],
                big_endian: self.big_endian,
            };
            let trailer = block.u32(length - 4) as usize;
            if trailer != length {
                return Ok(Step::Damaged(format!(
                    "a block of {length} bytes has the different trailing length {trailer}"
                )));
            }
            let step = match kind {
                SECTION_HEADER => block.section().map(|()| {
                    self.first_interface = interfaces.len();
                    None
                }),
                INTERFACE_DESCRIPTION if interfaces.len() >= INTERFACE_LIMIT => {
                    Err(format!("more than {INTERFACE_LIMIT} interfaces"))
                }
                INTERFACE_DESCRIPTION => block.interface().map(|interface| {
                    interfaces.push(interface);
                    None
                }),
                INTERFACE_STATISTICS => {
                    block.statistics(self.first_interface, interfaces);
                    Ok(None)
                }
                SIMPLE_PACKET => block
                    .simple_packet(self.first_interface, interfaces)
                    .map(Some),
                _ => block
                    .packet(kind, self.first_interface, interfaces)
                    .map(Some),
            };
            match step {
                Ok(None) => window.consume(length),
                Ok(Some(found)) => return Ok(Step::Packet(found)),
                Err(what) => return Ok(Step::Damaged(what)),
            }
        }
    }
}

/// A complete block, from its type to its trailing length.
struct Block<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Block<'a> {
    #[inline]
    fn u16(&self, at: usize) -> u16 {
        u16_at(self.bytes, at, self.big_endian)
    }

    #[inline]
    fn u32(&self, at: usize) -> u32 {
        u32_at(self.bytes, at, self.big_endian)
    }

    /// Returns the offset of the trailing length.
    #[inline]
    fn body_end(&self) -> usize {
        self.bytes.len() - 4
    }

    fn options(&self, at: usize) -> Options<'a> {
        let end = self.body_end();
        Options::new(&self.bytes[at.min(end)..end], self.big_endian)
    }

    fn section(&self) -> Result<(), String> {
        if self.bytes.len() < 28 {
            return Err("a section header is too short".to_owned());
        }
        match self.u16(12) {
            1 => Ok(()),
            major => Err(format!(
                "version {major} of pcapng; only version 1 is supported"
            )),
        }
    }

    fn interface(&self) -> Result<Interface, String> {
        if self.bytes.len() < 20 {
            return Err("an interface description is too short".to_owned());
        }
        let mut interface = Interface {
            name: None,
            link: LinkType(self.u16(8)),
            snap_length: self.u32(12),
            lost: 0,
            resolution: Resolution::default(),
        };
        for (code, value) in self.options(16) {
            match (code, value) {
                (OPTION_INTERFACE_NAME, name) => {
                    let name = &name[..name.len().min(NAME_LIMIT)];
                    interface.name = Some(String::from_utf8_lossy(name).into_owned());
                }
                (OPTION_TIME_RESOLUTION, [exponent, ..]) => {
                    interface.resolution.exponent = *exponent;
                }
                (OPTION_TIME_OFFSET, value) if value.len() == 8 => {
                    interface.resolution.offset = u64_at(value, 0, self.big_endian) as i64;
                }
                _ => {}
            }
        }
        Ok(interface)
    }

    fn statistics(&self, first_interface: usize, interfaces: &mut [Interface]) {
        if self.bytes.len() < 24 {
            return;
        }
        let index = first_interface + self.u32(8) as usize;
        let Some(interface) = interfaces.get_mut(index) else {
            return;
        };
        for (code, value) in self.options(20) {
            if code == OPTION_INTERFACE_DROPS && value.len() == 8 {
                // Each statistics block counts from the beginning of the capture, so the last block replaces earlier
                // blocks.
                interface.lost = u64_at(value, 0, self.big_endian);
            }
        }
    }

    /// Parses an enhanced packet block, or the obsolete packet block, which differs in the first 32-bit word.
    #[inline]
    fn packet(
        &self,
        kind: u32,
        first_interface: usize,
        interfaces: &[Interface],
    ) -> Result<Found, String> {
        const START: usize = 28;
        let Some(header) = self.bytes.first_chunk::<START>() else {
            return Err(TOO_SHORT.to_owned());
        };
        let word = |n: usize| u32_at(header, 4 * n, self.big_endian);
        let index = match kind {
            PACKET => u32::from(self.u16(8)),
            _ => word(2),
        };
        let (kept, room) = (word(5) as usize, self.body_end().saturating_sub(START));
        if kept > room {
            return Err(format!(
                "a packet of {kept} bytes does not fit into its block"
            ));
        }
        let interface = announced(index, first_interface, interfaces)?;
        let ticks = u64::from(word(3)) << 32 | u64::from(word(4));
        Ok(Found {
            length: self.bytes.len(),
            interface,
            time: Some(interfaces[interface].resolution.nanoseconds(ticks)),
            original_length: word(6),
            data: START..START + kept,
            options: START + kept.next_multiple_of(4).min(room)..START + room,
            big_endian: self.big_endian,
        })
    }

    /// Parses a simple packet block, which has neither a time nor an interface, only the original length.
    fn simple_packet(
        &self,
        first_interface: usize,
        interfaces: &[Interface],
    ) -> Result<Found, String> {
        const START: usize = 12;
        if self.bytes.len() < START + 4 {
            return Err(TOO_SHORT.to_owned());
        }
        let interface = announced(0, first_interface, interfaces)?;
        let original_length = self.u32(8);
        let limit = match interfaces[interface].snap_length {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let end = self.body_end();
        let kept = (original_length as usize).min(limit).min(end - START);
        Ok(Found {
            length: self.bytes.len(),
            interface,
            time: None,
            original_length,
            data: START..START + kept,
            options: end..end,
            big_endian: self.big_endian,
        })
    }
}

const TOO_SHORT: &str = "a packet block is too short";

/// Converts the number of an interface in its section to its index among all interfaces.
#[inline]
fn announced(
    index: u32,
    first_interface: usize,
    interfaces: &[Interface],
) -> Result<usize, String> {
    let place = first_interface.saturating_add(index as usize);
    match place < interfaces.len() {
        true => Ok(place),
        false => Err(format!(
            "a packet refers to interface {index}, which is not declared"
        )),
    }
}

/// The options at the end of a block: pairs of a code and a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options<'a> {
    left: &'a [u8],
    big_endian: bool,
}

impl<'a> Options<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], big_endian: bool) -> Options<'a> {
        Options {
            left: bytes,
            big_endian,
        }
    }

    #[inline]
    pub(super) fn mention(&self, bytes: &[u8]) -> bool {
        self.left.len() >= bytes.len() && memchr::memmem::find(self.left, bytes).is_some()
    }

    #[inline]
    pub(super) fn comments(self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.filter(|(code, _)| *code == OPTION_COMMENT)
            .filter_map(|(_, value)| std::str::from_utf8(value).ok())
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        if self.left.len() < 4 {
            return None;
        }
        let code = u16_at(self.left, 0, self.big_endian);
        let length = usize::from(u16_at(self.left, 2, self.big_endian));
        let value = self.left.get(4..4 + length);
        let rest = self.left.get(4 + length.next_multiple_of(4)..);
        self.left = rest.unwrap_or_default();
        if code == OPTION_END {
            self.left = &[];
            return None;
        }
        value.map(|value| (code, value))
    }
}

#[inline]
fn u16_at(bytes: &[u8], at: usize, big_endian: bool) -> u16 {
    let array = [bytes[at], bytes[at + 1]];
    match big_endian {
        true => u16::from_be_bytes(array),
        false => u16::from_le_bytes(array),
    }
}

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let mut array = [0; 4];
    array.copy_from_slice(&bytes[at..at + 4]);
    match big_endian {
        true => u32::from_be_bytes(array),
        false => u32::from_le_bytes(array),
    }
}

fn u64_at(bytes: &[u8], at: usize, big_endian: bool) -> u64 {
    let mut array = [0; 8];
    array.copy_from_slice(&bytes[at..at + 8]);
    match big_endian {
        true => u64::from_be_bytes(array),
        false => u64::from_le_bytes(array),
    }
}
