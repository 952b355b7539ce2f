//! The exclusive classes of packets, and the equivalent Wireshark filters.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::parse::{Flags, Parsed, Transport};

/// The class of a packet. Every packet is in exactly one class, so the classes add up to all packets.
///
/// | class | a whole TCP segment with … |
/// |---|---|
/// | RST | RST, with any other flags |
/// | SYN | SYN without ACK, with or without payload |
/// | SYN-ACK | SYN and ACK |
/// | data+FIN | FIN and payload |
/// | bare FIN | FIN without payload (with ACK, as every FIN should) |
/// | data | payload |
/// | pure ACK | ACK only: includes window updates, and keep-alives without payload |
/// | other | none of these: not TCP, a fragment, or a header truncated before its window field |
///
/// Each row excludes the rows above it. Keep-alives, zero-window probes and duplicate acknowledgements count in their
/// class; their separate counts are additional and do not add to the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Opens a connection.
    Syn,
    /// Answers a SYN.
    SynAck,
    /// Acknowledges without payload.
    PureAck,
    /// Carries payload.
    Data,
    /// Carries payload and ends one direction.
    DataFin,
    /// Ends one direction without payload.
    BareFin,
    /// Aborts a connection.
    Rst,
    /// Any other packet.
    Other,
}

/// Restricts a filter to complete TCP segments outside of ICMP errors and tunnels. Wireshark decodes ICMP errors,
/// tunnels and reassembled fragments; the accounting does not.
macro_rules! segments {
    ($($condition:literal),*) => {
        concat!(
            "tcp && !icmp && !icmpv6 && !udp && !gre",
            " && !(ip.proto == 4 || ip.proto == 41) && !(ipv6.nxt == 4 || ipv6.nxt == 41)",
            " && !(ip.flags.mf == 1) && !(ip.frag_offset > 0)",
            " && !(ipv6.fraghdr.more == 1) && !(ipv6.fraghdr.offset > 0)",
            " && tcp.flags && tcp.len >= 0",
            $(" && ", $condition),*
        )
    };
}

impl Class {
    /// Every class, in the order of a connection's life.
    pub const ALL: [Class; 8] = [
        Class::Syn,
        Class::SynAck,
        Class::PureAck,
        Class::Data,
        Class::DataFin,
        Class::BareFin,
        Class::Rst,
        Class::Other,
    ];

    /// Classifies a packet.
    #[inline]
    pub fn of(parsed: &Parsed) -> Class {
        let Parsed::Ip(ip) = parsed else {
            return Class::Other;
        };
        let Transport::Tcp(segment) = &ip.transport else {
            return Class::Other;
        };
        let flags = segment.flags;
        let payload = segment.payload_length > 0;
        if flags.contains(Flags::RST) {
            Class::Rst
        } else if flags.contains(Flags::SYN) {
            match flags.contains(Flags::ACK) {
                true => Class::SynAck,
                false => Class::Syn,
            }
        } else if flags.contains(Flags::FIN) {
            match payload {
                true => Class::DataFin,
                false => Class::BareFin,
            }
        } else if payload {
            Class::Data
        } else if flags.contains(Flags::ACK) {
            Class::PureAck
        } else {
            Class::Other
        }
    }

    /// Returns the Wireshark display filter that selects the class.
    ///
    /// `tshark -r FILE -Y FILTER` selects exactly the packets that are counted in this class. For captures with
    /// fragments, add `-o ip.defragment:FALSE -o ipv6.defragment:FALSE`.
    pub fn display_filter(self) -> &'static str {
        match self {
            Class::Rst => segments!("tcp.flags.reset == 1"),
            Class::Syn => segments!(
                "tcp.flags.reset == 0",
                "tcp.flags.syn == 1",
                "tcp.flags.ack == 0"
            ),
            Class::SynAck => segments!(
                "tcp.flags.reset == 0",
                "tcp.flags.syn == 1",
                "tcp.flags.ack == 1"
            ),
            Class::DataFin => segments!(
                "tcp.flags.reset == 0",
                "tcp.flags.syn == 0",
                "tcp.flags.fin == 1",
                "tcp.len > 0"
            ),
            Class::BareFin => segments!(
                "tcp.flags.reset == 0",
                "tcp.flags.syn == 0",
                "tcp.flags.fin == 1",
                "tcp.len == 0"
            ),
            Class::Data => segments!(
                "tcp.flags.reset == 0",
                "tcp.flags.syn == 0",
                "tcp.flags.fin == 0",
                "tcp.len > 0"
            ),
            Class::PureAck => segments!(
                "tcp.flags.reset == 0",
                "tcp.flags.syn == 0",
                "tcp.flags.fin == 0",
                "tcp.len == 0",
                "tcp.flags.ack == 1"
            ),
            Class::Other => concat!(
                "!(",
                segments!(),
                " && (tcp.flags.reset == 1 || tcp.flags.syn == 1 || tcp.flags.fin == 1",
                " || tcp.flags.ack == 1 || tcp.len > 0))"
            ),
        }
    }

    /// Returns the part of the class's metric names that follows `packets_`.
    pub fn metric(self) -> &'static str {
        match self {
            Class::Syn => "syn",
            Class::SynAck => "syn_ack",
            Class::PureAck => "pure_ack",
            Class::Data => "data",
            Class::DataFin => "data_fin",
            Class::BareFin => "bare_fin",
            Class::Rst => "rst",
            Class::Other => "other",
        }
    }
}

/// Writes the name of the class as tables show it.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Class::Syn => "SYN",
            Class::SynAck => "SYN-ACK",
            Class::PureAck => "pure ACK",
            Class::Data => "data",
            Class::DataFin => "data+FIN",
            Class::BareFin => "bare FIN",
            Class::Rst => "RST",
            Class::Other => "other",
        })
    }
}

/// The number of packets of each class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClassCounts {
    syn: u64,
    syn_ack: u64,
    pure_ack: u64,
    data: u64,
    data_fin: u64,
    bare_fin: u64,
    rst: u64,
    other: u64,
}

impl ClassCounts {
    /// Returns the number of packets of one class.
    pub fn of(&self, class: Class) -> u64 {
        match class {
            Class::Syn => self.syn,
            Class::SynAck => self.syn_ack,
            Class::PureAck => self.pure_ack,
            Class::Data => self.data,
            Class::DataFin => self.data_fin,
            Class::BareFin => self.bare_fin,
            Class::Rst => self.rst,
            Class::Other => self.other,
        }
    }

    /// Counts one packet.
    #[inline]
    pub fn count(&mut self, class: Class) {
        *self.slot(class) += 1;
    }

    /// Returns the number of packets of all classes.
    pub fn total(&self) -> u64 {
        Class::ALL.iter().map(|class| self.of(*class)).sum()
    }

    #[inline]
    fn slot(&mut self, class: Class) -> &mut u64 {
        match class {
            Class::Syn => &mut self.syn,
            Class::SynAck => &mut self.syn_ack,
            Class::PureAck => &mut self.pure_ack,
            Class::Data => &mut self.data,
            Class::DataFin => &mut self.data_fin,
            Class::BareFin => &mut self.bare_fin,
            Class::Rst => &mut self.rst,
            Class::Other => &mut self.other,
        }
    }
}

impl std::ops::AddAssign for ClassCounts {
    fn add_assign(&mut self, other: ClassCounts) {
        for class in Class::ALL {
            *self.slot(class) += other.of(class);
        }
    }
}
