//! The packets of the tests: TCP between a host and its peer over IPv4 or IPv6.

/// The sequence number of each side's first data byte. The peer's sequence numbers soon wrap around.
const HOST: u32 = 70_000;
const PEER: u32 = u32::MAX - 2000;

/// The window that a packet advertises by default.
pub(super) const WINDOW: u16 = 8760;

/// A packet to build: by default an empty ACK from the host to the peer over IPv4.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    pub(super) version: u8,
    pub(super) from_host: bool,
    /// The host's port, which identifies the connection.
    pub(super) port: u16,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    pub(super) options: Vec<u8>,
    pub(super) data: u32,
}

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;
pub(super) const ECE: u8 = 0x40;

/// Builds an empty ACK from the host; `host` and `peer` are byte numbers from the first data byte of each side.
pub(super) fn from_host(host: u32, peer: u32) -> Packet {
    Packet {
        version: 4,
        from_host: true,
        port: 1024,
        sequence: HOST.wrapping_add(host),
        acknowledgement: PEER.wrapping_add(peer),
        flags: ACK,
        window: WINDOW,
        options: Vec::new(),
        data: 0,
    }
}

pub(super) fn from_peer(peer: u32, host: u32) -> Packet {
    Packet {
        from_host: false,
        sequence: PEER.wrapping_add(peer),
        acknowledgement: HOST.wrapping_add(host),
        ..from_host(0, 0)
    }
}

impl Packet {
    pub(super) fn data(self, data: u32) -> Packet {
        Packet { data, ..self }
    }

    pub(super) fn flags(self, flags: u8) -> Packet {
        Packet { flags, ..self }
    }

    pub(super) fn window(self, window: u16) -> Packet {
        Packet { window, ..self }
    }

    pub(super) fn port(self, port: u16) -> Packet {
        Packet { port, ..self }
    }

    pub(super) fn version(self, version: u8) -> Packet {
        Packet { version, ..self }
    }

    /// Turns the packet into a SYN, whose sequence number is one below the first data byte.
    pub(super) fn syn(self, flags: u8, options: &[u8]) -> Packet {
        Packet {
            sequence: self.sequence.wrapping_sub(1),
            options: options.to_vec(),
            flags,
            ..self
        }
    }

    pub(super) fn build(&self) -> Vec<u8> {
        let (host, peer) = ([self.port, 80], [80, self.port]);
        let ports = if self.from_host { host } else { peer };
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let mut tcp = Vec::new();
        tcp.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgement.to_be_bytes());
        tcp.extend([((20 + options.len()) as u8 / 4) << 4, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.resize(tcp.len() + self.data as usize, b'x');
        let (source, destination) = if self.from_host { (1, 2) } else { (2, 1) };
        let mut packet = Vec::new();
        if self.version == 4 {
            packet.extend([0x45, 0]);
            packet.extend((20 + tcp.len() as u16).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
            packet.extend([10, 0, 0, source, 10, 0, 0, destination]);
        } else {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend((tcp.len() as u16).to_be_bytes());
            packet.extend([6, 64]);
            for last in [source, destination] {
                packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
            }
        }
        packet.extend(tcp);
        packet
    }
}
