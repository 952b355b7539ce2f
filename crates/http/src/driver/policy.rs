//! Connection policies: how many connections, of which version, pipelined or not.

use std::fmt;
use std::str::FromStr;

use crate::h1::client::Version;

/// The depth of a pipeline when a policy's text does not give one: deep enough to ask for the whole
/// Microscape page (43 files) at once, as the paper's robot did, and still a bound.
pub const DEFAULT_PIPELINE_DEPTH: u16 = 50;

/// The most connections a policy may ask for.
pub const MOST_CONNECTIONS: u16 = 256;

/// How a client uses connections to retrieve a page.
///
/// As text: a version (`h1.0`, `h1.0-keepalive`, `h1.1`), then `xN` for up to N connections at a time
/// (one when left out), then `-pipeline` (with a depth right behind it if not the default of
/// [`DEFAULT_PIPELINE_DEPTH`]), then `-ranges`, then `-early-close`. The policies of the papers:
///
/// | text | |
/// |---|---|
/// | `h1.0`, `h1.0x4` | a connection for each file, one or four at a time |
/// | `h1.0-keepalive`, `h1.0-keepalivex4` | the same, kept open when the server agrees |
/// | `h1.1`, `h1.1x2` | persistent connections, one exchange at a time on each |
/// | `h1.1-pipeline` | one connection, requests sent without waiting for answers |
/// | `h1.1-pipeline-ranges` | the same; the first octets of every image before the rest of any |
/// | `h1.1-early-close` | `h1.1`, but the connection is closed at the end of every page |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The version of HTTP, and whether HTTP/1.0 asks to keep connections.
    pub version: Version,
    /// The most connections open at a time; at least 1.
    pub connections: u16,
    /// The most unanswered requests on one connection; `None` waits for each answer before the next
    /// request.
    pub pipeline: Option<u16>,
    /// Whether images are fetched in two parts, the first octets of all before the rest of any
    /// ("poor man's multiplexing").
    pub ranges: bool,
    /// Whether the client closes its connections as soon as a page is complete, rather than keep
    /// them for the next one (Barford and Crovella's "early close"). Connections that carry one
    /// exchange are closed anyway.
    pub early_close: bool,
}

/// Why a policy's text was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a connection policy: write h1.0, h1.0xN, h1.0-keepalive, h1.0-keepalivexN, \
     h1.1, h1.1xN, h1.1-pipeline, h1.1-pipeline-ranges or h1.1-early-close, N from 1 to \
     {MOST_CONNECTIONS}"
)]
pub struct ParsePolicyError {
    text: String,
}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Policy, ParsePolicyError> {
        parse(text).ok_or_else(|| ParsePolicyError {
            text: text.to_owned(),
        })
    }
}

fn parse(text: &str) -> Option<Policy> {
    let (version, rest) = [
        ("h1.0-keepalive", Version::Http10KeepAlive),
        ("h1.0", Version::Http10),
        ("h1.1", Version::Http11),
    ]
    .into_iter()
    .find_map(|(name, version)| Some((version, text.strip_prefix(name)?)))?;
    let (connections, rest) = match rest.strip_prefix('x') {
        Some(rest) => number(rest)?,
        None => (1, rest),
    };
    let (pipeline, rest) = match rest.strip_prefix("-pipeline") {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            let (depth, rest) = number(rest)?;
            (Some(depth), rest)
        }
        Some(rest) => (Some(DEFAULT_PIPELINE_DEPTH), rest),
        None => (None, rest),
    };
    let (ranges, rest) = match rest.strip_prefix("-ranges") {
        Some(rest) if pipeline.is_some() => (true, rest),
        Some(_) => return None,
        None => (false, rest),
    };
    let early_close = match rest {
        "" => false,
        "-early-close" if version != Version::Http10 => true,
        _ => return None,
    };
    let pipelines = version == Version::Http11 || pipeline.is_none();
    (pipelines && connections <= MOST_CONNECTIONS).then_some(Policy {
        version,
        connections,
        pipeline,
        ranges,
        early_close,
    })
}

/// A positive number without leading zeros, and what follows it.
fn number(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    if digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}

/// What [`FromStr`] reads.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.version {
            Version::Http10 => "h1.0",
            Version::Http10KeepAlive => "h1.0-keepalive",
            Version::Http11 => "h1.1",
        })?;
        if self.connections != 1 {
            write!(f, "x{}", self.connections)?;
        }
        match self.pipeline {
            None => {}
            Some(DEFAULT_PIPELINE_DEPTH) => f.write_str("-pipeline")?,
            Some(depth) => write!(f, "-pipeline{depth}")?,
        }
        f.write_str(if self.ranges { "-ranges" } else { "" })?;
        f.write_str(if self.early_close { "-early-close" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_read_what_they_write() {
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
    }

    #[test]
    fn what_is_no_policy_is_answered_with_the_list() {
        for text in [
            "",
            "h2",
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
            "H1.1",
            "h1.1 ",
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains("h1.1-pipeline-ranges"), "{error}");
        }
    }
}
