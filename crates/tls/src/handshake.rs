//! What a connection negotiated, and its cost.

use fathometer_model::Bytes;

use crate::{CipherSuite, Group, Version};

/// A completed handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// The negotiated version.
    pub version: Version,
    /// The negotiated cipher suite.
    pub cipher_suite: CipherSuite,
    /// The group of the key exchange; `None` when there was none (a resumed TLS 1.2 session).
    pub group: Option<Group>,
    /// The scheme of the server's signature, by its name in RFC 8446 section 4.2.3 in lower case
    /// (`ecdsa_secp256r1_sha256`); `None` for a resumed session, which has no signature.
    pub signature_scheme: Option<&'static str>,
    /// Whether an earlier session was resumed, and how.
    pub resumption: Resumption,
    /// The outcome of data sent before the handshake was complete.
    pub early_data: EarlyData,
    /// The protocol negotiated by ALPN (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The name that the client requested (SNI, RFC 6066); `None` when it requested none, as with an address.
    pub server_name: Option<String>,
    /// Bytes of handshake records that this side sent until the session was established. Includes their headers
    /// and tags, but no alerts and no early data.
    pub sent: Bytes,
    /// Bytes of handshake records that it received until then.
    pub received: Bytes,
    /// Bytes of the server's certificates as they were sent (their DER encodings); zero for a resumed session.
    pub certificates: Bytes,
    /// Round trips from this side's first byte until it could send its first byte of application data. Clients:
    /// 0 with accepted early data, 1 in TLS 1.3 and in a resumed TLS 1.2 session, 2 in TLS 1.2 or after a retry
    /// request. Servers: 1 (or 2) in every version, 0 when they may answer early data at once. The transport's
    /// own round trip is not included.
    pub round_trips: u8,
    /// Whether the server requested another key share (RFC 8446 section 4.1.4), which costs a round trip.
    pub hello_retry: bool,
}

/// How a session started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// A full handshake, without an earlier session.
    Full,
    /// TLS 1.2, by the ID of a session that the server keeps.
    SessionId,
    /// TLS 1.2, by a ticket that the client keeps (RFC 5077).
    Ticket,
    /// TLS 1.3, by a pre-shared key from a ticket.
    Psk,
}

/// The outcome of data sent before the handshake was complete (RFC 8446 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// The client offered none.
    NotTried,
    /// The server accepted it.
    Accepted,
    /// The server rejected it: the client has to send it again.
    Rejected,
}

/// Bytes of records in one direction, by their content. Each record includes its header of 5 bytes and the
/// overhead of encryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records of the handshake and of `change_cipher_spec`, including later session tickets and key updates.
    pub handshake: Bytes,
    /// Records of alerts, including `close_notify`.
    pub alerts: Bytes,
    /// Records of application data, including early data.
    pub application: Bytes,
    /// The application data in them. The difference to `application` is record overhead.
    pub content: Bytes,
    /// Number of records of application data.
    pub application_records: u64,
    /// Number of all records.
    pub records: u64,
}

impl Traffic {
    /// Bytes of all records.
    pub fn total(&self) -> Bytes {
        self.handshake + self.alerts + self.application
    }
}
