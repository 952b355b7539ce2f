//! Checks that the channel binding equals the RFC 9266 value that rustls's buffered connections export.

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};

use super::pair::{NOW, Pair, client_options, server_options};
use crate::*;

const LABEL: &[u8] = b"EXPORTER-Channel-Binding";

const SUITES: [CipherSuite; 3] = [
    CipherSuite::Aes256Gcm,
    CipherSuite::Aes128Gcm,
    CipherSuite::ChaCha20Poly1305,
];

/// Returns options of both sides, with the channel binding and one cipher suite.
fn options(suite: CipherSuite) -> (ClientOptions, ServerOptions) {
    let (mut client, mut server) = (client_options(), server_options());
    client.cipher_suites = vec![suite];
    client.versions = vec![suite.version()];
    client.channel_binding = true;
    server.channel_binding = true;
    (client, server)
}

/// Transfers the bytes between a `Session` and a rustls connection.
macro_rules! settle {
    ($ours:expr, $theirs:expr) => {
        for _ in 0..4 {
            let bytes = $ours.transmit().to_vec();
            $ours.transmitted(bytes.len());
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                $theirs.read_tls(&mut rest).unwrap();
                $theirs.process_new_packets().unwrap();
            }
            let mut bytes = Vec::new();
            while $theirs.wants_write() {
                $theirs.write_tls(&mut bytes).unwrap();
            }
            $ours.receive(&bytes, NOW).unwrap();
        }
    };
}

#[test]
fn both_sides_have_the_binding_that_rustls_exports() {
    for suite in SUITES {
        let (client, server) = options(suite);
        let client = ClientSettings::new(client).unwrap();
        let server = ServerSettings::new(server).unwrap();
        let mut ours = Session::client(&client, "origin.test", NOW).unwrap();
        let mut theirs = ServerConnection::new(server.config.clone()).unwrap();
        settle!(ours, theirs);
        let expected = theirs.export_keying_material([0; 32], LABEL, None);
        assert_eq!(ours.channel_binding(), Some(&expected.unwrap()), "{suite}");

        let mut ours = Session::server(&server, NOW).unwrap();
        let name = ServerName::try_from("origin.test").unwrap();
        let mut theirs = ClientConnection::new(client.config.clone(), name).unwrap();
        settle!(ours, theirs);
        let expected = theirs.export_keying_material([0; 32], LABEL, None);
        assert_eq!(ours.channel_binding(), Some(&expected.unwrap()), "{suite}");
    }
}

#[test]
fn each_session_has_another_binding_also_a_resumed_one() {
    let (client, server) = options(CipherSuite::Aes256Gcm);
    let client = ClientSettings::new(client).unwrap();
    let server = ServerSettings::new(server).unwrap();
    let bindings = [Resumption::Full, Resumption::Psk].map(|resumption| {
        let mut pair = Pair::new(&client, &server);
        assert_eq!(pair.client.channel_binding(), None);
        assert_eq!(pair.server.channel_binding(), None);
        pair.settle().unwrap();
        assert_eq!(pair.client_handshake().resumption, resumption);
        let binding = *pair.client.channel_binding().unwrap();
        assert_eq!(pair.server.channel_binding(), Some(&binding));
        binding
    });
    assert_ne!(bindings[0], bindings[1]);
}

#[test]
fn there_is_no_binding_in_tls_1_2_or_unrequested() {
    let (mut client, server) = options(CipherSuite::EcdsaAes256Gcm);
    let mut pair = Pair::with(client.clone(), server.clone());
    pair.settle().unwrap();
    assert_eq!(pair.client_handshake().version, Version::Tls12);
    for side in [&pair.client, &pair.server] {
        assert_eq!(side.channel_binding(), None);
    }
    client = options(CipherSuite::Aes256Gcm).0;
    client.channel_binding = false;
    let mut pair = Pair::with(client, server);
    pair.settle().unwrap();
    assert_eq!(pair.client.channel_binding(), None);
    assert!(pair.server.channel_binding().is_some());
}

#[test]
fn the_binding_is_kept_next_to_a_key_log() {
    #[derive(Debug)]
    struct Ignored;
    impl KeyLogSink for Ignored {
        fn line(&self, _: &str) {}
    }
    let (mut client, server) = options(CipherSuite::Aes128Gcm);
    client.key_log = Some(std::sync::Arc::new(Ignored));
    let mut pair = Pair::with(client, server);
    pair.settle().unwrap();
    assert!(pair.client.channel_binding().is_some());
    let (client, server) = (&pair.client, &pair.server);
    assert_eq!(client.channel_binding(), server.channel_binding());
}
