//! The link-layer bytes that a link sends with each IP packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The link-layer overhead of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// No overhead: the link serialises the IP packet alone.
    #[default]
    None,
    /// IEEE 802.3: preamble and start delimiter 8, addresses and type 14, check sequence 4,
    /// inter-frame gap 12 (38 bytes), around a payload padded to at least 46.
    Ethernet,
    /// PPP in HDLC-like framing (RFC 1662): address 1, control 1, protocol 2, check sequence 2 and one flag,
    /// which a frame shares with the next frame: 7 bytes. Byte stuffing is not counted. If only the flag and
    /// the escape are stuffed, it adds 0.8 % to random bytes and almost nothing to text.
    Ppp,
    /// ATM with AAL5 and IP directly inside (RFC 2684, VC multiplexing): an 8-byte trailer, then
    /// cells of 53 bytes that carry 48.
    AtmAal5,
    /// A fixed number of bytes per packet.
    Fixed(u32),
}

impl Framing {
    /// Returns the number of bytes on the link for an IP packet of `length` bytes.
    pub fn on_link(self, length: u32) -> u64 {
        let length = u64::from(length);
        match self {
            Framing::None => length,
            Framing::Ethernet => length.max(46) + 38,
            Framing::Ppp => length + 7,
            Framing::AtmAal5 => (length + 8).div_ceil(48) * 53,
            Framing::Fixed(extra) => length + u64::from(extra),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_sizes() {
        // A full frame takes 1538 bytes, the smallest 84: 812 and 14 880 frames/s at 10 Mbit/s.
        assert_eq!(Framing::Ethernet.on_link(1500), 1538);
        assert_eq!(Framing::Ethernet.on_link(40), 84);
        assert_eq!(Framing::Ethernet.on_link(46), 84);
        assert_eq!(Framing::Ethernet.on_link(47), 85);
        assert_eq!(Framing::Ppp.on_link(40), 47);
        // An acknowledgement and its trailer fill exactly one cell; one more byte needs two cells.
        assert_eq!(Framing::AtmAal5.on_link(40), 53);
        assert_eq!(Framing::AtmAal5.on_link(41), 106);
        assert_eq!(Framing::AtmAal5.on_link(1500), 32 * 53);
        assert_eq!(Framing::Fixed(4).on_link(40), 44);
        assert_eq!(Framing::None.on_link(40), 40);
    }
}
