//! Settings of an HTTP/2 server.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::exchange::CloseManner;
use crate::h2::flow::UpdateAt;
use crate::h2::settings::MIN_FRAME_SIZE;
use crate::pace::ContentPace;

/// The configuration of all connections of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Limits on the requests and frames of a client.
    pub limits: Limits,
    /// The server's flow-control windows for request content.
    pub receive: ReceiveWindows,
    /// The division of responses into frames.
    pub framing: Framing,
    /// The order of responses.
    pub scheduling: Scheduling,
    /// The size in bytes of the HPACK decoder table for requests (SETTINGS_HEADER_TABLE_SIZE); 0: no table.
    pub decoder_table: u32,
    /// The maximum size in bytes of the HPACK encoder table for responses, if the client allows this size; 0: no table.
    pub encoder_table: u32,
    /// The response fields that are added to the encoder table.
    pub indexing: FieldIndexing,
    /// The number of requests per connection that are cached with their answers; 0: none. If a cached request is
    /// repeated, it is not parsed again, and the head of its response is not encoded again. Each cached request takes
    /// up to 1 kB until the connection [frees its memory](super::Connection::rest).
    pub remembered: u32,
    /// Whether files that belong to a page are pushed with the page.
    pub push: bool,
    /// Whether 103 (Early Hints) responses are sent.
    pub early_hints: bool,
    /// The number of requests after which the server sends GOAWAY; `None`: no limit.
    pub max_requests_per_connection: Option<u32>,
    /// The manner in which a connection is closed.
    pub close: CloseManner,
    /// Simulated service time: the time from the start of the work on a request until the response is ready. The
    /// requests of one connection are processed one after another. Zero: no simulated delay.
    pub service_time: Duration,
    /// Additional service time of the first request of a connection. It imitates servers for which a new connection is
    /// extra work.
    pub connection_time: Duration,
    /// Whether [`Served`](super::Served) events are recorded.
    pub events: bool,
    /// Whether events include the texts of requests.
    pub request_text: bool,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            limits: Limits::default(),
            receive: ReceiveWindows::default(),
            framing: Framing::default(),
            scheduling: Scheduling::default(),
            decoder_table: 4096,
            encoder_table: 4096,
            indexing: FieldIndexing::default(),
            remembered: 64,
            push: true,
            early_hints: true,
            max_requests_per_connection: None,
            close: CloseManner::HalfThenDrain,
            service_time: Duration::ZERO,
            connection_time: Duration::ZERO,
            events: false,
            request_text: false,
        }
    }
}

/// The receive windows: limits on the request content in flight, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveWindows {
    /// The window of each stream (SETTINGS_INITIAL_WINDOW_SIZE); at most 2^31 − 1.
    pub stream: u32,
    /// The window of the connection. Values below 65 535, the protocol's initial window, count as 65 535.
    pub connection: u32,
    /// The time at which window updates are sent to the client.
    pub update: UpdateAt,
}

impl Default for ReceiveWindows {
    fn default() -> ReceiveWindows {
        ReceiveWindows {
            stream: 256 * 1024,
            connection: 1024 * 1024,
            update: UpdateAt::Percent(50),
        }
    }
}

/// The division of responses into frames, and of frames into writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// The maximum payload of a DATA frame, in bytes, if the client allows this size; at least 1.
    pub data: u32,
    /// Content up to this length is copied after its frame header, so that a small response (HEADERS and DATA) is
    /// contiguous in memory. Longer content is sent without a copy.
    pub copied: u32,
    /// The frames that are sent in one write.
    pub writes: Writes,
    /// The time at which HEADERS are sent.
    pub heads: Heads,
    /// The maximum number of bytes in frames that the transport has not taken. More urgent responses cannot overtake
    /// these bytes, and these bytes cannot be withdrawn.
    pub ahead: Bytes,
}

impl Default for Framing {
    fn default() -> Framing {
        Framing {
            data: MIN_FRAME_SIZE,
            copied: 4 * 1024,
            writes: Writes::Everything,
            heads: Heads::WithContent,
            ahead: Bytes(64 * 1024),
        }
    }
}

/// The frames that are sent in one write, and so the output of one round of
/// [`Connection::transmit`](super::Connection::transmit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// All frames that can be sent, such as the responses to all requests of one read.
    Everything,
    /// The output of one turn of a response: HEADERS with the first DATA frame, or one further DATA frame.
    EachTurn,
    /// Each frame of a response separately.
    EachFrame,
}

/// The time at which the HEADERS of a response are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heads {
    /// In the response's turn, immediately before its first DATA frame.
    WithContent,
    /// As soon as the response is ready, before the content of all other responses, even more urgent ones.
    AtOnce,
}

