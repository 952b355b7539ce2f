//! HTTP/3 error codes, and the protocol violations that cause them (RFC 9114 section 8.1, RFC 9204 section 6).

use std::fmt;

use crate::qpack;

/// An application error code of QUIC, with the meaning that HTTP/3 defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u64);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: ErrorCode = ErrorCode($number);)*

            /// The name of the code in the RFCs. `None` for other codes, which are treated as `H3_NO_ERROR`.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The connection or stream is closed without an error.
    NO_ERROR = 0x100, "H3_NO_ERROR";
    /// The peer violated the protocol in a way without a more specific code.
    GENERAL_PROTOCOL_ERROR = 0x101, "H3_GENERAL_PROTOCOL_ERROR";
    /// An internal error of the sender.
    INTERNAL_ERROR = 0x102, "H3_INTERNAL_ERROR";
    /// The peer opened a stream that it is not allowed to open.
    STREAM_CREATION_ERROR = 0x103, "H3_STREAM_CREATION_ERROR";
    /// A critical stream was closed.
    CLOSED_CRITICAL_STREAM = 0x104, "H3_CLOSED_CRITICAL_STREAM";
    /// A frame is not permitted in the current state.
    FRAME_UNEXPECTED = 0x105, "H3_FRAME_UNEXPECTED";
    /// The layout of a frame is invalid.
    FRAME_ERROR = 0x106, "H3_FRAME_ERROR";
    /// The peer's behaviour may be an attack.
    EXCESSIVE_LOAD = 0x107, "H3_EXCESSIVE_LOAD";
    /// An identifier is out of order or out of range.
    ID_ERROR = 0x108, "H3_ID_ERROR";
    /// The settings are invalid.
    SETTINGS_ERROR = 0x109, "H3_SETTINGS_ERROR";
    /// The control stream does not start with SETTINGS.
    MISSING_SETTINGS = 0x10a, "H3_MISSING_SETTINGS";
    /// The server did not process the request.
    REQUEST_REJECTED = 0x10b, "H3_REQUEST_REJECTED";
    /// The request was cancelled. Its response is no longer needed.
    REQUEST_CANCELLED = 0x10c, "H3_REQUEST_CANCELLED";
    /// The client's stream ended before its request was complete.
    REQUEST_INCOMPLETE = 0x10d, "H3_REQUEST_INCOMPLETE";
    /// A message is malformed.
    MESSAGE_ERROR = 0x10e, "H3_MESSAGE_ERROR";
    /// The TCP connection that was opened for CONNECT failed.
    CONNECT_ERROR = 0x10f, "H3_CONNECT_ERROR";
    /// The request must be repeated over HTTP/1.1.
    VERSION_FALLBACK = 0x110, "H3_VERSION_FALLBACK";
    /// A field section cannot be decoded.
    QPACK_DECOMPRESSION_FAILED = 0x200, "QPACK_DECOMPRESSION_FAILED";
    /// An encoder instruction cannot be executed.
    QPACK_ENCODER_STREAM_ERROR = 0x201, "QPACK_ENCODER_STREAM_ERROR";
    /// A decoder instruction is invalid in the encoder's state.
    QPACK_DECODER_STREAM_ERROR = 0x202, "QPACK_DECODER_STREAM_ERROR";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// A protocol violation by the peer that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The server opened a bidirectional stream, or the client opened a push stream.
    #[error("the peer opened a stream that it must not open")]
    ForbiddenStream,
    /// The peer opened a second control stream, or a second QPACK stream of the same type.
    #[error("the peer opened a second control or QPACK stream of the same type")]
    RepeatedStream,
    /// A control stream or a QPACK stream was ended, reset or refused.
    #[error("a critical stream was closed")]
    ClosedCriticalStream,
    /// The control stream does not start with SETTINGS.
    #[error("the control stream does not start with SETTINGS")]
    MissingSettings,
    /// SETTINGS contains a reserved setting, a repeated setting, or a value out of range.
    #[error("invalid settings")]
    BadSettings,
    /// A frame is not permitted in the current state.
    #[error("a frame is not permitted in the current state")]
    UnexpectedFrame,
    /// The payload of a frame does not match the frame type, or the stream ends within the frame.
    #[error("a malformed frame")]
    MalformedFrame,
    /// For example: a GOAWAY with a larger identifier than an earlier GOAWAY, or a push that was not permitted.
    #[error("an identifier is out of order or not permitted")]
    BadIdentifier,
    /// The peer sends too many frames without effect, sends a control frame that is too long, or leaves too many
    /// instructions unread.
    #[error(
        "control data exceeds a limit (on frames without effect, frame length or unread instructions)"
    )]
    Flood,
    /// A QPACK error.
    #[error("{0}")]
    Qpack(#[from] qpack::Error),
}

impl Fault {
    /// The error code that reports this fault to the peer.
    pub const fn code(self) -> ErrorCode {
        match self {
            Fault::ForbiddenStream | Fault::RepeatedStream => ErrorCode::STREAM_CREATION_ERROR,
            Fault::ClosedCriticalStream => ErrorCode::CLOSED_CRITICAL_STREAM,
            Fault::MissingSettings => ErrorCode::MISSING_SETTINGS,
            Fault::BadSettings => ErrorCode::SETTINGS_ERROR,
            Fault::UnexpectedFrame => ErrorCode::FRAME_UNEXPECTED,
            Fault::MalformedFrame => ErrorCode::FRAME_ERROR,
            Fault::BadIdentifier => ErrorCode::ID_ERROR,
            Fault::Flood => ErrorCode::EXCESSIVE_LOAD,
            Fault::Qpack(qpack::Error::EncoderStream(_)) => ErrorCode::QPACK_ENCODER_STREAM_ERROR,
            Fault::Qpack(qpack::Error::DecoderStream(_)) => ErrorCode::QPACK_DECODER_STREAM_ERROR,
            Fault::Qpack(_) => ErrorCode::QPACK_DECOMPRESSION_FAILED,
        }
    }
}
