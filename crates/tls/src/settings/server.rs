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

/// What a server's connections may agree on, and who it says it is.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The versions accepted.
    pub versions: Vec<Version>,
    /// The cipher suites accepted; empty for all. The client's preference counts.
    pub cipher_suites: Vec<CipherSuite>,
    /// The groups accepted; empty for all.
    pub groups: Vec<Group>,
    /// The protocols accepted by ALPN, the preferred first. A client that offers others only is
    /// refused, one that offers none is not. Empty: what clients offer is ignored.
    pub alpn: Vec<Vec<u8>>,
    /// The certificate shown, and its key, unless a further one is for the name that is asked for.
    pub identity: Identity,
    /// Further certificates, each shown to those who ask for a name that it is for (SNI) when `identity`
    /// is not; the first one of them that fits.
    pub further: Vec<Identity>,
    /// Whether sessions can be resumed.
    pub tickets: Tickets,
    /// The most octets of early data that a connection may bring; `None` refuses it. Takes
    /// [`Tickets::Stateful`], which keeps it from being replayed: each ticket is good once. The
    /// answer to early data may leave before the handshake is over.
    pub early_data: Option<u32>,
    /// Whether clients are asked who they are.
    pub client_certificates: ClientCertificates,
    /// The most octets of application data put into one record, 32 to 16384.
    pub record_size: usize,
    /// Smaller records as long as a connection is slow; `None`: all alike.
    pub first_records: Option<FirstRecords>,
    /// Who is told the secrets.
    pub key_log: Option<Arc<dyn KeyLogSink>>,
    /// The time since 1970 at the origin of the instants that sessions are told.
    pub unix_time: Duration,
}

impl ServerOptions {
    /// Everything accepted, two tickets a connection that hold their sessions, no early data, no
    /// client certificates, records as large as they may be but for the [first](FirstRecords), no
    /// protocol named.
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
            key_log: None,
            unix_time,
        }
    }
}

/// Records that a connection starts with, and starts with again after a pause.
///
/// A record is of use when its last octet has come. While the congestion window is small a large record
/// takes more than one round trip, and what is at its front, the head of a response and what a page needs
/// first, waits for what is at its end. So the first octets go in records that fit into a segment, and
/// only what follows, when the window has grown, in records that cost the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstRecords {
    /// The most octets of application data in one of them, 32 to 16384.
    pub size: usize,
    /// Octets of application data that go in such records before others are larger.
    pub octets: u64,
    /// The pause after which it begins anew, where the session is
    /// [told the time](crate::Session::note_time); `None`: never. The kernel closes the window after
    /// such a pause as well.
    pub pause: Option<Duration>,
}

impl Default for FirstRecords {
    /// Records that fit into a segment of 1500-octet Ethernet with IPv6, TCP's time stamps and the
    /// overhead of every version of TLS, for 64 KiB: what two windows of a new connection hold, and
    /// again after a second.
    fn default() -> FirstRecords {
        FirstRecords {
            size: 1369,
            octets: 64 * 1024,
            pause: Some(Duration::from_secs(1)),
        }
    }
}

/// Whether a server's sessions can be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tickets {
    /// They cannot.
    Off,
    /// A ticket holds the session; the server keeps nothing.
    Stateless {
        /// Tickets given to a connection of TLS 1.3. TLS 1.2 gives one.
        count: usize,
    },
    /// The server keeps the sessions, each to be resumed once.
    Stateful {
        /// Tickets given to a connection of TLS 1.3. TLS 1.2 uses the session's number.
        count: usize,
        /// The most sessions kept; then the oldest is forgotten.
        capacity: usize,
    },
}

/// Whether clients are asked for a certificate.
#[derive(Debug, Clone)]
pub enum ClientCertificates {
    /// They are not.
    No,
    /// A client may show one by these authorities, or none.
    Optional(Roots),
    /// A client must show one by these authorities.
    Required(Roots),
}

/// Settings that were found usable, shared by a run's connections.
#[derive(Debug)]
pub struct ServerSettings {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) record_size: usize,
    pub(crate) first_records: Option<FirstRecords>,
    /// Whether a ticket holds its session.
    pub(crate) stateless: bool,
    pub(crate) asks_for_certificate: bool,
    tls13: bool,
}

impl ServerSettings {
    /// Checks the options.
    ///
    /// # Errors
    ///
    /// When they contradict each other, or the identity's key does not fit its certificate.
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
        // Without this the answer to early data waits for the client's Finished, and nothing is won.
        config.send_half_rtt_data = options.early_data.is_some();
        config.key_log = key_log(options.key_log);
        // Records are sealed and opened by the session, not by rustls.
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

    /// Tells the time to what has no [`Session`](crate::Session) that would: QUIC.
    pub fn tell_time(&self, now: Instant) {
        self.clock.tell(now);
    }

    /// The same for QUIC, with these protocols. Early data, where it is on, has no limit of its own
    /// (RFC 9001, 4.6.1). Its time is told by [`tell_time`](ServerSettings::tell_time).
    ///
    /// # Errors
    ///
    /// When TLS 1.3, which QUIC takes, is not among the versions.
    pub fn quic_config(&self, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, SettingsError> {
        if !self.tls13 {
            return Err(contradiction("QUIC takes TLS 1.3"));
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
