//! Writes captures of synthetic packets, for tests and benchmarks that need a known correct result.
//!
//! Payload bytes and IP and TCP checksums are zero.

use std::net::SocketAddr;

use super::parse::Flags;

/// Writes a capture into memory.
#[derive(Debug)]
pub struct CaptureWriter {
    bytes: Vec<u8>,
    big_endian: bool,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pcapng,
    Microseconds,
    Nanoseconds,
}

impl CaptureWriter {
    /// Starts a pcapng capture with nanosecond time stamps and the given interfaces (name and link type).
    pub fn pcapng(interfaces: &[(&str, u16)]) -> CaptureWriter {
        CaptureWriter::pcapng_in_order(interfaces, false)
    }

    /// Starts a pcapng capture ([`CaptureWriter::pcapng`]) in the given byte order.
    pub fn pcapng_in_order(interfaces: &[(&str, u16)], big_endian: bool) -> CaptureWriter {
        let mut writer = CaptureWriter {
            bytes: Vec::new(),
            big_endian,
            kind: Kind::Pcapng,
        };
        writer.section();
        for (name, link) in interfaces {
            writer.interface(name, *link, 9, 0);
        }
        writer
    }

    /// Starts a classic pcap capture with nanosecond or microsecond time stamps, in the given byte order.
    pub fn pcap(link: u16, nanoseconds: bool, big_endian: bool) -> CaptureWriter {
        let mut writer = CaptureWriter {
            bytes: Vec::new(),
            big_endian,
            kind: match nanoseconds {
                true => Kind::Nanoseconds,
                false => Kind::Microseconds,
            },
        };
        writer.u32(if nanoseconds {
            0xa1b2_3c4d
        } else {
            0xa1b2_c3d4
        });
        writer.u16(2);
        writer.u16(4);
        writer.u32(0);
        writer.u32(0);
        writer.u32(262_144);
        writer.u32(u32::from(link));
        writer
    }

    /// Starts a new section of a pcapng capture.
    pub fn section(&mut self) {
        let mut body = Vec::new();
        put_u32(&mut body, 0x1a2b_3c4d, self.big_endian);
        put_u16(&mut body, 1, self.big_endian);
        put_u16(&mut body, 0, self.big_endian);
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body);
    }

    /// Declares an interface. Its time stamps count units of `10^-exponent` seconds (`2^-exponent` if the top bit of
    /// `exponent` is set) since `offset` seconds after the epoch.
    pub fn interface(&mut self, name: &str, link: u16, exponent: u8, offset: i64) {
        let mut body = Vec::new();
        put_u16(&mut body, link, self.big_endian);
        put_u16(&mut body, 0, self.big_endian);
        put_u32(&mut body, 0, self.big_endian);
        self.option(&mut body, 2, name.as_bytes());
        self.option(&mut body, 9, &[exponent]);
        let offset = match self.big_endian {
            true => offset.to_be_bytes(),
            false => offset.to_le_bytes(),
        };
        self.option(&mut body, 14, &offset);
        self.option(&mut body, 0, &[]);
        self.block(1, &body);
    }

    /// Writes a packet. `time` is in ticks of the interface for pcapng, and in nanoseconds for pcap.
    pub fn packet(&mut self, interface: u32, time: u64, frame: &[u8], comment: Option<&str>) {
        self.cut_packet(interface, time, frame, frame.len(), comment);
    }

    /// Writes the first `kept` bytes of a packet.
    pub fn cut_packet(
        &mut self,
        interface: u32,
        time: u64,
        frame: &[u8],
        kept: usize,
        comment: Option<&str>,
    ) {
        let kept = &frame[..kept.min(frame.len())];
        if self.kind != Kind::Pcapng {
            let fraction = (time % 1_000_000_000) as u32;
            self.u32((time / 1_000_000_000) as u32);
            self.u32(match self.kind {
                Kind::Microseconds => fraction / 1_000,
                _ => fraction,
            });
            self.u32(kept.len() as u32);
            self.u32(frame.len() as u32);
            self.bytes.extend(kept);
            return;
        }
        let mut body = Vec::new();
        put_u32(&mut body, interface, self.big_endian);
        put_u32(&mut body, (time >> 32) as u32, self.big_endian);
        put_u32(&mut body, time as u32, self.big_endian);
        put_u32(&mut body, kept.len() as u32, self.big_endian);
        put_u32(&mut body, frame.len() as u32, self.big_endian);
        body.extend(kept);
        body.resize(body.len().next_multiple_of(4), 0);
        if let Some(comment) = comment {
            self.option(&mut body, 1, comment.as_bytes());
            self.option(&mut body, 0, &[]);
        }
        self.block(6, &body);
    }

    /// Writes a block of any type of a pcapng capture; the body is padded.
    pub fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = (padded + 12) as u32;
        self.u32(kind);
        self.u32(length);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.u32(length);
    }

    /// Returns the bytes that were written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes of the capture.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn option(&self, body: &mut Vec<u8>, code: u16, value: &[u8]) {
        put_u16(body, code, self.big_endian);
        put_u16(body, value.len() as u16, self.big_endian);
        body.extend(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }

    fn u16(&mut self, value: u16) {
        put_u16(&mut self.bytes, value, self.big_endian);
    }

    fn u32(&mut self, value: u32) {
        put_u32(&mut self.bytes, value, self.big_endian);
    }
}

