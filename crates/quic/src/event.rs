//! What a connection reports.

use fathometer_model::Failure;
use quinn_proto::{ConnectionError, TransportErrorCode};

use crate::handshake::Handshake;

/// What happened on a connection. Streams go by their identifiers (RFC 9000 section 2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete on this side.
    Established(Handshake),
    /// The peer has opened a stream, on which something may have come already.
    Opened {
        /// The stream.
        stream: u64,
    },
    /// Octets, the end or a reset have come on a stream that was read to where it would have waited.
    Readable {
        /// The stream.
        stream: u64,
    },
    /// A stream that could not be written may be.
    Writable {
        /// The stream.
        stream: u64,
    },
    /// Everything written on a finished stream has been acknowledged.
    Finished {
        /// The stream.
        stream: u64,
    },
    /// The peer wants nothing more of a stream.
    Stopped {
        /// The stream.
        stream: u64,
        /// The peer's reason, a code of the protocol above.
        code: u64,
    },
    /// More streams of this kind may be opened than before.
    StreamsAvailable {
        /// In both directions, or in one.
        bidirectional: bool,
    },
    /// The connection has ended. No stream can be read or written any more, whatever came before.
    Closed(Closed),
    /// Nothing of the connection is left, and its key may name another from now on.
    Drained,
}

/// Who closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Closer {
    /// This side.
    Us,
    /// The peer.
    Peer,
    /// Nobody: the connection was silent for too long.
    Silence,
}

/// What the code of a close belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseKind {
    /// The protocol above (for HTTP/3: RFC 9114 section 8.1).
    Application,
    /// QUIC (RFC 9000 section 20.1), TLS alerts (0x100 and up) included.
    Transport,
    /// Neither: there was no code to be had.
    None,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Who closed it.
    pub by: Closer,
    /// What the code belongs to.
    pub kind: CloseKind,
    /// The code; zero where there is none.
    pub code: u64,
    /// The closer's words, or a description where the closer said nothing.
    pub reason: String,
    /// What it means for an exchange that was under way; `None` when this side closed it.
    pub failure: Option<Failure>,
}

impl Closed {
    pub(crate) fn by_us(code: u64, reason: String) -> Closed {
        Closed {
            by: Closer::Us,
            kind: CloseKind::Application,
            code,
            reason,
            failure: None,
        }
    }

    pub(crate) fn of(error: ConnectionError, is_established: bool) -> Closed {
        let closed = |by, kind, code, reason, failure| Closed {
            by,
            kind,
            code,
            reason,
            failure: Some(failure),
        };
        use {CloseKind as Kind, Closer as By};
        match error {
            ConnectionError::TimedOut => {
                let reason = "nothing came for too long".to_owned();
                closed(By::Silence, Kind::None, 0, reason, Failure::TimedOut)
            }
            ConnectionError::Reset => {
                let reason = "the peer does not know the connection".to_owned();
                closed(By::Peer, Kind::None, 0, reason, Failure::Reset)
            }
            ConnectionError::ApplicationClosed(close) => {
                let reason = String::from_utf8_lossy(&close.reason).into_owned();
                let code = close.error_code.into_inner();
                closed(
                    By::Peer,
                    Kind::Application,
                    code,
                    reason,
                    Failure::ClosedEarly,
                )
            }
            ConnectionError::ConnectionClosed(close) => {
                let failure = match close.error_code {
                    TransportErrorCode::CONNECTION_REFUSED => Failure::Refused,
                    code if is_tls(code) => Failure::TlsFailed,
                    _ if is_established => Failure::Reset,
                    _ => Failure::ClosedEarly,
                };
                let reason = match close.reason.is_empty() {
                    true => close.error_code.to_string(),
                    false => String::from_utf8_lossy(&close.reason).into_owned(),
                };
                let code = u64::from(close.error_code);
                closed(By::Peer, Kind::Transport, code, reason, failure)
            }
            ConnectionError::TransportError(error) => {
                let failure = match is_tls(error.code) {
                    true => Failure::TlsFailed,
                    false => Failure::BadResponse,
                };
                let (code, reason) = (u64::from(error.code), error.to_string());
                closed(By::Us, Kind::Transport, code, reason, failure)
            }
            ConnectionError::VersionMismatch => {
                let reason = "the peer does not speak version 1 of QUIC".to_owned();
                closed(By::Us, Kind::None, 0, reason, Failure::BadResponse)
            }
            ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => {
                let reason = "this side gave it up".to_owned();
                closed(By::Us, Kind::None, 0, reason, Failure::LocalAbort)
            }
        }
    }
}

/// Whether a code of QUIC is an alert of TLS (RFC 9001 section 4.8).
fn is_tls(code: TransportErrorCode) -> bool {
    (0x100..0x200).contains(&u64::from(code))
}
