//! The settings of a QUIC transport, with units, as factors of experiments.

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
use crate::settings_error::SettingsError;
use crate::timeline;

/// The datagram size that every path must support (RFC 9000 section 14), in bytes of UDP payload.
pub(crate) const LEAST_DATAGRAM: u16 = 1200;

/// The destination of a qlog.
pub type QlogWriter = Box<dyn io::Write + Send + Sync>;

/// A congestion controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Congestion {
    /// CUBIC (RFC 8312), the algorithm of the kernel's TCP.
    #[default]
    Cubic,
    /// BBR version 1, which `quinn-proto` documents as experimental.
    Bbr,
    /// NewReno (RFC 9002 section 7).
    NewReno,
}

impl Congestion {
    /// All controllers.
    pub const ALL: [Congestion; 3] = [Congestion::Cubic, Congestion::Bbr, Congestion::NewReno];

    /// Returns the name in settings and records.
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

/// The acknowledgement frequency that is requested from the peer (draft-ietf-quic-ack-frequency-04). A peer without
/// the extension ignores the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckFrequency {
    /// The number of packets that may arrive without an acknowledgement: 1 acknowledges every other packet.
    pub packets: u32,
    /// The longest delay of an acknowledgement; `None`: the peer decides.
    pub delay: Option<Duration>,
    /// The reordering threshold in packets: a packet that is at least this far out of order is acknowledged
    /// immediately; 0: never.
    pub reordering: u32,
}

/// Settings of one side's transport. Each is a factor that an experiment may vary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransportSettings {
    /// The congestion controller.
    pub congestion: Congestion,
    /// The initial congestion window, in datagrams of [`datagram_size`](Self::datagram_size); at least 1. (BBR starts
    /// with at least 4.)
    pub initial_window: u32,
    /// The largest UDP payload, in bytes, before MTU discovery confirms a larger size; at least 1200.
    pub datagram_size: u16,
    /// The largest UDP payload, in bytes, that MTU discovery probes (RFC 8899); `None`: no MTU discovery.
    pub mtu_discovery: Option<u16>,
    /// The assumed round-trip time before the first measurement.
    pub initial_rtt: Duration,
    /// The time-out of an idle connection; `None`: no time-out. The smaller value of both sides applies.
    pub max_idle: Option<Duration>,
    /// The idle time after which a keep-alive is sent; `None`: no keep-alives.
    pub keep_alive: Option<Duration>,
    /// The number of bidirectional streams that the peer may have open at the same time.
    pub bidirectional_streams: u64,
    /// The number of unidirectional streams that the peer may have open at the same time.
    pub unidirectional_streams: u64,
    /// The receive window of a stream, in bytes: the amount of unread data that the peer may send.
    pub stream_window: Bytes,
    /// The receive window of all streams together, in bytes; `None`: no limit.
    pub connection_window: Option<Bytes>,
    /// The limit on unacknowledged bytes of all streams together; writes block at the limit.
    pub send_window: Bytes,
    /// Whether streams of equal priority take turns; otherwise data are sent in the order of writing.
    pub fair: bool,
    /// The acknowledgement frequency to request from the peer; `None`: no request.
    pub ack_frequency: Option<AckFrequency>,
    /// The reordering threshold for losses, in packets; RFC 9002 recommends 3.
    pub packet_threshold: u32,
    /// The reordering threshold for losses, in round-trip times; RFC 9002 recommends 9/8.
    pub time_threshold: f32,
    /// Whether the spin bit is used, so that observers on the path can measure the round-trip time (RFC 9000 section
    /// 17.4).
    pub spin: bool,
    /// The length of this side's connection IDs in bytes, 0 to 20. A server needs at least 1; a client with a socket
    /// for each connection can use 0.
    pub identifier_length: u8,
}

/// The defaults of RFC 9002 and of common servers: CUBIC, a window of 10 datagrams of 1200 bytes, MTU discovery up to
/// 1452, 100 streams, 30 s idle time-out; windows for a path with 100 Mbit/s and a round-trip time of 100 ms.
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

impl TransportSettings {
    /// Returns the defaults for a client with a socket for each connection, as in browsers: the client's connection IDs
    /// are empty, and servers open no bidirectional streams.
    pub fn client() -> TransportSettings {
        TransportSettings {
            identifier_length: 0,
            bidirectional_streams: 0,
            ..TransportSettings::default()
        }
    }

    /// Builds the configuration for `quinn-proto`.
    pub(crate) fn build(&self, qlog: Option<Qlog>) -> Result<TransportConfig, SettingsError> {
        let largest = 65_527;
        if !(LEAST_DATAGRAM..=largest).contains(&self.datagram_size) {
            return Err(SettingsError::OutOfRange {
                what: "the datagram size",
                range: "1200 to 65527 bytes",
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
                range: "0 to 20 bytes",
            });
        }
        let mut config = TransportConfig::default();
        // quinn-proto holds back a datagram that would fill the window exactly.
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

/// The writer and the title of a qlog.
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

/// A client's TLS configuration. Create it once and share it among connections, so that they share session tickets.
#[derive(Clone)]
pub struct ClientTls {
    pub(crate) session: Arc<ClientSession>,
    pub(crate) early_data: bool,
}

impl ClientTls {
    /// Converts a TLS 1.3 configuration, whose protocols (ALPN) should be `h3` for HTTP/3. If the configuration enables
    /// early data, a connection with a ticket sends data immediately (0-RTT).
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

/// Limits on a server's written but unacknowledged data. They bound the memory that clients can occupy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The initial limit of a connection. When its congestion window grows, the limit grows to four congestion windows,
    /// at most [`TransportSettings::send_window`].
    pub each: Bytes,
    /// The limit for all connections of an endpoint together. When it is reached, a connection gets an equal share, at
    /// least 8 KiB.
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

/// Limits on handshakes in progress. Each handshake costs memory, and a client can start handshakes at a server without
/// receiving any response, and so with a forged address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HalfOpen {
    /// The number of handshakes in progress from which clients must validate their addresses before a new handshake
    /// starts (Retry, RFC 9000 section 8.1.2).
    pub retry_from: usize,
    /// The largest number of handshakes in progress. At this number, a new handshake replaces the oldest handshake.
    pub most: usize,
    /// The longest duration of a handshake while at least `retry_from` handshakes are in progress.
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

/// The settings of a server's endpoint.
pub struct ServerSettings {
    /// TLS 1.3; the protocols (ALPN) should be `h3` for HTTP/3. If early data is enabled, any amount is
    /// accepted, as QUIC requires.
    pub tls: Arc<rustls::ServerConfig>,
    /// The transport settings of the server's connections.
    pub transport: TransportSettings,
    /// Whether every client must validate its address first (Retry, RFC 9000 section 8.1.2), which takes a round trip.
    pub validates_addresses: bool,
    /// Whether clients may migrate to another address.
    pub migration: bool,
    /// The largest number of connections at the same time; more connections are refused.
    pub most_connections: usize,
    /// Limits on handshakes in progress.
    pub half_open: HalfOpen,
    /// Limits on unacknowledged data.
    pub waiting: Waiting,
    /// The destination of the qlog, which contains all connections.
    pub qlog: Option<QlogWriter>,
}

impl ServerSettings {
    /// Creates the TLS configuration for `quinn-proto`.
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
