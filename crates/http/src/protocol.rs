//! The registry of protocols: one row for each protocol, with its names and its use of the transport. Callers read the
//! row and do not match on the protocol.
//!
//! To add a protocol, add a folder with its state machines (as [`h2`](crate::h2)), a variant and a row here, and
//! its client machine in [`client`](crate::client). The compiler then reports the matches that lack the variant.

use crate::exchange::Version;

/// The protocol that carries exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.x; for HTTP/1.0 also whether the client requests keep-alive.
    Http1(Version),
    /// HTTP/2 (RFC 9113).
    Http2,
    /// HTTP/3 (RFC 9114).
    Http3,
}

/// The transport of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// One byte stream: TCP, or TLS on TCP.
    Tcp,
    /// Streams of a QUIC connection, on UDP.
    Quic,
}

/// Whether a protocol is used over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encryption {
    /// A policy selects TLS by the suffix `-tls`.
    Optional,
    /// TLS by default. Another policy name selects cleartext, with prior knowledge.
    Usual {
        /// The policy name without TLS.
        cleartext: &'static str,
    },
    /// Always over TLS.
    Required,
}

/// The concurrency of the exchanges on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// One at a time.
    Single,
    /// Requests may be sent before earlier requests are answered; responses arrive in the order of the requests
    /// (RFC 9112 section 9.3.2).
    Pipelined,
    /// Each exchange has its own stream; responses arrive in any order.
    Multiplexed,
}

/// A protocol's row in the registry.
#[derive(Debug, PartialEq, Eq)]
pub struct Characteristics {
    /// The protocol's name on screens and in errors. HTTP/1.0 has the title of HTTP/1.1, because every server
    /// supports both.
    pub title: &'static str,
    /// The short name in a server's list of protocols: `h1`, `h2`.
    pub generation: &'static str,
    /// The start of the name of a connection policy.
    pub policy: &'static str,
    /// The ALPN name (RFC 7301), also used in records and in `Alt-Svc`.
    pub alpn: &'static str,
    /// The ALPN names by which a server may select the protocol, in order of preference.
    pub alpn_names: &'static [&'static str],
    /// Whether TLS without ALPN means this protocol.
    pub is_default_of_tls: bool,
    /// The transport.
    pub transport: Transport,
    /// Whether the protocol is used over TLS.
    pub encryption: Encryption,
    /// The concurrency of the exchanges on a connection.
    pub concurrency: Concurrency,
    /// Whether a connection persists after an exchange.
    pub persists: bool,
    /// Whether servers can push.
    pub pushes: bool,
    /// The protocol over which a server can announce this protocol by `Alt-Svc` (RFC 7838).
    pub announced_over: Option<Protocol>,
}

const HTTP11: Characteristics = Characteristics {
    title: "HTTP/1.1",
    generation: "h1",
    policy: "h1.1",
    alpn: "http/1.1",
    alpn_names: &["http/1.1"],
    is_default_of_tls: true,
    transport: Transport::Tcp,
    encryption: Encryption::Optional,
    concurrency: Concurrency::Pipelined,
    persists: true,
    pushes: false,
    announced_over: None,
};

const HTTP10_KEEP_ALIVE: Characteristics = Characteristics {
    policy: "h1.0-keepalive",
    // Few servers support the ALPN name of HTTP/1.0.
    alpn_names: &["http/1.0", "http/1.1"],
    concurrency: Concurrency::Single,
    ..HTTP11
};

const HTTP10: Characteristics = Characteristics {
    policy: "h1.0",
    persists: false,
    ..HTTP10_KEEP_ALIVE
};

const HTTP2: Characteristics = Characteristics {
    title: "HTTP/2",
    generation: "h2",
    policy: "h2",
    alpn: "h2",
    alpn_names: &["h2"],
    is_default_of_tls: false,
    transport: Transport::Tcp,
    encryption: Encryption::Usual { cleartext: "h2c" },
    concurrency: Concurrency::Multiplexed,
    persists: true,
    pushes: true,
    announced_over: None,
};

const HTTP3: Characteristics = Characteristics {
    title: "HTTP/3",
    generation: "h3",
    policy: "h3",
    alpn: "h3",
    alpn_names: &["h3"],
    is_default_of_tls: false,
    transport: Transport::Quic,
    encryption: Encryption::Required,
    concurrency: Concurrency::Multiplexed,
    persists: true,
    pushes: false,
    announced_over: Some(Protocol::Http2),
};

impl Protocol {
    /// All protocols. The default protocol of each generation comes before the others of that generation.
    pub const ALL: [Protocol; 5] = [
        Protocol::Http1(Version::Http11),
        Protocol::Http1(Version::Http10KeepAlive),
        Protocol::Http1(Version::Http10),
        Protocol::Http2,
        Protocol::Http3,
    ];

