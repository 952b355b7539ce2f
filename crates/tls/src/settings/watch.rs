//! Records values that rustls reports to signers, verifiers and key logs, but not to the connection: the signature
//! scheme, the received certificates, and the exporter secret.
//!
//! rustls signs and verifies within the call that passes a record to it, on the same thread. Therefore, the signer, the
//! verifier and the key log store these values in a thread-local variable. The session takes the values after the call.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use fathometer_model::Bytes;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::sign::{Signer, SigningKey};
use rustls::{DigitallySignedStruct, Error, SignatureAlgorithm, SignatureScheme};

/// The exporter secret of a TLS 1.3 session (RFC 8446 section 7.1). Its length is the hash length of the cipher suite.
#[derive(Clone, Copy)]
pub(crate) struct ExporterSecret {
    secret: [u8; 48],
    length: usize,
}

impl ExporterSecret {
    fn new(bytes: &[u8]) -> Option<ExporterSecret> {
        let (mut secret, length) = ([0; 48], bytes.len());
        secret.get_mut(..length)?.copy_from_slice(bytes);
        Some(ExporterSecret { secret, length })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.secret[..self.length]
    }
}

/// Does not print the secret.
impl fmt::Debug for ExporterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExporterSecret")
    }
}

/// The values that were recorded during one call to rustls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Noted {
    /// The scheme of the server's signature.
    pub scheme: Option<SignatureScheme>,
    /// The size of the certificates that the peer sent or that this server presents.
    pub certificates: Option<Bytes>,
    /// The exporter secret, if a channel binding was requested.
    pub exporter: Option<ExporterSecret>,
}

std::thread_local! {
    static NOTED: Cell<Noted> = const {
        Cell::new(Noted { scheme: None, certificates: None, exporter: None })
    };
}

/// Removes and returns the values that were recorded since the last call.
pub(crate) fn take_noted() -> Noted {
    NOTED.take()
}

fn note(change: impl FnOnce(&mut Noted)) {
    let mut noted = NOTED.get();
    change(&mut noted);
    NOTED.set(noted);
}

/// Records the exporter secret.
pub(super) fn note_exporter(secret: &[u8]) {
    note(|noted| noted.exporter = ExporterSecret::new(secret));
}

/// Records the certificates that this server presents.
pub(super) fn note_shown(chain: &[CertificateDer<'_>]) {
    note(|noted| noted.certificates = Some(size(chain)));
}

/// Returns the size of a chain as it is sent, without the length fields of the certificates.
pub(super) fn size<'c>(chain: impl IntoIterator<Item = &'c CertificateDer<'c>>) -> Bytes {
    chain
        .into_iter()
        .map(|certificate| Bytes(certificate.len() as u64))
        .sum()
}

/// Verifies servers: the signature always, and the certificate chain if a verifier is set.
#[derive(Debug)]
pub(super) struct Watched {
    /// The verifier of the certificate chain; `None`: every certificate is accepted.
    pub chain: Option<Arc<dyn ServerCertVerifier>>,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Watched {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let size = size(intermediates) + Bytes(end_entity.len() as u64);
        note(|noted| noted.certificates = Some(size));
        match &self.chain {
            None => Ok(ServerCertVerified::assertion()),
            Some(chain) => {
                chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        note(|noted| noted.scheme = Some(signed.scheme));
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        note(|noted| noted.scheme = Some(signed.scheme));
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The key of a server. Records the scheme of each signature.
#[derive(Debug)]
pub(super) struct WatchedKey(pub Arc<dyn SigningKey>);

impl SigningKey for WatchedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.0.choose_scheme(offered)?;
        note(|noted| noted.scheme = Some(signer.scheme()));
        Some(signer)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}
