//! Two hosts whose TUN devices are joined by a simple loop: a fixed delay each way, no rate limit, and only
//! requested losses. Every packet is recorded.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::era::Route;
use fathometer_sys::netlink::Netlink;
use fathometer_sys::{
    AppliedSettings, Clock, Interest, Namespace, TcpSettings, Tun, Waiter, Waker,
};

pub const CLIENT4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub const SERVER4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub const CLIENT6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
pub const SERVER6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));

pub struct Pair {
    pub client: Namespace,
    pub server: Namespace,
    pub applied: [AppliedSettings; 2],
    waker: Waker,
    pump: JoinHandle<Outcome>,
}

/// The result when the loop has stopped.
pub struct Outcome {
    pub client: Tun,
    pub server: Tun,
    pub packets: Vec<Seen>,
}

/// One packet as it entered the loop.
#[derive(Clone)]
pub struct Seen {
    pub at: Instant,
    pub from_client: bool,
    pub dropped: bool,
    pub flags: u8,
    pub window: u16,
    pub sequence: u32,
    pub acknowledged: u32,
    pub payload: usize,
    /// Kinds and values of TCP options, without padding.
    pub options: Vec<(u8, Vec<u8>)>,
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;

/// The properties of the link between the hosts.
pub struct Wire {
    pub mtu: u32,
    pub delay: Duration,
    /// The minimum time between two packets of one direction.
    pub spacing: Duration,
    /// Indexes, from 0, of the lost packets among the server's TCP packets.
    pub lost_from_server: Vec<usize>,
    /// Indexes, from 0, of the lost packets among the client's TCP packets.
    pub lost_from_client: Vec<usize>,
}

impl Default for Wire {
    fn default() -> Wire {
        Wire {
            mtu: 1500,
            delay: Duration::ZERO,
            spacing: Duration::ZERO,
            lost_from_server: Vec::new(),
            lost_from_client: Vec::new(),
        }
    }
}

impl Pair {
    pub fn new(wire: Wire, settings: &TcpSettings) -> Pair {
        let client = Namespace::new().unwrap();
        let server = Namespace::new().unwrap();
        let (client_tun, client_applied) = host(
            &client,
            wire.mtu,
            settings,
            [(CLIENT4, SERVER4), (CLIENT6, SERVER6)],
        );
        let (server_tun, server_applied) = host(
            &server,
            wire.mtu,
            settings,
            [(SERVER4, CLIENT4), (SERVER6, CLIENT6)],
        );
        let clock = Clock::start();
        let (give, take) = std::sync::mpsc::channel();
        let pump = std::thread::spawn(move || {
            let waiter = Waiter::new(clock).unwrap();
            give.send(waiter.waker()).unwrap();
            pump(clock, waiter, &wire, client_tun, server_tun)
        });
        Pair {
            client,
            server,
            applied: [client_applied, server_applied],
            waker: take.recv().unwrap(),
            pump,
        }
    }

