//! The state machine of a connection, for any protocol.

use fathometer_http::client::{
    Config, Connection, Event, PreparedRequest, Queued, RequestId, SendError,
};
use fathometer_http::exchange::Timeouts;
use fathometer_http::h2;
use fathometer_model::{CloseReason, Failure, Instant};

use super::super::shared::Shared;
use super::quic_connection::QuicConnection;

/// The state machine of a connection for one of the protocols.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would add a memory access to every exchange of HTTP/1.x and HTTP/2"
)]
pub(super) enum Machine {
    /// HTTP/1.x or HTTP/2 over a byte stream, which is in the slot.
    Stream(Connection),
    /// HTTP/3, which includes its transport; `None` while there is no connection.
    Quic(Option<Box<QuicConnection>>),
}

impl Machine {
    /// Creates a machine for the connections of a test. Time limits count from the planned instant, so the loop
    /// enforces them and not the machine.
    pub(super) fn new(shared: &Shared) -> Machine {
        let timeouts = Timeouts {
            head: None,
            idle: None,
            total: None,
            ..Timeouts::default()
        };
        let config = Config {
            depth: shared.policy.depth().map_or(u32::MAX, u32::from),
            tls: shared.policy.tls,
            stream_window: shared.windows.stream,
            connection_window: shared.windows.connection,
            settings_timeout: None,
            timeouts,
            ..Config::default()
        };
        match Connection::new(shared.policy.protocol, &config) {
            Some(connection) => Machine::Stream(connection),
            None => Machine::Quic(None),
        }
    }

    /// Returns the HTTP/3 connection, if there is one.
    pub(super) fn quic(&mut self) -> Option<&mut QuicConnection> {
        match self {
            Machine::Stream(_) | Machine::Quic(None) => None,
            Machine::Quic(Some(quic)) => Some(quic),
        }
    }

    /// Returns whether the protocol is HTTP/3.
    pub(super) fn is_quic(&self) -> bool {
        matches!(self, Machine::Quic(_))
    }

    /// Returns whether several exchanges share a connection without waiting for each other.
    pub(super) fn multiplexes(&self) -> bool {
        match self {
            Machine::Stream(connection) => connection.is_http2(),
            Machine::Quic(_) => true,
        }
    }

    /// Returns whether a request can be queued now.
    pub(super) fn can_request(&self) -> bool {
        match self {
            Machine::Stream(connection) => connection.can_request(),
            Machine::Quic(quic) => quic.as_ref().is_some_and(|quic| quic.can_request()),
        }
    }

    /// Queues a request and its content.
    pub(super) fn request(
        &mut self,
        shape: &PreparedRequest,
        target: &str,
        content: Option<&[u8]>,
    ) -> Result<Queued, SendError> {
        match self {
            Machine::Stream(connection) => {
                let queued = connection.request_prepared(shape, target)?;
                if let Some(content) = content {
                    connection.send_content(queued.request, content)?;
                }
                connection.flush();
                Ok(queued)
            }
            Machine::Quic(quic) => {
                let (Some(quic), PreparedRequest::Http3(shape)) = (quic, shape) else {
                    return Err(SendError::OtherProtocol);
                };
                let http = quic.client.http();
                let queued = http.request_prepared(shape, target)?;
                if let Some(content) = content {
                    http.send_content(queued.request, content)?;
                }
                Ok(queued)
            }
        }
    }

    /// Returns the status of the latest response header section.
    pub(super) fn status(&self) -> u16 {
        match self {
            Machine::Stream(connection) => connection.head().status(),
            Machine::Quic(Some(quic)) => quic.client.http_ref().head().status(),
            Machine::Quic(None) => 0,
        }
    }

    /// Cancels a request. The machine then reports the request with this failure.
    pub(super) fn cancel(&mut self, request: RequestId, failure: Failure, now: Instant) {
        match self {
            Machine::Stream(connection) => connection.cancel(request, failure, now),
            Machine::Quic(Some(quic)) => quic.client.http().cancel(request, failure, now),
            Machine::Quic(None) => {}
        }
    }

    /// Ends the connection when the requests in flight have ended.
    pub(super) fn finish(&mut self) {
        match self {
            Machine::Stream(connection) => connection.finish(),
            Machine::Quic(Some(quic)) => quic.client.http().finish(),
            Machine::Quic(None) => {}
        }
    }

    /// Ends the connection with a failure.
    pub(super) fn handle_failure(&mut self, failure: Failure, now: Instant) {
        match self {
            Machine::Stream(connection) => connection.handle_failure(failure, now),
            Machine::Quic(Some(quic)) => {
                quic.client.http().handle_failure(failure, now);
                // Closing at once saves the server from waiting for more data.
                quic.client.close(now);
            }
            Machine::Quic(None) => {}
        }
    }

    /// Returns the reason for which the machine has finished with its connection.
    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        match self {
            Machine::Stream(connection) => connection.close_reason(),
            Machine::Quic(quic) => quic.as_ref()?.client.http_ref().close_reason(),
        }
    }

    /// Prepares the machine for another connection.
    pub(super) fn renew(&mut self) {
        match self {
            Machine::Stream(connection) => connection.renew(),
            Machine::Quic(quic) => *quic = None,
        }
    }

    /// Frees unused memory.
    pub(super) fn shrink(&mut self) {
        if let Machine::Stream(connection) = self {
            connection.shrink();
        }
    }

    /// Returns the connection, if it is an HTTP/2 connection.
    pub(super) fn http2(&self) -> Option<&h2::client::Connection> {
        match self {
            Machine::Stream(connection) => connection.http2(),
            Machine::Quic(_) => None,
        }
    }
}

/// The methods for byte streams, which HTTP/3 does not use.
impl Machine {
    /// Returns the bytes that may be handed to the transport now.
    pub(super) fn transmit(&self) -> &[u8] {
        match self {
            Machine::Stream(connection) => connection.transmit(),
            Machine::Quic(_) => &[],
        }
    }

    /// Records that the transport accepted the first `bytes` bytes.
    pub(super) fn transmitted(&mut self, bytes: usize, now: Instant) {
        if let Machine::Stream(connection) = self {
            connection.transmitted(bytes, now);
        }
    }

    /// Returns the first request of which no byte has been handed to the transport.
    pub(super) fn first_unsent(&self) -> RequestId {
        match self {
            Machine::Stream(connection) => connection.first_unsent(),
            Machine::Quic(_) => RequestId::default(),
        }
    }

    /// Reads bytes from the front of `input` and returns the event that these bytes complete.
    pub(super) fn poll<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        match self {
            Machine::Stream(connection) => connection.poll(input, now),
            Machine::Quic(_) => None,
        }
    }

    /// Reads a complete response from the front of `input` in one step, if possible, and returns its end.
    pub(super) fn poll_whole<'i>(
        &mut self,
        input: &mut &'i [u8],
        now: Instant,
    ) -> Option<Event<'i>> {
        match self {
            Machine::Stream(connection) => connection.poll_whole(input, now),
            Machine::Quic(_) => None,
        }
    }

    /// Handles EOF from the server.
    pub(super) fn handle_eof(&mut self, now: Instant) {
        if let Machine::Stream(connection) = self {
            connection.handle_eof(now);
        }
    }
}
