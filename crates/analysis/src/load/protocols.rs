//! Figures of the layers below the exchanges, and their JSON form: TLS handshakes, HTTP/2 frames and QUIC datagrams.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_model::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// TLS handshakes that completed within a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that resumed the session of an earlier connection.
    pub resumed: u64,
    /// Resumed handshakes whose early data (0-RTT) the server accepted.
    pub early: u64,
    /// Resumed handshakes whose early data the server rejected, so that the data was sent again.
    pub early_refused: u64,
    /// Bytes of records sent until TLS was established. For QUIC, bytes of datagrams.
    pub sent: Bytes,
    /// Bytes of records, or of datagrams, received until TLS was established.
    pub received: Bytes,
    /// Bytes of certificates among the received bytes, as transferred. A resumed session has no certificates.
    pub certificates: Bytes,
    /// CPU time of the generator within the handshakes, without system calls.
    pub cpu: Duration,
    /// The negotiated version, cipher suite, key exchange and protocol, each combination with its count.
    pub agreed: BTreeMap<String, u64>,
}

impl Handshakes {
    /// Number of handshakes.
    pub fn count(&self) -> u64 {
        self.full + self.resumed
    }

    /// Adds the figures of another thread for the same window.
    pub fn merge(&mut self, other: &Handshakes) {
        self.full += other.full;
        self.resumed += other.resumed;
        self.early += other.early;
        self.early_refused += other.early_refused;
        self.sent += other.sent;
        self.received += other.received;
        self.certificates += other.certificates;
        self.cpu += other.cpu;
        for (agreed, times) in &other.agreed {
            *self.agreed.entry(agreed.clone()).or_default() += times;
        }
    }
}

/// HTTP/2 frames on connections within a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frames {
    /// Frames sent, by the name of their type in RFC 9113; frames of an unknown type are under `other`.
    pub sent: BTreeMap<String, FrameCount>,
    /// Frames received.
    pub received: BTreeMap<String, FrameCount>,
    /// The largest number of streams that were open at the same time on one connection.
    pub most_streams: u64,
    /// The largest stream limit that a server announced; `None` when no server announced a limit.
    pub allowed_streams: Option<u64>,
}

/// Frames of one type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCount {
    /// Number of frames.
    pub frames: u64,
    /// Bytes of the frames, including the nine bytes of each frame header.
    pub bytes: Bytes,
}

impl Frames {
    /// Number of frames sent, and number of frames received.
    pub fn count(&self) -> (u64, u64) {
        let sum = |counts: &BTreeMap<String, FrameCount>| counts.values().map(|c| c.frames).sum();
        (sum(&self.sent), sum(&self.received))
    }

    /// Whether there were no frames.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.received.is_empty()
    }

    /// Adds the figures of another thread for the same window.
    pub fn merge(&mut self, other: &Frames) {
        for (to, from) in [
            (&mut self.sent, &other.sent),
            (&mut self.received, &other.received),
        ] {
            for (kind, count) in from {
                let sum = to.entry(kind.clone()).or_default();
                sum.frames += count.frames;
                sum.bytes += count.bytes;
            }
        }
        self.most_streams = self.most_streams.max(other.most_streams);
        self.allowed_streams = self.allowed_streams.max(other.allowed_streams);
    }
}

/// QUIC datagrams below HTTP/3 within a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// Datagrams sent.
    pub sent: u64,
    /// UDP payload bytes of the sent datagrams.
    pub sent_bytes: Bytes,
    /// Datagrams received.
    pub received: u64,
    /// UDP payload bytes of the received datagrams.
    pub received_bytes: Bytes,
    /// Sent packets that were declared lost.
    pub lost: u64,
    /// Datagrams that the kernel dropped because the generator did not read them in time. The path did not
    /// cause these losses.
    pub overflowed: u64,
    /// Datagrams that the kernel refused to send, because it had no memory or no route.
    pub unsent: u64,
    /// System calls that sent the datagrams. With segmentation offload (GSO), one call sends several datagrams.
    pub send_calls: u64,
    /// Buffers that received the datagrams. With receive offload (GRO), one buffer contains several datagrams.
    pub receive_buffers: u64,
    /// The largest number of requests in flight at the same time on one connection.
    pub most_streams: u64,
}

impl Datagrams {
    /// Whether there were no datagrams.
    pub fn is_empty(&self) -> bool {
        self.sent == 0 && self.received == 0
    }

    /// Adds the figures of another thread for the same window.
    pub fn merge(&mut self, other: &Datagrams) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.lost += other.lost;
        self.overflowed += other.overflowed;
        self.unsent += other.unsent;
        self.send_calls += other.send_calls;
        self.receive_buffers += other.receive_buffers;
        self.most_streams = self.most_streams.max(other.most_streams);
    }
}

