//! TLS 1.3 for QUIC (RFC 9001), with rustls.
//!
//! The session in `quinn-proto` does not report whether a handshake resumed an earlier session, nor the negotiated
//! cipher suite. This session does the same work and reports both. rustls derives and applies the keys; *ring*
//! computes the Retry tag.
//!
//! Not in this module: trust anchors and the storage and issuing of tickets, which the rustls configuration defines;
//! and versions of QUIC other than 1.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use ring::aead;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::quic::{
    ClientConnection, Connection, KeyChange, Secrets, ServerConnection, Suite, Version,
};
use rustls::{CipherSuite, HandshakeKind};

use crate::hello::Hellos;
use crate::settings_error::SettingsError;

/// The supported version of QUIC (RFC 9000).
pub(crate) const VERSION: u32 = 1;

/// The values that both sides have negotiated.
#[derive(Debug, Clone, Default)]
pub(crate) struct Agreed {
    /// The negotiated protocol (ALPN).
    pub(crate) protocol: Option<Vec<u8>>,
    /// The requested server name (SNI); only servers have it.
    pub(crate) server_name: Option<String>,
    /// Whether an earlier session was resumed.
    pub(crate) resumed: bool,
    /// The cipher suite's name in the TLS registry.
    pub(crate) cipher_suite: Option<&'static str>,
    /// The bytes of the certificates that the peer presented in this handshake.
    pub(crate) certificates: u64,
    /// Whether a packet was decrypted with Handshake keys. The peer derives these keys from data that we sent, so this
    /// validates its address (RFC 9000 section 8.1).
    pub(crate) is_peer_shown: Arc<AtomicBool>,
}

/// Creates the sessions of clients.
pub(crate) struct ClientSession {
    tls: Arc<rustls::ClientConfig>,
    initial: Suite,
}

impl ClientSession {
    pub(crate) fn new(tls: Arc<rustls::ClientConfig>) -> Result<ClientSession, SettingsError> {
        let initial = initial_suite(tls.crypto_provider())?;
        Ok(ClientSession { tls, initial })
    }
}

impl crypto::ClientConfig for ClientSession {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        if version != VERSION {
            return Err(ConnectError::UnsupportedVersion);
        }
        let invalid = || ConnectError::InvalidServerName(server_name.to_owned());
        let name = ServerName::try_from(server_name).map_err(|_| invalid())?;
        let tls = Arc::clone(&self.tls);
        // Fails only for settings without TLS 1.3, for which `ClientSession::new` fails too.
        let tls = ClientConnection::new(tls, Version::V1, name.to_owned(), encoded(parameters))
            .map_err(|_| ConnectError::UnsupportedVersion)?;
        Ok(Box::new(Session::new(
            Connection::Client(tls),
            self.initial,
        )))
    }
}

/// Creates the sessions of servers.
pub(crate) struct ServerSession {
    tls: Arc<rustls::ServerConfig>,
    initial: Suite,
    /// Provides the keys of Initial and Retry packets.
    keys: QuicServerConfig,
}

impl ServerSession {
    pub(crate) fn new(tls: Arc<rustls::ServerConfig>) -> Result<ServerSession, SettingsError> {
        let initial = initial_suite(tls.crypto_provider())?;
        let keys = QuicServerConfig::try_from(Arc::clone(&tls)).map_err(|_| SettingsError::Tls)?;
        // Creates a session to find errors in the settings here, where they can be reported.
        ServerConnection::new(Arc::clone(&tls), Version::V1, Vec::new())
            .map_err(|_| SettingsError::Tls)?;
        Ok(ServerSession { tls, initial, keys })
    }
}

impl crypto::ServerConfig for ServerSession {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        match version {
            VERSION => self.keys.initial_keys(version, id),
            _ => Err(UnsupportedVersion),
        }
    }

    fn retry_tag(&self, version: u32, original: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.keys.retry_tag(version, original, packet)
    }

    fn start_session(
        self: Arc<Self>,
        _: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let tls = Arc::clone(&self.tls);
        let tls = ServerConnection::new(tls, Version::V1, encoded(parameters))
            .expect("a session was created with these settings before");
        Box::new(Session::new(Connection::Server(tls), self.initial))
    }
}

/// The TLS session of one connection.
struct Session {
    tls: Connection,
    initial: Suite,
    next: Option<Secrets>,
    /// Whether `read_handshake` has reported that the server name or the protocol is available.
    is_announced: bool,
    is_peer_shown: Arc<AtomicBool>,
    hellos: Hellos,
}

impl Session {
    fn new(tls: Connection, initial: Suite) -> Session {
        Session {
            tls,
            initial,
            next: None,
            is_announced: false,
            is_peer_shown: Arc::default(),
            hellos: Hellos::default(),
        }
    }

    fn server_name(&self) -> Option<&str> {
        match &self.tls {
            Connection::Client(_) => None,
            Connection::Server(tls) => tls.server_name(),
        }
    }

    fn agreed(&self) -> Agreed {
        let resumed = self.tls.handshake_kind() == Some(HandshakeKind::Resumed);
        // For a resumed session, rustls returns the certificates of the first handshake.
        let shown = self.tls.peer_certificates().filter(|_| !resumed);
        let suite = self.tls.negotiated_cipher_suite();
        Agreed {
            protocol: self.tls.alpn_protocol().map(<[u8]>::to_vec),
            server_name: self.server_name().map(str::to_owned),
            resumed,
            cipher_suite: suite.and_then(|suite| suite_name(suite.suite())),
            certificates: shown
                .unwrap_or_default()
                .iter()
                .map(|one| one.len() as u64)
                .sum(),
            is_peer_shown: Arc::clone(&self.is_peer_shown),
        }
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        keys(self.initial.keys(id, side.into(), Version::V1))
    }

