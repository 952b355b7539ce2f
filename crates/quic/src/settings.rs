//! What an experiment can set of a QUIC transport, with the units it is set in.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Bytes;
use quinn_proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use quinn_proto::{
    AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, QlogConfig, TransportConfig, VarInt,
};

use crate::congestion::CountedFactory;
use crate::session::{ClientSession, ServerSession};
use crate::timeline;

/// The smallest datagram that every path must carry (RFC 9000 section 14), in octets of UDP payload.
pub(crate) const LEAST_DATAGRAM: u16 = 1200;

/// Where a qlog goes.
pub type QlogWriter = Box<dyn io::Write + Send + Sync>;

/// A congestion controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// CUBIC (RFC 8312), as in the kernel's TCP.
    #[default]
    Cubic,
    /// BBR, its first version, which the library calls experimental.
    Bbr,
    /// NewReno (RFC 9002 section 7).
    NewReno,
}

impl Congestion {
    /// Every one.
    pub const ALL: [Congestion; 3] = [Congestion::Cubic, Congestion::Bbr, Congestion::NewReno];

    /// Its name in settings and records.
    pub const fn name(self) -> &'static str {
        match self {
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
            Congestion::NewReno => "newreno",
        }
    }
}

impl std::str::FromStr for Congestion {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Congestion, SettingsError> {
        Congestion::ALL
            .into_iter()
            .find(|one| one.name() == text)
            .ok_or_else(|| SettingsError::Congestion(text.to_owned()))
    }
}

/// What the peer is asked to do about acknowledgements (draft-ietf-quic-ack-frequency-04). A peer that
/// does not know the extension goes on as it pleases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckFrequency {
    /// Packets that may come without being acknowledged: 1 acknowledges every other one.
    pub packets: u32,
    /// How long an acknowledgement may be put off; `None` leaves it to the peer.
    pub delay: Option<Duration>,
    /// How far out of order a packet must come to be acknowledged at once; 0: never.
    pub reordering: u32,
}

/// Settings of one side's transport. Each is a factor that an experiment may vary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransportSettings {
    /// The congestion controller.
    pub congestion: Congestion,
    /// Datagrams of [`datagram_size`](Self::datagram_size) that may be under way before the first is
    /// acknowledged; at least 1. (BBR starts with no fewer than 4.)
    pub initial_window: u32,
    /// The largest UDP payload, in octets, before a larger one is known to pass; at least 1200.
    pub datagram_size: u16,
    /// Up to which UDP payload, in octets, larger datagrams are tried (RFC 8899); `None` tries none.
    pub mtu_discovery: Option<u16>,
    /// The round-trip time that is assumed before one was measured.
    pub initial_rtt: Duration,
    /// How long a connection may be silent before it is given up; `None`: for ever. The smaller of
    /// both sides' counts.
    pub max_idle: Option<Duration>,
    /// Silence after which the peer is asked whether it is there.
    pub keep_alive: Option<Duration>,
    /// Streams in both directions that the peer may have open at a time.
    pub bidirectional_streams: u64,
    /// Streams in one direction that the peer may have open at a time.
    pub unidirectional_streams: u64,
    /// Octets that the peer may send on one stream ahead of what was read.
    pub stream_window: Bytes,
    /// Octets that the peer may send on all streams together ahead of what was read; `None`: any number.
    pub connection_window: Option<Bytes>,
    /// Octets of all streams that are kept until they are acknowledged; a writer waits beyond.
    pub send_window: Bytes,
    /// Whether streams of one priority take turns; otherwise they are sent in the order of writing.
    pub fair: bool,
    /// What the peer is asked to do about acknowledgements; `None` leaves it alone.
    pub ack_frequency: Option<AckFrequency>,
    /// Packets that must have been acknowledged after one for it to count as lost; RFC 9002 says 3.
    pub packet_threshold: u32,
    /// The same as a time, in round-trip times; RFC 9002 says 9/8.
    pub time_threshold: f32,
    /// Whether the spin bit shows the round-trip time to whoever looks on (RFC 9000 section 17.4).
    pub spin: bool,
    /// Octets of this side's connection identifiers, 0 to 20. A server needs some; a client with a
    /// socket for each connection needs none.
    pub identifier_length: u8,
}

/// What RFC 9002 and common servers start with: CUBIC, a window of 10 datagrams of 1200 octets, sizes up
/// to 1452 tried, 100 streams, 30 s of silence; windows for 100 Mbit/s at 100 ms.
impl Default for TransportSettings {
    fn default() -> TransportSettings {
        TransportSettings {
            congestion: Congestion::Cubic,
            initial_window: 10,
            datagram_size: LEAST_DATAGRAM,
            mtu_discovery: Some(1452),
            initial_rtt: Duration::from_millis(333),
            max_idle: Some(Duration::from_secs(30)),
            keep_alive: None,
            bidirectional_streams: 100,
            unidirectional_streams: 100,
            stream_window: Bytes(1_250_000),
            connection_window: None,
            send_window: Bytes(4 << 20),
            fair: true,
            ack_frequency: None,
            packet_threshold: 3,
            time_threshold: 1.125,
            spin: false,
            identifier_length: 8,
        }
    }
}

