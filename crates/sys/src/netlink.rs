//! Blocking rtnetlink: links, addresses and routes of the calling thread's namespace.
//!
//! An experiment needs only a dozen kinds of message. They are built here byte by byte (`man 7 rtnetlink`) instead of
//! with a large library. Every request sets NLM_F_ACK. If the kernel rejects a request, the error has the kernel's
//! text.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result, check};

/// An rtnetlink socket. It stays in the namespace in which it was opened.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// The kernel's description of a network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The device's index within its namespace.
    pub index: u32,
    /// The device's name, as in `lo`.
    pub name: String,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Transmit queue length, in packets. For a TUN device this is the length of its ring.
    pub txqueuelen: u32,
    /// The largest number of TCP segments that the device gets as one packet (GSO).
    pub gso_max_segs: u32,
    /// Whether the device is administratively up.
    pub up: bool,
    /// The device's counters.
    pub counters: LinkCounters,
}

/// A device's counters since it was created (`struct rtnl_link_stats64`). For a TUN device, `tx` counts packets that the
/// kernel sends and this program reads, `rx` counts packets that this program writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets received by the kernel from the device.
    pub rx_packets: u64,
    /// Packets sent by the kernel to the device.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Malformed packets that the device dropped on receiving.
    pub rx_errors: u64,
    /// Packets that the device failed to send.
    pub tx_errors: u64,
    /// Received packets dropped because a buffer was full.
    pub rx_dropped: u64,
    /// Packets dropped before they were sent; on a TUN device, because its ring was full.
    pub tx_dropped: u64,
}

/// The TCP settings of a route (`RTAX_*`, `man 8 ip-route`). `None` and 0 leave the kernel's default, because
/// the kernel treats 0 as unset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RouteMetrics {
    /// Initial congestion window, in segments (`initcwnd`).
    pub initial_window_segments: Option<u32>,
    /// Initial receive window, in segments (`initrwnd`).
    pub initial_receive_window_segments: Option<u32>,
    /// Largest receive window advertised in the SYN, in bytes (`window`). It does not limit later windows;
    /// [`era`](crate::era) explains why.
    pub window_bytes: Option<u32>,
    /// Maximum segment size advertised in the SYN, in bytes (`advmss`).
    pub advertised_mss_bytes: Option<u32>,
    /// Path MTU, in bytes (`mtu`).
    pub mtu_bytes: Option<u32>,
    /// Minimum retransmission time-out, in milliseconds (`rto_min`).
    pub rto_min_ms: Option<u32>,
    /// Initial estimate of the round-trip time, in milliseconds (`rtt`).
    pub rtt_ms: Option<u32>,
    /// Initial variation of the round-trip time, in milliseconds (`rttvar`).
    pub rttvar_ms: Option<u32>,
    /// Initial slow-start threshold, in segments (`ssthresh`).
    pub ssthresh_segments: Option<u32>,
    /// Whether every segment is acknowledged immediately (`quickack`).
    pub quick_ack: Option<bool>,
    /// Name of the congestion control (`congctl`).
    pub congestion_control: Option<String>,
}

const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;
const RTAX_WINDOW: u16 = 3;
const RTAX_RTT: u16 = 4;
const RTAX_RTTVAR: u16 = 5;
const RTAX_SSTHRESH: u16 = 6;
const RTAX_ADVMSS: u16 = 8;
const RTAX_INITCWND: u16 = 11;
const RTAX_RTO_MIN: u16 = 13;
const RTAX_INITRWND: u16 = 14;
const RTAX_QUICKACK: u16 = 15;
const RTAX_CC_ALGO: u16 = 16;

const IFLA_STATS64: u16 = 23;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFF_UP: u32 = 1;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLMSG_HEADER: usize = 16;
const NLA_TYPE_MASK: u16 = 0x3fff;

