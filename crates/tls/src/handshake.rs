//! What a connection agreed on, and what that cost.

use fathometer_model::Bytes;

use crate::{CipherSuite, Group, Version};

/// One handshake that was completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// The version agreed on.
    pub version: Version,
    /// The cipher suite agreed on.
    pub cipher_suite: CipherSuite,
    /// The group of the key exchange; `None` when there was none (a session of TLS 1.2 resumed).
    pub group: Option<Group>,
    /// How the server signed the handshake, by its name in RFC 8446 (4.2.3) in lower case
    /// (`ecdsa_secp256r1_sha256`); `None` when a session was resumed, since nobody signs then.
    pub signature_scheme: Option<&'static str>,
    /// Whether an earlier session was resumed, and by what.
    pub resumption: Resumption,
    /// What became of data sent before the handshake was over.
    pub early_data: EarlyData,
    /// The protocol agreed on by ALPN (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The name that the client asked for (SNI, RFC 6066); `None` when it asked for none, as with an
    /// address.
    pub server_name: Option<String>,
    /// Octets of records that this side sent until it was established: the handshake's own, with
    /// their headers and tags, alerts and early data not counted.
    pub sent: Bytes,
    /// Octets of such records that it received until then.
    pub received: Bytes,
    /// Octets of the server's certificates as they were sent (their DER encodings); zero when a
    /// session was resumed.
    pub certificates: Bytes,
    /// Round trips before this side might send its first octet of application data, counted from its
    /// own first octet: 0 with early data that was accepted, 1 in TLS 1.3 and in a resumed session of
    /// TLS 1.2, 2 in TLS 1.2 or after a retry request. Of a server 1 (or 2), in every version; 0 when
    /// it may answer early data at once. The transport's own round trip is not counted.
    pub round_trips: u8,
    /// Whether the server asked for another key share (RFC 8446, 4.1.4), which costs a round trip.
    pub hello_retry: bool,
}

/// How a session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// With nothing known from before.
    Full,
    /// TLS 1.2, by the number of a session that the server keeps.
    SessionId,
    /// TLS 1.2, by a ticket that the client keeps (RFC 5077).
    Ticket,
    /// TLS 1.3, by a pre-shared key that came with a ticket.
    Psk,
}

/// What became of data sent before the handshake was over (RFC 8446, 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyData {
    /// The client offered none.
    NotTried,
    /// The server took it.
    Accepted,
    /// The server refused it: the client has to send it again.
    Rejected,
}

/// Octets of records that went one way, by what was in them. Each record counts with its header of 5
/// octets and with what encryption adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Records of the handshake and of `change_cipher_spec`; session tickets and key updates, which
    /// come later, too.
    pub handshake: Bytes,
    /// Records of alerts, `close_notify` too.
    pub alerts: Bytes,
    /// Records of application data, early data too.
    pub application: Bytes,
    /// The application data in them. What `application` is more is the overhead of records.
    pub content: Bytes,
    /// How many records of application data.
    pub application_records: u64,
    /// How many records in all.
    pub records: u64,
}

impl Traffic {
    /// Octets of all records.
    pub fn total(&self) -> Bytes {
        self.handshake + self.alerts + self.application
    }
}
