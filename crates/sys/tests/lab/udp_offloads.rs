//! UDP between two hosts on a TUN pair, whose devices have no offloads. A send call with segmentation offload
//! produces real datagrams on the wire, marked and unfragmented, and a datagram larger than the MTU is
//! rejected.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fathometer_sys::netlink::Netlink;
use fathometer_sys::udp::{Datagrams, Ecn, Loss, ReceiveBuffer, Sent};
use fathometer_sys::{Namespace, Tun, UdpOptions, UdpSocket};

use crate::lab;

const MTU: u32 = 1400;
/// The time limit of a step, longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A host with a device, its address and its peer's.
struct Host {
    namespace: Namespace,
    tun: Tun,
}

impl Host {
    fn new(address: &str) -> Host {
        let namespace = Namespace::new().unwrap();
        let address: IpAddr = address.parse().unwrap();
        let prefix = if address.is_ipv4() { 24 } else { 64 };
        let tun = namespace
            .run(move || {
                let tun = Tun::create("wire0", MTU, 100).unwrap();
                let mut netlink = Netlink::open().unwrap();
                netlink.add_address(tun.index(), address, prefix).unwrap();
                tun
            })
            .unwrap();
        Host { namespace, tun }
    }

    /// Binds a socket to the host's address. An IPv6 address is available only after duplicate address detection. Its
    /// route is available shortly afterwards.
    fn bind(&self, address: &str, options: UdpOptions) -> UdpSocket {
        let address = SocketAddr::new(address.parse().unwrap(), 0);
        let socket = self.bind_at(address, options);
        let reaches_itself = move || {
            let start = Instant::now();
            let probe = std::net::UdpSocket::bind(address).unwrap();
            probe
                .set_read_timeout(Some(Duration::from_millis(10)))
                .unwrap();
            let own = probe.local_addr().unwrap();
            while probe.send_to(b"?", own).is_err() || probe.recv(&mut [0]).is_err() {
                assert!(start.elapsed() < PATIENCE, "{address} cannot be reached");
            }
        };
        self.namespace.run(reaches_itself).unwrap();
        socket
    }

    fn bind_at(&self, address: SocketAddr, options: UdpOptions) -> UdpSocket {
        let bound = move || {
            let start = Instant::now();
            loop {
                match UdpSocket::bind(address, &options) {
                    Ok(socket) => return socket,
                    Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        self.namespace.run(bound).unwrap()
    }
}

/// Carries packets from one host to the other until no more arrive. Returns their lengths and their ECN bits.
fn carry(from: &Host, to: &Host, packets: usize) -> Vec<(usize, u8)> {
    let mut seen = Vec::new();
    let mut buffer = [0; 2048];
    let start = Instant::now();
    while seen.len() < packets {
        assert!(
            start.elapsed() < PATIENCE,
            "{} of {packets} packets",
            seen.len()
        );
        match from.tun.read(&mut buffer).unwrap() {
            Some(length) => {
                let packet = &buffer[..length];
                // Ignores the packets that the kernel itself sends on an IPv6 link.
                let (protocol, ecn) = match packet[0] >> 4 {
                    4 => (packet[9], packet[1] & 0b11),
                    _ => (packet[6], packet[1] >> 4 & 0b11),
                };
                if protocol == 17 {
                    if packet[0] >> 4 == 4 {
                        assert_eq!(packet[6] & 0x40, 0x40, "the packet may be fragmented");
                    }
                    seen.push((length, ecn));
                    to.tun.write(packet).unwrap();
                }
            }
            None => std::thread::sleep(Duration::from_micros(100)),
        }
    }
    seen
}

#[test]
fn offloads_change_calls_and_not_what_is_on_the_wire() {
    if !lab() {
        return;
    }
    for (client_address, server_address, header) in
        [("10.77.0.1", "10.77.0.2", 28), ("fd77::1", "fd77::2", 48)]
    {
        let (client, server) = (Host::new(client_address), Host::new(server_address));
        for segmentation in [true, false] {
            let options = UdpOptions {
                segmentation,
                ..UdpOptions::default()
            };
            let sender = client.bind(client_address, options);
            let receiver = server.bind(server_address, options);
            assert!(sender.is_unfragmented());
            let bytes: Vec<u8> = (0..5 * 1200 + 100).map(|n| (n % 251) as u8).collect();
            let datagrams = Datagrams {
                to: receiver.local_address(),
                from: None,
                ecn: Ecn::Capable0,
                segment: Some(1200),
                bytes: &bytes,
            };
            assert_eq!(sender.send(&datagrams).unwrap(), Sent::Whole);
            let packets = carry(&client, &server, 6);
            let lengths: Vec<usize> = packets.iter().map(|packet| packet.0).collect();
            let expected = [vec![1200 + header; 5], vec![100 + header]].concat();
            assert_eq!(lengths, expected, "segmentation {segmentation}");
            assert!(
                packets
                    .iter()
                    .all(|packet| packet.1 == Ecn::Capable0.bits())
            );

            let mut buffer = ReceiveBuffer::new(receiver.coalesces());
            let (mut received, start) = (Vec::new(), Instant::now());
            while received.len() < bytes.len() {
                assert!(start.elapsed() < PATIENCE);
                if receiver.receive(&mut buffer).unwrap().is_some() {
                    for one in buffer.iter() {
                        assert_eq!(one.ecn, Ecn::Capable0);
                        assert_eq!(one.from, sender.local_address());
                        received.extend_from_slice(one.bytes);
                    }
                }
            }
            assert_eq!(received, bytes);

            let large = Datagrams {
                segment: None,
                bytes: &[0; MTU as usize],
                ..datagrams
            };
            let lost = Sent::Lost {
                loss: Loss::TooLarge,
                taken: 0,
                rejected: MTU as usize,
            };
            assert_eq!(sender.send(&large).unwrap(), lost);
            let fits = Datagrams {
                segment: None,
                bytes: &bytes[..MTU as usize - header],
                ..datagrams
            };
            assert_eq!(sender.send(&fits).unwrap(), Sent::Whole);
            assert_eq!(carry(&client, &server, 1)[0].0, MTU as usize);
        }
    }
}