impl Netlink {
    /// Opens an rtnetlink socket in the calling thread's namespace.
    pub fn open() -> Result<Netlink> {
        // SAFETY: no pointers; the descriptor is owned from here on.
        let socket = unsafe {
            let fd = check(libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC,
                libc::NETLINK_ROUTE,
            ))
            .doing("open a netlink socket")?;
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Netlink {
            socket,
            sequence: 0,
        })
    }

    /// Returns the description of the device with this name.
    pub(crate) fn link_by_name(&mut self, name: &str) -> Result<Link> {
        let mut request = Message::new(libc::RTM_GETLINK, 0);
        request.link_header(0, 0, 0);
        request.string(libc::IFLA_IFNAME, name);
        let answer = self.query(request, format!("look up device {name}"))?;
        parse_link(&answer)
    }

    /// Returns the description of the device with this index.
    pub fn link(&mut self, index: u32) -> Result<Link> {
        let mut request = Message::new(libc::RTM_GETLINK, 0);
        request.link_header(index, 0, 0);
        let answer = self.query(request, format!("look up device {index}"))?;
        parse_link(&answer)
    }

    /// Brings a device up.
    pub(crate) fn set_link_up(&mut self, index: u32) -> Result<()> {
        let mut request = Message::new(libc::RTM_NEWLINK, 0);
        request.link_header(index, IFF_UP, IFF_UP);
        self.execute(request, format!("enable device {index}"))
    }

    /// Sets a device's MTU, in bytes, and its transmit queue length, in packets.
    pub(crate) fn set_link_limits(&mut self, index: u32, mtu: u32, txqueuelen: u32) -> Result<()> {
        let mut request = Message::new(libc::RTM_NEWLINK, 0);
        request.link_header(index, 0, 0);
        request.u32(libc::IFLA_MTU, mtu);
        request.u32(libc::IFLA_TXQLEN, txqueuelen);
        self.execute(
            request,
            format!("set MTU {mtu} and queue {txqueuelen} of device {index}"),
        )
    }

    /// Sets the largest number of TCP segments that a device gets as one packet. The kernel segments packets for devices
    /// without segmentation offload.
    pub(crate) fn set_gso_max_segs(&mut self, index: u32, segments: u32) -> Result<()> {
        let mut request = Message::new(libc::RTM_NEWLINK, 0);
        request.link_header(index, 0, 0);
        request.u32(IFLA_GSO_MAX_SEGS, segments);
        self.execute(
            request,
            format!("set the segmentation limit of device {index} to {segments} segments"),
        )
    }

    /// Adds an address with a prefix length to a device. Duplicate address detection is skipped, because no other device
    /// on the link can have the address. So an IPv6 address is usable immediately.
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8) -> Result<()> {
        let mut request = Message::new(libc::RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
        let flags = match address {
            IpAddr::V4(_) => 0,
            IpAddr::V6(_) => libc::IFA_F_NODAD as u8,
        };
        request.bytes(&[family(address), prefix, flags, 0]);
        request.bytes(&index.to_ne_bytes());
        request.address(libc::IFA_LOCAL, address);
        request.address(libc::IFA_ADDRESS, address);
        self.execute(request, format!("add address {address}/{prefix}"))
    }

    /// Adds or replaces a route to a prefix through a device, and reads it back. Fails if the kernel accepts the route but
    /// not its metrics.
    pub(crate) fn add_route(
        &mut self,
        index: u32,
        destination: IpAddr,
        prefix: u8,
        source: Option<IpAddr>,
        metrics: &RouteMetrics,
    ) -> Result<()> {
        let mut request = Message::new(libc::RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
        request.route_header(destination, prefix);
        request.address(libc::RTA_DST, destination);
        request.u32(libc::RTA_OIF, index);
        if let Some(source) = source {
            request.address(libc::RTA_PREFSRC, source);
        }
        request.metrics(metrics);
        let what = format!("route to {destination}/{prefix}");
        self.execute(request, format!("add {what}"))?;
        let found = self.route_metrics(destination)?;
        if found != metrics.without_zeros() {
            return Err(Error::NotTaken {
                what,
                wanted: format!("{metrics:?}"),
                found: format!("{found:?}"),
            });
        }
        Ok(())
    }

    /// Returns the metrics of the route to this destination.
    fn route_metrics(&mut self, destination: IpAddr) -> Result<RouteMetrics> {
        const RTM_F_FIB_MATCH: u32 = 0x2000;
        let mut request = Message::new(libc::RTM_GETROUTE, 0);
        let length = if destination.is_ipv4() { 32 } else { 128 };
        request.bytes(&[family(destination), length, 0, 0, 0, 0, 0, 0]);
        // Requests the configured route, not the cached entry that the lookup would create from it.
        request.bytes(&RTM_F_FIB_MATCH.to_ne_bytes());
        request.address(libc::RTA_DST, destination);
        let answer = self.query(request, format!("look up the route to {destination}"))?;
        parse_route_metrics(&answer)
    }

    fn execute(&mut self, request: Message, doing: String) -> Result<()> {
        self.exchange(request).doing(doing).map(drop)
    }

    fn query(&mut self, request: Message, doing: String) -> Result<Vec<u8>> {
        self.exchange(request)
            .doing(doing)?
            .ok_or(Error::BadAnswer { what: "rtnetlink" })
    }

    /// Sends one request and reads messages up to its acknowledgement. Returns the body of the message before the
    /// acknowledgement, if any.
    fn exchange(&mut self, mut request: Message) -> io::Result<Option<Vec<u8>>> {
        self.sequence += 1;
        let bytes = request.finish(self.sequence);
        // SAFETY: the pointer and length are of a live slice.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                0,
            )
        };
        if sent != bytes.len() as isize {
            return Err(io::Error::last_os_error());
        }
        let mut answer = None;
        let mut buffer = vec![0u8; 32 * 1024];
        loop {
            // SAFETY: the pointer and length are of a live slice that nothing else borrows.
            let received = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            if received < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            let mut rest = &buffer[..received as usize];
            while rest.len() >= NLMSG_HEADER {
                let length = (u32_at(rest, 0) as usize).clamp(NLMSG_HEADER, rest.len());
                let (message, next) = rest.split_at(length);
                rest = &next[(length.next_multiple_of(4) - length).min(next.len())..];
                if u32_at(message, 8) != self.sequence {
                    continue;
                }
                if u16_at(message, 4) != NLMSG_ERROR {
                    answer = Some(message[NLMSG_HEADER..].to_vec());
                    continue;
                }
                return match u32_at(message, NLMSG_HEADER) as i32 {
                    0 => Ok(answer),
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
            }
        }
    }
}

