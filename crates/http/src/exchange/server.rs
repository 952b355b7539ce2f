//! Types for servers: actions, and records of exchanges.

use fathometer_model::{Bytes, FileId, Instant};

use crate::origin::Method;
use crate::origin::store::FileHandle;

/// An action that the caller of a connection must take on the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Close the sending side and continue to read.
    ShutdownWrite,
    /// Close both sides now, even with unread input.
    Close,
    /// Reset the connection: the peer no longer reads data.
    Abort,
    /// Continue in HTTP/2 with [`Connection::take_upgrade`](crate::h1::server::Connection::take_upgrade).
    Upgrade,
}

/// The method of closing a connection after its last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseManner {
    /// Closes the sending side first. Then the server reads and discards further input, until the
    /// client closes its side or a limit on lingering is reached. The client receives all responses.
    HalfThenDrain,
    /// Closes both sides at once, even if the client is still sending. The connection is then reset, and
    /// responses that the client has not read yet may be lost (Nielsen et al. 1997, section 5, "Connection
    /// Management").
    Full,
}

/// The next bytes to send from a file's descriptor to the transport.
#[derive(Debug, Clone, Copy)]
pub struct FilePart<'a> {
    /// The file.
    pub file: &'a FileHandle,
    /// The offset of the bytes in the file.
    pub offset: u64,
    /// The number of bytes; at least one.
    pub length: u64,
}

/// An exchange whose response was completely passed to the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The request method.
    pub method: Method,
    /// The file that the target names; `None` if there is no such file.
    pub file: Option<FileId>,
    /// A hash (64-bit FNV-1a) of the target as it was sent; 0 when no request line could be read.
    pub target_hash: u64,
    /// The status code of the response.
    pub status: u16,
    /// Bytes of the request head.
    pub request_head: Bytes,
    /// Bytes of the request content, without transfer coding.
    pub request_body: Bytes,
    /// Bytes of the response heads, an interim response included.
    pub head: Bytes,
    /// Bytes of the response content.
    pub body: Bytes,
    /// The time at which the request head was complete.
    pub received: Instant,
    /// The time at which the transport took the last byte of the response.
    pub at: Instant,
}

impl Served {
    /// Creates the record of a request before any byte of the request is read.
    pub(crate) fn unread(now: Instant) -> Served {
        Served {
            method: Method::Unknown,
            file: None,
            target_hash: 0,
            status: 0,
            request_head: Bytes(0),
            request_body: Bytes(0),
            head: Bytes(0),
            body: Bytes(0),
            received: now,
            at: now,
        }
    }

    /// Returns the hash of a target: 64-bit FNV-1a.
    pub(crate) fn target_hash(target: &[u8]) -> u64 {
        target.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// An exchange on its own stream, whose response was passed to the transport completely or in part. `S` is the
/// type of the protocol's stream numbers, `C` the type of its error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamServed<S, C> {
    /// The values that are also recorded in HTTP/1. The size of a head is the size of its frames, including frame
    /// headers and interim heads. The request head of a push is its PUSH_PROMISE. Content is counted without framing.
    pub exchange: Served,
    /// The stream.
    pub stream: S,
    /// Names and values of the request's fields, before compression.
    pub request_fields: Bytes,
    /// Names and values of the response's fields, before compression, interim heads included.
    pub head_fields: Bytes,
    /// Bytes of the response's DATA frames, their headers included.
    pub body_frames: Bytes,
    /// Whether the server pushed the response.
    pub pushed: bool,
    /// The code with which either side reset the stream before its response was complete.
    pub reset: Option<C>,
}

impl<S, C> StreamServed<S, C> {
    /// Creates the record of a request before any byte of the request is read.
    pub(crate) fn unread(stream: S, pushed: bool, now: Instant) -> StreamServed<S, C> {
        StreamServed {
            exchange: Served::unread(now),
            stream,
            request_fields: Bytes(0),
            head_fields: Bytes(0),
            body_frames: Bytes(0),
            pushed,
            reset: None,
        }
    }
}

/// The texts of a request for an access log, as the client sent them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestText<'a> {
    /// The request line, or the part of the first line that arrived; empty when nothing arrived.
    pub line: &'a [u8],
    /// `Referer`; empty when absent.
    pub referer: &'a [u8],
    /// `User-Agent`; empty when absent.
    pub user_agent: &'a [u8],
}

impl<'a> RequestText<'a> {
    /// Splits `text` into the request line, `Referer` and `User-Agent` of these lengths. If `text` is shorter
    /// than their sum, the last parts are shorter.
    pub(crate) fn split(text: &'a [u8], lengths: [u32; 3]) -> RequestText<'a> {
        let mut rest = text;
        let [line, referer, user_agent] = lengths.map(|length| {
            let (part, after) = rest.split_at((length as usize).min(rest.len()));
            rest = after;
            part
        });
        RequestText {
            line,
            referer,
            user_agent,
        }
    }
}
