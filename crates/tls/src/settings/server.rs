//! Settings of servers.

use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Instant;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};

use super::key_log::key_log;
use super::shown::Shown;
use super::tickets::Sealed;
use super::{
    CipherSuite, Clock, Group, KeyLogSink, LARGEST_RECORD, SettingsError, Version,
    check_record_size, contradiction, protocol_versions, provider,
};
use crate::{Identity, Roots};

/// What a server's connections may negotiate, and the server's certificates.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The versions accepted.
    pub versions: Vec<Version>,
    /// The cipher suites accepted; empty for all. The client's preference counts.
    pub cipher_suites: Vec<CipherSuite>,
    /// The groups accepted; empty for all.
    pub groups: Vec<Group>,
    /// The protocols accepted by ALPN, in order of preference. A client that offers only others is refused; one
    /// that offers none is not. Empty: the clients' offers are ignored.
    pub alpn: Vec<Vec<u8>>,
    /// The certificate and its key, used unless one of `further` matches the requested name.
    pub identity: Identity,
    /// Further certificates. The first one that matches the requested name (SNI) is used if `identity` does not
    /// match.
    pub further: Vec<Identity>,
    /// Whether and how sessions can be resumed.
    pub tickets: Tickets,
    /// The most bytes of early data on a connection; `None` rejects it. Requires [`Tickets::Stateful`], which
    /// prevents replay: each ticket can be used once. The answer to early data may be sent before the handshake
    /// is complete.
    pub early_data: Option<u32>,
    /// Whether certificates of clients are requested.
    pub client_certificates: ClientCertificates,
    /// The most bytes of application data in one record, 32 to 16384.
    pub record_size: usize,
    /// Smaller records while a connection is slow; `None`: all records have the full size.
    pub first_records: Option<FirstRecords>,
    /// Whether sessions keep their [channel binding](crate::Session::channel_binding).
    pub channel_binding: bool,
    /// The receiver of the key log.
    pub key_log: Option<Arc<dyn KeyLogSink>>,
    /// The time since 1970 at the origin of the sessions' instants.
    pub unix_time: Duration,
}

impl ServerOptions {
    /// Everything accepted, two tickets a connection that contain their sessions, no early data, no client
    /// certificates, records of the largest size except for the [first](FirstRecords), no ALPN protocol.
    pub fn new(identity: Identity, unix_time: Duration) -> ServerOptions {
        ServerOptions {
            versions: Version::ALL.to_vec(),
            cipher_suites: Vec::new(),
            groups: Vec::new(),
            alpn: Vec::new(),
            identity,
            further: Vec::new(),
            tickets: Tickets::Stateless { count: 2 },
            early_data: None,
            client_certificates: ClientCertificates::No,
            record_size: LARGEST_RECORD,
            first_records: Some(FirstRecords::default()),
            channel_binding: false,
            key_log: None,
            unix_time,
        }
    }
}

/// Small records at the start of a connection, and again after a pause.
///
/// A receiver can use a record once its last byte has arrived. While the congestion window is small, a large
/// record takes more than one round trip. The data at its front (the head of a response, and what a page needs
/// first) then waits for the data at its end. So the first bytes are sent in records that fit into one segment.
/// Later data, when the window has grown, is sent in larger records, which have the least overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstRecords {
    /// The most bytes of application data in one of them, 32 to 16384.
    pub size: usize,
    /// Bytes of application data sent in such records before larger ones.
    pub bytes: u64,
    /// The pause after which the small records start again, if the session is [given the
    /// time](crate::Session::note_time); `None`: never. The kernel also reduces the window after such a pause.
    pub pause: Option<Duration>,
}

impl Default for FirstRecords {
    /// Records that fit into a segment on Ethernet (1500 bytes) with IPv6, TCP time stamps and the overhead of
    /// any TLS version. They are used for 64 KiB, which two windows of a new connection hold, and again after a
    /// pause of 1 s.
    fn default() -> FirstRecords {
        FirstRecords {
            size: 1369,
            bytes: 64 * 1024,
            pause: Some(Duration::from_secs(1)),
        }
    }
}

/// Whether and how a server's sessions can be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tickets {
    /// They cannot be resumed.
    Off,
    /// A ticket contains the session; the server keeps nothing.
    Stateless {
        /// Tickets issued to a TLS 1.3 connection. TLS 1.2 issues one.
        count: usize,
    },
    /// The server keeps the sessions; each can be resumed once.
    Stateful {
        /// Tickets issued to a TLS 1.3 connection. TLS 1.2 uses session IDs.
        count: usize,
        /// The most sessions kept; above it the oldest is removed.
        capacity: usize,
    },
}

