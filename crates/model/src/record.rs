//! The records of a run. Every record is a JSON object on one line (`*.ndjson`). pandas
//! (`read_json(lines=True)`) and DuckDB (`read_ndjson`) read these files directly.
//!
//! Times are [`Instant`]s: nanoseconds since the origin of the replicate. The capture file of the replicate has the
//! wall-clock time of the origin.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Bytes, Instant};

/// One request and its response, as the client recorded them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExchangeRecord {
    /// The index of the exchange in this replicate, from 0, in the order in which exchanges were planned.
    pub exchange: u32,
    /// The connection of the exchange; see [`ConnectionRecord::connection`].
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
    /// The size of the request's header section: request line, header fields and the blank line.
    pub request_head: Bytes,
    /// The size of the request content, including the transfer coding.
    pub request_body: Bytes,
    /// The size of the response's header sections: status line, header fields and the blank line, including interim responses.
    pub response_head: Bytes,
    /// The size of the response content as transferred, including content coding and transfer coding.
    pub response_body: Bytes,
    /// The status code of the final response.
    pub status: Option<u16>,
    /// How the exchange ended.
    pub outcome: Outcome,
    /// The size of the names and values of the request's fields before compression, including pseudo-fields; `None`
    /// if fields are not compressed (HTTP/1.x).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_fields: Option<Bytes>,
    /// The size of the names and values of the response's fields before compression; `None` as for the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_fields: Option<Bytes>,
    /// The target of the file that refers to this one; `None` for a page's base file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_by: Option<String>,
    /// Whether the response was pushed: the server promised it, and the client did not request it. `sent` is then the time
    /// at which the client read the promise, and the request has no bytes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pushed: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Reads metrics by their current names: in records of versions before 0.3, names have `octets` instead of `bytes`.
fn metrics_by_name<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let read = BTreeMap::<String, f64>::deserialize(from)?;
    let by_present_name = |(name, value): (String, f64)| (name.replace("octets", "bytes"), value);
    Ok(read.into_iter().map(by_present_name).collect())
}

/// A file that a retrieval fetched or used, and the time at which the client could use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileArrival {
    /// The request target of the file.
    pub target: String,
    /// The content bytes that were transferred for the file, after content coding; 0 if the client had the file in its
    /// cache.
    // Runs of older versions have the name `octets`.
    #[serde(alias = "octets")]
    pub bytes: Bytes,
    /// When the first byte of the file was read. In a package or an archive: the first byte of the file's part of the
    /// response.
    pub started: Instant,
    /// When the file was complete, or validated as current.
    pub usable: Instant,
    /// The bytes read from all connections until the file was usable, including header sections and frames, excluding TLS.
    pub read: Bytes,
    /// How the file was delivered.
    pub by: Delivery,
}

/// How a client obtained a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// The file was requested, and had its own response.
    Singly,
    /// The file was part of a response with several files: a package or an archive.
    Bundled,
    /// The server pushed the file.
    Pushed,
    /// The server confirmed that the client's cached copy is current.
    Current,
    /// The client used its cached copy without a request.
    Cached,
}

/// One request and its response, as a row with columns of fixed width. A load test may store a hundred million of these
/// rows. Times are nanoseconds since the test's origin; 0 means that the event did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeRow {
    /// The planned time.
    pub planned: u64,
    /// The time from which the generator could send the request: it was planned, its user or session could continue,
    /// and a connection was free. The server causes the wait before this time; the generator causes the wait after this
    /// time.
    pub due: u64,
    /// When the first byte of the request was passed to the transport.
    pub sent: u64,
    /// When the first byte of the response was read.
    pub first_byte: u64,
    /// When the last byte of the response was read, or when the exchange failed.
    pub last_byte: u64,
    /// The index of the target in the plan.
    pub target: u32,
    /// The index of the page in the plan.
    pub page: u32,
    /// The user that sent the request. Closed loop: the user's number; open loop: the number of the arrival
    /// (modulo 2^32).
    pub user: u32,
    /// The number of the connection, counted from 0 over the whole test; `u32::MAX` if the exchange had no connection.
    pub connection: u32,
    /// The status code of the final response; 0 if there was no response.
    pub status: u16,
    /// How the exchange ended.
    pub outcome: Outcome,
    /// The size of the request's header section, in bytes.
    pub request_head: u32,
    /// The size of the request content, in bytes.
    pub request_body: u64,
    /// The size of the response's header sections, including interim responses, in bytes.
    pub response_head: u32,
    /// The size of the response content as transferred, in bytes.
    pub response_body: u64,
    /// The phase of the test in which the exchange was planned; the exchange belongs to this phase.
    pub phase: TestPhase,
    /// The start of the measured phase, which is the same for all exchanges of a test.
    pub measured_from: u64,
}