    /// The protocols that a client without a policy offers over TLS, in order of preference. Without TLS the client
    /// uses the last of these protocols.
    pub const USUAL: [Protocol; 2] = [Protocol::Http2, Protocol::Http1(Version::Http11)];

    /// Returns the protocol's row in the registry.
    pub const fn characteristics(self) -> &'static Characteristics {
        match self {
            Protocol::Http1(Version::Http11) => &HTTP11,
            Protocol::Http1(Version::Http10KeepAlive) => &HTTP10_KEEP_ALIVE,
            Protocol::Http1(Version::Http10) => &HTTP10,
            Protocol::Http2 => &HTTP2,
            Protocol::Http3 => &HTTP3,
        }
    }

    /// Returns the protocol of a client without a policy, with or without TLS.
    pub const fn usual(tls: bool) -> Protocol {
        let [over_tls, cleartext] = Protocol::USUAL;
        match tls {
            true => over_tls,
            false => cleartext,
        }
    }

    /// Returns the protocol of [`USUAL`](Self::USUAL) that a server selected by ALPN; HTTP/1.1 if the server selected
    /// no protocol of this list.
    pub fn selected(alpn: Option<&[u8]>) -> Protocol {
        let mut usual = Protocol::USUAL.into_iter();
        usual
            .find(|protocol| protocol.is_selected_by(alpn))
            .unwrap_or(Protocol::usual(false))
    }

    /// Returns the default protocol of the generation with this name.
    pub fn of_generation(name: &str) -> Option<Protocol> {
        let mut all = Protocol::ALL.into_iter();
        all.find(|protocol| protocol.characteristics().generation == name)
    }

    /// The version of HTTP/1.x; `None` for other protocols.
    pub const fn http1(self) -> Option<Version> {
        match self {
            Protocol::Http1(version) => Some(version),
            _ => None,
        }
    }

    /// Whether many exchanges share a connection, each on its own stream.
    pub const fn multiplexes(self) -> bool {
        matches!(self.characteristics().concurrency, Concurrency::Multiplexed)
    }

    /// Whether the transport is QUIC.
    pub const fn is_over_quic(self) -> bool {
        matches!(self.characteristics().transport, Transport::Quic)
    }

    /// Whether a policy may select TLS or cleartext.
    pub const fn has_optional_tls(self) -> bool {
        matches!(self.characteristics().encryption, Encryption::Optional)
    }

    /// The ALPN name (RFC 7301), also used in records and in `Alt-Svc`.
    pub const fn alpn(self) -> &'static str {
        self.characteristics().alpn
    }

    /// Whether a connection can carry this protocol after ALPN selected the name `alpn`; `None`: ALPN selected no name.
    pub fn is_selected_by(self, alpn: Option<&[u8]>) -> bool {
        let Characteristics {
            alpn_names,
            is_default_of_tls,
            ..
        } = self.characteristics();
        alpn.map_or(*is_default_of_tls, |selected| {
            alpn_names.iter().any(|name| name.as_bytes() == selected)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_own_policy_names() {
        let mut names = Vec::new();
        for protocol in Protocol::ALL {
            let row = protocol.characteristics();
            names.push(row.policy);
            if let Encryption::Usual { cleartext } = row.encryption {
                names.push(cleartext);
            }
            assert!(row.alpn_names.contains(&row.alpn), "{row:?}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_generation_is_found_by_its_name() {
        for name in ["h1", "h2", "h3"] {
            let protocol = Protocol::of_generation(name).unwrap();
            assert_eq!(protocol.characteristics().generation, name);
        }
        assert_eq!(
            Protocol::of_generation("h1"),
            Some(Protocol::Http1(Version::Http11))
        );
        assert_eq!(Protocol::of_generation("h4"), None);
    }

    #[test]
    fn alpn_selects_a_protocol() {
        let http1 = Protocol::Http1(Version::Http11);
        assert!(http1.is_selected_by(None) && http1.is_selected_by(Some(b"http/1.1")));
        assert!(!http1.is_selected_by(Some(b"h2")) && !http1.is_selected_by(Some(b"http/1.0")));
        assert!(Protocol::Http1(Version::Http10).is_selected_by(Some(b"http/1.0")));
        assert!(Protocol::Http2.is_selected_by(Some(b"h2")));
        assert!(!Protocol::Http2.is_selected_by(None));
        assert!(!Protocol::Http2.is_selected_by(Some(b"http/1.1")));
        assert!(Protocol::Http3.is_selected_by(Some(b"h3")));
        assert_eq!(Protocol::selected(Some(b"h2")), Protocol::Http2);
        assert_eq!(Protocol::selected(None), http1);
        assert_eq!(Protocol::selected(Some(b"http/1.1")), http1);
    }
}
