//! What a run stores. Every record is one JSON object on one line (`*.ndjson`), which pandas
//! (`read_json(lines=True)`) and DuckDB (`read_ndjson`) open directly.
//!
//! Times are [`Instant`]s: nanoseconds since the origin of the replicate, which its capture file
//! states in wall-clock time.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Instant};

/// One request and its response, as the client saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExchangeRecord {
    /// Counts exchanges of this replicate from 0 in the order they were planned.
    pub exchange: u32,
    /// The connection it went over; [`ConnectionRecord::connection`].
    pub connection: u32,
    /// The request method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// When the client first wanted this file.
    pub planned: Instant,
    /// When the first byte of the request was handed to the transport.
    pub sent: Option<Instant>,
    /// When the first byte of the response was read.
    pub first_byte: Option<Instant>,
    /// When the last byte of the response was read.
    pub last_byte: Option<Instant>,
    /// Request line, header fields and the blank line.
    pub request_head: Bytes,
    /// Request content with its transfer coding.
    pub request_body: Bytes,
    /// Status line, header fields and the blank line, interim responses included.
    pub response_head: Bytes,
    /// Response content as transferred: transfer coding and content coding included.
    pub response_body: Bytes,
    /// Status code of the final response.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: Outcome,
    /// Names and values of the request's fields before compression, pseudo-fields included; `None`
    /// where nothing compresses them (HTTP/1.x).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_fields: Option<Bytes>,
    /// The same of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_fields: Option<Bytes>,
    /// The target of the file that named this one; `None` for a page's base file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_by: Option<String>,
    /// Whether the server pushed it: it was promised and not asked for. `sent` is then when the
    /// promise was read, and there are no octets of a request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pushed: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// One file that a retrieval was about, and when the client could use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileArrival {
    /// Its target.
    pub target: String,
    /// Octets of its content that came for it, in their content coding: none for a copy that the
    /// client had.
    pub octets: Bytes,
    /// When its first octet was read: of the response that brought it, or where files come together
    /// of what stands for it there.
    pub started: Instant,
    /// When it was whole, or found current.
    pub usable: Instant,
    /// Octets read from all connections by then, heads and frames included, protection (TLS) not.
    pub read: Bytes,
    /// How it came.
    pub by: Delivery,
}

/// How a client came by a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// It was asked for, and had a response of its own.
    Singly,
    /// With others in one response: a package or an archive.
    Bundled,
    /// The server pushed it.
    Pushed,
    /// The client's copy is current, as the server said.
    Current,
    /// The client has a copy and did not ask.
    Cached,
}

/// One request and its response in the fixed width that a column of a table wants: what a load test
/// stores, where there may be a hundred million of them. Times are nanoseconds since the test's
/// origin; a time of zero means that it never came to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeRow {
    /// When the plan wanted it.
    pub planned: u64,
    /// When it was planned and a connection was free for it. Until then the server is to blame
    /// for waiting, from then on the generator.
    pub due: u64,
    /// When its first octet was handed to the transport.
    pub sent: u64,
    /// When the first octet of its response was read.
    pub first_byte: u64,
    /// When the last octet of its response was read, or when it failed.
    pub last_byte: u64,
    /// Its target's place in the plan.
    pub target: u32,
    /// Its page's place in the plan.
    pub page: u32,
    /// The user that asked: in a closed loop its number, in an open one the number of the arrival
    /// (modulo 2^32).
    pub user: u32,
    /// The connection it went over, numbered from 0 over the whole test; `u32::MAX` when there was
    /// none.
    pub connection: u32,
    /// Status code of the final response; zero when there was none.
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// Octets of the request's head.
    pub request_head: u32,
    /// Octets of the request's content.
    pub request_body: u64,
    /// Octets of the response's heads, interim responses included.
    pub response_head: u32,
    /// Octets of the response's content as transferred.
    pub response_body: u64,
    /// The phase of the test that it was planned in, and so belongs to.
    pub phase: TestPhase,
    /// When the measured phase begins: the same of all exchanges of a test.
    pub measured_from: u64,
}

/// A phase of a load test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TestPhase {
    /// Before the steady state.
    WarmUp,
    /// The steady state: what the figures are about.
    Measured,
    /// Afterwards, until what is in flight is done.
    Drain,
}

impl TestPhase {
    /// All of them, in order.
    pub const ALL: [TestPhase; 3] = [TestPhase::WarmUp, TestPhase::Measured, TestPhase::Drain];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            TestPhase::WarmUp => "warm-up",
            TestPhase::Measured => "measured",
            TestPhase::Drain => "drain",
        }
    }
}

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "failure")]
pub enum Outcome {
    /// The whole response arrived.
    Complete,
    /// It did not.
    Failed(Failure),
    /// It was given up and asked again on another connection, because the connection ended before
    /// any part of the response arrived.
    Retried(Failure),
}

