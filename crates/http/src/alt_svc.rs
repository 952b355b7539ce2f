//! Alternative services (RFC 7838): other hosts, ports and protocols at which an origin is available, as announced
//! by the `Alt-Svc` field and by the HTTP/2 frame ALTSVC.
//!
//! This module parses the field value. The caller ([`driver`](crate::driver)) selects the trusted origins, stores
//! alternatives, and handles failed alternatives.

use std::time::Duration;

/// The name of the field.
pub const FIELD: &str = "alt-svc";

/// The freshness lifetime of an alternative without the `ma` parameter (section 3.1).
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// The maximum number of alternatives that are read from one value.
const MOST: usize = 16;

/// The parsed value of an `Alt-Svc` field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AltSvc {
    /// `clear`: all alternatives announced earlier for the origin become invalid.
    Clear,
    /// All alternatives of the origin, in order of preference; never empty.
    Offers(Vec<Alternative>),
}

/// One alternative service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    /// The protocol, by its ALPN name.
    pub protocol: Vec<u8>,
    /// The host; empty for the origin's own host. An IPv6 address is in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The freshness lifetime of the alternative, from the time at which the response was generated.
    pub max_age: Duration,
    /// Whether the alternative stays valid after a change of the client's network.
    pub persist: bool,
}

impl AltSvc {
    /// Parses the values of all `Alt-Svc` fields of one response, in order. Skips malformed alternatives; returns
    /// `None` when no alternative is left.
    pub fn parse<'v>(values: impl IntoIterator<Item = &'v str>) -> Option<AltSvc> {
        let mut offers = Vec::new();
        for value in values {
            if value.trim_matches([' ', '\t']) == "clear" {
                return Some(AltSvc::Clear);
            }
            for part in split(value, b',') {
                offers.extend(alternative(part).filter(|_| offers.len() < MOST));
            }
        }
        (!offers.is_empty()).then_some(AltSvc::Offers(offers))
    }

    /// Returns the first alternative with this protocol (ALPN name).
    pub fn for_protocol(&self, protocol: &[u8]) -> Option<&Alternative> {
        match self {
            AltSvc::Clear => None,
            AltSvc::Offers(offers) => offers.iter().find(|offer| offer.protocol == protocol),
        }
    }
}

fn alternative(text: &str) -> Option<Alternative> {
    let mut parts = split(text, b';').map(|part| part.trim_matches([' ', '\t']));
    let (protocol, authority) = parts.next()?.split_once('=')?;
    let authority = unquoted(authority)?;
    let (host, port) = authority.rsplit_once(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let mut alternative = Alternative {
        protocol: protocol_of(protocol)?,
        host: host.to_owned(),
        port: port.parse().ok().filter(|&port| is_number && port != 0)?,
        max_age: DEFAULT_MAX_AGE,
        persist: false,
    };
    for parameter in parts {
        let (name, value) = parameter.split_once('=')?;
        let value = match value.starts_with('"') {
            true => unquoted(value)?,
            false => value.to_owned(),
        };
        match name.to_ascii_lowercase().as_str() {
            "ma" => alternative.max_age = Duration::from_secs(seconds(&value)?),
            "persist" => alternative.persist = value == "1",
            // Unknown parameters must be ignored.
            _ => {}
        }
    }
    Some(alternative)
}

/// Parses a number of seconds. A number above 32 bits counts as 2^31 (RFC 9111 section 1.2.2).
fn seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse::<u32>().map_or(1 << 31, u64::from))
}

/// Decodes an ALPN protocol name from its token: bytes that a token cannot contain are percent-encoded.
fn protocol_of(token: &str) -> Option<Vec<u8>> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if token.is_empty() || !token.bytes().all(is_token) {
        return None;
    }
    let mut bytes = token.bytes();
    let mut protocol = Vec::with_capacity(token.len());
    while let Some(byte) = bytes.next() {
        protocol.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            other => other,
        });
    }
    Some(protocol)
}

