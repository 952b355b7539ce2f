//! What a run stores. Every record is one JSON object on one line (`*.ndjson`), which pandas
//! (`read_json(lines=True)`) and DuckDB (`read_ndjson`) open directly.
//!
//! Times are [`Instant`]s: nanoseconds since the origin of the replicate, which its capture file
//! states in wall-clock time.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Bytes, Instant};

/// One request and its response, as the client saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExchangeRecord {
    /// Index of the exchange in this replicate, from 0, in the order in which exchanges were planned.
    pub exchange: u32,
    /// The connection that carried it; [`ConnectionRecord::connection`].
    pub connection: u32,
    /// The request method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// When the client first needed this file.
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
    /// The same for the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_fields: Option<Bytes>,
    /// The target of the file that refers to this one; `None` for a page's base file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_by: Option<String>,
    /// Whether the server pushed it: promised by the server and not requested. `sent` is then the time when
    /// the promise was read, and the request has no bytes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pushed: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Reads metrics by their present names: records of versions before 0.3 have `octets` where names now have `bytes`.
fn metrics_by_name<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let read = BTreeMap::<String, f64>::deserialize(from)?;
    let by_present_name = |(name, value): (String, f64)| (name.replace("octets", "bytes"), value);
    Ok(read.into_iter().map(by_present_name).collect())
}

/// One file that a retrieval fetched or used, and when the client could use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileArrival {
    /// Its target.
    pub target: String,
    /// Bytes of its content that were transferred for it, in their content coding: none for a copy that the
    /// client had.
    // Runs of older versions name it `bytes`.
    #[serde(alias = "octets")]
    pub bytes: Bytes,
    /// When its first byte was read. In a package or an archive: the first byte of this file's part of the
    /// response.
    pub started: Instant,
    /// When it was complete, or validated as current.
    pub usable: Instant,
    /// Bytes read from all connections by then, including heads and frames, excluding TLS.
    pub read: Bytes,
    /// How it was delivered.
    pub by: Delivery,
}

/// How a client obtained a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// It was requested, and had a response of its own.
    Singly,
    /// With others in one response: a package or an archive.
    Bundled,
    /// The server pushed it.
    Pushed,
    /// The client's copy is current: the server confirmed it.
    Current,
    /// The client has a copy and sent no request.
    Cached,
}

/// One request and its response, in the fixed width of a table's columns. A load test stores these, and there
/// may be a hundred million of them. Times are nanoseconds since the test's origin; zero means that the event
/// did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeRow {
    /// The planned time.
    pub planned: u64,
    /// When it was planned and a connection was free for it. Waiting before this instant is caused by the
    /// server, waiting after it by the generator.
    pub due: u64,
    /// When its first byte was handed to the transport.
    pub sent: u64,
    /// When the first byte of its response was read.
    pub first_byte: u64,
    /// When the last byte of its response was read, or when it failed.
    pub last_byte: u64,
    /// The index of its target in the plan.
    pub target: u32,
    /// The index of its page in the plan.
    pub page: u32,
    /// The user that sent the request. Closed loop: the user's number; open loop: the number of the arrival
    /// (modulo 2^32).
    pub user: u32,
    /// The connection that carried it, numbered from 0 over the whole test; `u32::MAX` when there was none.
    pub connection: u32,
    /// Status code of the final response; zero when there was none.
    pub status: u16,
    /// How it ended.
    pub outcome: Outcome,
    /// Bytes of the request's head.
    pub request_head: u32,
    /// Bytes of the request's content.
    pub request_body: u64,
    /// Bytes of the response's heads, interim responses included.
    pub response_head: u32,
    /// Bytes of the response's content as transferred.
    pub response_body: u64,
    /// The phase of the test in which it was planned; the exchange belongs to this phase.
    pub phase: TestPhase,
    /// When the measured phase begins: the same for all exchanges of a test.
    pub measured_from: u64,
}

/// A phase of a load test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TestPhase {
    /// Before the steady state.
    WarmUp,
    /// The steady state: all figures are of this phase.
    Measured,
    /// After the measured phase, until the exchanges in flight are complete.
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
    /// The complete response arrived.
    Complete,
    /// It failed.
    Failed(Failure),
    /// It was abandoned and retried on another connection, because the connection ended before any part of
    /// the response arrived.
    Retried(Failure),
}

