//! What the operator of a server, or the designer of an experiment, decides.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::h1::server::CloseManner;
use crate::h2::flow::UpdateAt;
use crate::h2::settings::MIN_FRAME_SIZE;
use crate::pace::ContentPace;

/// How a server treats its connections. Shared by all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// What a client may ask of it.
    pub limits: Limits,
    /// What the client is told about flow control of its content.
    pub receive: ReceiveWindows,
    /// How responses become frames.
    pub framing: Framing,
    /// Which response goes first.
    pub scheduling: Scheduling,
    /// Octets of the table of the client's fields (SETTINGS_HEADER_TABLE_SIZE); 0: none.
    pub decoder_table: u32,
    /// The most octets of the table of response fields, where the client allows as many; 0: none.
    pub encoder_table: u32,
    /// Which response fields go into that table.
    pub indexing: FieldIndexing,
    /// Requests of one connection that are remembered with their answers, so that the same request is
    /// not read, nor the head of its response written, a second time; 0: none. Costs up to a kilobyte
    /// each until the connection [rests](super::Connection::rest).
    pub remembered: u32,
    /// Whether files that go with a page are pushed.
    pub push: bool,
    /// Whether 103 (Early Hints) is sent.
    pub early_hints: bool,
    /// Requests after which a connection is given up, by GOAWAY; `None`: never for that.
    pub max_requests_per_connection: Option<u32>,
    /// How a connection is closed.
    pub close: CloseManner,
    /// How long the server works on a request, from when it takes it up to when its response is
    /// ready; a connection's requests are taken up one after another. Zero is this server's own
    /// speed; more stands for a slower one, whose time is that of the experiment.
    pub service_time: Duration,
    /// What the first request of a connection takes longer, for a server to which a new connection
    /// is work of its own.
    pub connection_time: Duration,
    /// Whether [`Served`](super::Served) events are made.
    pub events: bool,
    /// Whether events come with the text of their requests.
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

/// How much request content may be under way, in octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveWindows {
    /// On one stream (SETTINGS_INITIAL_WINDOW_SIZE); at most 2^31 − 1.
    pub stream: u32,
    /// On the connection; what is below the 65 535 that every connection starts with counts as that.
    pub connection: u32,
    /// When the client is told that it may send more.
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

/// How responses become frames, and frames writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// The longest payload of a DATA frame, in octets, where the client takes as much; at least 1.
    pub data: u32,
    /// Pieces of content up to this length are copied behind their frame header, so that a small
    /// response is one piece of memory, HEADERS and DATA; longer ones stay where they are.
    pub copied: u32,
    /// What goes in one write.
    pub writes: Writes,
    /// When HEADERS are sent.
    pub heads: Heads,
    /// Frames of content are made no further ahead than this of what the transport has taken, in octets.
    /// What has been made is neither put behind something more urgent nor taken back.
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

/// What goes in one write: where one round of [`Connection::transmit`](super::Connection::transmit)
/// ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Whatever waits: the responses to all requests that one read brought, as far as they go.
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
    /// As soon as the response is ready, before content of any other, however urgent.
    AtOnce,
}

/// Which of the responses that are ready goes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// As the client asks: by the tree of RFC 7540 where it speaks of dependencies and nothing newer,
    /// by RFC 9218 otherwise.
    #[default]
    AsAsked,
    /// RFC 9218: by urgency; among equals in order of requests, incremental ones frame by frame in
    /// turn. The client is told that dependencies are ignored.
    Urgency,
    /// RFC 7540: by dependency and weight, whatever else the client says.
    Tree,
    /// In order of requests, each as a whole.
    InOrder,
    /// Frame by frame in turn.
    RoundRobin,
}

/// Which response fields go into the table of HPACK.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldIndexing {
    /// Those that many responses share: all but the ones that tell one file from another.
    #[default]
    Shared,
    /// All.
    All,
    /// None.
    Nothing,
}

/// Bounds on what one client can make a server hold, do or wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams that a client may have open (SETTINGS_MAX_CONCURRENT_STREAMS).
    pub streams: u32,
    /// Fields of a request before compression, each counted with 32 octets more
    /// (SETTINGS_MAX_HEADER_LIST_SIZE); past it 431.
    pub head: Bytes,
    /// Octets of a header block as sent, over all its frames; past it the connection ends.
    pub block: u32,
    /// CONTINUATION frames of a header block; past it the connection ends.
    pub continuations: u32,
    /// Fields of a request; past it 431.
    pub fields: u32,
    /// `:path`; past it 414.
    pub target: Bytes,
    /// Request content; past it 413.
    pub body: Bytes,
    /// Frames other than content that the transport has not taken; past it nothing is read.
    pub backlog: Bytes,
    /// Files pushed at a time, where the client does not set a lower limit.
    pub pushes: u32,
    /// Streams that the client resets before they are served; a response that is served whole gives
    /// one back.
    pub resets: Allowance,
    /// Streams that have to be reset for what the client does on them.
    pub provoked_resets: Allowance,
    /// Frames that want an answer: SETTINGS, PING.
    pub answers: Allowance,
    /// Frames that carry nothing: DATA without content, PRIORITY, PRIORITY_UPDATE, WINDOW_UPDATE and
    /// unknown ones. Each request gives a few back, and each DATA frame that is sent.
    pub idle_frames: Allowance,
    /// Silence before the first request of a connection, and within the content of a request.
    pub idle: Duration,
    /// How fast the content of each request must come; past it 408.
    pub content: ContentPace,
    /// Silence before each further request.
    pub keep_alive: Duration,
    /// From the first octet of a frame other than DATA to its last, and of the connection to the end
    /// of its first frame.
    pub header: Duration,
    /// From SETTINGS to their acknowledgement.
    pub settings: Duration,
    /// Without the transport taking any octet; past it the connection is aborted.
    pub send: Duration,
    /// With responses that only the client's windows hold up, and less than
    /// [`stall_octets`](Self::stall_octets) of content let through; past it the connection ends.
    pub stall: Duration,
    /// What a client must let through within [`stall`](Self::stall) so as not to count as stalling.
    pub stall_octets: Bytes,
    /// From closing the own half to closing both.
    pub linger: Duration,
    /// Octets thrown away while waiting for the client to close its half.
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
            stall_octets: Bytes(1024),
            linger: Duration::from_secs(10),
            linger_bytes: Bytes(1024 * 1024),
        }
    }
}

/// How often something may happen: so many times at once, and so many times a second in the long run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// At once.
    pub burst: u32,
    /// In the long run.
    pub per_second: u32,
}