/// Returns the content of a quoted string; `None` if `text` is not a quoted string.
fn unquoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut content = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        content.push(match character {
            '\\' => characters.next()?,
            '"' => return None,
            other => other,
        });
    }
    Some(content)
}

/// Splits a text at separators that are outside of quotes.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |character| {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return !quoted && character == char::from(separator),
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(values: &[&str]) -> Vec<Alternative> {
        match AltSvc::parse(values.iter().copied()) {
            Some(AltSvc::Offers(offers)) => offers,
            other => panic!("{values:?}: {other:?}"),
        }
    }

    #[test]
    fn alternatives_are_parsed_with_their_parameters() {
        let alternatives =
            offers(&[r#"h3=":443"; ma=3600, h2="alt.example.com:8000"; ma=60; persist=1"#]);
        assert_eq!(alternatives.len(), 2);
        assert_eq!(
            (alternatives[0].protocol.as_slice(), alternatives[0].port),
            (&b"h3"[..], 443)
        );
        assert_eq!(
            (alternatives[0].host.as_str(), alternatives[0].persist),
            ("", false)
        );
        assert_eq!(alternatives[0].max_age, Duration::from_secs(3600));
        assert_eq!(alternatives[1].host, "alt.example.com");
        assert_eq!(
            (alternatives[1].port, alternatives[1].persist),
            (8000, true)
        );
        // Several fields form one list; the ALPN names are the RFC's examples.
        let alternatives = offers(&[r#"w%3Dx%3Ay#z=":1""#, r#"x%25y="[::1]:2";ma="7""#]);
        assert_eq!(alternatives[0].protocol, b"w=x:y#z");
        assert_eq!(alternatives[0].max_age, DEFAULT_MAX_AGE);
        assert_eq!(
            (
                alternatives[1].protocol.as_slice(),
                alternatives[1].host.as_str()
            ),
            (&b"x%y"[..], "[::1]")
        );
        assert_eq!(alternatives[1].max_age, Duration::from_secs(7));
        // Unknown parameters, separators within quotes, an age that is too large.
        let alternatives = offers(&[r#"h3=":1"; v="4,6;\"8"; ma=99999999999, h3=":2""#]);
        assert_eq!(
            (alternatives.len(), alternatives[0].max_age.as_secs()),
            (2, 1 << 31)
        );
        let value = AltSvc::Offers(alternatives);
        assert_eq!(value.for_protocol(b"h3").map(|offer| offer.port), Some(1));
        assert_eq!(value.for_protocol(b"h2"), None);
    }

    #[test]
    fn only_clear_withdraws_all_alternatives() {
        assert_eq!(AltSvc::parse([" clear "]), Some(AltSvc::Clear));
        assert_eq!(AltSvc::parse([r#"h3=":1""#, "clear"]), Some(AltSvc::Clear));
        for nothing in ["", "Clear", "clear, x", ","] {
            assert_eq!(AltSvc::parse([nothing]), None, "{nothing:?}");
        }
    }

    #[test]
    fn only_malformed_alternatives_are_skipped() {
        for wrong in [
            "h3=:443",
            "h3=\":0\"",
            "h3=\":65536\"",
            "h3=\":+1\"",
            "h3=\"443\"",
            "h3=\":443",
            "=\":443\"",
            "h 3=\":443\"",
            "h%3=\":443\"",
            "h3=\":443\"; ma=x",
            "h3=\":443\"; ma",
        ] {
            assert_eq!(AltSvc::parse([wrong]), None, "{wrong:?}");
            // An unclosed quoted string includes the text after it.
            if wrong.matches('"').count() != 1 {
                let alternatives = offers(&[&format!("{wrong}, h3=\":7\"")]);
                assert_eq!(
                    (alternatives.len(), alternatives[0].port),
                    (1, 7),
                    "{wrong:?}"
                );
            }
        }
        let many = vec![r#"h3=":443""#; 100].join(",");
        assert_eq!(offers(&[&many]).len(), MOST);
    }
}