/// Why an exchange or a connection failed. Failures of the peer and of this client are distinct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// No process listens on the port, or the network rejected the connection.
    Refused,
    /// The peer reset the connection. Data that it had sent and the client had not read is lost.
    Reset,
    /// The peer closed the connection before this response began.
    ClosedEarly,
    /// The connection ended inside this response.
    Truncated,
    /// The response broke HTTP's syntax or framing.
    BadResponse,
    /// The peer reset this exchange's stream; the connection stays open.
    StreamReset,
    /// The peer sent GOAWAY, and this exchange was not one of those that it still serves.
    GoneAway,
    /// TLS could not be established or broke: an untrusted certificate, no common parameters, an alert from
    /// the peer, or a record that cannot be decrypted.
    TlsFailed,
    /// The response exceeded a limit of this client (header size, body size).
    TooLarge,
    /// A time limit of this client expired.
    TimedOut,
    /// Not caused by the peer: this client aborted the exchange itself.
    LocalAbort,
    /// Not caused by the peer: a limit of the local system was reached (ports, descriptors, memory).
    LocalLimit,
}

impl Failure {
    /// All failures, in order of declaration.
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

    /// Its name in all records and files.
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

    /// What it means, for a person who looks for the cause.
    pub const fn in_words(self) -> &'static str {
        match self {
            Failure::Refused => "no process listens, the backlog is full, or the network refused",
            Failure::Reset => "the server reset the connection",
            Failure::ClosedEarly => "the server closed the connection before answering",
            Failure::Truncated => "the connection ended inside a response",
            Failure::BadResponse => "the response violated HTTP's syntax or framing",
            Failure::StreamReset => {
                "the server reset the stream of the exchange and kept the connection"
            }
            Failure::GoneAway => "the server sent GOAWAY and did not process the request",
            Failure::TlsFailed => "the TLS handshake with the server or the TLS session failed",
            Failure::TooLarge => "the response exceeded a limit of this client",
            Failure::TimedOut => "the time limit expired before the response was complete",
            Failure::LocalAbort => "this client aborted the exchange",
            Failure::LocalLimit => "this system has no port, descriptor or memory left",
        }
    }
}

/// One transport connection, as the client saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// Index of the connection in this replicate, from 0, in the order in which connections were opened.
    pub connection: u32,
    /// When the client started to open it.
    pub opened: Instant,
    /// When it was established and could carry requests. With TLS: after the TLS handshake, or before its end
    /// when the first requests were sent as early data.
    pub established: Option<Instant>,
    /// When the client had finished with it.
    pub closed: Option<Instant>,
    /// Exchanges completed on it.
    pub exchanges: u32,
    /// Bytes handed to the transport.
    pub sent: Bytes,
    /// Bytes read from the transport.
    pub received: Bytes,
    /// Why it ended.
    pub close: CloseReason,
    /// The host it leads to, when a page's files are on several hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The protocol on it, as its ALPN name (`http/1.1`, `h2`, `h3`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The TLS handshake of the connection; `None` without TLS. `sent` and `received` count plaintext bytes
    /// inside TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsRecord>,
    /// When the server waited for a window of HTTP/2 (RFC 9113 section 5.2) or HTTP/3 (RFC 9000 section 4.1) that the
    /// client had granted, in the order of the ends of the waits; at most 10 000 between two reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window_waits: Vec<WindowWait>,
}

/// A wait of an HTTP/2 or HTTP/3 server for a window of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowWait {
    /// The exchange whose stream had the window; [`ExchangeRecord::exchange`]. `None` for the window of the connection,
    /// which stops all exchanges on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<u32>,
    /// When the client read the last byte that the window allowed.
    pub from: Instant,
    /// When the client granted more. Bytes could arrive a round trip later, even if the server had other reasons to
    /// wait.
    pub granted: Instant,
    /// When the client read the next byte.
    pub to: Instant,
}

/// An event of an alternative service of a host (RFC 7838): discovery, withdrawal or failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceRecord {
    /// The host, as named in requests.
    pub host: String,
    /// When it happened.
    pub at: Instant,
    /// What happened.
    pub news: ServiceEvent,
    /// The port of the service, which serves HTTP/3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// For how many seconds the service may be used from then on; set for `Known` and `Found`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_s: Option<u64>,
    /// The connection that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The kinds of events of an alternative service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceEvent {
    /// It was cached from an earlier visit when this one began.
    Known,
    /// A response advertised it.
    Found,
    /// A response withdrew it.
    Cleared,
    /// It could not be used, and was not tried again.
    Failed,
}