/// TLS handshakes that completed within a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandshakesSummary {
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that resumed the session of an earlier connection.
    pub resumed: u64,
    /// Resumed handshakes whose early data (0-RTT) the server accepted.
    pub early_data: u64,
    /// Resumed handshakes whose early data the server rejected.
    pub early_data_refused: u64,
    /// Bytes of records sent until TLS was established; for QUIC, bytes of datagrams.
    pub sent_bytes: u64,
    /// Bytes of records, or of datagrams, received until TLS was established.
    pub received_bytes: u64,
    /// Bytes of the certificates among the received bytes.
    pub certificates_bytes: u64,
    /// CPU time of the generator within the handshakes, without system calls.
    pub cpu_s: f64,
    /// CPU time of the generator per handshake.
    pub cpu_per_handshake_us: Option<f64>,
    /// The negotiated version, cipher suite, key exchange and protocol, each combination with its count.
    pub agreed: BTreeMap<String, u64>,
}

/// HTTP/2 frames on connections within a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FramesSummary {
    /// Frames sent, by type.
    pub sent: BTreeMap<String, FrameCountSummary>,
    /// Frames received, by type.
    pub received: BTreeMap<String, FrameCountSummary>,
    /// The largest number of streams that were open at the same time on one connection.
    pub most_streams: u64,
    /// The largest stream limit that a server announced; `null` if no server announced a limit.
    pub allowed_streams: Option<u64>,
}

/// Frames of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameCountSummary {
    /// Number of frames.
    pub frames: u64,
    /// Bytes of the frames, including the nine bytes of each frame header.
    // Results of older versions use this name.
    #[serde(alias = "octets_bytes")]
    pub bytes: u64,
}

/// QUIC datagrams below HTTP/3 within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatagramsSummary {
    /// Datagrams sent.
    pub sent: u64,
    /// UDP payload bytes of the sent datagrams.
    pub sent_bytes: u64,
    /// Datagrams received.
    pub received: u64,
    /// UDP payload bytes of the received datagrams.
    pub received_bytes: u64,
    /// Sent packets that were declared lost.
    pub packets_lost: u64,
    /// Datagrams that the kernel dropped because the generator did not read them in time.
    pub overflowed: u64,
    /// Datagrams that the kernel refused to send.
    pub unsent: u64,
    /// System calls that sent datagrams: fewer than datagrams with segmentation offload (GSO).
    pub send_calls: u64,
    /// Buffers that received datagrams: fewer than datagrams with receive offload (GRO).
    pub receive_buffers: u64,
    /// The largest number of requests in flight at the same time on one connection.
    pub most_streams: u64,
}

impl DatagramsSummary {
    /// The figures of these datagrams; `None` when there were none.
    pub(super) fn of(datagrams: &Datagrams) -> Option<DatagramsSummary> {
        (!datagrams.is_empty()).then_some(DatagramsSummary {
            sent: datagrams.sent,
            sent_bytes: datagrams.sent_bytes.0,
            received: datagrams.received,
            received_bytes: datagrams.received_bytes.0,
            packets_lost: datagrams.lost,
            overflowed: datagrams.overflowed,
            unsent: datagrams.unsent,
            send_calls: datagrams.send_calls,
            receive_buffers: datagrams.receive_buffers,
            most_streams: datagrams.most_streams,
        })
    }
}

impl HandshakesSummary {
    /// The figures of these handshakes; `None` when there were none.
    pub(super) fn of(handshakes: &Handshakes) -> Option<HandshakesSummary> {
        let count = handshakes.count();
        (count > 0).then(|| HandshakesSummary {
            full: handshakes.full,
            resumed: handshakes.resumed,
            early_data: handshakes.early,
            early_data_refused: handshakes.early_refused,
            sent_bytes: handshakes.sent.0,
            received_bytes: handshakes.received.0,
            certificates_bytes: handshakes.certificates.0,
            cpu_s: handshakes.cpu.as_secs_f64(),
            cpu_per_handshake_us: Some(handshakes.cpu.as_secs_f64() * 1e6 / count as f64),
            agreed: handshakes.agreed.clone(),
        })
    }
}

impl FramesSummary {
    /// The figures of these frames; `None` when there were none.
    pub(super) fn of(frames: &Frames) -> Option<FramesSummary> {
        (!frames.is_empty()).then(|| FramesSummary {
            sent: by_type(&frames.sent),
            received: by_type(&frames.received),
            most_streams: frames.most_streams,
            allowed_streams: frames.allowed_streams,
        })
    }
}

fn by_type(counts: &BTreeMap<String, FrameCount>) -> BTreeMap<String, FrameCountSummary> {
    let counts = counts.iter().map(|(kind, count)| {
        let count = FrameCountSummary {
            frames: count.frames,
            bytes: count.bytes.0,
        };
        (kind.clone(), count)
    });
    counts.collect()
}
