//! Records when the server waited for a QUIC flow-control window that this client had granted (RFC 9000
//! section 4.1).
//!
//! The QUIC state machine does not report its windows or frames, so this module repeats the computation. Each byte that
//! is read frees a byte of the stream's window and of the connection's window. When an eighth of a window is freed, the
//! next packet raises the limit by the freed bytes. A test compares the number of these announcements with the number
//! of frames sent.

use std::collections::HashMap;

use fathometer_http::client::{RequestId, WindowWait, WindowWaits};
use fathometer_model::Instant;
use fathometer_quic::TransportSettings;

use super::Http3Client;

/// A new limit is announced when this fraction (one eighth) of the window is freed.
const ANNOUNCED_PART: u64 = 8;

/// The windows of one connection.
#[derive(Debug)]
pub(super) struct Windows {
    stream_window: u64,
    connection_window: u64,
    /// Bytes read on all streams since the connection's limit was last announced.
    freed: u64,
    /// Bytes read on each stream since its limit was last announced. Streams whose end was received are excluded.
    streams: HashMap<u64, u64>,
    waits: WindowWaits,
    /// The numbers of announced limits: for streams, and for the connection.
    announced: (u64, u64),
}

impl Windows {
    /// Creates the windows of a new connection with these settings. Without a connection window, only the stream
    /// windows are tracked.
    pub(super) fn new(transport: &TransportSettings, now: Instant) -> Windows {
        let connection_window = transport
            .connection_window
            .map_or(u64::MAX, |window| window.0);
        Windows {
            stream_window: transport.stream_window.0,
            connection_window,
            freed: 0,
            streams: HashMap::new(),
            waits: WindowWaits::new(connection_window, now),
            announced: (0, 0),
        }
    }

    /// Records that bytes of a stream were read. `has_ended`: no more bytes follow.
    pub(super) fn read(&mut self, stream: u64, bytes: u64, has_ended: bool, now: Instant) {
        self.freed += bytes;
        let Some(request) = request(stream) else {
            self.waits.receive_on_connection(bytes, now);
            return;
        };
        self.waits.receive(request, bytes, self.stream_window, now);
        *self.streams.entry(stream).or_default() += bytes;
        if has_ended {
            self.end(stream);
        }
    }

    /// Records that a request's stream has ended, or is no longer read.
    pub(super) fn end(&mut self, stream: u64) {
        if let Some(request) = request(stream)
            && self.streams.remove(&stream).is_some()
        {
            self.waits.end(request, self.streams.is_empty());
        }
    }

    /// Records that packets are sent now, which may announce limits.
    pub(super) fn sent(&mut self, now: Instant) {
        if self.freed >= self.connection_window / ANNOUNCED_PART {
            self.waits.grant(self.freed, now);
            self.freed = 0;
            self.announced.1 += 1;
        }
        let least = self.stream_window / ANNOUNCED_PART;
        for (stream, freed) in self
            .streams
            .iter_mut()
            .filter(|(_, freed)| **freed >= least)
        {
            if let Some(request) = request(*stream) {
                self.waits.grant_stream(request, *freed, now);
                *freed = 0;
                self.announced.0 += 1;
            }
        }
    }

    /// Returns the waits since the last call.
    pub(super) fn take(&mut self) -> Vec<WindowWait> {
        self.waits.take()
    }

    /// Returns the numbers of announced limits: for streams, and for the connection.
    pub(super) fn announced(&self) -> (u64, u64) {
        self.announced
    }
}

/// Returns the request of a stream. The client's bidirectional streams are 0, 4, 8 … (RFC 9000 section 2.1), and each
/// carries one request.
fn request(stream: u64) -> Option<RequestId> {
    let number = u32::try_from(stream / 4).ok()?;
    stream.is_multiple_of(4).then_some(RequestId(number))
}

impl Http3Client {
    /// Starts recording the server's waits for a window of this client
    /// ([`take_window_waits`](Self::take_window_waits)). Call this before anything is received.
    pub fn record_window_waits(&mut self, now: Instant) {
        self.windows = Some(Box::new(Windows::new(&self.settings.transport, now)));
    }

    /// Returns the server's waits for windows of this client since the last call; empty unless waits are recorded.
    pub fn take_window_waits(&mut self) -> Vec<WindowWait> {
        let windows = self.windows.as_mut();
        windows.map(|windows| windows.take()).unwrap_or_default()
    }

    /// Returns the numbers of limits that this client has announced, for streams and for the connection; zero unless
    /// waits are recorded.
    pub fn announced_limits(&self) -> (u64, u64) {
        let windows = self.windows.as_ref();
        windows
            .map(|windows| windows.announced())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathometer_model::Bytes;

    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(milliseconds)
    }

    fn windows(stream: u64, connection: u64) -> Windows {
        let transport = TransportSettings {
            stream_window: Bytes(stream),
            connection_window: Some(Bytes(connection)),
            ..TransportSettings::default()
        };
        Windows::new(&transport, at(0))
    }

    #[test]
    fn a_limit_is_announced_when_an_eighth_of_the_window_was_read() {
        let mut windows = windows(8_000, 1 << 20);
        windows.read(0, 999, false, at(1));
        windows.sent(at(2));
        assert_eq!(windows.announced(), (0, 0));
        windows.read(0, 1, false, at(3));
        windows.sent(at(4));
        assert_eq!(windows.announced(), (1, 0));
        // The server stops at the first limit, 8000, and continues one round trip after the limit of 9000 is announced.
        windows.read(0, 7_000, false, at(5));
        windows.sent(at(6));
        windows.read(0, 500, false, at(44));
        let wait = WindowWait {
            request: Some(RequestId(0)),
            from: at(5),
            granted: at(4),
            to: at(44),
        };
        assert_eq!(windows.take(), [wait]);
    }

    #[test]
    fn a_stream_that_has_ended_gets_no_limit() {
        let mut windows = windows(8_000, 1 << 20);
        windows.read(4, 8_000, true, at(1));
        windows.sent(at(2));
        assert_eq!((windows.announced(), windows.take()), ((0, 0), Vec::new()));
    }

    #[test]
    fn the_connections_window_counts_streams_without_a_request() {
        let mut windows = windows(1 << 20, 1_000);
        // Stream 3 is the server's control stream.
        windows.read(3, 400, false, at(1));
        windows.read(0, 600, false, at(2));
        windows.sent(at(3));
        windows.read(0, 10, false, at(60));
        let waits = windows.take();
        assert_eq!(waits.len(), 1);
        assert_eq!((waits[0].request, waits[0].from), (None, at(2)));
        assert_eq!(windows.announced(), (0, 1));
    }
}
