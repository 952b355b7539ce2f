//! Reasons for the failure of a session.

use std::fmt;

use fathometer_model::Failure;
use rustls::{CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

/// The reason why TLS could not be established, or failed later. Time-outs are not included, because the host handles
/// them.
///
/// The `Display` text completes "TLS failed: {failure}".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsFailure {
    /// The issuer of the peer's certificate is not an authority that this side trusts.
    #[error("the certificate's issuer is not trusted")]
    NotTrusted,
    /// The certificate is valid only for other names, which the text lists.
    #[error("the certificate is for another name ({0})")]
    NameMismatch(String),
    /// The certificate has expired or is not valid yet. The text states the time difference.
    #[error("the certificate is not valid at this time ({0})")]
    Expired(String),
    /// The certificate is invalid for another reason.
    #[error("the certificate is not acceptable ({0})")]
    BadCertificate(String),
    /// The peer did not present the required certificate.
    #[error("the peer sent no certificate")]
    NoCertificate,
    /// The two sides have no TLS version in common.
    #[error("no TLS version in common ({0})")]
    NoCommonVersion(String),
    /// The two sides have no cipher suite, key exchange group or signature scheme in common.
    #[error("no cipher suite, group or signature scheme in common ({0})")]
    NoCommonCipher(String),
    /// The two sides have no application protocol in common (ALPN).
    #[error("no application protocol in common")]
    NoCommonProtocol,
    /// A record cannot be decrypted, because its authentication tag is wrong.
    #[error("a record cannot be decrypted")]
    BadRecord,
    /// The input is not TLS, or a record is malformed.
    #[error("the received bytes are not TLS ({0})")]
    NotTls(String),
    /// The peer violated the protocol.
    #[error("the peer violated the protocol ({0})")]
    Misbehaved(String),
    /// The peer sent more messages of a harmless kind than the limit against floods allows.
    #[error("the peer sent too many {0}")]
    Flood(&'static str),
    /// The peer failed and sent this alert.
    #[error("the peer sent the alert {0}")]
    Alert(Alert),
    /// The transport was closed without `close_notify`, so data may be missing.
    #[error("the connection was closed without close_notify")]
    Truncated,
    /// The name of the server is neither a host name nor an IP address.
    #[error("{0:?} is neither a host name nor an address")]
    BadName(String),
    /// An internal failure of this side.
    #[error("{0}")]
    Local(String),
}

impl TlsFailure {
    /// Returns the kind of failure for the records of a run. The `Display` text states the cause.
    pub fn failure(&self) -> Failure {
        match self {
            TlsFailure::Truncated => Failure::Truncated,
            TlsFailure::BadName(_) | TlsFailure::Local(_) => Failure::LocalAbort,
            _ => Failure::TlsFailed,
        }
    }
}

impl From<Error> for TlsFailure {
    fn from(error: Error) -> TlsFailure {
        match error {
            Error::InvalidCertificate(error) => certificate(&error),
            Error::NoCertificatesPresented => TlsFailure::NoCertificate,
            Error::PeerIncompatible(what) => incompatible(&what),
            Error::PeerMisbehaved(what) => misbehaved(&what),
            Error::AlertReceived(alert) => TlsFailure::Alert(Alert(alert.into())),
            Error::NoApplicationProtocol => TlsFailure::NoCommonProtocol,
            Error::DecryptError => TlsFailure::BadRecord,
            Error::PeerSentOversizedRecord => {
                TlsFailure::NotTls("a record of more than 16 KiB".to_owned())
            }
            Error::InvalidMessage(what) => invalid(what),
            Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
                TlsFailure::Misbehaved(error.to_string())
            }
            Error::UnsupportedNameType => TlsFailure::BadName(String::new()),
            error => TlsFailure::Local(error.to_string()),
        }
    }
}

fn certificate(error: &CertificateError) -> TlsFailure {
    use CertificateError as E;
    let text = error.to_string();
    match error {
        E::UnknownIssuer => TlsFailure::NotTrusted,
        E::NotValidForName | E::NotValidForNameContext { .. } => TlsFailure::NameMismatch(text),
        E::Expired | E::ExpiredContext { .. } | E::NotValidYet | E::NotValidYetContext { .. } => {
            TlsFailure::Expired(text)
        }
        _ => TlsFailure::BadCertificate(text),
    }
}

