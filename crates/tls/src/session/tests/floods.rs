//! Tests of the limits on repeated messages. The simulated peer has the keys, but violates the protocol.

use super::pair::{Pair, client_options, server_options};
use crate::session::record::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE};
use crate::*;

const KEY_UPDATE: &[u8] = &[24, 0, 0, 1, 0];
const KEY_UPDATE_WANTED: &[u8] = &[24, 0, 0, 1, 1];

fn settled(version: Version) -> Pair {
    let mut client = client_options();
    client.versions = vec![version];
    let mut pair = Pair::with(client, server_options());
    pair.settle().unwrap();
    pair
}

/// Sends records of one kind to a server. Returns the number of accepted records, and the failure.
fn taken(version: Version, kind: u8, content: &[u8]) -> (u32, TlsFailure) {
    let mut pair = settled(version);
    for records in 0..1000 {
        pair.client.inject(kind, content);
        if content == KEY_UPDATE || content == KEY_UPDATE_WANTED {
            pair.client.renew_sending_key();
        }
        if let Err(failure) = pair.up() {
            assert!(
                pair.server.transmit().len() < 4096,
                "the size of the answers is also bounded"
            );
            return (records, failure);
        }
    }
    panic!("the server accepted 1000 records");
}

#[test]
fn repetition_is_bounded() {
    use Version::{Tls12, Tls13};
    let flood = TlsFailure::Flood;
    for (version, kind, content, most, failure) in [
        (
            Tls13,
            APPLICATION_DATA,
            &b""[..],
            32,
            flood("empty records"),
        ),
        (Tls12, APPLICATION_DATA, b"", 32, flood("empty records")),
        (
            Tls13,
            HANDSHAKE,
            KEY_UPDATE,
            32,
            flood("messages after the handshake"),
        ),
        (
            Tls13,
            HANDSHAKE,
            KEY_UPDATE_WANTED,
            32,
            flood("messages after the handshake"),
        ),
        (Tls13, ALERT, &[1, 90], 4, flood("warnings")),
        (Tls12, ALERT, &[1, 112], 4, flood("warnings")),
        (
            Tls12,
            HANDSHAKE,
            &[1, 0, 0, 0],
            1,
            flood("requests to renegotiate"),
        ),
        // Parts of a message that is never complete.
        (
            Tls13,
            HANDSHAKE,
            &[4, 0, 255, 255],
            32,
            flood("messages after the handshake"),
        ),
    ] {
        assert_eq!(
            taken(version, kind, content),
            (most, failure),
            "{version} {content:?}"
        );
    }
}

#[test]
fn unexpected_messages_are_refused_at_once() {
    use Version::{Tls12, Tls13};
    for (version, kind, content) in [
        (Tls13, HANDSHAKE, &b""[..]),
        (Tls13, HANDSHAKE, &[1, 0, 0, 0]),
        (Tls13, HANDSHAKE, &[4, 0, 0, 0]),
        (Tls13, HANDSHAKE, &[4, 1, 0, 0]),
        (Tls13, HANDSHAKE, &[24, 0, 0, 1, 2]),
        (Tls13, HANDSHAKE, &[24, 0, 0, 0]),
        (Tls13, HANDSHAKE, &[24, 0, 0, 1, 0, 24]),
        (Tls13, CHANGE_CIPHER_SPEC, &[1]),
        (Tls13, 99, b"?"),
        (Tls13, ALERT, &[1]),
        (Tls12, CHANGE_CIPHER_SPEC, &[1]),
        (Tls12, HANDSHAKE, &[20, 0, 0, 0]),
    ] {
        let (most, failure) = taken(version, kind, content);
        assert_eq!(most, 0, "{version} {kind} {content:?}");
        assert!(matches!(failure, TlsFailure::Misbehaved(_)), "{failure}");
    }
    // In TLS 1.3, warnings are fatal.
    let (most, failure) = taken(Tls13, ALERT, &[1, 112]);
    assert_eq!((most, failure), (0, TlsFailure::Alert(Alert(112))));
}

#[test]
fn data_in_between_makes_repetition_harmless() {
    let mut pair = settled(Version::Tls13);
    for _ in 0..200 {
        pair.client.inject(APPLICATION_DATA, b"");
        pair.client.inject(HANDSHAKE, KEY_UPDATE_WANTED);
        pair.client.renew_sending_key();
        pair.client.write(b"x");
        pair.up().unwrap();
        // The server answers the key update request with an update of its own key.
        pair.server.write(b"y");
        pair.settle().unwrap();
    }
    assert_eq!(pair.read, [[b'y'; 200], [b'x'; 200]]);
}

#[test]
fn a_renegotiation_is_declined_with_a_warning() {
    let mut pair = settled(Version::Tls12);
    pair.server.inject(HANDSHAKE, &[0, 0, 0, 0]);
    pair.down().unwrap();
    assert!(pair.client.wants_transmit());
    pair.up().unwrap();
    pair.client.write(b"goes on");
    pair.settle().unwrap();
    assert_eq!(pair.read[1], b"goes on");
}

#[test]
fn messages_come_in_any_number_of_records() {
    let mut pair = settled(Version::Tls13);
    for part in [&KEY_UPDATE[..1], &KEY_UPDATE[1..3], &KEY_UPDATE[3..]] {
        pair.client.inject(HANDSHAKE, part);
    }
    pair.client.renew_sending_key();
    pair.client.write(b"with the new key");
    pair.up().unwrap();
    assert_eq!(pair.read[1], b"with the new key");
    // No other record may come between two parts of a message.
    pair.client.inject(HANDSHAKE, &KEY_UPDATE[..2]);
    pair.client.inject(APPLICATION_DATA, b"data");
    let failure = pair.up().unwrap_err();
    assert!(matches!(failure, TlsFailure::Misbehaved(_)), "{failure}");
}
