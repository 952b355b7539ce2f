//! Connection policies: the number of connections, their protocol, and pipelining.

use std::fmt;
use std::str::FromStr;

use super::bundle::Bundle;
use crate::protocol::{Concurrency, Encryption, Protocol};

/// The pipeline depth of a policy whose text gives none: deep enough to request the whole Microscape page (43
/// files) at once, as the paper's robot did, but limited.
pub const DEFAULT_PIPELINE_DEPTH: u16 = 50;

/// The maximum number of connections in a policy.
pub const MOST_CONNECTIONS: u16 = 256;

/// The number of hosts for a page's files if the text of a sharding policy gives none.
pub const DEFAULT_HOSTS: u16 = 4;

/// The way in which a client uses connections to retrieve a page.
///
/// As text: a protocol, then its options, in this order.
///
/// - HTTP/1.x: `h1.0`, `h1.0-keepalive` or `h1.1`; `xN` for up to N connections at a time (default 1);
///   `-pipeline` (followed by a depth if it is not [`DEFAULT_PIPELINE_DEPTH`]); `-ranges`; `-early-close`;
///   `-tls`.
/// - HTTP/2 over TLS (`h2`) or in cleartext with prior knowledge (`h2c`), HTTP/3 (`h3`), HTTP/3 after the
///   server has announced it over HTTP/2 (`h3-alt-svc`): `xN` (not with `h3-alt-svc`); `-sharded` (followed by
///   a number if it is not [`DEFAULT_HOSTS`]); `-streamsN`; `-push` (HTTP/2 only); `-early-close`.
/// - All protocols: the bundle in which all files are requested ([`Bundle`]), before `-tls`; not together with
///   ranges or pushes. The name of a bundle alone (`package`) uses `h1.1`.
///
/// | text | |
/// |---|---|
/// | `h1.0`, `h1.0x4` | a connection for each file, one or four at a time |
/// | `h1.0-keepalive`, `h1.0-keepalivex4` | the same, kept open if the server permits it |
/// | `h1.1`, `h1.1x2` | persistent connections, one exchange at a time on each |
/// | `h1.1x6-tls` | like browsers without HTTP/2 |
/// | `h1.1-pipeline` | one connection, requests sent without waiting for responses |
/// | `h1.1-pipeline-ranges` | the same; the first bytes of all images, then the rest of each |
/// | `h1.1-early-close` | `h1.1`, but the connection is closed at the end of every page |
/// | `h2`, `h3` | one connection, a stream for each exchange |
/// | `h3-alt-svc` | HTTP/2 until `Alt-Svc` has announced HTTP/3; HTTP/3 from then on, also on later visits |
/// | `h2-sharded` | the page's files on four hosts, a connection to each |
/// | `h2-push` | the server may push files of the page |
/// | `package`, `h2-package` | the page's files in one object package, each used when it has arrived |
/// | `h1.0-tar`, `h1.1-zip-tls` | the page's files in one archive |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The protocol of the exchanges; with `alt_svc`, the protocol once it has been announced.
    pub protocol: Protocol,
    /// Whether HTTP/3 is used only after the server has announced it over HTTP/2 ([RFC 7838](crate::alt_svc)).
    pub alt_svc: bool,
    /// Whether the connections use TLS; always true with HTTP/3.
    pub tls: bool,
    /// The maximum number of connections open at a time to one host; at least 1.
    pub connections: u16,
    /// The number of hosts over which the embedded files are spread; at least 1. The hosts are names of the
    /// same server.
    pub hosts: u16,
    /// HTTP/1.x: the maximum number of unanswered requests on one connection; `None`: each request waits for the
    /// previous response.
    pub pipeline: Option<u16>,
    /// HTTP/2 and HTTP/3: the maximum number of open streams on one connection; `None`: as many as the server permits.
    pub streams: Option<u16>,
    /// Whether images are fetched in two parts: first the first bytes of all images, then the remaining bytes of each
    /// image ("poor man's multiplexing").
    pub ranges: bool,
    /// Whether the client allows pushes.
    pub push: bool,
    /// Whether the client closes its connections as soon as a page is complete, instead of keeping them for the
    /// next page (Barford and Crovella's "early close"). Connections with one exchange each are always closed.
    pub early_close: bool,
    /// The bundle in which all files are requested at once; `None`: each file is requested separately.
    pub bundle: Option<Bundle>,
}

impl Policy {
    /// Creates a policy with one connection, this protocol and no options. HTTP/2 and HTTP/3 use TLS, as on the Web.
    pub const fn plain(protocol: Protocol) -> Policy {
        Policy {
            protocol,
            alt_svc: false,
            tls: !protocol.has_optional_tls(),
            connections: 1,
            hosts: 1,
            pipeline: None,
            streams: None,
            ranges: false,
            push: false,
            early_close: false,
            bundle: None,
        }
    }