    /// Returns an [`Agreed`] with the values that are available so far.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.agreed()))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let shown = self.tls.peer_certificates()?;
        let shown: Vec<CertificateDer<'static>> = shown
            .iter()
            .map(|certificate| certificate.clone().into_owned())
            .collect();
        Some(Box::new(shown))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.tls.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match &self.tls {
            Connection::Client(tls) => Some(tls.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        if self.tls.is_handshaking() {
            self.hellos.read(bytes)?;
        }
        self.tls.read_hs(bytes).map_err(|error| {
            let code = match self.tls.alert() {
                Some(alert) => TransportErrorCode::crypto(alert.into()),
                None => TransportErrorCode::PROTOCOL_VIOLATION,
            };
            TransportError {
                code,
                frame: None,
                reason: error.to_string(),
            }
        })?;
        // rustls has no event for the arrival of the server name (SNI) or for the end of the ALPN negotiation.
        let is_known = self.tls.alpn_protocol().is_some()
            || self.server_name().is_some()
            || !self.tls.is_handshaking();
        let is_new = is_known && !self.is_announced;
        self.is_announced |= is_known;
        Ok(is_new)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let side = match &self.tls {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        };
        match self.tls.quic_transport_parameters() {
            None => Ok(None),
            Some(mut bytes) => Ok(Some(TransportParameters::read(side, &mut bytes)?)),
        }
    }

    fn write_handshake(&mut self, bytes: &mut Vec<u8>) -> Option<Keys> {
        Some(match self.tls.write_hs(bytes)? {
            KeyChange::Handshake { keys: those } => {
                let mut keys = keys(those);
                keys.packet.remote = Box::new(WatchedKey {
                    key: keys.packet.remote,
                    is_used: Arc::clone(&self.is_peer_shown),
                });
                keys
            }
            KeyChange::OneRtt { keys: those, next } => {
                self.next = Some(next);
                keys(those)
            }
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    fn is_valid_retry(&self, original: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        is_valid_retry(original, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.tls
            .export_keying_material(output, label, Some(context))
            .map(drop)
            .map_err(|_| ExportKeyingMaterialError)
    }
}

/// A packet key that records whether a packet was decrypted with it.
struct WatchedKey {
    key: Box<dyn PacketKey>,
    is_used: Arc<AtomicBool>,
}

impl PacketKey for WatchedKey {
    fn encrypt(&self, packet: u64, bytes: &mut [u8], header: usize) {
        self.key.encrypt(packet, bytes, header);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.key.decrypt(packet, header, payload)?;
        self.is_used.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}

/// Returns the cipher suite of Initial packets, which is fixed (RFC 9001 section 5.2).
fn initial_suite(provider: &rustls::crypto::CryptoProvider) -> Result<Suite, SettingsError> {
    let suites = provider.cipher_suites.iter();
    suites
        .filter(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)
        .find_map(|suite| suite.tls13()?.quic_suite())
        .ok_or(SettingsError::Tls)
}

fn suite_name(suite: CipherSuite) -> Option<&'static str> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some("TLS_AES_128_GCM_SHA256"),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some("TLS_AES_256_GCM_SHA384"),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some("TLS_CHACHA20_POLY1305_SHA256"),
        other => other.as_str(),
    }
}

fn encoded(parameters: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.write(&mut bytes);
    bytes
}

fn keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}

/// The key and the nonce of the tags of Retry packets (RFC 9001 section 5.8).
const RETRY_KEY: u128 = 0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e;
const RETRY_NONCE: [u8; 12] = [
    0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
];

/// Whether the tag at the end of a Retry packet matches the packet and the client's original destination
/// connection ID.
fn is_valid_retry(original: &[u8], header: &[u8], payload: &[u8]) -> bool {
    let Some(length) = payload.len().checked_sub(aead::AES_128_GCM.tag_len()) else {
        return false;
    };
    let (token, tag) = payload.split_at(length);
    let mut covered = Vec::with_capacity(1 + original.len() + header.len() + length);
    covered.push(original.len() as u8);
    covered.extend_from_slice(original);
    covered.extend_from_slice(header);
    covered.extend_from_slice(token);
    let Ok(key) = aead::UnboundKey::new(&aead::AES_128_GCM, &RETRY_KEY.to_be_bytes()) else {
        return false;
    };
    let nonce = aead::Nonce::assume_unique_for_key(RETRY_NONCE);
    let mut tag = tag.to_vec();
    aead::LessSafeKey::new(key)
        .open_in_place(nonce, aead::Aad::from(covered), &mut tag)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9001 appendix A.4.
    #[test]
    fn the_retry_of_the_standard_is_valid_and_no_other() {
        let original = 0x8394_c8f0_3e51_5708_u64.to_be_bytes();
        let header = [
            0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62,
            0xb5,
        ];
        let payload = [
            &b"token"[..],
            &0x04a2_65ba_2eff_4d82_9058_fb3f_0f24_96ba_u128.to_be_bytes(),
        ]
        .concat();
        assert!(is_valid_retry(&original, &header, &payload));
        for place in 0..payload.len() {
            let mut wrong = payload.clone();
            wrong[place] ^= 1;
            assert!(!is_valid_retry(&original, &header, &wrong), "byte {place}");
        }
        assert!(!is_valid_retry(&original[1..], &header, &payload));
        assert!(!is_valid_retry(&original, &header, &payload[..15]));
    }
}