/// A phase of a load test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TestPhase {
    /// Before the steady state.
    WarmUp,
    /// The steady state: all figures cover only this phase.
    Measured,
    /// After the measured phase, until the exchanges in flight are complete.
    Drain,
}

impl TestPhase {
    /// All phases, in order.
    pub const ALL: [TestPhase; 3] = [TestPhase::WarmUp, TestPhase::Measured, TestPhase::Drain];

    /// The name of the phase in files.
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
    /// The exchange failed.
    Failed(Failure),
    /// The exchange was retried on another connection, because its connection was closed before any part of the
    /// response arrived.
    Retried(Failure),
}

/// Why an exchange or a connection failed. Failures of the peer and of this client are distinct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// No process listens on the port, or the network rejected the connection.
    Refused,
    /// The peer reset the connection. Data that the peer had sent, but the client had not read, is lost.
    Reset,
    /// The peer closed the connection before this response began.
    ClosedEarly,
    /// The connection was closed inside this response.
    Truncated,
    /// The response violated HTTP's syntax or framing.
    BadResponse,
    /// The peer reset this exchange's stream; the connection stays open.
    StreamReset,
    /// The peer sent GOAWAY, and did not process this exchange.
    GoneAway,
    /// TLS could not be established or failed later: an untrusted certificate, no common parameters, an alert from
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

    /// The name of the failure in all records and files.
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

    /// The meaning of the failure, as text for people.
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

/// One transport connection, as the client recorded it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// The index of the connection in this replicate, from 0, in the order in which connections were opened.
    pub connection: u32,
    /// When the client started to open the connection.
    pub opened: Instant,
    /// When the connection was established and could carry requests. With TLS: after the TLS handshake, or before the end of
    /// the handshake if the first requests were sent as early data.
    pub established: Option<Instant>,
    /// When the client stopped using the connection.
    pub closed: Option<Instant>,
    /// The number of exchanges that were completed on the connection.
    pub exchanges: u32,
    /// The bytes that were passed to the transport.
    pub sent: Bytes,
    /// The bytes that were read from the transport.
    pub received: Bytes,
    /// Why the connection was closed.
    pub close: CloseReason,
    /// The host at the other end, if a page's files are on several hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The protocol on the connection, as its ALPN name (`http/1.1`, `h2`, `h3`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The TLS handshake of the connection; `None` without TLS. `sent` and `received` count plaintext bytes
    /// inside TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsRecord>,
    /// The server's waits for a flow-control window of the client, in HTTP/2 (RFC 9113 section 5.2) or HTTP/3 (RFC 9000
    /// section 4.1), in the order in which they ended; at most 10 000 between two reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window_waits: Vec<WindowWait>,
}

/// A wait of an HTTP/2 or HTTP/3 server for a flow-control window of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowWait {
    /// The exchange whose stream had the window; see [`ExchangeRecord::exchange`]. `None` for the window of the connection,
    /// which stops all exchanges on the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<u32>,
    /// When the client read the last byte that the window permitted.
    pub from: Instant,
    /// When the client extended the window. Further bytes can arrive a round trip later at the earliest. The server may also
    /// have other reasons to wait.
    pub granted: Instant,
    /// When the client read the next byte.
    pub to: Instant,
}