    /// The protocol of the first connection to a server, before any announcement.
    pub const fn first_protocol(&self) -> Protocol {
        match self.protocol.characteristics().announced_over {
            Some(announcing) if self.alt_svc => announcing,
            _ => self.protocol,
        }
    }

    /// Returns the maximum number of requests in flight on one connection, at least 1; `None`: as many as the server
    /// permits.
    pub fn depth(&self) -> Option<u16> {
        match self.protocol.multiplexes() {
            true => self.streams,
            false => self.pipeline.or(Some(1)),
        }
        .map(|depth| depth.max(1))
    }
}

/// The error for a text that is not a connection policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a connection policy: write a protocol (h1.0, h1.0-keepalive, h1.1, h2, h2c, h3 or \
     h3-alt-svc), then options in this order: xN for N connections (1 to {MOST_CONNECTIONS}); -sharded \
     (h2, h3); -pipeline (h1.1); -streamsN (h2, h3); -ranges (after -pipeline); -push (h2); -early-close; \
     -package, -package-v1, -package-delta, -tar, -tar-whole or -zip; -tls (h1.0, h1.1). \
     Example: h1.1x6-tls"
)]
pub struct ParsePolicyError {
    text: String,
}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Policy, ParsePolicyError> {
        // The text is the name of a bundle alone.
        let prefixed = Bundle::strip(text).map(|_| format!("h1.1-{text}"));
        let full = prefixed.as_deref().unwrap_or(text);
        parse(full).ok_or_else(|| ParsePolicyError {
            text: text.to_owned(),
        })
    }
}

fn parse(text: &str) -> Option<Policy> {
    let (protocol, cleartext, rest) = named_protocol(text)?;
    let row = protocol.characteristics();
    let (alt_svc, rest) = optional_word(rest, "-alt-svc");
    let (connections, rest) = optional_number(rest, "x", None)?;
    let (hosts, rest) = optional_number(rest, "-sharded", Some(DEFAULT_HOSTS))?;
    let (pipeline, rest) = optional_number(rest, "-pipeline", Some(DEFAULT_PIPELINE_DEPTH))?;
    let (streams, rest) = optional_number(rest, "-streams", None)?;
    let (ranges, rest) = optional_word(rest, "-ranges");
    let (push, rest) = optional_word(rest, "-push");
    let (early_close, rest) = optional_word(rest, "-early-close");
    let (bundle, rest) = optional_bundle(rest);
    let (chosen_tls, rest) = optional_word(rest, "-tls");
    let connections = connections.unwrap_or(1);
    let multiplexes = row.concurrency == Concurrency::Multiplexed;
    let possible = rest.is_empty()
        && connections <= MOST_CONNECTIONS
        && (!alt_svc || row.announced_over.is_some() && connections == 1)
        && hosts.is_none_or(|hosts| multiplexes && (2..=MOST_CONNECTIONS).contains(&hosts))
        && (pipeline.is_none() || row.concurrency == Concurrency::Pipelined)
        && (streams.is_none() || multiplexes)
        && (!ranges || pipeline.is_some() && bundle.is_none())
        && (!push || row.pushes && bundle.is_none())
        && (!early_close || row.persists)
        && (!chosen_tls || protocol.has_optional_tls());
    let plain = Policy::plain(protocol);
    possible.then_some(Policy {
        alt_svc,
        tls: (plain.tls && !cleartext) || chosen_tls,
        connections,
        hosts: hosts.unwrap_or(1),
        pipeline,
        streams,
        ranges,
        push,
        early_close,
        bundle,
        ..plain
    })
}

/// Finds the protocol with the longest policy name at the start of a text. Returns the protocol, whether the
/// name is the cleartext name, and the text after it.
fn named_protocol(text: &str) -> Option<(Protocol, bool, &str)> {
    let names = Protocol::ALL.into_iter().flat_map(|protocol| {
        let row = protocol.characteristics();
        let cleartext = match row.encryption {
            Encryption::Usual { cleartext } => Some((protocol, true, cleartext)),
            Encryption::Optional | Encryption::Required => None,
        };
        [Some((protocol, false, row.policy)), cleartext]
    });
    let (protocol, cleartext, name) = names
        .flatten()
        .filter(|(_, _, name)| text.starts_with(name))
        .max_by_key(|(_, _, name)| name.len())?;
    Some((protocol, cleartext, &text[name.len()..]))
}

/// Returns whether the text starts with `word`, and the text after that word.
fn optional_word<'t>(text: &'t str, word: &str) -> (bool, &'t str) {
    match text.strip_prefix(word) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

/// Parses the bundle named at the start of the text, if there is one. Returns the bundle and the text after its name.
fn optional_bundle(text: &str) -> (Option<Bundle>, &str) {
    let named = text.strip_prefix('-').and_then(Bundle::strip);
    named.map_or((None, text), |(bundle, rest)| (Some(bundle), rest))
}

/// Parses `word` and the number after it at the start of the text (`default` if `word` has no number). Returns the
/// number and the text after it; `None` if a required number is missing.
fn optional_number<'t>(
    text: &'t str,
    word: &str,
    default: Option<u16>,
) -> Option<(Option<u16>, &'t str)> {
    match text.strip_prefix(word) {
        None => Some((None, text)),
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            let (number, rest) = number(rest)?;
            Some((Some(number), rest))
        }
        Some(rest) => Some((Some(default?), rest)),
    }
}

