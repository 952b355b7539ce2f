//! What the operator of a server, or the designer of an experiment, decides.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::h1;
use crate::h3::Settings;
use crate::h3::client::Qpack;
use crate::pace::ContentPace;

/// How a server treats its connections. Shared by all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// What a client may ask of it.
    pub limits: Limits,
    /// How fields are compressed.
    pub qpack: Qpack,
    /// Whether priorities are listened to. If not, responses go by turns.
    pub priorities: bool,
    /// The most octets of an incremental response before it is the turn of another.
    pub turn: Bytes,
    /// Responses after which the client is told to leave; `None`: never for that.
    pub max_requests_per_connection: Option<u64>,
    /// How long the server works on a request, from when it takes it up to when its response is ready;
    /// a connection's requests are taken up one after another. Zero is this server's own speed; more
    /// stands for a slower one, whose time is that of the experiment.
    pub service_time: Duration,
    /// The same for a connection, before its first request.
    pub connection_time: Duration,
    /// Whether a setting and a frame are sent that mean nothing (RFC 9114 section 7.2.8).
    pub reserved: bool,
    /// Whether [`Served`](super::Served) events are made.
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

/// What a server of HTTP/1 was told, as far as it makes sense here.
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
    /// What the client is told.
    pub fn settings(&self) -> Settings {
        Settings {
            max_field_section_size: Some(self.limits.section.0),
            qpack_max_table_capacity: u64::from(self.qpack.table),
            qpack_blocked_streams: u64::from(self.qpack.blocked_streams),
        }
    }
}

/// Bounds on what one client can make a server hold or wait for. How many streams are open at a time
/// is bounded by QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A field section, each field counted with 32 octets more, and its compressed size too; past it
    /// 431.
    pub section: Bytes,
    /// Fields; past it 431.
    pub fields: u32,
    /// The request target; past it 414.
    pub target: Bytes,
    /// Request content; past it 413.
    pub body: Bytes,
    /// Heads of responses not handed over yet; past it no request is read until some are.
    pub backlog: Bytes,
    /// Silence while no request is under way.
    pub idle: Duration,
    /// From the first octet of a request to the end of its head; and silence within its content.
    pub request: Duration,
    /// How fast request content must come; past it 408.
    pub content: ContentPace,
    /// Without the transport taking any octet of a response; and with fewer than
    /// [`stall_octets`](Self::stall_octets) acknowledged while anything waits to be, past which a host closes
    /// the connection.
    pub send: Duration,
    /// What a client must acknowledge within [`send`](Self::send).
    pub stall_octets: Bytes,
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
            stall_octets: Bytes(1024),
        }
    }
}
