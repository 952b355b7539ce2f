//! A session after its handshake. It seals and opens records, and handles post-handshake messages and alerts.

use std::ops::Range;
use std::sync::Arc;

use fathometer_model::Instant;
use rustls::ConnectionTrafficSecrets;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use super::record::{ALERT, APPLICATION_DATA, HANDSHAKE, Opener, RecordError, Sealer};
use crate::settings::Clock;
use crate::{Alert, TlsFailure};

/// The maximum number of post-handshake messages and empty records that a peer may send in a row without data.
const MESSAGES_WITHOUT_DATA: u32 = 32;
/// The maximum number of warning alerts that a peer may send.
const WARNINGS: u32 = 4;
/// The maximum size of a post-handshake message in bytes. Tickets are the largest kind.
const LARGEST_MESSAGE: usize = 64 * 1024 - 1;

const HELLO_REQUEST: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// The part of the rustls state that derives later keys and stores tickets.
pub(super) enum Kernel {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

pub(super) struct Established {
    kernel: Kernel,
    /// The clock that rustls reads when a ticket arrives.
    clock: Arc<Clock>,
    tls13: bool,
    pub(super) sealer: Sealer,
    opener: Opener,
    /// The maximum number of records that may be sealed with one key.
    pub(super) key_limit: u64,
    /// The received part of an incomplete handshake message.
    pub(super) message: Vec<u8>,
    without_data: u32,
    warnings: u32,
    renegotiations: u32,
}

/// The content of an opened record.
#[derive(Debug)]
pub(super) enum Opened {
    /// Application data, as a range of the record. The range may be empty.
    Data(Range<usize>),
    /// A handshake message, and the required reply.
    Message(Reply),
    /// An alert that does not end the connection, and the required reply.
    Warning(Reply),
    /// `close_notify`.
    Closed,
}

/// The reply to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Nothing,
    /// This side must also update its key.
    KeyUpdate,
    /// This side must refuse the renegotiation.
    NoRenegotiation,
}

/// A failure, and the alert to send to the peer.
pub(super) type Fatal = (TlsFailure, Alert);

pub(super) const CLOSE_NOTIFY: Alert = Alert(0);
const UNEXPECTED_MESSAGE: Alert = Alert(10);
const BAD_RECORD_MAC: Alert = Alert(20);
const RECORD_OVERFLOW: Alert = Alert(22);
const ILLEGAL_PARAMETER: Alert = Alert(47);
const DECODE_ERROR: Alert = Alert(50);
const INTERNAL_ERROR: Alert = Alert(80);
const USER_CANCELED: Alert = Alert(90);
pub(super) const NO_RENEGOTIATION: Alert = Alert(100);

impl Established {
    /// Creates the state from the secrets of the handshake. `None` for an unsupported cipher.
    pub(super) fn new(
        kernel: Kernel,
        clock: Arc<Clock>,
        tls13: bool,
        (sent, sending): &(u64, ConnectionTrafficSecrets),
        (received, receiving): &(u64, ConnectionTrafficSecrets),
        key_limit: u64,
    ) -> Option<Established> {
        Some(Established {
            kernel,
            clock,
            tls13,
            sealer: Sealer::new(tls13, *sent, sending)?,
            opener: Opener::new(tls13, *received, receiving)?,
            key_limit,
            message: Vec::new(),
            without_data: 0,
            warnings: 0,
            renegotiations: 0,
        })
    }

    /// Opens a complete record in place. Handles its content, unless it is application data.
    pub(super) fn open(&mut self, record: &mut [u8], now: Instant) -> Result<Opened, Fatal> {
        let (kind, content) = self.opener.open(record).map_err(|error| match error {
            RecordError::Undecryptable => (TlsFailure::BadRecord, BAD_RECORD_MAC),
            RecordError::TooLarge => {
                let why = "a record of more than 16 KiB".to_owned();
                (TlsFailure::NotTls(why), RECORD_OVERFLOW)
            }
            RecordError::Unexpected => misbehaved("a record of an unexpected type"),
        })?;
        if !self.message.is_empty() && kind != HANDSHAKE {
            return Err(misbehaved("another record inside a handshake message"));
        }
        match kind {
            APPLICATION_DATA => {
                if content.is_empty() {
                    self.without_data("empty records")?;
                } else {
                    self.without_data = 0;
                }
                Ok(Opened::Data(content))
            }
            HANDSHAKE => {
                self.clock.set(now);
                self.messages(&record[content]).map(Opened::Message)
            }
            ALERT => self.alert(&record[content]),
            _ => Err(misbehaved("a record of an unexpected type")),
        }
    }

    /// Frees the memory of an empty buffer.
    pub(super) fn free_buffer(&mut self) {
        if self.message.is_empty() {
            self.message = Vec::new();
        }
    }

    /// Whether the next record is the last record that the current key may seal.
    pub(super) fn key_is_used_up(&self) -> bool {
        self.sealer.number() + 1 >= self.key_limit
    }

    /// Whether the key can be updated, which only TLS 1.3 supports.
    pub(super) fn can_update(&self) -> bool {
        self.tls13
    }

