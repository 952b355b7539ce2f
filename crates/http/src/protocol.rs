//! The registry of protocols: a row for each says what it is called and how it uses its transport. Callers ask
//! the row and do not match on the protocol.
//!
//! To add a protocol: a folder with its machines (as [`h2`](crate::h2)), a variant and a row here, and its
//! machine in [`client`](crate::client). The compiler names the matches that lack it.

use crate::exchange::Version;

/// The protocol that carries exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.x; whether HTTP/1.0 asks to keep connections.
    Http1(Version),
    /// HTTP/2 (RFC 9113).
    Http2,
    /// HTTP/3 (RFC 9114).
    Http3,
}

/// What carries a protocol's bytes.
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
    /// A policy chooses, by the suffix `-tls`.
    Optional,
    /// Over TLS; without it under another policy name, with prior knowledge.
    Usual {
        /// The policy name without TLS.
        cleartext: &'static str,
    },
    /// Always.
    Required,
}

/// How many exchanges a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// One at a time.
    Single,
    /// Requests may be sent before earlier ones are answered; responses keep that order (RFC 9112 section 9.3.2).
    Pipelined,
    /// Each on a stream of its own, in any order.
    Multiplexed,
}

/// A protocol's row in the registry.
#[derive(Debug, PartialEq, Eq)]
pub struct Characteristics {
    /// Its name on screens and in errors. HTTP/1.0 has that of HTTP/1.1, because every server has both.
    pub title: &'static str,
    /// Its name where servers list their protocols: `h1`, `h2`.
    pub generation: &'static str,
    /// Its name at the start of a connection policy.
    pub policy: &'static str,
    /// Its ALPN name (RFC 7301), also in records and in `Alt-Svc`.
    pub alpn: &'static str,
    /// The ALPN names with which a server may select it, best first.
    pub alpn_names: &'static [&'static str],
    /// Whether a server without ALPN uses it.
    pub is_default_of_tls: bool,
    /// What carries it.
    pub transport: Transport,
    /// Whether it is used over TLS.
    pub encryption: Encryption,
    /// How many exchanges a connection carries.
    pub concurrency: Concurrency,
    /// Whether a connection persists after an exchange.
    pub persists: bool,
    /// Whether servers can push.
    pub pushes: bool,
    /// The protocol over which a server can announce it by `Alt-Svc` (RFC 7838).
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
    // Few servers have a name for HTTP/1.0.
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
    /// Every protocol. Of each generation the usual one is first.
    pub const ALL: [Protocol; 5] = [
        Protocol::Http1(Version::Http11),
        Protocol::Http1(Version::Http10KeepAlive),
        Protocol::Http1(Version::Http10),
        Protocol::Http2,
        Protocol::Http3,
    ];

    /// What a client without a policy offers over TLS, best first. The last one is used without TLS.
    pub const USUAL: [Protocol; 2] = [Protocol::Http2, Protocol::Http1(Version::Http11)];

    /// Its row in the registry.
    pub const fn characteristics(self) -> &'static Characteristics {
        match self {
            Protocol::Http1(Version::Http11) => &HTTP11,
            Protocol::Http1(Version::Http10KeepAlive) => &HTTP10_KEEP_ALIVE,
            Protocol::Http1(Version::Http10) => &HTTP10,
            Protocol::Http2 => &HTTP2,
            Protocol::Http3 => &HTTP3,
        }
    }

    /// The protocol of a client without a policy, with or without TLS.
    pub const fn usual(tls: bool) -> Protocol {
        let [over_tls, cleartext] = Protocol::USUAL;
        match tls {
            true => over_tls,
            false => cleartext,
        }
    }

    /// The protocol that a server selected of [`USUAL`](Self::USUAL).
    pub fn selected(alpn: Option<&[u8]>) -> Protocol {
        let mut usual = Protocol::USUAL.into_iter();
        usual
            .find(|protocol| protocol.is_selected_by(alpn))
            .unwrap_or(Protocol::usual(false))
    }

    /// The usual protocol of the generation with this name.
    pub fn of_generation(name: &str) -> Option<Protocol> {
        let mut all = Protocol::ALL.into_iter();
        all.find(|protocol| protocol.characteristics().generation == name)
    }

    /// The version of HTTP/1.x that it is, if it is one.
    pub const fn http1(self) -> Option<Version> {
        match self {
            Protocol::Http1(version) => Some(version),
            _ => None,
        }
    }

    /// Whether many exchanges share a connection, each on a stream of its own.
    pub const fn multiplexes(self) -> bool {
        matches!(self.characteristics().concurrency, Concurrency::Multiplexed)
    }

    /// Whether QUIC carries it.
    pub const fn is_over_quic(self) -> bool {
        matches!(self.characteristics().transport, Transport::Quic)
    }

    /// Whether a policy may choose it with or without TLS.
    pub const fn has_optional_tls(self) -> bool {
        matches!(self.characteristics().encryption, Encryption::Optional)
    }

    /// Its ALPN name (RFC 7301), also in records and in `Alt-Svc`.
    pub const fn alpn(self) -> &'static str {
        self.characteristics().alpn
    }

    /// Whether a connection on which ALPN selected this name, or none, can carry it.
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
