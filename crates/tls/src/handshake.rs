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
    /// The group of the key exchange. `None` if there was no key exchange (a resumed TLS 1.2 session).
    pub group: Option<Group>,
    /// The server's signature scheme: the name in RFC 8446 section 4.2.3, in lower case (`ecdsa_secp256r1_sha256`).
    /// `None` for a resumed session, which has no signature.
    pub signature_scheme: Option<&'static str>,
    /// The kind of resumption of an earlier session, or a full handshake.
    pub resumption: Resumption,
    /// The outcome of early data.
    pub early_data: EarlyData,
    /// The protocol negotiated by ALPN (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The server name that the client requested (SNI, RFC 6066); `None` if there was no request, for example for an IP
    /// address.
    pub server_name: Option<String>,
    /// The size of the handshake records that this side sent until the session was established. Record headers and
    /// authentication tags are included; alerts and early data are not.
    pub sent: Bytes,
    /// The size of the handshake records that this side received until the session was established.
    pub received: Bytes,
    /// The size of the server's certificates as they were sent (in DER); 0 for a resumed session.
    pub certificates: Bytes,
    /// The number of round trips between this side's first byte and its first byte of application data:
    ///
    /// - client: 0 with accepted early data; 1 in TLS 1.3 and in a resumed TLS 1.2 session; 2 in a full TLS 1.2
    ///   handshake or after a HelloRetryRequest;
    /// - server: 0 with accepted early data; otherwise 1, or 2 after a HelloRetryRequest.
    ///
    /// The round trip of the transport's own handshake is not included.
    pub round_trips: u8,
    /// Whether the server requested a different key share (HelloRetryRequest, RFC 8446 section 4.1.4), which adds a
    /// round trip.
    pub hello_retry: bool,
}

/// The start of a session: a full handshake, or a kind of resumption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// A full handshake, without an earlier session.
    Full,
    /// TLS 1.2, with the ID of a session that the server stored.
    SessionId,
    /// TLS 1.2, with a ticket that the client stored (RFC 5077).
    Ticket,
    /// TLS 1.3, with a pre-shared key from a ticket.
    Psk,
}

/// The outcome of early data, which is sent before the handshake is complete (RFC 8446 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// The client offered no early data.
    NotTried,
    /// The server accepted the early data.
    Accepted,
    /// The server rejected the early data. The client must send the data again.
    Rejected,
}

/// The size of the records in one direction, by content type. The size of a record includes its header (5 bytes) and
/// the overhead of encryption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records of the handshake and `change_cipher_spec` records, including later session tickets and key updates.
    pub handshake: Bytes,
    /// Records of alerts, including `close_notify`.
    pub alerts: Bytes,
    /// Records of application data, including early data.
    pub application: Bytes,
    /// The application data in the `application` records. The difference from `application` is record overhead.
    pub content: Bytes,
    /// The number of records of application data.
    pub application_records: u64,
    /// The number of all records.
    pub records: u64,
}

impl Traffic {
    /// The size of all records.
    pub fn total(&self) -> Bytes {
        self.handshake + self.alerts + self.application
    }
}