/// Whether certificates of clients are requested.
#[derive(Debug, Clone)]
pub enum ClientCertificates {
    /// No certificate is requested.
    No,
    /// A client may present a certificate issued by these authorities, or none.
    Optional(Roots),
    /// A client must present a certificate issued by these authorities.
    Required(Roots),
}

/// Checked settings, shared by a run's connections.
#[derive(Debug)]
pub struct ServerSettings {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) record_size: usize,
    pub(crate) first_records: Option<FirstRecords>,
    /// Whether a ticket contains its session.
    pub(crate) stateless: bool,
    pub(crate) asks_for_certificate: bool,
    tls13: bool,
}

impl ServerSettings {
    /// Checks the options.
    ///
    /// # Errors
    ///
    /// When they contradict each other, or the identity's key does not match its certificate.
    pub fn new(options: ServerOptions) -> Result<Arc<ServerSettings>, SettingsError> {
        check_record_size(options.record_size)?;
        if let Some(first) = options.first_records {
            check_record_size(first.size)?;
        }
        let stateful = matches!(options.tickets, Tickets::Stateful { .. });
        if options.early_data.is_some() && !stateful {
            return Err(SettingsError::EarlyDataNeedsState);
        }
        let provider = provider(&options.cipher_suites, &options.groups);
        let clock = Arc::new(Clock::new(options.unix_time));
        let identities = std::iter::once(options.identity).chain(options.further);
        let shown = Shown::new(identities, &provider)?;
        let asks_for_certificate = !matches!(options.client_certificates, ClientCertificates::No);
        let verifier = match options.client_certificates {
            ClientCertificates::No => Ok(WebPkiClientVerifier::no_client_auth()),
            ClientCertificates::Optional(roots) => {
                WebPkiClientVerifier::builder_with_provider(roots.store(), provider.clone())
                    .allow_unauthenticated()
                    .build()
            }
            ClientCertificates::Required(roots) => {
                WebPkiClientVerifier::builder_with_provider(roots.store(), provider.clone()).build()
            }
        };
        let mut config = ServerConfig::builder_with_details(provider, clock.clone())
            .with_protocol_versions(&protocol_versions(&options.versions))
            .map_err(contradiction)?
            .with_client_cert_verifier(verifier.map_err(contradiction)?)
            .with_cert_resolver(Arc::new(shown));
        config.alpn_protocols = options.alpn;
        match options.tickets {
            Tickets::Off => {
                config.send_tls13_tickets = 0;
                config.session_storage = Arc::new(NoServerSessionStorage {});
            }
            Tickets::Stateless { count } => {
                config.send_tls13_tickets = count;
                config.session_storage = Arc::new(NoServerSessionStorage {});
                config.ticketer = Arc::new(Sealed::new()?);
            }
            Tickets::Stateful { count, capacity } => {
                config.send_tls13_tickets = count;
                config.session_storage = ServerSessionMemoryCache::new(capacity);
            }
        }
        config.max_early_data_size = options.early_data.unwrap_or(0);
        // Otherwise the answer to early data would wait for the client's Finished, without any gain.
        config.send_half_rtt_data = options.early_data.is_some();
        config.key_log = key_log(options.key_log, options.channel_binding);
        // The session seals and opens records, not rustls.
        config.enable_secret_extraction = true;
        Ok(Arc::new(ServerSettings {
            config: Arc::new(config),
            clock,
            record_size: options.record_size,
            first_records: options.first_records,
            asks_for_certificate,
            stateless: matches!(options.tickets, Tickets::Stateless { .. }),
            tls13: options.versions.contains(&Version::Tls13),
        }))
    }

    /// Sets the time for users without a [`Session`](crate::Session): QUIC.
    pub fn set_time(&self, now: Instant) {
        self.clock.set(now);
    }

    /// The same settings for QUIC, with these protocols. Early data, if enabled, has no limit of its own (RFC
    /// 9001 section 4.6.1). [`set_time`](ServerSettings::set_time) sets the time.
    ///
    /// # Errors
    ///
    /// When the versions do not include TLS 1.3, which QUIC requires.
    pub fn quic_config(&self, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, SettingsError> {
        if !self.tls13 {
            return Err(contradiction("QUIC requires TLS 1.3"));
        }
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.enable_secret_extraction = false;
        if config.max_early_data_size > 0 {
            config.max_early_data_size = u32::MAX;
        }
        Ok(Arc::new(config))
    }
}
