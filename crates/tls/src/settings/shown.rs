//! Selects the certificate that a server presents (RFC 6066 section 3).

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::watch::{WatchedKey, note_shown};
use super::{SettingsError, contradiction};
use crate::Identity;

/// Presents the first certificate that matches the requested server name. If there is no match or no requested name,
/// presents the first certificate.
#[derive(Debug)]
pub(super) struct Shown(Vec<Arc<CertifiedKey>>);

impl Shown {
    /// Creates a selection from these identities (at least one).
    pub(super) fn new(
        identities: impl Iterator<Item = Identity>,
        provider: &CryptoProvider,
    ) -> Result<Shown, SettingsError> {
        let mut shown = Vec::new();
        for identity in identities {
            let (chain, key) = identity.into_parts();
            let mut certified =
                CertifiedKey::from_der(chain, key, provider).map_err(contradiction)?;
            certified.key = Arc::new(WatchedKey(certified.key));
            shown.push(Arc::new(certified));
        }
        Ok(Shown(shown))
    }

    fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let first = self.0.first();
        let name = name.filter(|_| self.0.len() > 1);
        let Some(name) = name.and_then(|name| ServerName::try_from(name).ok()) else {
            return first;
        };
        let is_for_it = |certified: &&Arc<CertifiedKey>| {
            let certificate = certified.end_entity_cert();
            certificate
                .and_then(ParsedCertificate::try_from)
                .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
        };
        self.0.iter().find(is_for_it).or(first)
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.find(hello.server_name())?;
        note_shown(&shown.cert);
        Some(Arc::clone(shown))
    }
}
