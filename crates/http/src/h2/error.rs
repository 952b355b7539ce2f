//! Error codes (RFC 9113 section 7), and the peer's faults that cause them.

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

/// A fault of the peer that ends a stream or the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// Bytes other than the connection preface.
    #[error("the connection preface is not the HTTP/2 preface")]
    BadPreface,
    /// The first frame was not SETTINGS.
    #[error("the first frame is not SETTINGS")]
    NoSettings,
    /// A frame above the allowed size (section 4.2).
    #[error("a frame is longer than allowed")]
    FrameTooLong,
    /// A length that is invalid for this type of frame.
    #[error("a frame has a length that its type does not allow")]
    FrameLength,
    /// More padding than payload (section 6.1).
    #[error("a frame's padding is longer than the frame")]
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
    /// A header block with more bytes or more frames than allowed.
    #[error("a header block is too long, or in too many frames")]
    BlockTooLong,
    /// A header block that cannot be decoded (section 4.3).
    #[error("a header block cannot be decoded")]
    Compression,
    /// A setting with an invalid value (section 6.5.2).
    #[error("a setting has an invalid value")]
    BadSetting,
    /// SETTINGS_INITIAL_WINDOW_SIZE above 2^31 − 1.
    #[error("the initial window size is above the maximum")]
    BadInitialWindow,
    /// An acknowledgement of settings that were not sent.
    #[error("the peer acknowledged SETTINGS that were not sent")]
    UnexpectedAcknowledgement,
    /// A window update with an increment of zero (section 6.9).
    #[error("a window update has an increment of zero")]
    ZeroIncrement,
    /// A window above 2^31 − 1 (section 6.9.1).
    #[error("a flow-control window is above the maximum")]
    WindowOverflow,
    /// More content than the window allowed.
    #[error("content exceeds the flow-control window")]
    WindowExceeded,
    /// A frame on a stream that was never opened (section 5.1).
    #[error("a frame is on an idle stream")]
    IdleStream,
    /// A frame on a stream that its sender has closed (half-closed).
    #[error("a frame is on a stream that its sender has closed")]
    HalfClosedStream,
    /// A frame on a stream that is closed.
    #[error("a frame is on a closed stream")]
    ClosedStream,
    /// A new stream whose number is not above the previous ones, or is of the wrong parity (section 5.1.1).
    #[error("a stream number is not above earlier stream numbers, or has the wrong parity")]
    BadStreamNumber,
    /// More streams than allowed (section 5.1.2).
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
    /// A message that HTTP forbids (section 8.1.1).
    #[error("a message is malformed")]
    Malformed,
    /// A message whose content does not have the announced length.
    #[error("the content does not have the announced length")]
    ContentLength,
    /// Settings that were not acknowledged in time (section 6.5.3).
    #[error("settings were not acknowledged in time")]
    SettingsTimeout,
    /// Streams opened and reset faster than any legitimate use (CVE-2023-44487).
    #[error("streams are opened and reset too fast")]
    ResetFlood,
    /// Faults of the peer that force this side to reset many streams (CVE-2025-8671).
    #[error("too many streams are reset because of protocol errors")]
    ProvokedResets,
    /// PING and SETTINGS frames, which require an answer, arrive faster than the answers are taken or faster than
    /// in any legitimate use.
    #[error("too many frames require a response")]
    AnswerFlood,
    /// Idle frames: DATA without content, PRIORITY, WINDOW_UPDATE, unknown types.
    #[error("too many frames have no effect")]
    IdleFrames,
    /// Too much output that the peer does not take.
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

/// A fault that ends the connection, by GOAWAY (section 5.4.1).
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

/// A fault that ends one stream, by RST_STREAM (section 5.4.2).
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
    /// A fault on a stream, with the fault's own code.
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