    /// Appends a KeyUpdate message, and switches to the new key.
    pub(super) fn update_sending_key(&mut self, out: &mut Vec<u8>) -> Result<(), TlsFailure> {
        self.say(out, HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0]);
        let updated = match &mut self.kernel {
            Kernel::Client(kernel) => kernel.update_tx_secret(),
            Kernel::Server(kernel) => kernel.update_tx_secret(),
        };
        let (number, secrets) = updated?;
        self.sealer = Sealer::new(self.tls13, number, &secrets)
            .ok_or_else(|| TlsFailure::Local("a key of an unknown kind".to_owned()))?;
        Ok(())
    }

    /// Appends an alert.
    pub(super) fn say_alert(&mut self, out: &mut Vec<u8>, alert: Alert) {
        // TLS 1.3 ignores the level. In TLS 1.2, level 2 ends the connection.
        let level = match alert {
            CLOSE_NOTIFY | NO_RENEGOTIATION => 1,
            _ => 2,
        };
        self.say(out, ALERT, &[level, alert.0]);
    }

    /// Appends a record.
    pub(super) fn say(&mut self, out: &mut Vec<u8>, kind: u8, content: &[u8]) {
        let start = out.len();
        self.sealer.begin(out);
        out.extend_from_slice(content);
        self.sealer.seal(out, start, kind);
    }

    fn without_data(&mut self, what: &'static str) -> Result<(), Fatal> {
        self.without_data += 1;
        if self.without_data > MESSAGES_WITHOUT_DATA {
            return Err((TlsFailure::Flood(what), UNEXPECTED_MESSAGE));
        }
        Ok(())
    }

    /// Handles the messages that end in this record. Stores the incomplete rest for the next record.
    fn messages(&mut self, content: &[u8]) -> Result<Reply, Fatal> {
        if content.is_empty() {
            return Err(misbehaved("an empty handshake record"));
        }
        self.without_data("messages after the handshake")?;
        let mut joined = std::mem::take(&mut self.message);
        joined.extend_from_slice(content);
        let mut rest = &joined[..];
        let mut reply = Reply::Nothing;
        while let Some((&[kind, high, middle, low], after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            if length > LARGEST_MESSAGE {
                return Err((
                    TlsFailure::Misbehaved("a message of 64 KiB or more".to_owned()),
                    DECODE_ERROR,
                ));
            }
            let Some((body, next)) = after.split_at_checked(length) else {
                break;
            };
            rest = next;
            let answered = self.message(kind, body, next.is_empty())?;
            if answered != Reply::Nothing {
                reply = answered;
            }
        }
        if rest.is_empty() {
            joined.clear();
        } else {
            let done = joined.len() - rest.len();
            joined.drain(..done);
        }
        self.message = joined;
        Ok(reply)
    }

    fn message(&mut self, kind: u8, body: &[u8], last: bool) -> Result<Reply, Fatal> {
        match (kind, &mut self.kernel) {
            (NEW_SESSION_TICKET, Kernel::Client(kernel)) if self.tls13 => {
                kernel
                    .handle_new_session_ticket(body)
                    .map_err(|error| (TlsFailure::from(error), DECODE_ERROR))?;
                Ok(Reply::Nothing)
            }
            (KEY_UPDATE, _) if self.tls13 => {
                // No message with the old key may follow in the same record (RFC 8446 section 5.1).
                if !last {
                    return Err(misbehaved(
                        "a message after a key update in the same record",
                    ));
                }
                let &[requested @ (0 | 1)] = body else {
                    let why = "a key update of an unknown kind".to_owned();
                    return Err((TlsFailure::Misbehaved(why), ILLEGAL_PARAMETER));
                };
                self.update_receiving_key()
                    .map_err(|failure| (failure, INTERNAL_ERROR))?;
                Ok(match requested {
                    0 => Reply::Nothing,
                    _ => Reply::KeyUpdate,
                })
            }
            (HELLO_REQUEST, Kernel::Client(_)) | (CLIENT_HELLO, Kernel::Server(_))
                if !self.tls13 =>
            {
                self.renegotiations += 1;
                if self.renegotiations > 1 {
                    let flood = TlsFailure::Flood("requests to renegotiate");
                    return Err((flood, NO_RENEGOTIATION));
                }
                Ok(Reply::NoRenegotiation)
            }
            _ => Err(misbehaved(
                "a message that is not allowed after the handshake",
            )),
        }
    }

    fn update_receiving_key(&mut self) -> Result<(), TlsFailure> {
        let updated = match &mut self.kernel {
            Kernel::Client(kernel) => kernel.update_rx_secret(),
            Kernel::Server(kernel) => kernel.update_rx_secret(),
        };
        let (number, secrets) = updated?;
        self.opener = Opener::new(self.tls13, number, &secrets)
            .ok_or_else(|| TlsFailure::Local("a key of an unknown kind".to_owned()))?;
        Ok(())
    }

    fn alert(&mut self, content: &[u8]) -> Result<Opened, Fatal> {
        let &[level, number] = content else {
            let why = "a malformed alert".to_owned();
            return Err((TlsFailure::Misbehaved(why), DECODE_ERROR));
        };
        let alert = Alert(number);
        if alert == CLOSE_NOTIFY {
            return Ok(Opened::Closed);
        }
        // In TLS 1.3, every other alert is fatal (RFC 8446 section 6.1).
        let warning = match self.tls13 {
            true => alert == USER_CANCELED,
            false => level == 1,
        };
        if !warning {
            // The peer has already failed, so no alert is needed.
            return Err((TlsFailure::Alert(alert), CLOSE_NOTIFY));
        }
        self.warnings += 1;
        if self.warnings > WARNINGS {
            return Err((TlsFailure::Flood("warnings"), UNEXPECTED_MESSAGE));
        }
        Ok(Opened::Warning(Reply::Nothing))
    }
}

fn misbehaved(why: &str) -> Fatal {
    (TlsFailure::Misbehaved(why.to_owned()), UNEXPECTED_MESSAGE)
}