/// The plan of a synthetic TCP segment.
#[derive(Debug, Clone)]
pub struct SegmentPlan {
    /// The sender. Both ends must have the same address family.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// The sequence number.
    pub sequence: u32,
    /// The acknowledgement number.
    pub acknowledgement: u32,
    /// The control bits.
    pub flags: Flags,
    /// The window field.
    pub window: u16,
    /// The options in encoded form; padded to a multiple of four bytes.
    pub options: Vec<u8>,
    /// Length of the payload in bytes.
    pub payload: u16,
}

impl SegmentPlan {
    /// Builds the IP packet that carries the segment.
    pub fn ip_packet(&self) -> Vec<u8> {
        ip_packet(self.source, self.destination, 6, &self.segment())
    }

    /// Returns the number of sequence numbers that the segment occupies.
    fn occupies(&self) -> u32 {
        let syn = u32::from(self.flags.contains(Flags::SYN));
        let fin = u32::from(self.flags.contains(Flags::FIN));
        u32::from(self.payload) + syn + fin
    }

    fn segment(&self) -> Vec<u8> {
        let options = self.options.len().next_multiple_of(4);
        let mut segment = Vec::new();
        segment.extend(self.source.port().to_be_bytes());
        segment.extend(self.destination.port().to_be_bytes());
        segment.extend(self.sequence.to_be_bytes());
        segment.extend(self.acknowledgement.to_be_bytes());
        segment.push(((20 + options) / 4) as u8 * 16);
        segment.push(self.flags.0);
        segment.extend(self.window.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(&self.options);
        segment.resize(20 + options + usize::from(self.payload), 0);
        segment
    }
}

/// The two ends of a connection. Each planned segment continues the sequence numbers of the earlier segments.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// The end that opens the connection.
    pub client: SocketAddr,
    /// The end that accepts the connection.
    pub server: SocketAddr,
    /// The client's next sequence number.
    pub client_next: u32,
    /// The server's next sequence number.
    pub server_next: u32,
    /// The window field of both ends.
    pub window: u16,
    /// Options of every segment except SYNs, which have [`Conversation::offer`] instead.
    pub options: Vec<u8>,
    /// Options of the SYNs.
    pub offer: Vec<u8>,
}

impl Conversation {
    /// Creates ends with the given initial sequence numbers and an MSS offer of 1460 bytes.
    pub fn new(client: SocketAddr, server: SocketAddr, initial: (u32, u32)) -> Conversation {
        Conversation {
            client,
            server,
            client_next: initial.0,
            server_next: initial.1,
            window: 8_760,
            options: Vec::new(),
            offer: vec![2, 4, 0x05, 0xb4],
        }
    }

    /// Plans the client's next segment. The first SYN has no ACK; every other segment should have ACK.
    pub fn up(&mut self, flags: Flags, payload: u16) -> SegmentPlan {
        let plan = self.plan(flags, payload);
        self.client_next = self.client_next.wrapping_add(plan.occupies());
        plan
    }

    /// Plans the server's next segment.
    pub fn down(&mut self, flags: Flags, payload: u16) -> SegmentPlan {
        let mut plan = self.plan(flags, payload);
        std::mem::swap(&mut plan.source, &mut plan.destination);
        plan.sequence = self.server_next;
        plan.acknowledgement = self.client_next;
        self.server_next = self.server_next.wrapping_add(plan.occupies());
        plan
    }

    /// Plans the three segments that open the connection.
    pub fn open(&mut self) -> [SegmentPlan; 3] {
        [
            self.up(Flags::SYN, 0),
            self.down(Flags::SYN | Flags::ACK, 0),
            self.up(Flags::ACK, 0),
        ]
    }

    fn plan(&self, flags: Flags, payload: u16) -> SegmentPlan {
        SegmentPlan {
            source: self.client,
            destination: self.server,
            sequence: self.client_next,
            acknowledgement: match flags.contains(Flags::ACK) {
                true => self.server_next,
                false => 0,
            },
            flags,
            window: self.window,
            options: match flags.contains(Flags::SYN) {
                true => self.offer.clone(),
                false => self.options.clone(),
            },
            payload,
        }
    }
}

/// Builds an IP packet of any protocol.
///
/// # Panics
/// If the two addresses have different families.
pub fn ip_packet(
    source: SocketAddr,
    destination: SocketAddr,
    protocol: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = Vec::new();
    match (source, destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            packet.extend([0x45, 0]);
            packet.extend((20 + payload.len() as u16).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
            packet.extend(source.ip().octets());
            packet.extend(destination.ip().octets());
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend((payload.len() as u16).to_be_bytes());
            packet.extend([protocol, 64]);
            packet.extend(source.ip().octets());
            packet.extend(destination.ip().octets());
        }
        _ => panic!("{source} and {destination} are of different families"),
    }
    packet.extend(payload);
    packet
}

/// Builds an Ethernet frame around an IP packet, with a VLAN tag if `vlan` is given.
pub fn ethernet(packet: &[u8], vlan: Option<u16>) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if let Some(vlan) = vlan {
        frame.extend([0x81, 0x00]);
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend(match packet.first().map(|first| first >> 4) {
        Some(6) => [0x86, 0xdd],
        _ => [0x08, 0x00],
    });
    frame.extend(packet);
    // Pads to the minimum length of an Ethernet frame; padding must not count as payload.
    frame.resize(frame.len().max(60), 0);
    frame
}

fn put_u16(bytes: &mut Vec<u8>, value: u16, big_endian: bool) {
    bytes.extend(match big_endian {
        true => value.to_be_bytes(),
        false => value.to_le_bytes(),
    });
}

fn put_u32(bytes: &mut Vec<u8>, value: u32, big_endian: bool) {
    bytes.extend(match big_endian {
        true => value.to_be_bytes(),
        false => value.to_le_bytes(),
    });
}
