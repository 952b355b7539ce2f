//! The encryption of a control connection, without I/O: TLS 1.3 between the socket and the [`link`](crate::link).
//!
//! Rank 0 has a certificate with a new key for each test, and a member accepts any certificate. So TLS alone protects
//! only against passive readers. The shared secret authenticates the peer: the proofs of the link include the channel
//! binding of the TLS session (`tls-exporter`, RFC 9266), see [`Link::bind`](crate::link::Link::bind). A machine in the
//! middle has two TLS sessions with different bindings, one with each side. So a proof that it forwards is invalid.
//!
//! There are no session tickets and no early data. A `close_notify` at the end of a connection is not required, because
//! the messages of the link show whether the data is complete.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_tls::certificate::{Authority, Issue, Lifetime};
use fathometer_tls::{
    ClientOptions, ClientSettings, ServerOptions, ServerSettings, Session, SettingsError, Tickets,
    TlsFailure, Verification, Version,
};

use crate::link::PROTOCOL;
use crate::secret::{BINDING, Side};

/// The name in the certificate of rank 0. It is sent only encrypted, and no member checks it.
const NAME: &str = "rank-0";

/// The validity of the certificate, which no member checks.
const VALID: Duration = Duration::from_secs(30 * 86_400);

/// The maximum number of encrypted bytes that may be unsent when more bytes arrive. The bytes of a link use less than
/// half of this limit; the other half is for TLS messages that answer the peer.
const MOST_UNSENT: usize = 160 << 10;

/// The reason why a control connection cannot be encrypted, or cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// The peer is a rank of an earlier version, without TLS.
    #[error(
        "the peer is a rank of an earlier version, without TLS: start the same version on every rank"
    )]
    Earlier,
    /// The peer is another program.
    #[error("the peer is not a rank of this version: it does not use TLS")]
    NoTls,
    /// The peer causes answers, but does not read them.
    #[error("the peer does not read the data from this side")]
    Unread,
    /// TLS failed.
    #[error("the TLS session of the control connection failed: {0}")]
    Tls(TlsFailure),
}

/// Settings for all TLS sessions of one side.
#[derive(Debug, Clone)]
pub struct ChannelSettings(Role);

#[derive(Debug, Clone)]
enum Role {
    RankZero(Arc<ServerSettings>),
    Member(Arc<ClientSettings>),
}

impl ChannelSettings {
    /// Creates the settings of a side. The settings of rank 0 have a new key. `unix_time` is the Unix time at instant
    /// zero.
    ///
    /// # Errors
    /// If the system returns no random numbers.
    pub fn new(side: Side, unix_time: Duration) -> Result<ChannelSettings, SettingsError> {
        Ok(ChannelSettings(match side {
            Side::RankZero => Role::RankZero(rank_zero(unix_time)?),
            Side::Member => Role::Member(member(unix_time)?),
        }))
    }
}

fn rank_zero(unix_time: Duration) -> Result<Arc<ServerSettings>, SettingsError> {
    // The authority is not stored: no member checks its signature.
    let authority = Authority::new(Lifetime::around(unix_time, VALID))?;
    let identity = authority.issue(&Issue::new([NAME]))?;
    let mut options = ServerOptions::new(identity, unix_time);
    options.versions = vec![Version::Tls13];
    options.tickets = Tickets::Off;
    options.first_records = None;
    options.channel_binding = true;
    ServerSettings::new(options)
}

fn member(unix_time: Duration) -> Result<Arc<ClientSettings>, SettingsError> {
    let mut options = ClientOptions::new(Verification::Off, unix_time);
    options.versions = vec![Version::Tls13];
    options.server_name_indication = false;
    options.resumption = None;
    options.channel_binding = true;
    ClientSettings::new(options)
}

/// The encryption of one control connection.
#[derive(Debug)]
pub struct Channel {
    session: Session,
    side: Side,
    /// Whether [`Channel::open`] has returned the channel binding.
    is_bound: bool,
    sent: u64,
    received: u64,
}

impl Channel {
    /// Creates one side of a new connection.
    ///
    /// # Errors
    /// If TLS cannot start.
    pub fn new(settings: &ChannelSettings, now: Instant) -> Result<Channel, ChannelError> {
        let (side, session) = match &settings.0 {
            Role::RankZero(settings) => (Side::RankZero, Session::server(settings, now)),
            Role::Member(settings) => (Side::Member, Session::client(settings, NAME, now)),
        };
        Ok(Channel {
            session: session.map_err(ChannelError::Tls)?,
            side,
            is_bound: false,
            sent: 0,
            received: 0,
        })
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.session.is_established()
    }

    /// Decrypts bytes of the connection and appends the content to `plain`. Returns the channel binding once, when the
    /// handshake is complete. The link must be [bound](crate::link::Link::bind) to it before the link receives `plain`.
    ///
    /// # Errors
    /// If the peer does not use TLS, if the peer does not read, or if the session fails. The connection is then
    /// unusable.
    pub fn open(
        &mut self,
        mut bytes: &mut [u8],
        plain: &mut Vec<u8>,
        now: Instant,
    ) -> Result<Option<[u8; BINDING]>, ChannelError> {
        if self.session.transmit().len() > MOST_UNSENT {
            return Err(ChannelError::Unread);
        }
        let is_first = self.received == 0;
        self.received += bytes.len() as u64;
        if is_first && self.side == Side::RankZero && bytes.starts_with(PROTOCOL) {
            return Err(ChannelError::Earlier);
        }
        while let Some(piece) = self.next_piece(&mut bytes, now)? {
            plain.extend_from_slice(piece);
        }
        if self.is_bound {
            return Ok(None);
        }
        let binding = self.session.channel_binding().copied();
        self.is_bound = binding.is_some();
        Ok(binding)
    }

    fn next_piece<'s, 'i: 's>(
        &'s mut self,
        bytes: &mut &'i mut [u8],
        now: Instant,
    ) -> Result<Option<&'s [u8]>, ChannelError> {
        let was_established = self.session.is_established();
        self.session
            .open(bytes, now)
            .map_err(|failure| match failure {
                TlsFailure::NotTls(_) if !was_established => ChannelError::NoTls,
                failure => ChannelError::Tls(failure),
            })
    }

    /// Encrypts bytes of the link. Returns the number of encrypted bytes. The caller must pass the remaining bytes
    /// again after output was sent.
    pub fn seal(&mut self, plain: &[u8]) -> usize {
        self.session.write(plain)
    }

    /// The encrypted bytes to send.
    pub fn output(&mut self) -> &[u8] {
        self.session.transmit()
    }

    /// Removes bytes from the front of the output, after the caller sent them.
    pub fn output_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.session.transmitted(bytes);
    }

    /// Whether there are bytes to send.
    pub fn has_output(&self) -> bool {
        self.session.wants_transmit()
    }

    /// The numbers of bytes sent and received on the connection.
    pub fn traffic(&self) -> (u64, u64) {
        (self.sent, self.received)
    }
}
