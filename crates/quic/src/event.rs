//! Events of a connection.

use fathometer_model::Failure;
use quinn_proto::{ConnectionError, TransportErrorCode};

use crate::handshake::Handshake;

/// An event of a connection. Streams are identified by their stream IDs (RFC 9000 section 2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete on this side.
    Established(Handshake),
    /// The peer has opened a stream, which may already contain data.
    Opened {
        /// The stream.
        stream: u64,
    },
    /// Data, the end of the stream or a reset has arrived on a stream whose last read returned
    /// [`Blocked`](crate::ReadEnd::Blocked).
    Readable {
        /// The stream.
        stream: u64,
    },
    /// A blocked stream may be written again.
    Writable {
        /// The stream.
        stream: u64,
    },
    /// Everything written on a finished stream has been acknowledged.
    Finished {
        /// The stream.
        stream: u64,
    },
    /// The peer has requested that this side stop sending on a stream (STOP_SENDING), and the stream is reset with the same
    /// code.
    Stopped {
        /// The stream.
        stream: u64,
        /// The peer's reason, a code of the application protocol.
        code: u64,
    },
    /// More streams of this kind may be opened than before.
    StreamsAvailable {
        /// Whether the kind is bidirectional; otherwise unidirectional.
        bidirectional: bool,
    },
    /// The connection is closed. Streams can no longer be read or written; unread data are lost.
    Closed(Closed),
    /// The connection is removed; from now on its key may identify another connection.
    Drained,
}

/// The side that closed a connection, or the idle time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Closer {
    /// This side.
    Us,
    /// The peer.
    Peer,
    /// Neither side: the idle time-out passed.
    Silence,
}

/// The layer that a close code belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseKind {
    /// The application protocol (for HTTP/3: RFC 9114 section 8.1).
    Application,
    /// QUIC (RFC 9000 section 20.1), including TLS alerts (0x100 and above).
    Transport,
    /// Neither layer: there is no code.
    None,
}

/// The close of a connection: side, code and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The side that closed the connection, or the idle time-out.
    pub by: Closer,
    /// The layer that the code belongs to.
    pub kind: CloseKind,
    /// The close code; 0 if there is none.
    pub code: u64,
    /// The reason that the closing side gave, or else a description.
    pub reason: String,
    /// The failure of an exchange in flight; `None` if this side closed the connection on request of the host.
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
                let reason = "idle time-out: no datagram arrived".to_owned();
                closed(By::Silence, Kind::None, 0, reason, Failure::TimedOut)
            }
            ConnectionError::Reset => {
                let reason = "stateless reset: the peer has no state for the connection".to_owned();
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
                let reason = "the peer does not support version 1 of QUIC".to_owned();
                closed(By::Us, Kind::None, 0, reason, Failure::BadResponse)
            }
            ConnectionError::LocallyClosed | ConnectionError::CidsExhausted => {
                let reason = "closed by this side".to_owned();
                closed(By::Us, Kind::None, 0, reason, Failure::LocalAbort)
            }
        }
    }
}

/// Whether a QUIC code is a TLS alert (RFC 9001 section 4.8).
fn is_tls(code: TransportErrorCode) -> bool {
    (0x100..0x200).contains(&u64::from(code))
}
