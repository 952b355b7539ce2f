//! Flow control of received data (RFC 9113 sections 5.2 and 6.9).

use fathometer_model::Instant;

use super::config::ReceiveWindows;
use crate::h2::error::Fault;
use crate::h2::flow::{CONNECTION_WINDOW, ReceiveWindow};

/// The receive window of the connection, and the rules for the receive windows of its streams.
///
/// Invariant: before the client acknowledges the settings, new streams have the larger of the default and the
/// configured window, because the client may use either.
#[derive(Debug)]
pub(super) struct Receiving {
    windows: ReceiveWindows,
    connection: ReceiveWindow,
    /// The time at which the settings were sent; `None` after their acknowledgement.
    unacknowledged: Option<Instant>,
}

impl Receiving {
    /// Creates the state before the first bytes of the client. The settings are sent at `now`.
    pub fn new(windows: ReceiveWindows, now: Instant) -> Receiving {
        Receiving {
            windows,
            connection: ReceiveWindow::new(CONNECTION_WINDOW),
            unacknowledged: Some(now),
        }
    }

    /// Raises the connection's window to the configured size. Returns the increment to send.
    pub fn grow(&mut self) -> Option<u32> {
        self.connection.grow(self.windows.connection)
    }

    /// The initial window of a stream that opens now.
    pub fn stream_window(&self) -> u32 {
        match self.unacknowledged {
            Some(_) => self.windows.stream.max(CONNECTION_WINDOW),
            None => self.windows.stream,
        }
    }

    /// Notes that the client has applied the settings. The caller must then [shrink](Self::shrink) the windows of open
    /// streams.
    pub fn acknowledge(&mut self) -> Result<(), Fault> {
        match self.unacknowledged.take() {
            Some(_) => Ok(()),
            None => Err(Fault::UnexpectedAcknowledgement),
        }
    }

    /// The time at which the settings were sent; `None` after their acknowledgement.
    pub fn unacknowledged(&self) -> Option<Instant> {
        self.unacknowledged
    }

    /// Reduces the window of a stream that was opened before the acknowledgement. Returns the increment to send, if
    /// any.
    pub fn shrink(&self, stream: &mut ReceiveWindow) -> Option<u32> {
        stream.shrink(self.windows.stream, self.windows.update)
    }

    /// Counts a DATA frame against the connection's window.
    pub fn receive(&mut self, length: u32) -> Result<(), Fault> {
        self.connection.receive(length)
    }

    /// Notes that a DATA frame was processed. Returns the connection's increment to send, if any.
    pub fn release(&mut self, length: u32) -> Option<u32> {
        self.connection.release(length, self.windows.update)
    }

    /// Notes that a DATA frame was processed. Returns the stream's increment to send, if any.
    pub fn release_of(&self, stream: &mut ReceiveWindow, length: u32) -> Option<u32> {
        stream.release(length, self.windows.update)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::flow::UpdateAt;

    #[test]
    fn streams_shrink_when_the_settings_are_acknowledged() {
        let windows = ReceiveWindows {
            stream: 1000,
            connection: 100_000,
            update: UpdateAt::Once,
        };
        let mut receiving = Receiving::new(windows, Instant::ZERO);
        assert_eq!(receiving.grow(), Some(100_000 - CONNECTION_WINDOW));
        assert_eq!(receiving.grow(), None);
        let before = receiving.stream_window();
        assert_eq!(before, CONNECTION_WINDOW);
        let mut stream = ReceiveWindow::new(before);
        assert_eq!(receiving.unacknowledged(), Some(Instant::ZERO));
        assert_eq!(receiving.acknowledge(), Ok(()));
        receiving.shrink(&mut stream);
        assert_eq!(stream.available(), 1000);
        assert_eq!(receiving.stream_window(), 1000);
        let again = receiving.acknowledge();
        assert_eq!(again, Err(Fault::UnexpectedAcknowledgement));
    }

    #[test]
    fn the_connection_has_a_window_of_its_own() {
        let windows = ReceiveWindows {
            stream: 200_000,
            connection: 70_000,
            update: UpdateAt::Bytes(20_000),
        };
        let mut receiving = Receiving::new(windows, Instant::ZERO);
        assert_eq!(receiving.stream_window(), 200_000);
        receiving.grow();
        assert_eq!(receiving.receive(70_001), Err(Fault::WindowExceeded));
        assert_eq!(receiving.receive(70_000), Ok(()));
        assert_eq!(receiving.release(19_999), None);
        assert_eq!(receiving.release(1), Some(20_000));
        let mut stream = ReceiveWindow::new(200_000);
        assert_eq!(receiving.release_of(&mut stream, 30_000), Some(30_000));
    }
}