impl RouteMetrics {
    /// Returns the same metrics without zeros, which the kernel treats as unset and does not report.
    fn without_zeros(&self) -> RouteMetrics {
        let set = |metric: Option<u32>| metric.filter(|&value| value != 0);
        RouteMetrics {
            initial_window_segments: set(self.initial_window_segments),
            initial_receive_window_segments: set(self.initial_receive_window_segments),
            window_bytes: set(self.window_bytes),
            advertised_mss_bytes: set(self.advertised_mss_bytes),
            mtu_bytes: set(self.mtu_bytes),
            rto_min_ms: set(self.rto_min_ms),
            rtt_ms: set(self.rtt_ms),
            rttvar_ms: set(self.rttvar_ms),
            ssthresh_segments: set(self.ssthresh_segments),
            quick_ack: self.quick_ack.filter(|&is_on| is_on),
            congestion_control: self.congestion_control.clone(),
        }
    }

    /// Returns each metric that is set: its name in `ip route`, its value as text, and a `RouteMetrics` with only this
    /// metric.
    pub(crate) fn each(&self) -> Vec<(&'static str, String, RouteMetrics)> {
        let metrics = self.without_zeros();
        let mut each = Vec::new();
        let mut add = |name, value: Option<String>, alone: RouteMetrics| {
            if let Some(value) = value {
                each.push((name, value, alone));
            }
        };
        macro_rules! metrics {
            ($($name:literal $field:ident,)*) => {$(
                add(
                    $name,
                    metrics.$field.as_ref().map(ToString::to_string),
                    RouteMetrics { $field: metrics.$field.clone(), ..RouteMetrics::default() },
                );
            )*};
        }
        metrics! {
            "initcwnd" initial_window_segments,
            "initrwnd" initial_receive_window_segments,
            "window" window_bytes,
            "advmss" advertised_mss_bytes,
            "mtu" mtu_bytes,
            "rto_min (ms)" rto_min_ms,
            "rtt (ms)" rtt_ms,
            "rttvar (ms)" rttvar_ms,
            "ssthresh" ssthresh_segments,
            "quickack" quick_ack,
            "congctl" congestion_control,
        }
        each
    }

