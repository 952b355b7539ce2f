//! Settings of a server, set by its operator or by the design of an experiment.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::h1;
use crate::h3::Settings;
use crate::h3::client::Qpack;
use crate::pace::ContentPace;

/// The settings of a server for its connections. All connections share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Limits on requests.
    pub limits: Limits,
    /// Settings of field compression.
    pub qpack: Qpack,
    /// Whether the client's priorities are used. If not, all responses take turns.
    pub priorities: bool,
    /// The maximum number of bytes of an incremental response that are sent before the next response gets its
    /// turn.
    pub turn: Bytes,
    /// The number of responses after which the server sends GOAWAY; `None`: no limit.
    pub max_requests_per_connection: Option<u64>,
    /// The emulated processing time of a request, from the complete request until its response is ready. The
    /// requests of a connection are processed one after another. Zero is the server's own speed; a larger value
    /// emulates a slower server in an experiment.
    pub service_time: Duration,
    /// The emulated processing time of a connection, added to the time of its first request.
    pub connection_time: Duration,
    /// Whether a reserved setting and a reserved frame are sent, which the peer must ignore (RFC 9114 section
    /// 7.2.8).
    pub reserved: bool,
    /// Whether [`Served`](super::Served) events are produced.
    pub events: bool,
    /// Whether events come with the [text](super::RequestText) of their requests.
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
    /// The settings that are sent to the client.
    pub fn settings(&self) -> Settings {
        Settings {
            max_field_section_size: Some(self.limits.section.0),
            qpack_max_table_capacity: u64::from(self.qpack.table),
            qpack_blocked_streams: u64::from(self.qpack.blocked_streams),
        }
    }
}

/// Limits on the memory and the waiting time that one client can cause. QUIC limits the number of open streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest field section, with 32 bytes added for each field; also the limit on its compressed size.
    /// The response to a larger one is 431.
    pub section: Bytes,
    /// The maximum number of fields of a request; the response to more is 431.
    pub fields: u32,
    /// The longest request target; the response to a longer one is 414.
    pub target: Bytes,
    /// The largest request content; the response to more is 413.
    pub body: Bytes,
    /// The maximum number of bytes of response heads that wait for the transport. Above this limit no request is
    /// read.
    pub backlog: Bytes,
    /// The longest idle time while no request is in flight.
    pub idle: Duration,
    /// The longest time from the first byte of a request to the end of its head; also the longest pause within
    /// its content.
    pub request: Duration,
    /// The slowest permitted pace of request content; the response to a slower pace is 408.
    pub content: ContentPace,
    /// The longest time in which the transport takes no byte of a response. A host also closes the connection
    /// if fewer than [`stall_bytes`](Self::stall_bytes) are acknowledged within this time while data waits for
    /// acknowledgement.
    pub send: Duration,
    /// The bytes that a client must acknowledge within [`send`](Self::send).
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
