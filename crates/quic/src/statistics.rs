//! What a connection has cost and how its path looks.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::handshake::Volume;

/// Figures of one connection, from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// UDP payloads sent.
    pub sent: Volume,
    /// UDP payloads received, as far as they were of this connection.
    pub received: Volume,
    /// Packets sent, of which a datagram may carry several.
    pub packets_sent: u64,
    /// Packets that are taken for lost, probes of the path's MTU left out.
    pub packets_lost: u64,
    /// Octets of these.
    pub octets_lost: Bytes,
    /// Probes of the path's MTU that were sent, and those that were lost.
    pub mtu_probes: (u64, u64),
    /// Times that the congestion window was cut.
    pub congestion_events: u64,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The least round-trip time met.
    pub min_rtt: Duration,
    /// Octets that may be under way now.
    pub congestion_window: Bytes,
    /// The largest UDP payload that is known to pass, in octets.
    pub datagram_size: u16,
    /// ACK frames sent and received.
    pub acks: (u64, u64),
    /// STREAM frames sent and received.
    pub stream_frames: (u64, u64),
    /// Frames sent that say that this side would send more if the peer gave leave (DATA_BLOCKED,
    /// STREAM_DATA_BLOCKED).
    pub blocked_frames: u64,
    /// Frames sent that give the peer leave to send more (MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS).
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
            octets_lost: Bytes(path.lost_bytes),
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