/// Parses a positive number without leading zeros. Returns the number and the text after it.
fn number(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    if digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}

/// The text form that [`FromStr`] reads.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.protocol.characteristics();
        f.write_str(match row.encryption {
            Encryption::Usual { cleartext } if !self.tls => cleartext,
            _ => row.policy,
        })?;
        f.write_str(if self.alt_svc { "-alt-svc" } else { "" })?;
        if self.connections != 1 {
            write!(f, "x{}", self.connections)?;
        }
        match self.hosts {
            1 => {}
            DEFAULT_HOSTS => f.write_str("-sharded")?,
            hosts => write!(f, "-sharded{hosts}")?,
        }
        match self.pipeline {
            None => {}
            Some(DEFAULT_PIPELINE_DEPTH) => f.write_str("-pipeline")?,
            Some(depth) => write!(f, "-pipeline{depth}")?,
        }
        if let Some(streams) = self.streams {
            write!(f, "-streams{streams}")?;
        }
        f.write_str(if self.ranges { "-ranges" } else { "" })?;
        f.write_str(if self.push { "-push" } else { "" })?;
        f.write_str(if self.early_close { "-early-close" } else { "" })?;
        if let Some(bundle) = self.bundle {
            write!(f, "-{bundle}")?;
        }
        let says_tls = self.tls && self.protocol.has_optional_tls();
        f.write_str(if says_tls { "-tls" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_policies_are_parsed_back() {
        for text in [
            "h1.0",
            "h1.0x4",
            "h1.0-keepalive",
            "h1.0-keepalivex6",
            "h1.1",
            "h1.1x2",
            "h1.1-pipeline",
            "h1.1-pipeline5",
            "h1.1x2-pipeline",
            "h1.1-pipeline-ranges",
            "h1.1-early-close",
            "h1.0-keepalivex4-early-close",
            "h1.1x2-pipeline5-ranges-early-close",
            "h1.1x6-tls",
            "h1.1-pipeline-early-close-tls",
            "h2",
            "h2c",
            "h3",
            "h3-alt-svc",
            "h3-alt-svc-sharded-streams8-package",
            "h2x2",
            "h2-sharded",
            "h2c-sharded6-streams8",
            "h2-streams16-push",
            "h3x2-early-close",
            "h1.0-package",
            "h1.1-package-v1",
            "h1.1-pipeline-early-close-package-delta-tls",
            "h1.0x4-tar",
            "h2-tar-whole",
            "h3-package",
            "h2c-streams4-zip",
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
        }
        let bare: Policy = "h1.0".parse().unwrap();
        assert_eq!((bare.connections, bare.pipeline), (1, None));
        let deep: Policy = "h1.1-pipeline-ranges".parse().unwrap();
        assert_eq!((deep.pipeline, deep.ranges), (Some(50), true));
        let early: Policy = "h1.1-early-close".parse().unwrap();
        assert_eq!((early.early_close, deep.early_close), (true, false));
        let short: Policy = "package-delta".parse().unwrap();
        assert_eq!(short.to_string(), "h1.1-package-delta");
        assert_eq!(short.bundle, Some(Bundle::PackageDelta));
        let sharded: Policy = "h2-sharded".parse().unwrap();
        assert_eq!((sharded.hosts, sharded.tls), (DEFAULT_HOSTS, true));
    }

    #[test]
    fn the_error_for_an_unknown_policy_lists_the_policies() {
        for text in [
            "",
            "h4",
            "h2-tls",
            "h2-pipeline",
            "h3-push",
            "h2-alt-svc",
            "h3-alt-svcx2",
            "h3x2-alt-svc",
            "h3-sharded-alt-svc",
            "h2-sharded1",
            "h2-streams",
            "h2-early-close-push",
            "h1.1-sharded",
            "h1.1-tls-early-close",
            "h1.0x",
            "h1.0x0",
            "h1.1x04",
            "h1.1x999",
            "h1.1-ranges",
            "h1.0-pipeline",
            "h1.0-early-close",
            "h1.1-early-close-ranges",
            "h1.1-pipeline-",
            "h1.1-pipeline0",
            "h1.1-package-early-close",
            "h1.1-tls-package",
            "h1.1-pipeline-ranges-package",
            "h2-push-package",
            "package-v3",
            "h1.1package",
            "H1.1",
            "h1.1 ",
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains("h1.0-keepalive, h1.1, h2"), "{error}");
        }
    }
}