fn incompatible(what: &PeerIncompatible) -> TlsFailure {
    use PeerIncompatible as P;
    let text = words(&format!("{what:?}"));
    match what {
        P::ServerDoesNotSupportTls12Or13
        | P::ServerTlsVersionIsDisabledByOurConfig
        | P::SupportedVersionsExtensionRequired
        | P::Tls12NotOffered
        | P::Tls12NotOfferedOrEnabled
        | P::Tls13RequiredForQuic => TlsFailure::NoCommonVersion(text),
        P::NoCipherSuitesInCommon
        | P::NoEcPointFormatsInCommon
        | P::NoKxGroupsInCommon
        | P::NoSignatureSchemesInCommon
        | P::NoCertificateRequestSignatureSchemesInCommon
        | P::NamedGroupsExtensionRequired
        | P::KeyShareExtensionRequired => TlsFailure::NoCommonCipher(text),
        _ => TlsFailure::Misbehaved(text),
    }
}

fn misbehaved(what: &PeerMisbehaved) -> TlsFailure {
    use PeerMisbehaved as P;
    match what {
        P::TooManyEmptyFragments => TlsFailure::Flood("empty records"),
        P::TooManyKeyUpdateRequests => TlsFailure::Flood("key updates"),
        P::TooManyRenegotiationRequests => TlsFailure::Flood("requests to renegotiate"),
        P::TooManyWarningAlertsReceived => TlsFailure::Flood("warnings"),
        P::TooMuchEarlyDataReceived => TlsFailure::Flood("bytes of early data"),
        P::IllegalMiddleboxChangeCipherSpec => TlsFailure::Flood("change_cipher_spec records"),
        P::SelectedUnofferedApplicationProtocol => TlsFailure::NoCommonProtocol,
        what => TlsFailure::Misbehaved(words(&format!("{what:?}"))),
    }
}

fn invalid(what: InvalidMessage) -> TlsFailure {
    use InvalidMessage as I;
    let text = words(&format!("{what:?}"));
    match what {
        I::InvalidContentType
        | I::UnknownProtocolVersion
        | I::MessageTooLarge
        | I::InvalidEmptyPayload => TlsFailure::NotTls(text),
        _ => TlsFailure::Misbehaved(text),
    }
}

/// Converts a name such as `NoCipherSuitesInCommon` to `no cipher suites in common`.
fn words(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() && !text.ends_with([' ', '(']) {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// An alert (RFC 8446 section 6), identified by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Alert(pub u8);

impl Alert {
    /// Returns the alert's registered name; `None` for an unregistered number.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .binary_search_by_key(&self.0, |&(number, _)| number)
            .ok()
            .map(|place| NAMES[place].1)
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "number {}", self.0),
        }
    }
}

const NAMES: [(u8, &str); 34] = [
    (0, "close_notify"),
    (10, "unexpected_message"),
    (20, "bad_record_mac"),
    (21, "decryption_failed"),
    (22, "record_overflow"),
    (30, "decompression_failure"),
    (40, "handshake_failure"),
    (41, "no_certificate"),
    (42, "bad_certificate"),
    (43, "unsupported_certificate"),
    (44, "certificate_revoked"),
    (45, "certificate_expired"),
    (46, "certificate_unknown"),
    (47, "illegal_parameter"),
    (48, "unknown_ca"),
    (49, "access_denied"),
    (50, "decode_error"),
    (51, "decrypt_error"),
    (60, "export_restriction"),
    (70, "protocol_version"),
    (71, "insufficient_security"),
    (80, "internal_error"),
    (86, "inappropriate_fallback"),
    (90, "user_canceled"),
    (100, "no_renegotiation"),
    (109, "missing_extension"),
    (110, "unsupported_extension"),
    (111, "certificate_unobtainable"),
    (112, "unrecognized_name"),
    (113, "bad_certificate_status_response"),
    (114, "bad_certificate_hash_value"),
    (115, "unknown_psk_identity"),
    (116, "certificate_required"),
    (120, "no_application_protocol"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        assert!(NAMES.is_sorted_by_key(|&(number, _)| number));
        assert_eq!(Alert(48).to_string(), "unknown_ca");
        assert_eq!(Alert(3).to_string(), "number 3");
    }

    #[test]
    fn causes_are_stated_in_words() {
        let failure = TlsFailure::from(Error::from(PeerIncompatible::NoCipherSuitesInCommon));
        assert_eq!(
            failure.to_string(),
            "no cipher suite, group or signature scheme in common (no cipher suites in common)"
        );
        assert_eq!(failure.failure(), Failure::TlsFailed);
        assert_eq!(TlsFailure::Truncated.failure(), Failure::Truncated);
    }
}