    /// Copies every metric that is set in `other`.
    pub(crate) fn take_from(&mut self, other: &RouteMetrics) {
        macro_rules! take {
            ($($field:ident)*) => {$(
                if other.$field.is_some() {
                    self.$field.clone_from(&other.$field);
                }
            )*};
        }
        take!(initial_window_segments initial_receive_window_segments window_bytes
            advertised_mss_bytes mtu_bytes rto_min_ms rtt_ms rttvar_ms ssthresh_segments
            quick_ack congestion_control);
    }
}

/// A request under construction.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16) -> Message {
        let mut message = Message(vec![0; NLMSG_HEADER]);
        message.0[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = flags | NLM_F_REQUEST | NLM_F_ACK;
        message.0[6..8].copy_from_slice(&flags.to_ne_bytes());
        message
    }

    fn finish(&mut self, sequence: u32) -> &[u8] {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.0
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends `struct ifinfomsg`.
    fn link_header(&mut self, index: u32, flags: u32, change: u32) {
        self.bytes(&[0; 4]);
        self.bytes(&index.to_ne_bytes());
        self.bytes(&flags.to_ne_bytes());
        self.bytes(&change.to_ne_bytes());
    }

    /// Appends `struct rtmsg` for a unicast route on the link, in the main table.
    fn route_header(&mut self, destination: IpAddr, prefix: u8) {
        self.bytes(&[
            family(destination),
            prefix,
            0,
            0,
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_LINK,
            libc::RTN_UNICAST,
        ]);
        self.bytes(&0u32.to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = (4 + value.len()) as u16;
        self.bytes(&length.to_ne_bytes());
        self.bytes(&kind.to_ne_bytes());
        self.bytes(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn u32(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    fn string(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    fn address(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    fn metrics(&mut self, metrics: &RouteMetrics) {
        let start = self.0.len();
        self.attribute(libc::RTA_METRICS, &[]);
        let mut locked = 0u32;
        for (kind, value, lock) in metric_values(metrics) {
            self.u32(kind, value);
            if lock {
                locked |= 1 << kind;
            }
        }
        if locked != 0 {
            self.u32(RTAX_LOCK, locked);
        }
        if let Some(name) = &metrics.congestion_control {
            self.string(RTAX_CC_ALGO, name);
        }
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        if length == 4 {
            self.0.truncate(start);
        }
    }
}

/// Returns each metric that is set, in the kernel's unit, and whether it must be locked to take effect.
fn metric_values(metrics: &RouteMetrics) -> impl Iterator<Item = (u16, u32, bool)> {
    [
        (RTAX_INITCWND, metrics.initial_window_segments, false),
        (
            RTAX_INITRWND,
            metrics.initial_receive_window_segments,
            false,
        ),
        (RTAX_WINDOW, metrics.window_bytes, false),
        (RTAX_ADVMSS, metrics.advertised_mss_bytes, false),
        (RTAX_MTU, metrics.mtu_bytes, false),
        // The kernel applies rto_min only when it is locked. Its unit is a millisecond; rtt is in eighths and
        // rttvar in quarters of a millisecond.
        (RTAX_RTO_MIN, metrics.rto_min_ms, true),
        (RTAX_RTT, metrics.rtt_ms.map(|ms| ms * 8), false),
        (RTAX_RTTVAR, metrics.rttvar_ms.map(|ms| ms * 4), false),
        (RTAX_SSTHRESH, metrics.ssthresh_segments, false),
        (RTAX_QUICKACK, metrics.quick_ack.map(u32::from), false),
    ]
    .into_iter()
    .filter_map(|(kind, value, lock)| value.filter(|&v| v != 0).map(|v| (kind, v, lock)))
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn parse_link(body: &[u8]) -> Result<Link> {
    let bad = Error::BadAnswer {
        what: "description of a device",
    };
    if body.len() < 16 {
        return Err(bad);
    }
    let mut link = Link {
        index: u32_at(body, 4),
        name: String::new(),
        mtu: 0,
        txqueuelen: 0,
        gso_max_segs: 0,
        up: u32_at(body, 8) & IFF_UP != 0,
        counters: LinkCounters::default(),
    };
    for (kind, value) in attributes(&body[16..]) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU if value.len() >= 4 => link.mtu = u32_at(value, 0),
            libc::IFLA_TXQLEN if value.len() >= 4 => link.txqueuelen = u32_at(value, 0),
            IFLA_GSO_MAX_SEGS if value.len() >= 4 => link.gso_max_segs = u32_at(value, 0),
            IFLA_STATS64 if value.len() >= 64 => {
                let at = |n: usize| u64::from_ne_bytes(value[n * 8..n * 8 + 8].try_into().unwrap());
                link.counters = LinkCounters {
                    rx_packets: at(0),
                    tx_packets: at(1),
                    rx_bytes: at(2),
                    tx_bytes: at(3),
                    rx_errors: at(4),
                    tx_errors: at(5),
                    rx_dropped: at(6),
                    tx_dropped: at(7),
                };
            }
            _ => {}
        }
    }
    if link.name.is_empty() {
        Err(bad)
    } else {
        Ok(link)
    }
}

fn parse_route_metrics(body: &[u8]) -> Result<RouteMetrics> {
    if body.len() < 12 {
        return Err(Error::BadAnswer {
            what: "description of a route",
        });
    }
    let mut metrics = RouteMetrics::default();
    let nested = attributes(&body[12..]).find(|&(kind, _)| kind == libc::RTA_METRICS);
    for (kind, value) in nested.into_iter().flat_map(|(_, value)| attributes(value)) {
        if kind == RTAX_CC_ALGO {
            metrics.congestion_control = Some(text(value));
            continue;
        }
        if value.len() < 4 {
            continue;
        }
        let value = u32_at(value, 0);
        match kind {
            RTAX_INITCWND => metrics.initial_window_segments = Some(value),
            RTAX_INITRWND => metrics.initial_receive_window_segments = Some(value),
            RTAX_WINDOW => metrics.window_bytes = Some(value),
            RTAX_ADVMSS => metrics.advertised_mss_bytes = Some(value),
            RTAX_MTU => metrics.mtu_bytes = Some(value),
            RTAX_RTO_MIN => metrics.rto_min_ms = Some(value),
            RTAX_RTT => metrics.rtt_ms = Some(value / 8),
            RTAX_RTTVAR => metrics.rttvar_ms = Some(value / 4),
            RTAX_SSTHRESH => metrics.ssthresh_segments = Some(value),
            RTAX_QUICKACK => metrics.quick_ack = Some(value != 0),
            _ => {}
        }
    }
    Ok(metrics.without_zeros())
}

/// Iterates over attributes: the kind without flag bits, and the value. Stops at the first malformed attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        if bytes.len() < 4 {
            return None;
        }
        let length = u16_at(bytes, 0) as usize;
        if length < 4 || length > bytes.len() {
            return None;
        }
        let kind = u16_at(bytes, 2) & NLA_TYPE_MASK;
        let value = &bytes[4..length];
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        Some((kind, value))
    })
}

fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_of_zero_is_unset() {
        let zeros = RouteMetrics {
            initial_window_segments: Some(0),
            rto_min_ms: Some(0),
            quick_ack: Some(false),
            window_bytes: Some(8760),
            ..RouteMetrics::default()
        };
        let names: Vec<&str> = zeros.each().iter().map(|one| one.0).collect();
        assert_eq!(names, ["window"]);
        let set = RouteMetrics {
            window_bytes: Some(8760),
            ..RouteMetrics::default()
        };
        // The kernel returns the sent metrics after the header of the route.
        let parsed = |metrics: &RouteMetrics| {
            let mut message = Message(vec![0; 12]);
            message.metrics(metrics);
            parse_route_metrics(&message.0).unwrap()
        };
        assert_eq!(parsed(&zeros), set);
        assert_eq!(parsed(&RouteMetrics::default()), RouteMetrics::default());
        let mut zero = Message(vec![0; 12]);
        let mut nested = Message(Vec::new());
        nested.u32(RTAX_INITCWND, 0);
        zero.attribute(libc::RTA_METRICS, &nested.0);
        let found = parse_route_metrics(&zero.0).unwrap();
        assert_eq!(found, RouteMetrics::default());
    }
}
