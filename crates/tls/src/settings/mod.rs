//! The TLS settings of a run, which are created once and shared by all connections.

mod client;
mod clock;
mod key_log;
mod server;
mod shown;
mod tickets;
mod watch;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::settings_error::SettingsError;

pub use client::{ClientOptions, ClientSettings, Verification};
pub(crate) use clock::Clock;
pub use key_log::KeyLogSink;
pub use server::{ClientCertificates, FirstRecords, ServerOptions, ServerSettings, Tickets};
pub(crate) use watch::{ExporterSecret, Noted, take_noted};

/// The maximum number of bytes of application data in a record (RFC 8446 section 5.1).
pub(crate) const LARGEST_RECORD: usize = 16 * 1024;
/// The minimum record size in bytes. Smaller records would consist mostly of overhead, and rustls rejects them.
const SMALLEST_RECORD: usize = 32;

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl Version {
    /// All versions, newest first.
    pub const ALL: [Version; 2] = [Version::Tls13, Version::Tls12];

    /// The version's number, such as `1.3`.
    pub const fn name(self) -> &'static str {
        match self {
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        }
    }
}

/// A cipher suite: the encryption of records; in TLS 1.2, also the key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CipherSuite {
    /// `TLS_AES_256_GCM_SHA384`, TLS 1.3.
    Aes256Gcm,
    /// `TLS_AES_128_GCM_SHA256`, TLS 1.3.
    Aes128Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`, TLS 1.3.
    ChaCha20Poly1305,
    /// `TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384`, TLS 1.2.
    EcdsaAes256Gcm,
    /// `TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256`, TLS 1.2.
    EcdsaAes128Gcm,
    /// `TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256`, TLS 1.2.
    EcdsaChaCha20Poly1305,
    /// `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`, TLS 1.2.
    RsaAes256Gcm,
    /// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`, TLS 1.2.
    RsaAes128Gcm,
    /// `TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256`, TLS 1.2.
    RsaChaCha20Poly1305,
}

impl CipherSuite {
    /// All cipher suites, in the default order of preference.
    pub const ALL: [CipherSuite; 9] = [
        CipherSuite::Aes256Gcm,
        CipherSuite::Aes128Gcm,
        CipherSuite::ChaCha20Poly1305,
        CipherSuite::EcdsaAes256Gcm,
        CipherSuite::EcdsaAes128Gcm,
        CipherSuite::EcdsaChaCha20Poly1305,
        CipherSuite::RsaAes256Gcm,
        CipherSuite::RsaAes128Gcm,
        CipherSuite::RsaChaCha20Poly1305,
    ];

    /// The suite's name in the TLS registry.
    pub const fn name(self) -> &'static str {
        match self {
            CipherSuite::Aes256Gcm => "TLS_AES_256_GCM_SHA384",
            CipherSuite::Aes128Gcm => "TLS_AES_128_GCM_SHA256",
            CipherSuite::ChaCha20Poly1305 => "TLS_CHACHA20_POLY1305_SHA256",
            CipherSuite::EcdsaAes256Gcm => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            CipherSuite::EcdsaAes128Gcm => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            CipherSuite::EcdsaChaCha20Poly1305 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            CipherSuite::RsaAes256Gcm => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            CipherSuite::RsaAes128Gcm => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            CipherSuite::RsaChaCha20Poly1305 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        }
    }

    /// The TLS version of the cipher suite.
    pub const fn version(self) -> Version {
        match self {
            CipherSuite::Aes256Gcm | CipherSuite::Aes128Gcm | CipherSuite::ChaCha20Poly1305 => {
                Version::Tls13
            }
            _ => Version::Tls12,
        }
    }

    fn supported(self) -> SupportedCipherSuite {
        use ring::cipher_suite as suite;
        match self {
            CipherSuite::Aes256Gcm => suite::TLS13_AES_256_GCM_SHA384,
            CipherSuite::Aes128Gcm => suite::TLS13_AES_128_GCM_SHA256,
            CipherSuite::ChaCha20Poly1305 => suite::TLS13_CHACHA20_POLY1305_SHA256,
            CipherSuite::EcdsaAes256Gcm => suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            CipherSuite::EcdsaAes128Gcm => suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::EcdsaChaCha20Poly1305 => {
                suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            }
            CipherSuite::RsaAes256Gcm => suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            CipherSuite::RsaAes128Gcm => suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            CipherSuite::RsaChaCha20Poly1305 => suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        }
    }

    pub(crate) fn of(suite: SupportedCipherSuite) -> Option<CipherSuite> {
        CipherSuite::ALL
            .into_iter()
            .find(|known| known.supported().suite() == suite.suite())
    }
}

