//! Settings of an HTTP/2 server.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::exchange::CloseManner;
use crate::h2::flow::UpdateAt;
use crate::h2::settings::MIN_FRAME_SIZE;
use crate::pace::ContentPace;

/// How a server handles its connections; shared by all connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Limits on the requests and frames of a client.
    pub limits: Limits,
    /// The server's flow-control windows for request content.
    pub receive: ReceiveWindows,
    /// How responses are split into frames.
    pub framing: Framing,
    /// The order of responses.
    pub scheduling: Scheduling,
    /// Bytes of the HPACK decoder table for requests (SETTINGS_HEADER_TABLE_SIZE); 0: none.
    pub decoder_table: u32,
    /// The maximum size in bytes of the HPACK encoder table for responses, if the client allows this size; 0: none.
    pub encoder_table: u32,
    /// Which response fields are added to the encoder table.
    pub indexing: FieldIndexing,
    /// Number of requests per connection that are cached with their answers; 0: none. A repeated request is then
    /// not parsed again, and the head of its response is not encoded again. Each cached request takes up to a
    /// kilobyte until the connection [frees its memory](super::Connection::rest).
    pub remembered: u32,
    /// Whether files of a page are pushed with the page.
    pub push: bool,
    /// Whether 103 (Early Hints) is sent.
    pub early_hints: bool,
    /// The number of requests after which the server sends GOAWAY; `None`: no limit.
    pub max_requests_per_connection: Option<u32>,
    /// How a connection is closed.
    pub close: CloseManner,
    /// Simulated service time: from when the server starts to work on a request until the response is ready. The
    /// requests of one connection are processed one after another. Zero: the server's own speed.
    pub service_time: Duration,
    /// Additional service time of the first request of a connection, to imitate servers for which a new connection
    /// is extra work.
    pub connection_time: Duration,
    /// Whether [`Served`](super::Served) events are generated.
    pub events: bool,
    /// Whether events include the text of their requests.
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

/// How much request content may be in flight, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveWindows {
    /// On one stream (SETTINGS_INITIAL_WINDOW_SIZE); at most 2^31 − 1.
    pub stream: u32,
    /// On the connection; at least 65 535, the initial window of every connection (smaller values count as 65 535).
    pub connection: u32,
    /// When window updates are sent to the client.
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

/// How responses are split into frames, and frames into writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// The longest payload of a DATA frame, in bytes, if the client allows it; at least 1.
    pub data: u32,
    /// Content up to this length is copied after its frame header, so that a small response (HEADERS and DATA)
    /// is contiguous in memory. Longer content is sent from its original place.
    pub copied: u32,
    /// Which frames are sent in one write.
    pub writes: Writes,
    /// When HEADERS are sent.
    pub heads: Heads,
    /// Limit on the bytes in frames that the transport has not taken yet. Bytes in frames cannot be moved behind
    /// a more urgent response, and cannot be withdrawn.
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

/// Which frames are sent in one write: where one round of [`Connection::transmit`](super::Connection::transmit)
/// ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// All frames that can be sent, such as the responses to all requests of one read.
    Everything,
    /// Each turn of a response: its HEADERS with its first DATA frame, then each further DATA frame.
    EachTurn,
    /// Each frame that belongs to a response.
    EachFrame,
}

/// When the HEADERS of a response are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heads {
    /// When it is the response's turn: before its first DATA frame.
    WithContent,
    /// As soon as the response is ready, before the content of any other response, however urgent.
    AtOnce,
}

/// Which of the ready responses is sent next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// As the client requests: by the tree of RFC 7540 if it uses only dependencies, otherwise by RFC 9218.
    #[default]
    AsAsked,
    /// RFC 9218: by urgency. Within one urgency, in order of requests; incremental responses are interleaved
    /// frame by frame. The server announces that it ignores dependencies.
    Urgency,
    /// RFC 7540: by dependency and weight, ignoring RFC 9218.
    Tree,
    /// In order of requests, each response completely.
    InOrder,
    /// One frame of each response in turn.
    RoundRobin,
}

/// Which response fields are added to the HPACK table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldIndexing {
    /// Fields that many responses share: all except those that differ from file to file.
    #[default]
    Shared,
    /// All fields.
    All,
    /// No fields.
    Nothing,
}

/// Limits on the memory, the work and the waiting time that one client can cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams that a client may have open (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams: u32,
    /// Bytes of a request's fields before compression, plus 32 for each field (SETTINGS_MAX_HEADER_LIST_SIZE); more
    /// are refused with 431.
    pub head: Bytes,
    /// Bytes of a header block as sent, in all its frames; a longer block closes the connection.
    pub block: u32,
    /// CONTINUATION frames of a header block; more close the connection.
    pub continuations: u32,
    /// Number of fields of a request; more are refused with 431.
    pub fields: u32,
    /// Bytes of `:path`; a longer path is refused with 414.
    pub target: Bytes,
    /// Bytes of request content; longer content is refused with 413.
    pub body: Bytes,
    /// Bytes of output other than content that the transport has not taken; above this limit, no input is read.
    pub backlog: Bytes,
    /// Files pushed at a time, unless the client sets a lower limit.
    pub pushes: u32,
    /// Streams that the client resets before they are served. Each completely served response adds one to the
    /// allowance.
    pub resets: Allowance,
    /// Streams that the server must reset because of faults of the client.
    pub provoked_resets: Allowance,
    /// Frames that require an answer: SETTINGS, PING.
    pub answers: Allowance,
    /// Idle frames: DATA without content, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE and unknown types. Each request,
    /// and each DATA frame sent, adds a few to the allowance.
    pub idle_frames: Allowance,
    /// Idle time-out before the first request of a connection, and within the content of a request.
    pub idle: Duration,
    /// The slowest rate of the content of each request; slower requests are refused with 408.
    pub content: ContentPace,
    /// Idle time-out before each further request.
    pub keep_alive: Duration,
    /// Time-out from the first byte of a frame other than DATA to its last byte. Also from the start of the
    /// connection to the end of its first frame.
    pub header: Duration,
    /// Time-out from SETTINGS to its acknowledgement.
    pub settings: Duration,
    /// Time-out while the transport takes no byte; then the connection is aborted.
    pub send: Duration,
    /// Time-out while only the client's windows block responses, with less than [`stall_bytes`](Self::stall_bytes)
    /// of content sent; then the connection is closed.
    pub stall: Duration,
    /// Content that the client's windows must allow within [`stall`](Self::stall) to keep the connection open.
    pub stall_bytes: Bytes,
    /// Time from closing the sending side to closing both sides.
    pub linger: Duration,
    /// The maximum number of bytes discarded while waiting for the client to close its side.
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
