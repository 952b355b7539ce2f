//! Segments, and their length as IPv4 packets.

/// The control bits that the model uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// Synchronise: the first segment of a direction.
    pub syn: bool,
    /// Finish: the last segment of a direction.
    pub fin: bool,
    /// PSH: the segment contains the end of a write.
    pub push: bool,
    /// The acknowledgement number is valid. Only the client's SYN has no ACK.
    pub ack: bool,
}

/// A segment. Sequence numbers are offsets: 0 for the SYN, 1 for the first byte.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// The sequence number of the first byte.
    pub sequence: u64,
    /// The next sequence number that the sender of this segment expects.
    pub acknowledgement: u64,
    /// The control bits.
    pub flags: Flags,
    /// The receive window of the sender of this segment, in bytes.
    pub window: u32,
    /// Ranges of selective acknowledgements; the first may be a duplicate SACK (RFC 2883).
    pub sack: Vec<(u64, u64)>,
    /// The sender's time stamp and the echoed time stamp, in milliseconds; `None` if not negotiated.
    pub timestamps: Option<(u64, u64)>,
    /// In a SYN: whether the sender permits selective acknowledgements.
    pub offers_sack: bool,
    /// In a SYN: whether the sender offers window scaling.
    pub offers_scaling: bool,
    /// Whether any byte of the segment was sent before.
    pub retransmission: bool,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Segment {
    /// Returns the sequence number after the last byte. SYN and FIN each count as one.
    pub fn end(&self) -> u64 {
        let control = u64::from(self.flags.syn) + u64::from(self.flags.fin);
        self.sequence + self.payload.len() as u64 + control
    }

    /// Returns the length of the IPv4 packet in bytes: IP header (20), TCP header (20), options in Linux's layout, and
    /// payload.
    pub fn wire_length(&self) -> u32 {
        let options = match self.flags.syn {
            // MSS takes 4 bytes. Time stamps take 10: SACK-permitted or padding fills them up to 12.
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
