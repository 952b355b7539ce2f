//! The TLS settings of clients.

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

/// The TLS options of a client: the offered parameters, and the trusted authorities.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The offered versions.
    pub versions: Vec<Version>,
    /// The offered cipher suites, in order of preference; empty: all.
    pub cipher_suites: Vec<CipherSuite>,
    /// The offered key exchange groups, in order of preference; empty: all. A key share is sent only for the first
    /// group.
    pub groups: Vec<Group>,
    /// The offered ALPN protocols, in order of preference; empty: no ALPN.
    pub alpn: Vec<Vec<u8>>,
    /// The verification of servers.
    pub verification: Verification,
    /// The client's certificate, for servers that request one.
    pub identity: Option<Identity>,
    /// Whether the server's name is sent (SNI). An IP address is never sent.
    pub server_name_indication: bool,
    /// The maximum number of sessions stored for resumption, over all connections with these settings; at most 8
    /// sessions per server. `None`: no resumption.
    pub resumption: Option<usize>,
    /// Whether early data may be sent (data before the handshake is complete), if the resumed session permits it.
    pub early_data: bool,
    /// The maximum number of bytes of application data in one record: 32 to 16384.
    pub record_size: usize,
    /// Whether sessions compute their [channel binding](crate::Session::channel_binding).
    pub channel_binding: bool,
    /// The receiver of the key log.
    pub key_log: Option<Arc<dyn KeyLogSink>>,
    /// The wall-clock time at [`Instant::ZERO`] of the sessions, since the Unix epoch.
    pub unix_time: Duration,
}

impl ClientOptions {
    /// Creates options with the default values: all versions, cipher suites and groups; resumption with 256 stored
    /// sessions; no early data; records of the maximum size; no ALPN.
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
            channel_binding: false,
            key_log: None,
            unix_time,
        }
    }
}

/// The verification of servers by a client.
#[derive(Debug, Clone)]
pub enum Verification {
    /// The certificate must match the server's name, be issued by one of these authorities, and be valid at the current
    /// time.
    Roots(Roots),
    /// Every certificate is accepted. The server must still prove that it has the private key of its certificate. This
    /// does not authenticate the server, because a man in the middle can use its own certificate. Data is therefore
    /// protected only from passive eavesdroppers, unless another protocol authenticates the server and the [channel
    /// binding](crate::Session::channel_binding).
    Off,
}

/// Validated settings, shared by the connections of a run.
#[derive(Debug)]
pub struct ClientSettings {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) record_size: usize,
    tls13: bool,
    resumption: Option<usize>,
}

impl ClientSettings {
    /// Checks the options and creates settings.
    ///
    /// # Errors
    ///
    /// If the options contradict each other, or the identity's key does not match the certificate.
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
        config.key_log = key_log(options.key_log, options.channel_binding);
        // The session seals and opens records, so rustls must export the secrets.
        config.enable_secret_extraction = true;
        Ok(Arc::new(ClientSettings {
            config: Arc::new(config),
            clock,
            record_size: options.record_size,
            tls13: options.versions.contains(&Version::Tls13),
            resumption: options.resumption,
        }))
    }

    /// Sets the time. Only QUIC connections call this method; a [`Session`](crate::Session) sets the time itself.
    pub fn set_time(&self, now: Instant) {
        self.clock.set(now);
    }

    /// Returns the same settings for QUIC, with the given ALPN protocols. QUIC sessions are stored separately, with the
    /// same limit, because sessions over TCP have no transport parameters. The caller sets the time with
    /// [`set_time`](ClientSettings::set_time).
    ///
    /// # Errors
    ///
    /// If the versions do not include TLS 1.3, which QUIC requires.
    pub fn quic_config(&self, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, SettingsError> {
        if !self.tls13 {
            return Err(contradiction("QUIC requires TLS 1.3"));
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
