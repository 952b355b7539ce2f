//! Passes stream data from QUIC to the HTTP/3 state machine.

use std::collections::{BTreeMap, VecDeque};

use fathometer_http::client::{Event as HttpEvent, RequestId};
use fathometer_http::h3::client::Connection as Http;
use fathometer_model::Instant;
use fathometer_quic::{Connection, ReadEnd};

use super::windows::Windows;

/// Maximum number of bytes read from one stream before events are returned.
const READ_AT_ONCE: usize = 64 * 1024;

/// The data of all streams that QUIC has received.
///
/// Data of one stream at a time is read into `current`, and the machine handles it until it needs more. If the machine
/// waits for the peer's field table, the remaining bytes move to `parked`, and the stream is not read. So the machine
/// gets every byte of a stream once and in order.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Streams from which more may be read.
    unread: VecDeque<u64>,
    /// Bytes that were read from a stream and are not yet handled.
    current: Input,
    /// Data of streams that wait for the peer's field table.
    parked: BTreeMap<u64, Parked>,
}

/// The bytes of a stream that are being handled.
#[derive(Debug, Default)]
struct Input {
    stream: u64,
    bytes: Vec<u8>,
    used: usize,
    end: StreamEnd,
    /// Whether the machine may still take some of the bytes.
    is_offered: bool,
}

/// The state of a stream after the bytes that were already read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StreamEnd {
    /// More data may follow.
    #[default]
    Open,
    /// The stream has ended.
    Finished,
    /// The peer has reset the stream.
    Reset(u64),
}

/// The bytes of a stream that the machine has not taken, and the stream's end.
#[derive(Debug, Default)]
struct Parked {
    bytes: Vec<u8>,
    end: StreamEnd,
}

/// An event of the machine, without its borrowed content.
pub(super) enum Detached {
    /// Any event except content.
    Event(HttpEvent<'static>),
    /// A part of the content of a response, which [`Incoming::content`] returns.
    Content {
        request: RequestId,
        start: usize,
        length: usize,
    },
}

impl Incoming {
    /// Records that a stream may have data.
    pub(super) fn note_readable(&mut self, stream: u64) {
        self.unread.push_back(stream);
    }

    /// Discards a stream from which the machine needs no more data.
    pub(super) fn discard(&mut self, stream: u64) {
        self.parked.remove(&stream);
    }

    /// Returns the content of the last returned [`Detached::Content`].
    pub(super) fn content(&self, start: usize, length: usize) -> &[u8] {
        &self.current.bytes[start..start + length]
    }

    /// Lets the machine handle the bytes that were read, until it needs more.
    pub(super) fn poll(&mut self, http: &mut Http, now: Instant) -> Option<Detached> {
        let input = &mut self.current;
        if !input.is_offered {
            return None;
        }
        let mut rest = &input.bytes[input.used..];
        let event = http.poll(input.stream, &mut rest, now);
        input.used = input.bytes.len() - rest.len();
        if let Some(event) = event {
            return Some(detach(event, &input.bytes));
        }
        input.is_offered = false;
        let end = std::mem::take(&mut input.end);
        if input.used < input.bytes.len() {
            let bytes = input.bytes.split_off(input.used);
            self.parked.insert(input.stream, Parked { bytes, end });
            return None;
        }
        match end {
            StreamEnd::Open => {}
            StreamEnd::Finished => http.handle_fin(input.stream, now),
            StreamEnd::Reset(code) => http.handle_reset(input.stream, code, now),
        }
        None
    }

    /// Resumes a stream that is no longer blocked, from its remaining bytes. Returns whether there was such a stream.
    pub(super) fn resume_parked(&mut self, http: &mut Http) -> bool {
        let Some(stream) = http.poll_unblocked() else {
            return false;
        };
        let Parked { bytes, end } = self.parked.remove(&stream).unwrap_or_default();
        // The stream may have more data that was not read.
        self.unread.push_back(stream);
        self.current = Input {
            stream,
            bytes,
            used: 0,
            end,
            is_offered: true,
        };
        true
    }

    /// Reads the next stream that may have data. Returns whether it had data. `windows` counts the bytes read.
    pub(super) fn read_next(
        &mut self,
        connection: &mut Connection,
        mut windows: Option<&mut Windows>,
        now: Instant,
    ) -> bool {
        while let Some(stream) = self.unread.pop_front() {
            if self.parked.contains_key(&stream) {
                continue;
            }
            let input = &mut self.current;
            input.bytes.clear();
            input.used = 0;
            input.stream = stream;
            let end = connection.read(stream, READ_AT_ONCE, |bytes, _| {
                input.bytes.extend_from_slice(bytes);
            });
            input.end = match end {
                ReadEnd::Finished => StreamEnd::Finished,
                ReadEnd::Reset(code) => StreamEnd::Reset(code),
                ReadEnd::Blocked | ReadEnd::Closed => StreamEnd::Open,
                ReadEnd::Full => {
                    self.unread.push_front(stream);
                    StreamEnd::Open
                }
            };
            if let Some(windows) = &mut windows {
                let has_ended = input.end != StreamEnd::Open;
                windows.read(stream, input.bytes.len() as u64, has_ended, now);
            }
            input.is_offered = !input.bytes.is_empty() || input.end != StreamEnd::Open;
            if input.is_offered {
                return true;
            }
        }
        false
    }
}

/// Detaches an event from the data that it borrows from `input`.
fn detach(event: HttpEvent<'_>, input: &[u8]) -> Detached {
    match event {
        HttpEvent::Content { request, bytes } => Detached::Content {
            request,
            start: bytes.as_ptr() as usize - input.as_ptr() as usize,
            length: bytes.len(),
        },
        other => Detached::Event(
            other
                .without_content()
                .expect("content is handled above, and no other event borrows"),
        ),
    }
}
