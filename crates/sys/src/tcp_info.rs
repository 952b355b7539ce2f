//! `TCP_INFO`: the kernel's TCP state of one of this program's connections. For connections of other programs,
//! [`NetworkProbe::connections`](crate::probe::NetworkProbe::connections) reads the same state.
//!
//! The structure grows every few kernel releases. Fields that all supported kernels have are not `Option`s. Later
//! fields are `None` if the kernel's structure is too short. The offsets follow `struct tcp_info` in
//! `include/uapi/linux/tcp.h`, and never change.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use fathometer_model::Bytes;

use crate::socket::get_bytes;

/// The kernel's state of one connection. Segments are whole TCP segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The state of the connection (`TCP_ESTABLISHED` is 1).
    pub state: u8,
    /// The state of the congestion control: 0 open, 1 disorder, 2 window reduced, 3 recovery,
    /// 4 loss.
    pub congestion_state: u8,
    /// The negotiated options.
    pub options: NegotiatedOptions,
    /// The retransmission time-out.
    pub retransmission_timeout: Duration,
    /// The delay after which a pending acknowledgement is sent.
    pub delayed_ack_timeout: Duration,
    /// The largest segment that is sent, in payload bytes.
    pub send_mss: u32,
    /// The largest segment received from the peer, in payload bytes.
    pub receive_mss: u32,
    /// The MSS advertised to the peer, in payload bytes.
    pub advertised_mss: u32,
    /// The path MTU, in bytes.
    pub path_mtu: u32,
    /// Segments sent and not acknowledged.
    pub unacknowledged_segments: u32,
    /// Segments considered lost.
    pub lost_segments: u32,
    /// Segments retransmitted and not yet acknowledged.
    pub retransmitting_segments: u32,
    /// Retransmissions since the connection was opened.
    pub retransmissions: u32,
    /// Time since a segment with payload was sent, or since the connection was opened if none was sent. The resolution is
    /// the kernel's tick, 1 to 10 ms.
    pub since_data_sent: Duration,
    /// Time since a segment with payload was received, or since the connection was opened if none was received.
    pub since_data_received: Duration,
    /// Time since an acknowledgement was received, or since the connection was opened if none was received.
    pub since_acknowledged: Duration,
    /// Smoothed round-trip time; zero before the first sample.
    pub round_trip: Duration,
    /// Mean deviation of the round-trip time.
    pub round_trip_deviation: Duration,
    /// Round-trip time as estimated by the receiver; zero before the first estimate.
    pub receiver_round_trip: Duration,
    /// Congestion window, in segments.
    pub congestion_window_segments: u32,
    /// Slow-start threshold, in segments; `None` while it is infinite.
    pub slow_start_threshold_segments: Option<u32>,
    /// The receive window that the kernel may grow to, in bytes.
    pub receive_window_limit: Bytes,
    /// Pacing rate, in bytes per second; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// Payload acknowledged by the peer. Since Linux 4.1.
    pub bytes_acknowledged: Option<Bytes>,
    /// Payload received in order. Since 4.1.
    pub bytes_received: Option<Bytes>,
    /// Packets sent, of all kinds. Since 4.2.
    pub segments_out: Option<u32>,
    /// Packets received, of all kinds. Since 4.2.
    pub segments_in: Option<u32>,
    /// Bytes written and not sent yet. Since 4.6.
    pub not_sent: Option<Bytes>,
    /// Smallest recent round-trip time; `None` before the first sample. Since 4.6.
    pub minimum_round_trip: Option<Duration>,
    /// Packets with payload received. Since 4.6.
    pub data_segments_in: Option<u32>,
    /// Packets with payload sent, retransmissions included. Since 4.6.
    pub data_segments_out: Option<u32>,
    /// The recent rate at which data reached the peer, in bytes per second; `None` before the first sample.
    /// Since 4.9.
    pub delivery_rate: Option<u64>,
    /// Time with data to send or in flight. Since 4.10.
    pub busy: Option<Duration>,
    /// The part of `busy` in which the peer's window was the limit. Since 4.10.
    pub limited_by_receive_window: Option<Duration>,
    /// The part of `busy` in which the local send buffer was the limit. Since 4.10.
    pub limited_by_send_buffer: Option<Duration>,
    /// Payload sent, retransmissions included. Since 4.19.
    pub bytes_sent: Option<Bytes>,
    /// Payload retransmitted. Since 4.19.
    pub bytes_retransmitted: Option<Bytes>,
    /// The window advertised by the peer, in bytes. Since 5.4.
    pub send_window: Option<Bytes>,
    /// The window advertised to the peer, in bytes. Since 6.2.
    pub receive_window: Option<Bytes>,
}