/// A group for the key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Curve25519 (RFC 7748).
    X25519,
    /// NIST's P-256.
    P256,
    /// NIST's P-384.
    P384,
}

impl Group {
    /// All groups, in the default order of preference.
    pub const ALL: [Group; 3] = [Group::X25519, Group::P256, Group::P384];

    /// The group's name in the TLS registry.
    pub const fn name(self) -> &'static str {
        match self {
            Group::X25519 => "x25519",
            Group::P256 => "secp256r1",
            Group::P384 => "secp384r1",
        }
    }

    fn supported(self) -> &'static dyn SupportedKxGroup {
        match self {
            Group::X25519 => ring::kx_group::X25519,
            Group::P256 => ring::kx_group::SECP256R1,
            Group::P384 => ring::kx_group::SECP384R1,
        }
    }

    pub(crate) fn of(group: &dyn SupportedKxGroup) -> Option<Group> {
        Group::ALL
            .into_iter()
            .find(|known| known.supported().name() == group.name())
    }
}

/// Implements the parsing and formatting of names.
macro_rules! named {
    ($type:ty, $kind:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = SettingsError;
            fn from_str(text: &str) -> Result<$type, SettingsError> {
                <$type>::ALL
                    .into_iter()
                    .find(|known| known.name().eq_ignore_ascii_case(text))
                    .ok_or_else(|| SettingsError::Unknown {
                        kind: $kind,
                        word: text.to_owned(),
                        known: <$type>::ALL.map(|known| known.name()).join(", "),
                    })
            }
        }
    };
}

named!(Version, "TLS version");
named!(CipherSuite, "cipher suite");
named!(Group, "group");

/// Returns `ring`'s cryptography, limited to the given cipher suites and groups. An empty list means all.
fn provider(suites: &[CipherSuite], groups: &[Group]) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    if !suites.is_empty() {
        provider.cipher_suites = suites.iter().map(|suite| suite.supported()).collect();
    }
    if !groups.is_empty() {
        provider.kx_groups = groups.iter().map(|group| group.supported()).collect();
    }
    Arc::new(provider)
}

fn protocol_versions(versions: &[Version]) -> Vec<&'static SupportedProtocolVersion> {
    versions
        .iter()
        .map(|version| match version {
            Version::Tls12 => &rustls::version::TLS12,
            Version::Tls13 => &rustls::version::TLS13,
        })
        .collect()
}

fn check_record_size(size: usize) -> Result<(), SettingsError> {
    match size {
        SMALLEST_RECORD..=LARGEST_RECORD => Ok(()),
        _ => Err(SettingsError::RecordSize(size)),
    }
}

fn contradiction(error: impl fmt::Display) -> SettingsError {
    SettingsError::Contradiction(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for suite in CipherSuite::ALL {
            assert_eq!(suite.to_string().parse(), Ok(suite));
            assert_eq!(CipherSuite::of(suite.supported()), Some(suite));
        }
        for group in Group::ALL {
            assert_eq!(group.to_string().parse(), Ok(group));
            assert_eq!(Group::of(group.supported()), Some(group));
        }
        for version in Version::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        let error = "1.1".parse::<Version>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown TLS version \"1.1\": supported are 1.3, 1.2"
        );
    }
}