/// Why an exchange or a connection failed. The peer's fault and our own are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// Nobody listens there, or the network said so.
    Refused,
    /// The peer reset the connection: what it had sent and the client had not read is lost.
    Reset,
    /// The peer closed the connection before this response began.
    ClosedEarly,
    /// The connection ended inside this response.
    Truncated,
    /// The response broke HTTP's syntax or framing.
    BadResponse,
    /// The peer reset this exchange's stream; the connection goes on.
    StreamReset,
    /// The peer said that it goes away (GOAWAY), and this exchange was not one of those it still
    /// carries out.
    GoneAway,
    /// TLS could not be established or was broken: a certificate that is not trusted, nothing in
    /// common, an alert from the peer, a record that cannot be opened.
    TlsFailed,
    /// The response went past a limit of this client (header size, body size).
    TooLarge,
    /// A time limit of this client passed.
    TimedOut,
    /// Not the peer's doing: this client gave up for reasons of its own.
    LocalAbort,
    /// Not the peer's doing: the local system refused (ports, descriptors, memory).
    LocalLimit,
}

impl Failure {
    /// Every one, in its order.
    pub const ALL: [Failure; 12] = [
        Failure::Refused,
        Failure::Reset,
        Failure::ClosedEarly,
        Failure::Truncated,
        Failure::BadResponse,
        Failure::StreamReset,
        Failure::GoneAway,
        Failure::TlsFailed,
        Failure::TooLarge,
        Failure::TimedOut,
        Failure::LocalAbort,
        Failure::LocalLimit,
    ];

    /// Its name in every record and file.
    pub const fn name(self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::ClosedEarly => "closed-early",
            Failure::Truncated => "truncated",
            Failure::BadResponse => "bad-response",
            Failure::StreamReset => "stream-reset",
            Failure::GoneAway => "gone-away",
            Failure::TlsFailed => "tls-failed",
            Failure::TooLarge => "too-large",
            Failure::TimedOut => "timed-out",
            Failure::LocalAbort => "local-abort",
            Failure::LocalLimit => "local-limit",
        }
    }

    /// What it means to whoever looks for the cause.
    pub const fn in_words(self) -> &'static str {
        match self {
            Failure::Refused => "nobody listens there, the backlog is full, or the network said no",
            Failure::Reset => "the server reset the connection",
            Failure::ClosedEarly => "the server closed the connection before answering",
            Failure::Truncated => "the connection ended inside a response",
            Failure::BadResponse => "the response broke HTTP's syntax or framing",
            Failure::StreamReset => {
                "the server reset the stream of the exchange and kept the connection"
            }
            Failure::GoneAway => "the server said that it goes away, and left the request alone",
            Failure::TlsFailed => "TLS could not be established with the server, or broke",
            Failure::TooLarge => "the response went past a limit of this client",
            Failure::TimedOut => "the time limit passed without a whole answer",
            Failure::LocalAbort => "this client ended the exchange itself",
            Failure::LocalLimit => "this system had no port, descriptor or memory left",
        }
    }

    /// Whether the peer is to blame, rather than this client or its system.
    pub const fn is_peers_fault(self) -> bool {
        !matches!(self, Failure::LocalAbort | Failure::LocalLimit)
    }
}

/// One transport connection, as the client saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// Counts connections of this replicate from 0 in the order they were opened.
    pub connection: u32,
    /// When the client asked for it.
    pub opened: Instant,
    /// When it was established, and could carry requests: with TLS after TLS's handshake, or before it
    /// where the first requests went as early data.
    pub established: Option<Instant>,
    /// When the client was done with it.
    pub closed: Option<Instant>,
    /// Exchanges completed on it.
    pub exchanges: u32,
    /// Bytes handed to the transport.
    pub sent: Bytes,
    /// Bytes read from the transport.
    pub received: Bytes,
    /// Why it ended.
    pub close: CloseReason,
    /// The name of the host it leads to, where a page's files are on several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What was spoken on it, as ALPN has it (`http/1.1`, `h2`, `h3`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The handshake that protects it; `None` in the clear. `sent` and `received` count what is
    /// within the protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsRecord>,
}

/// What became known of an alternative service of a host (RFC 7838), or became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceRecord {
    /// The host, as requests name it.
    pub host: String,
    /// When.
    pub at: Instant,
    /// What.
    pub news: ServiceNews,
    /// The port of the service, which speaks HTTP/3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// How long it may be used from then on, in seconds; of one that is known or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_s: Option<u64>,
    /// The connection that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// What it failed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// What there is to tell of an alternative service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceNews {
    /// It was known from an earlier visit when this one began.
    Known,
    /// A response has told of it.
    Found,
    /// A response has taken it back.
    Cleared,
    /// It could not be used, and was left alone from then on.
    Failed,
}