/// Why settings cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A number that the protocol has no room for.
    #[error("{what} is out of range: {range}")]
    OutOfRange {
        /// The setting.
        what: &'static str,
        /// What it can be.
        range: &'static str,
    },
    /// No such congestion controller.
    #[error("{0:?} is no congestion controller: write cubic, bbr or newreno")]
    Congestion(String),
    /// The TLS settings know no TLS 1.3, which QUIC is made of, or lack the suite its first packets use.
    #[error("the TLS settings lack TLS 1.3 or its suite TLS_AES_128_GCM_SHA256")]
    Tls,
    /// The qlog's head could not be written.
    #[error("the qlog cannot be written")]
    Qlog,
}

impl TransportSettings {
    /// The defaults for a client whose every connection has a socket of its own, as browsers have it: its
    /// identifiers are empty, and servers open no bidirectional streams.
    pub fn client() -> TransportSettings {
        TransportSettings {
            identifier_length: 0,
            bidirectional_streams: 0,
            ..TransportSettings::default()
        }
    }

    /// The machine's form.
    pub(crate) fn build(&self, qlog: Option<Qlog>) -> Result<TransportConfig, SettingsError> {
        let largest = 65_527;
        if !(LEAST_DATAGRAM..=largest).contains(&self.datagram_size) {
            return Err(SettingsError::OutOfRange {
                what: "the datagram size",
                range: "1200 to 65527 octets",
            });
        }
        if self.initial_window == 0 {
            return Err(SettingsError::OutOfRange {
                what: "the initial window",
                range: "at least one datagram",
            });
        }
        if usize::from(self.identifier_length) > crate::identifiers::LONGEST {
            return Err(SettingsError::OutOfRange {
                what: "the length of connection identifiers",
                range: "0 to 20 octets",
            });
        }
        let mut config = TransportConfig::default();
        // The machine holds a datagram back that would fill its window to the brim.
        let window = u64::from(self.initial_window) * u64::from(self.datagram_size) + 1;
        match self.congestion {
            Congestion::Cubic => {
                let mut controller = CubicConfig::default();
                controller.initial_window(window);
                let counted = CountedFactory(Arc::new(controller));
                config.congestion_controller_factory(Arc::new(counted));
            }
            Congestion::Bbr => {
                let mut controller = BbrConfig::default();
                controller.initial_window(window);
                let counted = CountedFactory(Arc::new(controller));
                config.congestion_controller_factory(Arc::new(counted));
            }
            Congestion::NewReno => {
                let mut controller = NewRenoConfig::default();
                controller.initial_window(window);
                let counted = CountedFactory(Arc::new(controller));
                config.congestion_controller_factory(Arc::new(counted));
            }
        }
        let idle = match self.max_idle {
            None => None,
            Some(time) => {
                let error = |_| SettingsError::OutOfRange {
                    what: "the idle time",
                    range: "less than 2^62 ms",
                };
                Some(IdleTimeout::try_from(time).map_err(error)?)
            }
        };
        let discovery = self.mtu_discovery.map(|most| {
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(most);
            discovery
        });
        let frequency = match self.ack_frequency {
            None => None,
            Some(asked) => {
                let mut frequency = AckFrequencyConfig::default();
                frequency
                    .ack_eliciting_threshold(asked.packets.into())
                    .max_ack_delay(asked.delay)
                    .reordering_threshold(asked.reordering.into());
                Some(frequency)
            }
        };
        config
            .initial_mtu(self.datagram_size)
            .mtu_discovery_config(discovery)
            .initial_rtt(self.initial_rtt)
            .max_idle_timeout(idle)
            .keep_alive_interval(self.keep_alive)
            .max_concurrent_bidi_streams(number(
                self.bidirectional_streams,
                "the number of bidirectional streams",
            )?)
            .max_concurrent_uni_streams(number(
                self.unidirectional_streams,
                "the number of unidirectional streams",
            )?)
            .stream_receive_window(number(self.stream_window.0, "the stream window")?)
            .receive_window(match self.connection_window {
                None => VarInt::MAX,
                Some(window) => number(window.0, "the connection window")?,
            })
            .send_window(self.send_window.0)
            .send_fairness(self.fair)
            .ack_frequency_config(frequency)
            .packet_threshold(self.packet_threshold)
            .time_threshold(self.time_threshold)
            .allow_spin(self.spin)
            .datagram_receive_buffer_size(None);
        if let Some(qlog) = qlog {
            let mut log = QlogConfig::default();
            log.writer(qlog.writer)
                .title(Some(qlog.title))
                .start_time(timeline::origin());
            config.qlog_stream(Some(log.into_stream().ok_or(SettingsError::Qlog)?));
        }
        Ok(config)
    }
}