/// The rule that selects the ready response to send next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// The client's scheme: the tree of RFC 7540 if the client uses only dependencies, otherwise RFC 9218.
    #[default]
    AsAsked,
    /// RFC 9218: by urgency. Within one urgency, responses are sent in the order of requests, and incremental responses
    /// are interleaved frame by frame. The server announces that it ignores dependencies.
    Urgency,
    /// RFC 7540: by dependency and weight. The priorities of RFC 9218 are ignored.
    Tree,
    /// In the order of requests; each response is sent completely.
    InOrder,
    /// Round robin: one frame of each response.
    RoundRobin,
}

/// The response fields that are added to the HPACK table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldIndexing {
    /// Fields that many responses share: all fields except those that differ from file to file.
    #[default]
    Shared,
    /// All fields.
    All,
    /// No fields.
    Nothing,
}

/// Limits on the memory, the work and the delays that one client can cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of open streams of a client (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams: u32,
    /// The maximum size of a request's fields before compression, plus 32 bytes for each field
    /// (SETTINGS_MAX_HEADER_LIST_SIZE). A larger request is refused with 431.
    pub head: Bytes,
    /// The maximum compressed size in bytes of a header block over all its frames. A longer block closes the
    /// connection.
    pub block: u32,
    /// The maximum number of CONTINUATION frames of a header block. More frames close the connection.
    pub continuations: u32,
    /// The maximum number of fields of a request. More fields are refused with 431.
    pub fields: u32,
    /// The maximum length of `:path`. A longer path is refused with 414.
    pub target: Bytes,
    /// The maximum length of request content. Longer content is refused with 413.
    pub body: Bytes,
    /// The maximum amount of output, other than content, that the transport has not taken. Above this limit, no input
    /// is read.
    pub backlog: Bytes,
    /// The maximum number of concurrent pushes, unless the client sets a lower limit.
    pub pushes: u32,
    /// Resets by the client before its streams are served. Each complete response adds one to the allowance.
    pub resets: Allowance,
    /// Resets by the server because of faults of the client.
    pub provoked_resets: Allowance,
    /// Frames that require an answer: SETTINGS and PING.
    pub answers: Allowance,
    /// Idle frames: DATA without content, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE and unknown types. Each request and
    /// each sent DATA frame add a few to the allowance.
    pub idle_frames: Allowance,
    /// Idle time-out before the first request of a connection, and within request content.
    pub idle: Duration,
    /// The minimum rate of request content. Slower requests are refused with 408.
    pub content: ContentPace,
    /// Idle time-out before each further request.
    pub keep_alive: Duration,
    /// Time-out for the arrival of a complete frame (except DATA), and from the start of the connection to the end of
    /// its first frame.
    pub header: Duration,
    /// Time-out for the acknowledgement of the server's SETTINGS.
    pub settings: Duration,
    /// Time-out while the transport takes no byte. The connection is then aborted.
    pub send: Duration,
    /// Time-out while only the client's windows block responses. The connection is then closed, unless
    /// [`stall_bytes`](Self::stall_bytes) of content were sent in that time.
    pub stall: Duration,
    /// The amount of content that must be sent within [`stall`](Self::stall) to keep the connection open.
    pub stall_bytes: Bytes,
    /// The maximum time between the close of the sending side and the close of both sides.
    pub linger: Duration,
    /// The maximum number of bytes to discard while the server waits for the client's close.
    pub linger_bytes: Bytes,
}

impl Default for Limits {
    fn default() -> Limits {
        let often = Allowance {
            burst: 1000,
            per_second: 100,
        };
        Limits {
            streams: 100,
            head: Bytes(16 * 1024),
            block: 32 * 1024,
            continuations: 16,
            fields: 100,
            target: Bytes(8 * 1024),
            body: Bytes(64 * 1024 * 1024),
            backlog: Bytes(64 * 1024),
            pushes: 100,
            resets: Allowance {
                burst: 500,
                per_second: 50,
            },
            provoked_resets: Allowance {
                burst: 100,
                per_second: 10,
            },
            answers: often,
            idle_frames: Allowance {
                burst: 4000,
                per_second: 400,
            },
            idle: Duration::from_secs(60),
            content: ContentPace::default(),
            keep_alive: Duration::from_secs(60),
            header: Duration::from_secs(20),
            settings: Duration::from_secs(20),
            send: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            stall_bytes: Bytes(1024),
            linger: Duration::from_secs(10),
            linger_bytes: Bytes(1024 * 1024),
        }
    }
}

/// A rate limit: a maximum burst, and a sustained rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The maximum size of a burst.
    pub burst: u32,
    /// The sustained rate per second.
    pub per_second: u32,
}