/// The TLS handshake of a connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TlsRecord {
    /// When the transport below was established, after the TCP handshake. With QUIC: when the first datagram
    /// was sent.
    pub begun: Instant,
    /// When the client had authenticated the server and confirmed the keys.
    pub finished: Instant,
    /// The version of TLS: `1.2`, `1.3`.
    pub version: String,
    /// The IANA name of the cipher suite.
    pub cipher_suite: String,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Whether early data was sent before the handshake was complete and the server accepted it. `None`: not
    /// tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_data: Option<bool>,
    /// Round trips before the first request could be sent.
    pub round_trips: u32,
    /// Bytes of the handshake that the client sent: bytes of TLS records, or with QUIC of datagrams.
    pub sent: Bytes,
    /// Bytes of the handshake that it received.
    pub received: Bytes,
    /// Bytes of the server's certificates, as sent.
    pub certificates: Bytes,
}

/// Why a connection ended. Every close has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason", content = "failure")]
pub enum CloseReason {
    /// The client had no more requests.
    Finished,
    /// The server sent `Connection: close` (or is HTTP/1.0 without keep-alive) and closed.
    ServerAsked,
    /// The server closed an idle persistent connection.
    ServerIdle,
    /// The server closed while responses were outstanding.
    ServerEarly,
    /// It failed.
    Failed(Failure),
    /// Still open when the replicate ended.
    Open,
}

/// The levels of the factors that define a cell: `policy`, `visit`, `path`, `era`, `server` and any other
/// factor of the study. Each level is a word.
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

/// Whether a measurement is valid, and the reasons if it is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validity {
    /// The reasons why it is invalid, each a sentence with its figure and its limit. Empty: valid.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Whether there is no reason against it.
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Adds a reason against it.
    pub fn invalidate(&mut self, reason: impl Into<String>) {
        self.reasons.push(reason.into());
    }
}

/// What the path did to one direction of a replicate, and how precisely.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionCertificate {
    /// Packets that entered.
    pub packets_in: u64,
    /// Packets that were delivered, duplicates included.
    pub packets_out: u64,
    /// Bytes of IP packets that entered.
    pub bytes_in: Bytes,
    /// Bytes of IP packets that were delivered.
    pub bytes_out: Bytes,
    /// Packets dropped as the experiment specifies, by cause (`queue-full`, `loss`, `drop-list`, `codel`).
    pub drops: BTreeMap<String, u64>,
    /// Packets lost without being specified (a full device ring, a failed write).
    pub unasked_drops: u64,
    /// Median lateness of a delivery: actual minus scheduled, in nanoseconds.
    pub lateness_p50_ns: u64,
    /// Its 99th percentile.
    pub lateness_p99_ns: u64,
    /// Its maximum.
    pub lateness_max_ns: u64,
}

/// The evidence that the path was exact in one replicate.
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
    /// The study's block that contains this cell (`main`, `nagle`, `flush` …).
    pub block: String,
    /// The cell.
    pub cell: CellKey,
    /// Index of the repetition, from 0.
    pub replicate: u32,
    /// The seed of its random decisions.
    pub seed: u64,
    /// Place in the order of execution, from 0.
    pub order: u32,
    /// Start, in seconds since the Unix epoch.
    pub started: f64,
    /// The measured values, by name; the suffix is the unit (`elapsed_s`, `packets`, `payload_bytes`,
    /// `overhead_pct`). A metric that could not be measured is absent.
    #[serde(deserialize_with = "metrics_by_name")]
    pub metrics: BTreeMap<String, f64>,
    /// The path's certificate.
    pub path: PathCertificate,
    /// Whether the figures are valid.
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

    #[test]
    fn metrics_of_older_records_have_their_present_names() {
        #[derive(Deserialize)]
        struct Record {
            #[serde(deserialize_with = "metrics_by_name")]
            metrics: BTreeMap<String, f64>,
        }
        let old = r#"{"metrics": {"head_octets_per_exchange": 75.5, "packets": 3}}"#;
        let Record { metrics } = serde_json::from_str(old).unwrap();
        assert_eq!(metrics["head_bytes_per_exchange"], 75.5);
        assert_eq!(metrics["packets"], 3.0);
        assert_eq!(metrics.len(), 2);
    }
}