/// A qlog to be written.
pub(crate) struct Qlog {
    pub(crate) writer: QlogWriter,
    pub(crate) title: String,
}

fn number(value: u64, what: &'static str) -> Result<VarInt, SettingsError> {
    VarInt::from_u64(value).map_err(|_| SettingsError::OutOfRange {
        what,
        range: "less than 2^62",
    })
}

/// TLS of a client in the machine's form. Made once and shared by connections, which share its session
/// tickets then.
#[derive(Clone)]
pub struct ClientTls {
    pub(crate) session: Arc<ClientSession>,
    pub(crate) early_data: bool,
}

impl ClientTls {
    /// TLS 1.3 by these settings, of which the protocols (ALPN) should be `h3` for HTTP/3. Where they
    /// allow early data, a connection with a ticket sends what it has at once (0-RTT).
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Result<ClientTls, SettingsError> {
        let early_data = tls.enable_early_data;
        Ok(ClientTls {
            session: Arc::new(ClientSession::new(tls)?),
            early_data,
        })
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls")
            .field("early_data", &self.early_data)
            .finish_non_exhaustive()
    }
}

/// How much that was written may wait for acknowledgements: the memory that clients can make a server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// What any connection may have waiting. One that shows by its acknowledgements that its path holds more
    /// gets more: four congestion windows, at most [`TransportSettings::send_window`].
    pub each: Bytes,
    /// What all connections of an endpoint may have waiting. Beyond, each gets an equal share, and 8 KiB at
    /// least.
    pub all: Bytes,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting {
            each: Bytes(64 * 1024),
            all: Bytes(256 << 20),
        }
    }
}

/// How many handshakes may be in progress. Each costs memory, and a client need not receive what it is sent to
/// make a server begin one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfOpen {
    /// With so many in progress, a client must show that it receives what is sent to its address before another
    /// is begun (Retry, RFC 9000 section 8.1.2).
    pub retry_from: usize,
    /// The most. Beyond, the oldest is given up for another.
    pub most: usize,
    /// How long a handshake may take where others wait for its place.
    pub within: Duration,
}

impl Default for HalfOpen {
    fn default() -> HalfOpen {
        HalfOpen {
            retry_from: 64,
            most: 1024,
            within: Duration::from_secs(10),
        }
    }
}

/// What a server's endpoint is made of.
pub struct ServerSettings {
    /// TLS 1.3; the protocols (ALPN) should be `h3` for HTTP/3. Early data is on or off: where it is on,
    /// any amount is taken, as QUIC has it.
    pub tls: Arc<rustls::ServerConfig>,
    /// The transport of its connections.
    pub transport: TransportSettings,
    /// Whether a client must show that it receives what is sent to its address before anything is done
    /// for it (Retry, RFC 9000 section 8.1.2). It costs a round trip.
    pub validates_addresses: bool,
    /// Whether clients may move to another address.
    pub migration: bool,
    /// Most connections at a time; more are refused.
    pub most_connections: usize,
    /// How many handshakes may be in progress.
    pub half_open: HalfOpen,
    /// How much may wait to be acknowledged.
    pub waiting: Waiting,
    /// Where the qlog of all connections goes.
    pub qlog: Option<QlogWriter>,
}

impl ServerSettings {
    /// TLS in the machine's form.
    pub(crate) fn crypto(&self) -> Result<Arc<ServerSession>, SettingsError> {
        let mut tls = Arc::clone(&self.tls);
        if !matches!(tls.max_early_data_size, 0 | u32::MAX) {
            Arc::make_mut(&mut tls).max_early_data_size = u32::MAX;
        }
        ServerSession::new(tls).map(Arc::new)
    }
}

impl std::fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSettings")
            .field("transport", &self.transport)
            .field("validates_addresses", &self.validates_addresses)
            .field("migration", &self.migration)
            .field("most_connections", &self.most_connections)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused() {
        let fine = TransportSettings::default();
        assert!(fine.build(None).is_ok());
        for wrong in [
            TransportSettings {
                datagram_size: 1199,
                ..fine
            },
            TransportSettings {
                initial_window: 0,
                ..fine
            },
            TransportSettings {
                identifier_length: 21,
                ..fine
            },
            TransportSettings {
                stream_window: Bytes(1 << 62),
                ..fine
            },
            TransportSettings {
                bidirectional_streams: 1 << 62,
                ..fine
            },
            TransportSettings {
                max_idle: Some(Duration::MAX),
                ..fine
            },
        ] {
            let error = wrong.build(None).unwrap_err();
            assert!(matches!(error, SettingsError::OutOfRange { .. }), "{error}");
        }
    }

    #[test]
    fn congestion_controllers_are_known_by_their_names() {
        for one in Congestion::ALL {
            assert_eq!(one.name().parse(), Ok(one));
        }
        assert!("vegas".parse::<Congestion>().is_err());
    }
}
