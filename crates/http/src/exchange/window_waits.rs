//! Records when the server waits because it has used up a flow-control window of this client (RFC 9113 section
//! 5.2; RFC 9000 section 4.1).
//!
//! The client detects a wait by two facts: the received bytes reach exactly a limit that it has announced, and
//! later bytes exceed that limit. A server that is not stopped by a window crosses the limit within a frame,
//! because limits are not multiples of its frames or packets. As measured on this side, the wait lasts from the
//! last byte within the limit to the first byte beyond it. The time of the grant shows how much of the wait the
//! window explains: the server can send again when the grant arrives, so new bytes arrive at the earliest one
//! round trip after the grant.

use std::collections::{HashMap, VecDeque};

use fathometer_model::Instant;

use super::RequestId;

/// The maximum number of waits that are stored until they are [taken](WindowWaits::take).
const MOST: usize = 10_000;
/// The maximum number of stored limits of one window. Later limits are not observed until earlier ones are passed.
const MOST_LIMITS: usize = 4096;

/// One wait of the server for a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowWait {
    /// The request whose stream the window limits; `None` for the window of the connection.
    pub request: Option<RequestId>,
    /// The time at which the last byte within the limit was read.
    pub from: Instant,
    /// The time at which this side raised the limit.
    pub granted: Instant,
    /// The time at which the first byte beyond the limit was read.
    pub to: Instant,
}

/// The windows that the client granted on one HTTP/2 or HTTP/3 connection.
#[derive(Debug)]
pub struct WindowWaits {
    connection: Window,
    streams: HashMap<RequestId, Window>,
    waits: Vec<WindowWait>,
}

/// One window. Limits are in bytes from the start of the stream or connection.
#[derive(Debug)]
struct Window {
    received: u64,
    /// The highest limit.
    limit: u64,
    /// Limits that the server has not passed, each with the instant when it was announced.
    limits: VecDeque<(u64, Instant)>,
    /// The time at which the server reached the first of these limits.
    reached: Option<Instant>,
}

impl Window {
    fn new(limit: u64, now: Instant) -> Window {
        Window {
            received: 0,
            limit,
            limits: VecDeque::from([(limit, now)]),
            reached: None,
        }
    }

    fn grant(&mut self, increment: u64, now: Instant) {
        self.limit += increment;
        if self.limits.len() < MOST_LIMITS {
            self.limits.push_back((self.limit, now));
        }
    }

    /// Counts received bytes. Returns the wait that these bytes end, if there was a wait.
    fn receive(&mut self, bytes: u64, now: Instant) -> Option<WindowWait> {
        if bytes == 0 {
            return None;
        }
        let wait = self.reached.take().and_then(|from| {
            self.limits.pop_front();
            let granted = self.limits.front()?.1;
            // If bytes up to the limit and bytes beyond it are read together, there was no wait.
            (now > from).then_some(WindowWait {
                request: None,
                from,
                granted,
                to: now,
            })
        });
        self.received += bytes;
        while self
            .limits
            .front()
            .is_some_and(|limit| limit.0 < self.received)
        {
            self.limits.pop_front();
        }
        let is_reached = self
            .limits
            .front()
            .is_some_and(|limit| limit.0 == self.received);
        self.reached = is_reached.then_some(now);
        wait
    }
}

impl WindowWaits {
    /// Creates the windows of a new connection, whose connection window has this size in bytes.
    pub fn new(connection: u64, now: Instant) -> WindowWaits {
        WindowWaits {
            connection: Window::new(connection, now),
            streams: HashMap::new(),
            waits: Vec::new(),
        }
    }

    /// Handles data of this length on a stream. Pass only data that count against the flow-control windows: the content
    /// of a DATA frame in HTTP/2, or all bytes of a QUIC stream. `initial` is the window of a new stream in bytes.
    pub fn receive(&mut self, request: RequestId, length: u64, initial: u64, now: Instant) {
        self.receive_on_connection(length, now);
        let stream = self
            .streams
            .entry(request)
            .or_insert_with(|| Window::new(initial, Instant::ZERO));
        let of_stream = stream.receive(length, now);
        let of_stream = of_stream.map(|wait| WindowWait {
            request: Some(request),
            ..wait
        });
        self.keep(of_stream);
    }