/// The handshake of a protected connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TlsRecord {
    /// When the transport below was established: TCP's handshake was done. With QUIC, when the first
    /// datagram was sent.
    pub begun: Instant,
    /// When the client could be sure of the server and the keys.
    pub finished: Instant,
    /// The version of TLS: `1.2`, `1.3`.
    pub version: String,
    /// The cipher suite, as the IANA names it.
    pub cipher_suite: String,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Whether data went before the handshake was done, and the server took it. `None`: not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_data: Option<bool>,
    /// Round trips before the first request could leave.
    pub round_trips: u32,
    /// Octets of the handshake that the client sent: of records, or with QUIC of datagrams.
    pub sent: Bytes,
    /// Octets of the handshake that it received.
    pub received: Bytes,
    /// Octets of the server's certificates, as sent.
    pub certificates: Bytes,
}

/// Why a connection ended. Every close has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason", content = "failure")]
pub enum CloseReason {
    /// The client had nothing more to ask.
    Finished,
    /// The server said `Connection: close` (or is HTTP/1.0 without keep-alive) and closed.
    ServerAsked,
    /// The server closed an idle persistent connection.
    ServerIdle,
    /// The server closed while it owed responses.
    ServerEarly,
    /// It failed.
    Failed(Failure),
    /// Still open when the replicate ended.
    Open,
}

/// The levels of the factors that make a cell: `policy`, `visit`, `path`, `era`, `server` and
/// whatever else the study varies, each a word.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellKey(pub BTreeMap<String, String>);

impl CellKey {
    /// The level of a factor; `None` when the study has no such factor.
    pub fn level(&self, factor: &str) -> Option<&str> {
        self.0.get(factor).map(String::as_str)
    }
}

/// `era=1997 path=ppp policy=h1.1`: factors in alphabetical order.
impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (factor, level)) in self.0.iter().enumerate() {
            let space = if n == 0 { "" } else { " " };
            write!(f, "{space}{factor}={level}")?;
        }
        Ok(())
    }
}

/// Whether a measurement may be believed, and if not, why not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// Every reason against it, each a sentence with its figure and its limit. Empty: valid.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Whether nothing speaks against it.
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Notes a reason against it.
    pub fn invalidate(&mut self, reason: impl Into<String>) {
        self.reasons.push(reason.into());
    }
}

/// What the path did to one direction of a replicate, and how exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionCertificate {
    /// Packets that entered.
    pub packets_in: u64,
    /// Packets that were delivered, duplicates included.
    pub packets_out: u64,
    /// Octets of IP packets that entered.
    pub bytes_in: Bytes,
    /// Octets of IP packets that were delivered.
    pub bytes_out: Bytes,
    /// Packets dropped because the experiment asked for it, by cause (`queue-full`, `loss`,
    /// `drop-list`, `codel`).
    pub drops: BTreeMap<String, u64>,
    /// Packets lost that nobody asked to lose (a full device ring, a refused write).
    pub unasked_drops: u64,
    /// Median lateness of a delivery: actual minus scheduled, in nanoseconds.
    pub lateness_p50_ns: u64,
    /// Its 99th percentile.
    pub lateness_p99_ns: u64,
    /// Its maximum.
    pub lateness_max_ns: u64,
}

/// The proof of the path's exactness in one replicate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathCertificate {
    /// From the client to the server.
    pub up: DirectionCertificate,
    /// From the server to the client.
    pub down: DirectionCertificate,
}

/// One repetition of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicateRecord {
    /// The study's block that asked for this cell (`main`, `nagle`, `flush` …).
    pub block: String,
    /// Which cell.
    pub cell: CellKey,
    /// Which repetition, from 0.
    pub replicate: u32,
    /// The seed its random decisions came from.
    pub seed: u64,
    /// Place in the order of execution, from 0.
    pub order: u32,
    /// Start, in seconds since the Unix epoch.
    pub started: f64,
    /// What was measured, by name; the unit is the suffix (`elapsed_s`, `packets`,
    /// `payload_bytes`, `overhead_pct`). A metric that could not be measured is absent.
    pub metrics: BTreeMap<String, f64>,
    /// The path's certificate.
    pub path: PathCertificate,
    /// Whether the figures may be believed.
    pub validity: Validity,
    /// Where its exchanges and its capture are, relative to the run's folder.
    pub folder: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_listed_in_their_order_and_named_as_they_are_written() {
        for (place, failure) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(failure as usize, place);
            assert_eq!(serde_json::to_value(failure).unwrap(), failure.name());
        }
    }
}
