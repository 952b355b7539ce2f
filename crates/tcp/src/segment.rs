//! Segments, with the length that they have as packets.

/// The control bits that the model uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// Synchronise: the first segment of a direction.
    pub syn: bool,
    /// Finish: the last segment of a direction.
    pub fin: bool,
    /// The end of what a program wrote.
    pub push: bool,
    /// The acknowledgement number is valid: all segments but the first.
    pub ack: bool,
}

/// A segment. Sequence numbers are offsets: 0 is the SYN, 1 the first byte.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// The number of its first byte.
    pub sequence: u64,
    /// The next number that its sender expects.
    pub acknowledgement: u64,
    /// Its control bits.
    pub flags: Flags,
    /// The receive window of its sender, in bytes.
    pub window: u32,
    /// Selective acknowledgements, as ranges; the first may be a duplicate (RFC 2883).
    pub sack: Vec<(u64, u64)>,
    /// The sender's time stamp and the one that it echoes, in milliseconds, where both sides agreed on them.
    pub timestamps: Option<(u64, u64)>,
    /// In a SYN: whether selective acknowledgements are possible.
    pub offers_sack: bool,
    /// In a SYN: whether the window is scaled.
    pub offers_scaling: bool,
    /// Whether bytes of it were sent before.
    pub retransmission: bool,
    /// Its bytes.
    pub payload: Vec<u8>,
}

impl Segment {
    /// The number behind its last byte; SYN and FIN count.
    pub fn end(&self) -> u64 {
        let control = u64::from(self.flags.syn) + u64::from(self.flags.fin);
        self.sequence + self.payload.len() as u64 + control
    }

    /// The bytes of the IPv4 packet: header of IP 20, of TCP 20, options as Linux lays them out, and payload.
    pub fn wire_length(&self) -> u32 {
        let options = match self.flags.syn {
            // The segment size takes 4. Time stamps take 10: with the permission of SACK they fill 12, alone they are padded.
            true => {
                let stamps = match (self.timestamps.is_some(), self.offers_sack) {
                    (true, _) => 12,
                    (false, true) => 4,
                    (false, false) => 0,
                };
                4 + stamps + if self.offers_scaling { 4 } else { 0 }
            }
            false => {
                let stamps = if self.timestamps.is_some() { 12 } else { 0 };
                let blocks = match self.sack.len() as u32 {
                    0 => 0,
                    count => 4 + 8 * count,
                };
                stamps + blocks
            }
        };
        40 + options + self.payload.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_packets() {
        let syn = Segment {
            flags: Flags {
                syn: true,
                ..Flags::default()
            },
            timestamps: Some((0, 0)),
            offers_sack: true,
            offers_scaling: true,
            ..Segment::default()
        };
        assert_eq!(syn.wire_length(), 60);
        let bare = Segment {
            timestamps: None,
            offers_sack: false,
            offers_scaling: false,
            ..syn
        };
        assert_eq!(bare.wire_length(), 44);
        let ack = Segment {
            timestamps: Some((1, 1)),
            ..Segment::default()
        };
        assert_eq!(ack.wire_length(), 52);
        let duplicate = Segment {
            sack: vec![(1, 2)],
            ..ack
        };
        assert_eq!(duplicate.wire_length(), 64);
    }
}
