//! The upgrade of a cleartext connection from HTTP/1.1 to HTTP/2 (RFC 7540 section 3.2). RFC 9113 deprecates the
//! upgrade; some clients still request it.
//!
//! This machine only recognises the request. Its caller passes the connection to an HTTP/2 machine, which sends
//! [`Upgrade::RESPONSE`] and answers the request as its first stream. As the RFC allows, two kinds of requests are
//! answered in HTTP/1.1 instead: requests with content, and requests after others that are not answered yet.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::request::{BodyFraming, RequestHead};
use super::{Connection, Reading};

/// The state of a connection when it is upgraded to HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade {
    /// The head of the upgrade request, as it was sent, its empty line included.
    pub head: Vec<u8>,
    /// The payload of a SETTINGS frame: the client's settings.
    pub settings: Vec<u8>,
    /// The bytes after the head: the beginning of the HTTP/2 data.
    pub rest: Vec<u8>,
}

impl Upgrade {
    /// The bytes sent before HTTP/2 begins.
    pub const RESPONSE: &'static [u8] =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
}

impl Connection {
    /// Takes the upgrade that [`Action::Upgrade`](super::Action::Upgrade) announced; returns it only once. This machine
    /// must not be used afterwards.
    pub fn take_upgrade(&mut self) -> Option<Upgrade> {
        let mut upgrade = *self.upgrade.take()?;
        upgrade.rest = std::mem::take(&mut self.input);
        Some(upgrade)
    }

    /// Prepares the upgrade if the request contains one that is possible.
    pub(super) fn upgrades(&mut self, request: &RequestHead<'_>, head: &[u8]) -> bool {
        let between = self.outstanding.is_empty() && self.output.is_empty();
        let granted = self.config.upgrade && between && request.body == BodyFraming::Length(0);
        let settings = request.http2_settings.filter(|_| granted);
        let Some(settings) = settings.and_then(decode_base64url) else {
            return false;
        };
        self.reading = Reading::Upgraded;
        self.action = Some(super::Action::Upgrade);
        self.upgrade = Some(Box::new(Upgrade {
            head: head.to_vec(),
            settings,
            rest: Vec::new(),
        }));
        true
    }
}

/// Decodes base64url without padding (RFC 4648 section 5); `None` for any other text, and when the last setting
/// is incomplete.
fn decode_base64url(text: &[u8]) -> Option<Vec<u8>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    // Each setting takes six bytes.
    bytes.len().is_multiple_of(6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use fathometer_model::Instant;

    use super::super::tests::Host;
    use super::super::{Action, ServerConfig};
    use super::*;

    const ASKS: &str = "GET /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                        Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n";

    fn host() -> Host {
        Host::new(ServerConfig {
            upgrade: true,
            ..ServerConfig::default()
        })
    }

    #[test]
    fn settings_are_decoded() {
        assert_eq!(
            decode_base64url(b"AAMAAABkAAQAAP__").unwrap(),
            [0, 3, 0, 0, 0, 100, 0, 4, 0, 0, 255, 255]
        );
        assert_eq!(decode_base64url(b"").unwrap(), []);
        for bad in ["A", "AAMAAABk=", "AAMAAAB+", "AAMA", "AAMAAABkA"] {
            assert_eq!(decode_base64url(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn an_upgrade_to_http2_passes_on_the_bytes_that_follow() {
        for cut in 1..ASKS.len() {
            let mut host = host();
            host.push(&ASKS[..cut]).push(&ASKS[cut..]).push("PRI * ");
            host.push("HTTP/2.0");
            assert_eq!(host.connection.poll_action(), Some(Action::Upgrade));
            let upgrade = host.connection.take_upgrade().unwrap();
            assert_eq!(upgrade.head, ASKS.as_bytes());
            assert_eq!(upgrade.settings.len(), 18);
            assert_eq!(upgrade.rest, b"PRI * HTTP/2.0");
            host.write(usize::MAX);
            assert!(host.writes.is_empty(), "{:?}", host.writes);
        }
    }

    #[test]
    fn a_first_line_that_is_malformed_is_answered() {
        for (input, status) in [
            ("GARBAGE\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            ("GET / HTTP\r\n\r\n", 400),
            ("GET a HTTP/x\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\n\r\n", 400),
            ("\x16\x03\x01", 400),
            ("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", 505),
        ] {
            let mut wrong = host();
            wrong.send(input);
            let answer = format!("HTTP/1.1 {status} ");
            let output = wrong.output();
            assert!(output.starts_with(&answer), "{input:?}: {output:?}");
            assert_eq!(wrong.statuses(), [status]);
            assert_eq!(wrong.actions, [Action::ShutdownWrite]);
        }
    }

    #[test]
    fn an_invalid_http2_preface_is_logged_and_not_answered_in_http1() {
        let input = "INVALID CONNECTION PREFACE\r\n\r\n";
        let mut wrong = host();
        wrong.send(input);
        assert!(wrong.writes.is_empty(), "{:?}", wrong.writes);
        assert_eq!(wrong.statuses(), [400]);
        assert_eq!(wrong.actions, [Action::ShutdownWrite]);
        // After an earlier request, or without other protocols, an invalid preface is a malformed HTTP/1 request.
        let mut later = host();
        later.send(format!("GET /a HTTP/1.1\r\nHost: h\r\n\r\n{input}"));
        assert_eq!(later.statuses(), [200, 400]);
        let mut off = Host::new(ServerConfig::default());
        off.send(input);
        assert!(off.writes[0].starts_with(b"HTTP/1.1 400 "));
    }

    #[test]
    fn upgrades_that_cannot_be_granted_are_answered_in_http1() {
        let without = |part: &str| ASKS.replace(part, "");
        for request in [
            without("Upgrade, "),
            without(", HTTP2-Settings"),
            without("Upgrade: h2c\r\n"),
            without("HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"),
            ASKS.replace("h2c", "websocket"),
            ASKS.replace("AAMA", "A"),
            ASKS.replace("HTTP/1.1", "HTTP/1.0"),
            ASKS.replace("\r\n\r\n", "\r\nContent-Length: 1\r\n\r\nx"),
            ASKS.replace(
                "\r\n\r\n",
                "\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
            ),
        ] {
            let mut host = host();
            host.send(&request);
            assert!(host.writes[0].starts_with(b"HTTP/1.1 "), "{request}");
            assert_eq!(host.connection.take_upgrade(), None);
        }
        let mut off = Host::new(ServerConfig::default());
        off.send(ASKS);
        assert!(off.writes[0].starts_with(b"HTTP/1.1 "));
        // A request after another request that is not answered yet.
        let mut behind = host();
        behind.send(format!("GET /a HTTP/1.1\r\nHost: h\r\n\r\n{ASKS}"));
        assert_eq!(behind.connection.requests(), 2);
        assert_eq!(behind.now, Instant::ZERO);
    }
}