    /// Handles data that count only against the connection's window, such as data of streams without a request.
    pub fn receive_on_connection(&mut self, length: u64, now: Instant) {
        let wait = self.connection.receive(length, now);
        self.keep(wait);
    }

    fn keep(&mut self, wait: Option<WindowWait>) {
        if self.waits.len() < MOST {
            self.waits.extend(wait);
        }
    }

    /// Handles an increase of the connection's window.
    pub fn grant(&mut self, increment: u64, now: Instant) {
        self.connection.grant(increment, now);
    }

    /// Handles an increase of a stream's window.
    pub fn grant_stream(&mut self, request: RequestId, increment: u64, now: Instant) {
        if let Some(stream) = self.streams.get_mut(&request) {
            stream.grant(increment, now);
        }
    }

    /// Handles the end of a stream's response. If this was the only response in flight (`is_last`), the connection's
    /// window stops no data.
    pub fn end(&mut self, request: RequestId, is_last: bool) {
        self.streams.remove(&request);
        if is_last && self.connection.reached.take().is_some() {
            self.connection.limits.pop_front();
        }
    }

    /// Takes the waits since the last call, in the order of their ends.
    pub fn take(&mut self) -> Vec<WindowWait> {
        std::mem::take(&mut self.waits)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const REQUEST: RequestId = RequestId(0);

    fn at(milliseconds: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_server_that_stops_exactly_at_a_limit_waits_for_the_next_one() {
        let mut waits = WindowWaits::new(1 << 20, at(0));
        waits.receive(REQUEST, 600, 1_000, at(10));
        waits.grant_stream(REQUEST, 600, at(11));
        // The server had not read the grant when it sent the last byte of the first window.
        waits.receive(REQUEST, 400, 1_000, at(12));
        assert_eq!(waits.take(), []);
        waits.receive(REQUEST, 100, 1_000, at(101));
        let wait = WindowWait {
            request: Some(REQUEST),
            from: at(12),
            granted: at(11),
            to: at(101),
        };
        assert_eq!(waits.take(), [wait]);
        assert_eq!(waits.take(), []);
    }

    #[test]
    fn a_server_that_crosses_a_limit_waits_for_nothing() {
        let mut waits = WindowWaits::new(1 << 20, at(0));
        waits.receive(REQUEST, 600, 1_000, at(10));
        waits.grant_stream(REQUEST, 600, at(11));
        waits.receive(REQUEST, 500, 1_000, at(20));
        waits.receive(REQUEST, 200, 1_000, at(300));
        assert_eq!(waits.take(), []);
    }

    #[test]
    fn the_connections_window_counts_all_streams_and_its_first_size() {
        // An HTTP/2 client grants the part of the window above 65 535 bytes separately.
        let mut waits = WindowWaits::new(65_535, at(0));
        waits.grant(34_465, at(0));
        let other = RequestId(1);
        waits.receive(REQUEST, 35_535, 1 << 20, at(5));
        waits.receive(other, 30_000, 1 << 20, at(6));
        // The server reads the client's first update later than its request.
        waits.receive(REQUEST, 34_465, 1 << 20, at(8));
        waits.grant(50_000, at(9));
        waits.receive(other, 10, 1 << 20, at(70));
        let found: Vec<_> = waits
            .take()
            .iter()
            .map(|wait| (wait.request, wait.from, wait.granted, wait.to))
            .collect();
        assert_eq!(
            found,
            [(None, at(6), at(0), at(8)), (None, at(8), at(9), at(70)),]
        );
    }

    #[test]
    fn after_the_last_response_the_server_has_nothing_to_send() {
        let mut waits = WindowWaits::new(65_535, at(0));
        waits.receive(REQUEST, 65_535, 1 << 20, at(5));
        waits.end(REQUEST, true);
        waits.grant(65_535, at(6));
        waits.receive(RequestId(1), 10, 1 << 20, at(900));
        assert_eq!(waits.take(), []);
    }
}
