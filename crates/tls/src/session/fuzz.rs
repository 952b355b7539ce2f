//! Fuzzing of sessions with arbitrary input.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fathometer_model::{Bytes, Instant};

use super::Session;
use crate::certificate::{Authority, Issue, Lifetime};
use crate::{
    ClientOptions, ClientSettings, ServerOptions, ServerSettings, TlsFailure, Traffic,
    Verification, Version,
};

const NOW: Instant = Instant::ZERO;

/// An entry point for fuzzing. The first byte of the input selects the receiver:
///
/// - a server or a client that receives the remaining input as raw bytes; the second byte selects the position of the
///   split;
/// - an established session that receives records sealed by its peer; the remaining input is a sequence of type, length
///   and content.
///
/// Panics in these cases:
///
/// - the whole, split and byte-by-byte input give different results;
/// - plaintext appears that was not sent;
/// - a session uses more memory than its limit.
pub fn fuzz(data: &[u8]) {
    let Some((&[side, cut], input)) = data.split_first_chunk::<2>() else {
        return;
    };
    let client = side & 1 == 1;
    if side & 2 == 0 {
        let whole = feed(client, &[input]);
        let cut = usize::from(cut).min(input.len());
        assert_eq!(whole, feed(client, &[&input[..cut], &input[cut..]]));
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(whole, feed(client, &bytes));
        assert_eq!(
            whole.plain,
            [],
            "input without valid keys gives no plaintext"
        );
    } else {
        let version = if side & 4 == 0 {
            Version::Tls13
        } else {
            Version::Tls12
        };
        sealed(client, version, input);
    }
}

/// The effect of the input on a session.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    failure: Option<TlsFailure>,
    plain: Vec<u8>,
    received: Traffic,
    established: bool,
}

fn feed(client: bool, pieces: &[&[u8]]) -> Outcome {
    let settings = settings();
    let mut session = match client {
        true => Session::client(&settings.client[0], "h.test", NOW),
        false => Session::server(&settings.server, NOW),
    }
    .expect("the settings are valid");
    let mut plain = Vec::new();
    for piece in pieces {
        take(&mut session, piece, &mut plain);
        check_bounds(&session);
    }
    Outcome {
        failure: session.failure().cloned(),
        plain,
        received: *session.received(),
        established: session.is_established(),
    }
}

fn sealed(client: bool, version: Version, mut input: &[u8]) {
    let settings = settings();
    let of_version = &settings.client[usize::from(version == Version::Tls12)];
    let mut sessions = [
        Session::client(of_version, "h.test", NOW).expect("the settings are valid"),
        Session::server(&settings.server, NOW).expect("the settings are valid"),
    ];
    let mut plain = Vec::new();
    while sessions.iter().any(Session::wants_transmit) {
        for from in [0, 1] {
            carry(&mut sessions, from, &mut plain);
        }
    }
    let to = usize::from(!client);
    let mut allowed = 0;
    while let Some((&[kind, length], rest)) = input.split_first_chunk::<2>() {
        let (content, rest) = rest.split_at(usize::from(length).min(rest.len()));
        input = rest;
        sessions[1 - to].inject(kind, content);
        allowed += content.len();
    }
    carry(&mut sessions, 1 - to, &mut plain);
    assert!(plain.len() <= allowed);
    assert_eq!(Bytes(plain.len() as u64), sessions[to].received().content);
    check_bounds(&sessions[to]);
    // The peer must be able to open every reply.
    carry(&mut sessions, to, &mut plain);
    let answer = sessions[1 - to].failure();
    assert!(
        !matches!(answer, Some(TlsFailure::BadRecord | TlsFailure::NotTls(_))),
        "{answer:?}"
    );
}

fn carry(sessions: &mut [Session; 2], from: usize, plain: &mut Vec<u8>) {
    let bytes = sessions[from].transmit().to_vec();
    sessions[from].transmitted(bytes.len());
    take(&mut sessions[1 - from], &bytes, plain);
}