/// An event of an alternative service of a host (RFC 7838): discovery, withdrawal or failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceRecord {
    /// The host, as named in requests.
    pub host: String,
    /// The time of the event.
    pub at: Instant,
    /// The kind of the event.
    pub news: ServiceEvent,
    /// The port of the service, which serves HTTP/3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The time for which the service may be used after this event, in seconds; set for `Known` and `Found`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_s: Option<u64>,
    /// The connection that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// Why the connection failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The kinds of events of an alternative service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceEvent {
    /// The service was cached from an earlier visit when this visit began.
    Known,
    /// A response advertised the service.
    Found,
    /// A response withdrew the service.
    Cleared,
    /// The service could not be used, and was not tried again.
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
    /// Whether the server accepted the early data that was sent before the handshake was complete. `None` if no early data
    /// was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_data: Option<bool>,
    /// The number of round trips before the first request could be sent.
    pub round_trips: u32,
    /// The bytes of the handshake that the client sent: bytes of TLS records, or of datagrams with QUIC.
    pub sent: Bytes,
    /// The bytes of the handshake that the client received.
    pub received: Bytes,
    /// The bytes of the server's certificates, as sent.
    pub certificates: Bytes,
}

/// Why a connection was closed.
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
    /// The connection failed.
    Failed(Failure),
    /// The connection was still open when the replicate ended.
    Open,
}

/// The levels of the factors that define a cell: `policy`, `visit`, `path`, `era`, `server` and any other
/// factor of the study. Each level is a word.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellKey(pub BTreeMap<String, String>);

impl CellKey {
    /// Returns the level of a factor; `None` if the cell has no such factor.
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
    /// The reasons why the measurement is invalid, each a sentence with the figure and its limit. Empty if it is valid.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Whether the measurement is valid.
    pub fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Makes the measurement invalid, for this reason.
    pub fn invalidate(&mut self, reason: impl Into<String>) {
        self.reasons.push(reason.into());
    }
}

/// The path's counts of packets in one direction of a replicate, and the lateness of the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionCertificate {
    /// The number of packets that entered the path.
    pub packets_in: u64,
    /// The number of packets that were delivered, including duplicates.
    pub packets_out: u64,
    /// The bytes of the IP packets that entered the path.
    pub bytes_in: Bytes,
    /// The bytes of the IP packets that were delivered.
    pub bytes_out: Bytes,
    /// The number of packets that the profile dropped, by cause (`queue-full`, `loss`, `drop-list`, `codel`).
    pub drops: BTreeMap<String, u64>,
    /// The number of unintended packet losses (a full device ring, a failed write).
    pub unasked_drops: u64,
    /// The median lateness of a delivery (actual minus scheduled time), in nanoseconds.
    pub lateness_p50_ns: u64,
    /// The 99th percentile of the lateness, in nanoseconds.
    pub lateness_p99_ns: u64,
    /// The maximum lateness, in nanoseconds.
    pub lateness_max_ns: u64,
}

/// The evidence that the path was exact in one replicate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathCertificate {
    /// The direction from the client to the server.
    pub up: DirectionCertificate,
    /// The direction from the server to the client.
    pub down: DirectionCertificate,
}

/// One replicate of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicateRecord {
    /// The study's block that contains this cell (`main`, `nagle`, `flush` …).
    pub block: String,
    /// The cell.
    pub cell: CellKey,
    /// The number of the replicate, from 0.
    pub replicate: u32,
    /// The seed of the replicate's random decisions.
    pub seed: u64,
    /// The position in the order of execution, from 0.
    pub order: u32,
    /// The start, in seconds since the Unix epoch.
    pub started: f64,
    /// The measured values, by name; the suffix is the unit (`elapsed_s`, `packets`, `payload_bytes`,
    /// `overhead_pct`). A metric that could not be measured is absent.
    #[serde(deserialize_with = "metrics_by_name")]
    pub metrics: BTreeMap<String, f64>,
    /// The path's certificate.
    pub path: PathCertificate,
    /// Whether the figures are valid.
    pub validity: Validity,
    /// The folder of the replicate's files, relative to the run's folder.
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
