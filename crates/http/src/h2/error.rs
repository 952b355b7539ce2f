//! Error codes (RFC 9113 section 7), and the protocol faults of the peer that cause them.

use std::fmt;

use super::StreamId;

/// An error code of RST_STREAM and GOAWAY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! codes {
    ($($name:ident = $code:literal;)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: ErrorCode = ErrorCode($code);
            )*

            /// The code's name in the registry; `None` for an unregistered code.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    NO_ERROR = 0x0;
    PROTOCOL_ERROR = 0x1;
    INTERNAL_ERROR = 0x2;
    FLOW_CONTROL_ERROR = 0x3;
    SETTINGS_TIMEOUT = 0x4;
    STREAM_CLOSED = 0x5;
    FRAME_SIZE_ERROR = 0x6;
    REFUSED_STREAM = 0x7;
    CANCEL = 0x8;
    COMPRESSION_ERROR = 0x9;
    CONNECT_ERROR = 0xa;
    ENHANCE_YOUR_CALM = 0xb;
    INADEQUATE_SECURITY = 0xc;
    HTTP_1_1_REQUIRED = 0xd;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

/// A protocol fault of the peer, which ends a stream or the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// The connection does not begin with the HTTP/2 preface.
    #[error("the connection preface is not the HTTP/2 preface")]
    BadPreface,
    /// The first frame was not SETTINGS.
    #[error("the first frame is not SETTINGS")]
    NoSettings,
    /// A frame is longer than this side's SETTINGS_MAX_FRAME_SIZE (section 4.2).
    #[error("a frame is longer than allowed")]
    FrameTooLong,
    /// The length of a frame is invalid for its type.
    #[error("a frame has a length that its type does not allow")]
    FrameLength,
    /// The padding is longer than the payload (section 6.1).
    #[error("a frame's padding is longer than its payload")]
    Padding,
    /// A stream frame on stream 0, or a connection frame on another stream.
    #[error("a stream frame is on stream 0, or a connection frame is on a stream")]
    WrongStreamZero,
    /// A header block interrupted by another frame (section 6.10).
    #[error("a header block is interrupted by another frame")]
    BlockInterrupted,
    /// CONTINUATION without a header block to continue.
    #[error("a CONTINUATION frame has no header block to continue")]
    UnexpectedContinuation,
    /// A header block has more bytes or more frames than allowed.
    #[error("a header block has too many bytes or too many frames")]
    BlockTooLong,
    /// A header block that cannot be decoded (section 4.3).
    #[error("a header block cannot be decoded")]
    Compression,
    /// The value of a setting is invalid (section 6.5.2).
    #[error("a setting has an invalid value")]
    BadSetting,
    /// The value of SETTINGS_INITIAL_WINDOW_SIZE is above 2^31 − 1.
    #[error("the initial window size is above the maximum")]
    BadInitialWindow,
    /// The peer acknowledged settings that this side did not send.
    #[error("the peer acknowledged SETTINGS that this side did not send")]
    UnexpectedAcknowledgement,
    /// A window update with an increment of zero (section 6.9).
    #[error("a window update has an increment of zero")]
    ZeroIncrement,
    /// A flow-control window is above 2^31 − 1 (section 6.9.1).
    #[error("a flow-control window is above the maximum")]
    WindowOverflow,
    /// The peer sent more content than the window allowed.
    #[error("content exceeds the flow-control window")]
    WindowExceeded,
    /// A frame on a stream that was never opened (section 5.1).
    #[error("a frame is on an idle stream")]
    IdleStream,
    /// A frame on a stream that the sender of the frame has closed (half-closed).
    #[error("a frame is on a stream that its sender has closed")]
    HalfClosedStream,
    /// A frame on a stream that is closed.
    #[error("a frame is on a closed stream")]
    ClosedStream,
    /// The number of a new stream is not above the previous numbers, or has the wrong parity (section 5.1.1).
    #[error("a stream number is not above earlier stream numbers, or has the wrong parity")]
    BadStreamNumber,
    /// More streams are open than allowed (section 5.1.2).
    #[error("more streams are open than allowed")]
    TooManyStreams,
    /// A stream that depends on itself (RFC 7540 section 5.3.1).
    #[error("a stream depends on itself")]
    SelfDependency,
    /// A push that was not allowed, or a push by a client (section 8.4).
    #[error("a push is not allowed")]
    UnexpectedPush,
    /// PRIORITY_UPDATE from a server (RFC 9218 section 7.1).
    #[error("a server sent PRIORITY_UPDATE")]
    UnexpectedPriorityUpdate,
    /// A message is malformed (section 8.1.1).
    #[error("a message is malformed")]
    Malformed,
    /// The length of the content differs from the announced length.
    #[error("the length of the content differs from the announced length")]
    ContentLength,
    /// The peer did not acknowledge settings in time (section 6.5.3).
    #[error("the peer did not acknowledge SETTINGS in time")]
    SettingsTimeout,
    /// The peer opens and resets streams faster than any legitimate use (CVE-2023-44487).
    #[error("the peer opens and resets streams too fast")]
    ResetFlood,
    /// Protocol faults of the peer force this side to reset too many streams (CVE-2025-8671).
    #[error("the peer's protocol errors cause too many stream resets")]
    ProvokedResets,
    /// The peer sends PING or SETTINGS frames, which require an answer, faster than it reads the answers or faster than
    /// any legitimate use.
    #[error("the peer sends too many frames that require an answer")]
    AnswerFlood,
    /// The peer sends too many idle frames: DATA without content, PRIORITY, WINDOW_UPDATE, unknown types.
    #[error("the peer sends too many frames without effect")]
    IdleFrames,
    /// Too much output waits because the peer does not read it.
    #[error("too much output waits because the peer does not read")]
    OutputFlood,
}

