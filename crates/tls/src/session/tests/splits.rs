//! Checks that any split of the bytes gives the same plaintext and the same counts.

use std::sync::OnceLock;

use proptest::prelude::*;

use super::pair::{NOW, TODAY, authority, client_options};
use crate::certificate::{Issue, KeyKind};
use crate::*;

/// The result of a connection whose bytes were split into the given pieces.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    read: [Vec<u8>; 2],
    early: Vec<u8>,
    handshakes: Vec<Option<Handshake>>,
    /// For each session: the counts of the sent and of the received records.
    traffic: Vec<(Traffic, Traffic)>,
}

/// Splits bytes into pieces of these sizes. The list of sizes is repeated.
struct Cuts<'c> {
    sizes: &'c [usize],
    next: usize,
}

impl Cuts<'_> {
    fn carry(
        &mut self,
        from: &mut Session,
        to: &mut Session,
        read: &mut Vec<u8>,
        mut early: Option<&mut Vec<u8>>,
    ) {
        while from.wants_transmit() {
            let size = self.sizes[self.next % self.sizes.len()];
            self.next += 1;
            let bytes = from.transmit();
            let mut piece = bytes[..size.min(bytes.len())].to_vec();
            from.transmitted(piece.len());
            let mut input = &mut piece[..];
            while let Some(plain) = to.open(&mut input, NOW).unwrap() {
                let start = read.len();
                read.extend_from_slice(plain);
                if let Some(early) = early.as_deref_mut().filter(|_| to.is_early()) {
                    early.extend_from_slice(&read[start..]);
                }
            }
            assert!(input.is_empty());
        }
    }
}

/// Returns server options with signatures of constant length, so that all handshakes have the same length.
fn server_options() -> ServerOptions {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    let identity = IDENTITY.get_or_init(|| {
        let request = Issue {
            key: KeyKind::Ed25519,
            ..Issue::new(["origin.test"])
        };
        authority().issue(&request).unwrap()
    });
    ServerOptions::new(identity.clone(), TODAY)
}

/// Makes a connection, and a second one that resumes the session with early data. Both transfer data in each direction.
fn run(version: Version, sizes: &[usize], content: &[u8]) -> Outcome {
    let (mut client, mut server) = (client_options(), server_options());
    client.versions = vec![version];
    client.alpn = vec![b"h2".to_vec()];
    client.early_data = true;
    client.record_size = 1000;
    server.alpn = client.alpn.clone();
    server.tickets = Tickets::Stateful {
        count: 1,
        capacity: 9,
    };
    server.early_data = Some(5000);
    let client = ClientSettings::new(client).unwrap();
    let server = ServerSettings::new(server).unwrap();
    let mut outcome = Outcome::default();
    let mut cuts = Cuts { sizes, next: 0 };
    for _ in 0..2 {
        let mut client = Session::client(&client, "origin.test", NOW).unwrap();
        let mut server = Session::server(&server, NOW).unwrap();
        let early = content.len().min(5000) / 2;
        let early = client.early_write(&content[..early]);
        client.write(&content[early..]);
        server.write(b"greeting");
        while client.wants_transmit() || server.wants_transmit() {
            let [down, up] = &mut outcome.read;
            cuts.carry(&mut client, &mut server, up, Some(&mut outcome.early));
            cuts.carry(&mut server, &mut client, down, None);
            let now_closing = client.is_established() && server.is_established();
            if now_closing && !client.is_closed_by_peer() {
                client.close();
                server.close();
            }
        }
        for session in [&client, &server] {
            assert!(session.is_closed_by_peer());
            outcome.handshakes.push(session.handshake().cloned());
            outcome.traffic.push((*session.sent(), *session.received()));
        }
    }
    outcome
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_split_gives_the_same(
        tls13 in any::<bool>(),
        sizes in prop::collection::vec(1_usize..900, 1..6),
        content in prop::collection::vec(any::<u8>(), 0..6000),
    ) {
        let version = if tls13 { Version::Tls13 } else { Version::Tls12 };
        let whole = run(version, &[usize::MAX], &content);
        let cut = run(version, &sizes, &content);
        prop_assert_eq!(&whole.read[0], &b"greetinggreeting"[..]);
        prop_assert_eq!(&whole.read[1], &[&content[..], &content[..]].concat());
        let early = if tls13 { content.len().min(5000) / 2 } else { 0 };
        prop_assert_eq!(&whole.early[..], &content[..early]);
        prop_assert_eq!(whole, cut);
    }
}

#[test]
fn byte_by_byte_gives_the_same() {
    for version in Version::ALL {
        let content = [b'c'; 3000];
        let whole = run(version, &[usize::MAX], &content);
        let cut = run(version, &[1], &content);
        assert_eq!(whole, cut);
    }
}

#[test]
fn both_ways_to_read_give_the_same_records() {
    let client = ClientSettings::new(client_options()).unwrap();
    let server = ServerSettings::new(server_options()).unwrap();
    let mut client = Session::client(&client, "origin.test", NOW).unwrap();
    let mut server = Session::server(&server, NOW).unwrap();
    let content: Vec<u8> = (0..40_000).map(|n| (n % 251) as u8).collect();
    client.write(&content);
    let mut read = Vec::new();
    let mut some = [0; 700];
    while client.wants_transmit() || server.wants_transmit() {
        let bytes = client.transmit().to_vec();
        client.transmitted(bytes.len());
        assert_eq!(server.receive(&bytes, NOW), Ok(bytes.len()));
        // Unread data is stored for a later call.
        let length = server.read(&mut some);
        read.extend_from_slice(&some[..length]);
        let bytes = server.transmit().to_vec();
        server.transmitted(bytes.len());
        client.receive(&bytes, NOW).unwrap();
    }
    // The remaining data is read in place. No data is lost when `read` and `open` are mixed.
    for _ in 0..5 {
        let length = server.read(&mut some);
        read.extend_from_slice(&some[..length]);
    }
    client.write(b"the last");
    let mut bytes = client.transmit().to_vec();
    let mut input = &mut bytes[..];
    while let Some(plain) = server.open(&mut input, NOW).unwrap() {
        read.extend_from_slice(plain);
    }
    assert_eq!(read, [&content[..], b"the last"].concat());
}
