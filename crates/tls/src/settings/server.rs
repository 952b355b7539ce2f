//! The TLS settings of servers.

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

/// The TLS options of a server: the accepted parameters, and the server's certificates.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The accepted versions.
    pub versions: Vec<Version>,
    /// The accepted cipher suites; empty: all. The client's order of preference decides.
    pub cipher_suites: Vec<CipherSuite>,
    /// The accepted key exchange groups; empty: all.
    pub groups: Vec<Group>,
    /// The accepted ALPN protocols, in order of preference. A client that offers only other protocols is refused. A
    /// client without ALPN is accepted. Empty: ALPN is ignored.
    pub alpn: Vec<Vec<u8>>,
    /// The default certificate and its key.
    pub identity: Identity,
    /// Further certificates. If `identity` does not match the requested name (SNI), the first matching certificate of
    /// this list is used.
    pub further: Vec<Identity>,
    /// The kind of session resumption.
    pub tickets: Tickets,
    /// The maximum number of bytes of early data on a connection; `None`: early data is rejected. Requires
    /// [`Tickets::Stateful`], which prevents replay because each ticket can be used only once. The answer to early data
    /// may be sent before the handshake is complete.
    pub early_data: Option<u32>,
    /// Whether the server requests certificates from clients.
    pub client_certificates: ClientCertificates,
    /// The maximum number of bytes of application data in one record: 32 to 16384.
    pub record_size: usize,
    /// Small records at the start of a connection and after pauses; `None`: all records have the full size.
    pub first_records: Option<FirstRecords>,
    /// Whether sessions compute their [channel binding](crate::Session::channel_binding).
    pub channel_binding: bool,
    /// The receiver of the key log.
    pub key_log: Option<Arc<dyn KeyLogSink>>,
    /// The wall-clock time at [`Instant::ZERO`] of the sessions, since the Unix epoch.
    pub unix_time: Duration,
}

impl ServerOptions {
    /// Creates options with the default values: all versions, cipher suites and groups; two stateless tickets per
    /// connection; no early data; no client certificates; records of the maximum size except the [first
    /// records](FirstRecords); no ALPN.
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
/// A receiver can decrypt a record only after the last byte of the record has arrived. While the congestion window is
/// small, a large record needs more than one round trip. The data at the start of the record, such as the header
/// section of a response, is then delayed. Therefore, the first bytes are sent in records that fit into one segment.
/// After the window has grown, data is sent in larger records, which have less overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstRecords {
    /// The maximum number of bytes of application data in a small record: 32 to 16384.
    pub size: usize,
    /// The number of bytes of application data that are sent in small records before larger records are used.
    pub bytes: u64,
    /// The pause after which small records are used again; `None`: never. Requires calls of
    /// [`note_time`](crate::Session::note_time). The kernel also reduces the congestion window after such a pause.
    pub pause: Option<Duration>,
}

impl Default for FirstRecords {
    /// Returns records that fit into an Ethernet packet (1500 bytes) with IPv6, TCP time stamps and the overhead of any
    /// TLS version. They are used for the first 64 KiB, and again after a pause of 1 s.
    fn default() -> FirstRecords {
        FirstRecords {
            size: 1369,
            bytes: 64 * 1024,
            pause: Some(Duration::from_secs(1)),
        }
    }
}

/// The kind of session resumption that a server supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tickets {
    /// Sessions cannot be resumed.
    Off,
    /// Each ticket contains the session. The server stores nothing.
    Stateless {
        /// The number of tickets issued on a TLS 1.3 connection. In TLS 1.2, one ticket is issued.
        count: usize,
    },
    /// The server stores the sessions. Each session can be resumed once.
    Stateful {
        /// The number of tickets issued on a TLS 1.3 connection. TLS 1.2 uses session IDs.
        count: usize,
        /// The maximum number of stored sessions. When it is reached, the oldest session is evicted.
        capacity: usize,
    },
}

/// Whether the server requests certificates from clients.
#[derive(Debug, Clone)]
pub enum ClientCertificates {
    /// No certificate is requested.
    No,
    /// A client may present a certificate that one of these authorities issued.
    Optional(Roots),
    /// A client must present a certificate that one of these authorities issued.
    Required(Roots),
}

/// Validated settings, shared by the connections of a run.
#[derive(Debug)]
pub struct ServerSettings {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) record_size: usize,
    pub(crate) first_records: Option<FirstRecords>,
    /// Whether a ticket contains the session.
    pub(crate) stateless: bool,
    pub(crate) asks_for_certificate: bool,
    tls13: bool,
}

impl ServerSettings {
    /// Checks the options and creates settings.
    ///
    /// # Errors
    ///
    /// If the options contradict each other, or the identity's key does not match the certificate.
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
        // Otherwise, the answer to early data would wait for the client's Finished, and early data would save no time.
        config.send_half_rtt_data = options.early_data.is_some();
        config.key_log = key_log(options.key_log, options.channel_binding);
        // The session seals and opens records, so rustls must export the secrets.
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

    /// Sets the time. Only QUIC connections call this method; a [`Session`](crate::Session) sets the time itself.
    pub fn set_time(&self, now: Instant) {
        self.clock.set(now);
    }

    /// Returns the same settings for QUIC, with the given ALPN protocols. If early data is enabled, only QUIC's flow
    /// control limits its amount (RFC 9001 section 4.6.1). The caller sets the time with
    /// [`set_time`](ServerSettings::set_time).
    ///
    /// # Errors
    ///
    /// If the versions do not include TLS 1.3, which QUIC requires.
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