    /// Stops the loop.
    pub fn stop(self) -> Outcome {
        self.waker.wake();
        self.pump.join().unwrap()
    }
}

fn pump(clock: Clock, mut waiter: Waiter, wire: &Wire, client: Tun, server: Tun) -> Outcome {
    let mut buffer = vec![0; 65_536];
    let mut flying: [VecDeque<(Instant, Vec<u8>)>; 2] = Default::default();
    let mut packets = Vec::new();
    let mut sent = [0, 0];
    loop {
        let sources = [
            (client.as_fd(), Interest::Read),
            (server.as_fd(), Interest::Read),
        ];
        let fronts = flying.iter().filter_map(|queue| queue.front());
        let deadline = fronts.map(|packet| packet.0).min();
        if waiter.wait(&sources, deadline).unwrap().woken {
            return Outcome {
                client,
                server,
                packets,
            };
        }
        for (tun, from_client) in [(&client, true), (&server, false)] {
            while let Some(length) = tun.read(&mut buffer).unwrap() {
                assert!(length <= wire.mtu as usize, "larger than the MTU");
                let packet = &buffer[..length];
                let now = clock.now();
                let (mut dropped, count) = (false, &mut sent[usize::from(from_client)]);
                if let Some(mut seen) = Seen::of(packet) {
                    let lost = if from_client {
                        &wire.lost_from_client
                    } else {
                        &wire.lost_from_server
                    };
                    dropped = lost.contains(count);
                    *count += 1;
                    (seen.at, seen.from_client, seen.dropped) = (now, from_client, dropped);
                    packets.push(seen);
                }
                if !dropped {
                    let queue = &mut flying[usize::from(from_client)];
                    let last = queue.back().map_or(Instant::ZERO, |packet| packet.0);
                    let due = (now + wire.delay).max(last + wire.spacing);
                    queue.push_back((due, packet.to_vec()));
                }
            }
        }
        for (queue, to) in flying.iter_mut().zip([&client, &server]) {
            while queue.front().is_some_and(|packet| packet.0 <= clock.now()) {
                to.write(&queue.pop_front().unwrap().1).unwrap();
            }
        }
    }
}

impl Seen {
    /// Parses a TCP packet; `None` for any other packet.
    fn of(packet: &[u8]) -> Option<Seen> {
        let tcp = match packet[0] >> 4 {
            4 if packet[9] == 6 => &packet[usize::from(packet[0] & 15) * 4..],
            6 if packet[6] == 6 => &packet[40..],
            _ => return None,
        };
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
        let header = usize::from(tcp[12] >> 4) * 4;
        Some(Seen {
            at: Instant::ZERO,
            from_client: false,
            dropped: false,
            flags: tcp[13],
            window: u16::from_be_bytes([tcp[14], tcp[15]]),
            sequence: word(4),
            acknowledged: word(8),
            payload: tcp.len() - header,
            options: options(&tcp[20..header]),
        })
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        let found = self.options.iter().find(|option| option.0 == kind)?;
        Some(&found.1)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = if self.from_client { "-->" } else { "<--" };
        let mut flags = String::new();
        for (bit, letter) in [(SYN, 'S'), (FIN, 'F'), (4, 'R'), (PSH, 'P'), (ACK, '.')] {
            if self.has(bit) {
                flags.push(letter);
            }
        }
        let lost = if self.dropped { " LOST" } else { "" };
        write!(
            f,
            "{:9.1} ms {arrow} {flags:4} payload {:4} window {:5} options {:?}{lost}",
            self.at.as_secs_f64() * 1e3,
            self.payload,
            self.window,
            self.options.iter().map(|o| o.0).collect::<Vec<_>>()
        )
    }
}

fn options(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut options = Vec::new();
    while let Some(&kind) = bytes.first() {
        match kind {
            0 => break,
            1 => bytes = &bytes[1..],
            _ => {
                let length = usize::from(bytes[1]);
                options.push((kind, bytes[2..length].to_vec()));
                bytes = &bytes[length..];
            }
        }
    }
    options
}

fn host(
    namespace: &Namespace,
    mtu: u32,
    settings: &TcpSettings,
    addresses: [(IpAddr, IpAddr); 2],
) -> (Tun, AppliedSettings) {
    namespace
        .run(|| {
            let tun = Tun::create("fm0", mtu, fathometer_sys::tun::DEFAULT_QUEUE).unwrap();
            let mut netlink = Netlink::open().unwrap();
            let routes = addresses.map(|(own, peer)| {
                let prefix = if own.is_ipv4() { 32 } else { 128 };
                netlink.add_address(tun.index(), own, prefix).unwrap();
                Route {
                    destination: peer,
                    prefix,
                    source: None,
                }
            });
            let applied = settings.apply(tun.index(), &routes).unwrap();
            (tun, applied)
        })
        .unwrap()
}
