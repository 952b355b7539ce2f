//! Configuration and limits of an HTTP/3 server.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::h1;
use crate::h3::Settings;
use crate::h3::client::Qpack;
use crate::pace::ContentPace;

/// The configuration of all connections of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Limits on requests.
    pub limits: Limits,
    /// The configuration of field compression.
    pub qpack: Qpack,
    /// Whether the client's priorities are used. If not, all responses are interleaved (round robin).
    pub priorities: bool,
    /// The maximum number of bytes of an incremental response in one turn, before the next response is sent.
    pub turn: Bytes,
    /// The number of responses after which the server sends GOAWAY; `None`: no limit.
    pub max_requests_per_connection: Option<u64>,
    /// Simulated service time: the time from a complete request until its response is ready. The requests of one
    /// connection are processed one after another. Zero: no simulated delay.
    pub service_time: Duration,
    /// Additional service time of the first request of a connection.
    pub connection_time: Duration,
    /// Whether a reserved setting and a reserved frame are sent, which the client must ignore (RFC 9114 section 7.2.8).
    pub reserved: bool,
    /// Whether [`Served`](super::Served) events are recorded.
    pub events: bool,
    /// Whether events include the [texts](super::RequestText) of requests.
    pub request_text: bool,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            limits: Limits::default(),
            qpack: Qpack::default(),
            priorities: true,
            turn: Bytes(16 * 1024),
            max_requests_per_connection: None,
            service_time: Duration::ZERO,
            connection_time: Duration::ZERO,
            reserved: false,
            events: false,
            request_text: false,
        }
    }
}

/// Copies the settings of an HTTP/1 server that also apply to HTTP/3.
impl From<&h1::server::ServerConfig> for ServerConfig {
    fn from(config: &h1::server::ServerConfig) -> ServerConfig {
        ServerConfig {
            limits: Limits {
                section: config.limits.head,
                fields: config.limits.fields,
                target: config.limits.target,
                body: config.limits.body,
                backlog: config.limits.backlog,
                idle: config.limits.keep_alive,
                request: config.limits.header,
                content: config.limits.content,
                send: config.limits.send,
                ..Limits::default()
            },
            max_requests_per_connection: config.max_requests_per_connection.map(u64::from),
            service_time: config.service_time,
            connection_time: config.connection_time,
            events: config.events,
            request_text: config.request_text,
            ..ServerConfig::default()
        }
    }
}

impl ServerConfig {
    /// Returns the settings that are sent to the client.
    pub fn settings(&self) -> Settings {
        Settings {
            max_field_section_size: Some(self.limits.section.0),
            qpack_max_table_capacity: u64::from(self.qpack.table),
            qpack_blocked_streams: u64::from(self.qpack.blocked_streams),
        }
    }
}

/// Limits on the memory and the delays that one client can cause. QUIC limits the number of open streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of a field section, plus 32 bytes for each field; also the maximum of its compressed size. A
    /// larger section is refused with 431.
    pub section: Bytes,
    /// The maximum number of fields of a request. More fields are refused with 431.
    pub fields: u32,
    /// The maximum length of the request target. A longer target is refused with 414.
    pub target: Bytes,
    /// The maximum length of request content. Longer content is refused with 413.
    pub body: Bytes,
    /// The maximum amount of response heads that wait for the transport. Above this limit, no request is read.
    pub backlog: Bytes,
    /// The maximum idle time while no request is in flight.
    pub idle: Duration,
    /// The maximum time from the first byte of a request to the end of its head, and the maximum pause within its
    /// content.
    pub request: Duration,
    /// The minimum rate of request content. Slower requests are refused with 408.
    pub content: ContentPace,
    /// The maximum time in which the transport takes no byte of a response. A host also closes the connection if the
    /// client acknowledges less than [`stall_bytes`](Self::stall_bytes) in this time while unacknowledged data exists.
    pub send: Duration,
    /// The amount of data that a client must acknowledge within [`send`](Self::send).
    pub stall_bytes: Bytes,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            section: Bytes(16 * 1024),
            fields: 100,
            target: Bytes(8 * 1024),
            body: Bytes(64 * 1024 * 1024),
            backlog: Bytes(256 * 1024),
            idle: Duration::from_secs(60),
            request: Duration::from_secs(20),
            content: ContentPace::default(),
            send: Duration::from_secs(60),
            stall_bytes: Bytes(1024),
        }
    }
}
