//! Counters of a connection, and measurements of its path.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::handshake::Volume;

/// The figures of one connection since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Datagrams sent, and the bytes of their UDP payloads.
    pub sent: Volume,
    /// Datagrams received for this connection, and the bytes of their UDP payloads.
    pub received: Volume,
    /// Packets sent; a datagram may contain several.
    pub packets_sent: u64,
    /// Packets declared lost, without MTU probes.
    pub packets_lost: u64,
    /// Bytes of the lost packets.
    pub bytes_lost: Bytes,
    /// The numbers of MTU probes sent and lost.
    pub mtu_probes: (u64, u64),
    /// The number of reductions of the congestion window.
    pub congestion_events: u64,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest round-trip time measured.
    pub min_rtt: Duration,
    /// The current congestion window, in bytes.
    pub congestion_window: Bytes,
    /// The largest confirmed UDP payload, in bytes.
    pub datagram_size: u16,
    /// The numbers of ACK frames sent and received.
    pub acks: (u64, u64),
    /// The numbers of STREAM frames sent and received.
    pub stream_frames: (u64, u64),
    /// Frames sent because flow control blocked this side (DATA_BLOCKED, STREAM_DATA_BLOCKED).
    pub blocked_frames: u64,
    /// Frames sent that give the peer more flow control credit (MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS).
    pub credit_frames: u64,
}

impl Statistics {
    pub(crate) fn of(
        stats: &quinn_proto::ConnectionStats,
        sent: Volume,
        received: Volume,
    ) -> Statistics {
        let (path, out, back) = (&stats.path, &stats.frame_tx, &stats.frame_rx);
        Statistics {
            sent,
            received,
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            bytes_lost: Bytes(path.lost_bytes),
            mtu_probes: (path.sent_plpmtud_probes, path.lost_plpmtud_probes),
            congestion_events: path.congestion_events,
            rtt: path.rtt,
            min_rtt: path.min_rtt,
            congestion_window: Bytes(path.cwnd),
            datagram_size: path.current_mtu,
            acks: (out.acks, back.acks),
            stream_frames: (out.stream, back.stream),
            blocked_frames: out.data_blocked + out.stream_data_blocked,
            credit_frames: out.max_data
                + out.max_stream_data
                + out.max_streams_bidi
                + out.max_streams_uni,
        }
    }
}