/// The options that both ends negotiated in their SYNs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NegotiatedOptions {
    /// RFC 7323 time stamps.
    pub timestamps: bool,
    /// Selective acknowledgements.
    pub selective_acknowledgements: bool,
    /// Window scales, as powers of two: the peer's, then the local scale; `None` without scaling.
    pub window_scales: Option<(u8, u8)>,
    /// Explicit congestion notification.
    pub congestion_notification: bool,
    /// Whether data in the SYN was acknowledged (TCP Fast Open).
    pub fast_open: bool,
}

/// Reads the state of a connection; takes about 1.3 µs.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    // Twice the current length of the structure. The kernel may fill only a part of it.
    let mut raw = [0; 512];
    let length = get_bytes(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw)?;
    Ok(TcpInfo::parse(&raw[..length]))
}

impl TcpInfo {
    /// Parses `struct tcp_info` of any length.
    pub(crate) fn parse(raw: &[u8]) -> TcpInfo {
        let byte = |at: usize| raw.get(at).copied().unwrap_or(0);
        let late32 = |at: usize| {
            let bytes = raw.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().ok()?))
        };
        let late64 = |at: usize| {
            let bytes = raw.get(at..at + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        let word = |at: usize| late32(at).unwrap_or(0);
        let microseconds = |at: usize| Duration::from_micros(word(at).into());
        let milliseconds = |at: usize| Duration::from_millis(word(at).into());
        let late_time = |at: usize| late64(at).map(Duration::from_micros);
        let options = byte(5);
        TcpInfo {
            state: byte(0),
            congestion_state: byte(1),
            options: NegotiatedOptions {
                timestamps: options & 1 != 0,
                selective_acknowledgements: options & 2 != 0,
                window_scales: (options & 4 != 0).then(|| (byte(6) & 15, byte(6) >> 4)),
                congestion_notification: options & 8 != 0,
                fast_open: options & 32 != 0,
            },
            retransmission_timeout: microseconds(8),
            delayed_ack_timeout: microseconds(12),
            send_mss: word(16),
            receive_mss: word(20),
            unacknowledged_segments: word(24),
            lost_segments: word(32),
            retransmitting_segments: word(36),
            path_mtu: word(60),
            receive_window_limit: Bytes(word(64).into()),
            round_trip: microseconds(68),
            round_trip_deviation: microseconds(72),
            // The kernel's "infinite" is 2^31 - 1.
            slow_start_threshold_segments: Some(word(76)).filter(|&n| n < 0x7fff_ffff),
            congestion_window_segments: word(80),
            advertised_mss: word(84),
            receiver_round_trip: microseconds(92),
            retransmissions: word(100),
            since_data_sent: milliseconds(44),
            since_data_received: milliseconds(52),
            since_acknowledged: milliseconds(56),
            pacing_rate: late64(104).filter(|&rate| rate != u64::MAX && rate != 0),
            bytes_acknowledged: late64(120).map(Bytes),
            bytes_received: late64(128).map(Bytes),
            segments_out: late32(136),
            segments_in: late32(140),
            not_sent: late32(144).map(|n| Bytes(n.into())),
            minimum_round_trip: late32(148)
                .filter(|&n| n != u32::MAX)
                .map(|n| Duration::from_micros(n.into())),
            data_segments_in: late32(152),
            data_segments_out: late32(156),
            delivery_rate: late64(160).filter(|&rate| rate != 0),
            busy: late_time(168),
            limited_by_receive_window: late_time(176),
            limited_by_send_buffer: late_time(184),
            bytes_sent: late64(200).map(Bytes),
            bytes_retransmitted: late64(208).map(Bytes),
            send_window: late32(228).map(|n| Bytes(n.into())),
            receive_window: late32(232).map(|n| Bytes(n.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernels_counts_of_a_finished_exchange_add_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        server.write_all(b"done").unwrap();
        client.read_exact(&mut [0; 4]).unwrap();
        let info = tcp_info(&server).unwrap();
        assert_eq!(info.state, 1);
        assert_eq!(info.bytes_received, Some(Bytes(5000)));
        assert_eq!(info.bytes_sent, Some(Bytes(4)));
        assert_eq!(info.data_segments_out, Some(1));
        assert_eq!(info.retransmissions, 0);
        assert!(info.path_mtu >= 1500 && info.send_mss >= 500, "{info:?}");
        assert!(info.retransmission_timeout >= Duration::from_millis(1));
    }

    #[test]
    fn an_old_kernels_short_answer_leaves_the_rest_absent() {
        let mut raw = vec![0; 104];
        raw[80..84].copy_from_slice(&10u32.to_ne_bytes());
        let info = TcpInfo::parse(&raw);
        assert_eq!(info.congestion_window_segments, 10);
        assert_eq!((info.bytes_received, info.receive_window), (None, None));
    }
}
