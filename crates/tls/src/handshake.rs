//! The negotiated parameters of a connection, and the cost of its handshake.

use fathometer_model::Bytes;

use crate::{CipherSuite, Group, Version};

/// The negotiated parameters and the cost of a completed handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// The negotiated version.
    pub version: Version,
    /// The negotiated cipher suite.
    pub cipher_suite: CipherSuite,
    /// The group of the key exchange; `None` without a key exchange (a resumed TLS 1.2 session).
    pub group: Option<Group>,
    /// The server's signature scheme, by its name in RFC 8446 section 4.2.3 in lower case
    /// (`ecdsa_secp256r1_sha256`); `None` for a resumed session, which has no signature.
    pub signature_scheme: Option<&'static str>,
    /// Whether an earlier session was resumed, and how.
    pub resumption: Resumption,
    /// The outcome of data sent before the handshake was complete.
    pub early_data: EarlyData,
    /// The protocol negotiated by ALPN (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The name that the client requested (SNI, RFC 6066); `None` if it requested none, for example for an IP address.
    pub server_name: Option<String>,
    /// The bytes of handshake records that this side sent until the session was established. Headers and tags are
    /// included; alerts and early data are not.
    pub sent: Bytes,
    /// The bytes of handshake records that this side received until the session was established.
    pub received: Bytes,
    /// The bytes of the server's certificates as they were sent (their DER encodings); 0 for a resumed session.
    pub certificates: Bytes,
    /// The round trips from this side's first byte until it could send its first byte of application data. Clients:
    /// 0 with accepted early data; 1 in TLS 1.3 and in a resumed TLS 1.2 session; 2 in a full TLS 1.2 handshake or
    /// after a HelloRetryRequest. Servers: 0 with accepted early data; otherwise 1, or 2 after a HelloRetryRequest.
    /// The transport's own round trip is not included.
    pub round_trips: u8,
    /// Whether the server requested another key share (HelloRetryRequest, RFC 8446 section 4.1.4), which costs a round
    /// trip.
    pub hello_retry: bool,
}

/// How a session started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// A full handshake, without an earlier session.
    Full,
    /// TLS 1.2, with the ID of a session that the server stores.
    SessionId,
    /// TLS 1.2, with a ticket that the client stores (RFC 5077).
    Ticket,
    /// TLS 1.3, with a pre-shared key from a ticket.
    Psk,
}

/// The outcome of data sent before the handshake was complete (RFC 8446 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// The client offered no early data.
    NotTried,
    /// The server accepted the early data.
    Accepted,
    /// The server rejected the early data: the client must send it again.
    Rejected,
}

/// The bytes of records in one direction, by content. Each record includes its header of 5 bytes and the overhead of
/// encryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records of the handshake and of `change_cipher_spec`, including later session tickets and key updates.
    pub handshake: Bytes,
    /// Records of alerts, including `close_notify`.
    pub alerts: Bytes,
    /// Records of application data, including early data.
    pub application: Bytes,
    /// The application data in these records. The difference from `application` is record overhead.
    pub content: Bytes,
    /// The number of records of application data.
    pub application_records: u64,
    /// The number of all records.
    pub records: u64,
}

impl Traffic {
    /// Returns the bytes of all records.
    pub fn total(&self) -> Bytes {
        self.handshake + self.alerts + self.application
    }
}