fn take(session: &mut Session, piece: &[u8], plain: &mut Vec<u8>) {
    let mut piece = piece.to_vec();
    let mut input = &mut piece[..];
    while let Ok(Some(opened)) = session.open(&mut input, NOW) {
        assert!(!opened.is_empty());
        plain.extend_from_slice(opened);
    }
    assert!(input.is_empty() || session.failure().is_some());
}

fn check_bounds(session: &Session) {
    assert!(session.incoming.len() <= 128 * 1024);
    assert!(session.outgoing.len() <= 128 * 1024);
}

struct Settings {
    /// The settings of a client with TLS 1.3, and of a client with TLS 1.2.
    client: [Arc<ClientSettings>; 2],
    server: Arc<ServerSettings>,
}

/// The settings are created once, because creating a certificate takes longer than a fuzzing run.
fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let time = Duration::from_secs(1_790_000_000);
        let lifetime = Lifetime::around(time, Duration::from_secs(86_400));
        let identity = Authority::new(lifetime)
            .and_then(|authority| authority.issue(&Issue::new(["h.test"])))
            .expect("the system's random number generator works");
        let client = [Version::Tls13, Version::Tls12].map(|version| {
            let mut options = ClientOptions::new(Verification::Off, time);
            options.versions = vec![version];
            options.resumption = None;
            ClientSettings::new(options).expect("the options are valid")
        });
        let server = ServerSettings::new(ServerOptions::new(identity, time));
        Settings {
            client,
            server: server.expect("the options are valid"),
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_changed_hello_causes_a_panic(
            cut in any::<u8>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut client = Session::client(&settings().client[0], "h.test", NOW).unwrap();
            let mut hello = client.transmit().to_vec();
            for (place, byte) in changes {
                let place = place.index(hello.len());
                hello[place] = byte;
            }
            fuzz(&[&[0, cut], &hello[..]].concat());
        }

        #[test]
        fn no_sequence_of_sealed_records_causes_a_panic(
            side in prop::sample::select(&[2_u8, 3, 6, 7][..]),
            records in prop::collection::vec(
                (
                    prop_oneof![Just(22_u8), 20_u8..24, any::<u8>()],
                    prop_oneof![Just(vec![24, 0, 0, 1, 1]), Just(vec![4, 0, 0, 3]),
                        prop::collection::vec(any::<u8>(), 0..9)],
                ),
                0..40,
            ),
        ) {
            let mut input = vec![side, 0];
            for (kind, content) in records {
                input.extend_from_slice(&[kind, content.len() as u8]);
                input.extend_from_slice(&content);
            }
            fuzz(&input);
        }
    }

    #[test]
    fn good_and_bad_input_is_understood_alike_however_it_is_cut() {
        let mut client = Session::client(&settings().client[0], "h.test", NOW).unwrap();
        let hello = client.transmit().to_vec();
        for length in [hello.len(), hello.len() - 1, 9, 4, 0] {
            for cut in [0, 3, 5, 77] {
                fuzz(&[&[0, cut], &hello[..length]].concat());
            }
        }
        let mut twice = [0, 200].to_vec();
        twice.extend_from_slice(&hello);
        twice.extend_from_slice(&hello);
        fuzz(&twice);
        fuzz(b"\x00\x02GET / HTTP/1.1\r\n\r\n");
        fuzz(b"\x01\x02\x15\x03\x03\x00\x02\x02\x28");
        fuzz(b"\x01\x07\x16\x03\x03\x00\x00\x16\x03\x03\x00\x00");
    }

    #[test]
    fn no_sealed_record_causes_a_panic() {
        for side in [2, 3, 6, 7] {
            for records in [
                &b"\x17\x05hello\x17\x00\x15\x02\x01\x00\x17\x04late"[..],
                b"\x16\x04\x04\x00\x00\x00",
                b"\x16\x05\x18\x00\x00\x01\x01",
                b"\x16\x02\x18\x00\x16\x03\x00\x01\x00",
                b"\x15\x02\x02\x28\x17\x01x",
                b"\x16\x04\x00\x00\x00\x00\x16\x04\x01\x00\x00\x00",
                b"\x00\x00\x63\x01a",
            ] {
                fuzz(&[&[side, 0], records].concat());
            }
        }
    }
}
