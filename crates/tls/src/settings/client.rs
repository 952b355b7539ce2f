//! Settings of clients.

use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Instant;
use rustls::ClientConfig;
use rustls::client::{Resumption, WebPkiServerVerifier};

use super::key_log::key_log;
use super::watch::Watched;
use super::{
    CipherSuite, Clock, Group, KeyLogSink, LARGEST_RECORD, SettingsError, Version,
    check_record_size, contradiction, protocol_versions, provider,
};
use crate::{Identity, Roots};

/// What a client's connections may agree on, and whom they trust.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The versions offered.
    pub versions: Vec<Version>,
    /// The cipher suites offered, the preferred first; empty for all.
    pub cipher_suites: Vec<CipherSuite>,
    /// The groups offered, the preferred first (a key share is sent for it alone); empty for all.
    pub groups: Vec<Group>,
    /// The protocols offered by ALPN, the preferred first; empty for no such offer.
    pub alpn: Vec<Vec<u8>>,
    /// Whom to trust.
    pub verification: Verification,
    /// Who this client says it is to a server that asks.
    pub identity: Option<Identity>,
    /// Whether the server's name is sent (SNI). An address never is.
    pub server_name_indication: bool,
    /// How many sessions are kept to be resumed, for all connections with these settings together;
    /// `None` keeps none. At most 8 of one server.
    pub resumption: Option<usize>,
    /// Whether data may be sent before the handshake is over, where a resumed session allows it.
    pub early_data: bool,
    /// The most octets of application data put into one record, 32 to 16384.
    pub record_size: usize,
    /// Who is told the secrets.
    pub key_log: Option<Arc<dyn KeyLogSink>>,
    /// The time since 1970 at the origin of the instants that sessions are told.
    pub unix_time: Duration,
}

impl ClientOptions {
    /// Everything offered, sessions resumed (256 kept), no early data, records as large as they may
    /// be, no protocol named.
    pub fn new(verification: Verification, unix_time: Duration) -> ClientOptions {
        ClientOptions {
            versions: Version::ALL.to_vec(),
            cipher_suites: Vec::new(),
            groups: Vec::new(),
            alpn: Vec::new(),
            verification,
            identity: None,
            server_name_indication: true,
            resumption: Some(256),
            early_data: false,
            record_size: LARGEST_RECORD,
            key_log: None,
            unix_time,
        }
    }
}

/// Whom a client trusts.
#[derive(Debug, Clone)]
pub enum Verification {
    /// Servers with a certificate for their name by one of these authorities, valid at the time.
    Roots(Roots),
    /// Anybody. That the server has the key of the certificate it shows is verified all the same.
    Off,
}

/// Settings that were found usable, shared by a run's connections.
#[derive(Debug)]
pub struct ClientSettings {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) record_size: usize,
    tls13: bool,
    resumption: Option<usize>,
}

impl ClientSettings {
    /// Checks the options.
    ///
    /// # Errors
    ///
    /// When they contradict each other, or the identity's key does not fit its certificate.
    pub fn new(options: ClientOptions) -> Result<Arc<ClientSettings>, SettingsError> {
        check_record_size(options.record_size)?;
        let provider = provider(&options.cipher_suites, &options.groups);
        let algorithms = provider.signature_verification_algorithms;
        let clock = Arc::new(Clock::new(options.unix_time));
        let chain = match options.verification {
            Verification::Off => None,
            Verification::Roots(roots) => {
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(roots.store(), provider.clone());
                Some(verifier.build().map_err(contradiction)? as _)
            }
        };
        let builder = ClientConfig::builder_with_details(provider, clock.clone())
            .with_protocol_versions(&protocol_versions(&options.versions))
            .map_err(contradiction)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Watched { chain, algorithms }));
        let mut config = match options.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.into_parts();
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(contradiction)?
            }
        };
        config.alpn_protocols = options.alpn;
        config.enable_sni = options.server_name_indication;
        config.resumption = match options.resumption {
            Some(sessions) => Resumption::in_memory_sessions(sessions),
            None => Resumption::disabled(),
        };
        config.enable_early_data = options.early_data;
        config.key_log = key_log(options.key_log);
        // Records are sealed and opened by the session, not by rustls.
        config.enable_secret_extraction = true;
        Ok(Arc::new(ClientSettings {
            config: Arc::new(config),
            clock,
            record_size: options.record_size,
            tls13: options.versions.contains(&Version::Tls13),
            resumption: options.resumption,
        }))
    }

    /// Tells the time to what has no [`Session`](crate::Session) that would: QUIC.
    pub fn tell_time(&self, now: Instant) {
        self.clock.tell(now);
    }

    /// The same for QUIC, with these protocols. Its sessions are kept by themselves, as many of them: those
    /// of connections without QUIC know nothing of a transport. Its time is told by [`tell_time`](ClientSettings::tell_time).
    ///
    /// # Errors
    ///
    /// When TLS 1.3, which QUIC takes, is not among the versions.
    pub fn quic_config(&self, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, SettingsError> {
        if !self.tls13 {
            return Err(contradiction("QUIC takes TLS 1.3"));
        }
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.resumption = match self.resumption {
            Some(sessions) => Resumption::in_memory_sessions(sessions),
            None => Resumption::disabled(),
        };
        config.enable_secret_extraction = false;
        Ok(Arc::new(config))
    }
}