impl Fault {
    /// The error code sent to the peer.
    pub const fn code(self) -> ErrorCode {
        match self {
            Fault::BadPreface
            | Fault::NoSettings
            | Fault::Padding
            | Fault::WrongStreamZero
            | Fault::BlockInterrupted
            | Fault::UnexpectedContinuation
            | Fault::BadSetting
            | Fault::UnexpectedAcknowledgement
            | Fault::ZeroIncrement
            | Fault::IdleStream
            | Fault::BadStreamNumber
            | Fault::SelfDependency
            | Fault::UnexpectedPush
            | Fault::UnexpectedPriorityUpdate
            | Fault::Malformed
            | Fault::ContentLength => ErrorCode::PROTOCOL_ERROR,
            Fault::FrameTooLong | Fault::FrameLength => ErrorCode::FRAME_SIZE_ERROR,
            Fault::Compression => ErrorCode::COMPRESSION_ERROR,
            Fault::BadInitialWindow | Fault::WindowOverflow | Fault::WindowExceeded => {
                ErrorCode::FLOW_CONTROL_ERROR
            }
            Fault::HalfClosedStream | Fault::ClosedStream => ErrorCode::STREAM_CLOSED,
            Fault::TooManyStreams => ErrorCode::REFUSED_STREAM,
            Fault::SettingsTimeout => ErrorCode::SETTINGS_TIMEOUT,
            Fault::BlockTooLong
            | Fault::ResetFlood
            | Fault::ProvokedResets
            | Fault::AnswerFlood
            | Fault::IdleFrames
            | Fault::OutputFlood => ErrorCode::ENHANCE_YOUR_CALM,
        }
    }
}

/// A fault that ends the connection with GOAWAY (section 5.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{why} ({code})")]
pub struct ConnectionError {
    /// The code sent to the peer.
    pub code: ErrorCode,
    /// The fault.
    pub why: Fault,
}

impl From<Fault> for ConnectionError {
    fn from(why: Fault) -> ConnectionError {
        ConnectionError {
            code: why.code(),
            why,
        }
    }
}

/// A fault that ends one stream with RST_STREAM (section 5.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{why} ({code})")]
pub struct StreamError {
    /// The stream.
    pub stream: StreamId,
    /// The code sent to the peer.
    pub code: ErrorCode,
    /// The fault.
    pub why: Fault,
}

impl StreamError {
    /// Creates the error for a fault on a stream, with the code of the fault.
    pub const fn new(stream: StreamId, why: Fault) -> StreamError {
        StreamError {
            stream,
            code: why.code(),
            why,
        }
    }
}

/// A connection error or a stream error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// The connection ends.
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    /// A stream ends.
    #[error("{0}")]
    Stream(#[from] StreamError),
}

impl From<Fault> for Error {
    fn from(why: Fault) -> Error {
        Error::Connection(why.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_registry() {
        assert_eq!(ErrorCode(0xb), ErrorCode::ENHANCE_YOUR_CALM);
        assert_eq!(ErrorCode(0xd).name(), Some("HTTP_1_1_REQUIRED"));
        assert_eq!(ErrorCode(0xe).name(), None);
        assert_eq!(ErrorCode(0xff).to_string(), "error code 0xff");
        let error = ConnectionError::from(Fault::FrameTooLong);
        assert_eq!(
            error.to_string(),
            "a frame is longer than allowed (FRAME_SIZE_ERROR)"
        );
    }
}
