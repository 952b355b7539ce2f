//! Early data (0-RTT): a copy of the data that was sent before the handshake was complete. The copy is sent again if
//! the server rejects early data.

use std::io::IoSlice;

use fathometer_quic::Connection;
use fathometer_quic::stream::is_bidirectional;

/// The stream data that was sent early, in order.
#[derive(Debug, Default)]
pub(super) struct EarlyWrites(Vec<EarlyWrite>);

/// One write to a stream. A write without bytes opens the stream.
#[derive(Debug, PartialEq, Eq)]
struct EarlyWrite {
    stream: u64,
    bytes: Vec<u8>,
    end: bool,
}

/// The server allows fewer streams or bytes than when it issued the ticket. This violates RFC 9000 section 7.4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReducedLimit;

impl EarlyWrites {
    /// Records that a stream accepted the first `taken` bytes of `pieces`, and whether the stream has
    /// ended.
    pub(super) fn record(&mut self, stream: u64, pieces: &[IoSlice<'_>], taken: usize, end: bool) {
        let mut bytes = Vec::with_capacity(taken);
        for piece in pieces {
            let room = taken - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        self.0.push(EarlyWrite { stream, bytes, end });
    }

    /// Sends the data again, on streams with the same numbers; QUIC has discarded the rejected streams.
    pub(super) fn resend(self, connection: &mut Connection) -> Result<(), ReducedLimit> {
        for stream in self.streams() {
            if connection.open(is_bidirectional(stream)) != Some(stream) {
                return Err(ReducedLimit);
            }
        }
        for write in self.0 {
            let piece = [IoSlice::new(&write.bytes)];
            let is_taken = connection.write(write.stream, &piece) == Ok(write.bytes.len());
            if !is_taken || (write.end && connection.finish(write.stream).is_err()) {
                return Err(ReducedLimit);
            }
        }
        Ok(())
    }

    /// Returns the numbers of the streams that were opened. Streams of the same type must be opened in this order.
    fn streams(&self) -> Vec<u64> {
        let mut streams: Vec<u64> = self.0.iter().map(|write| write.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_that_a_stream_took_are_recorded() {
        let mut early = EarlyWrites::default();
        let pieces = [&b"GET"[..], b" ", b"/index"].map(IoSlice::new);
        early.record(4, &[], 0, false);
        early.record(4, &pieces, 6, false);
        early.record(0, &pieces, 10, true);
        let written: Vec<(u64, &[u8], bool)> = early
            .0
            .iter()
            .map(|write| (write.stream, &write.bytes[..], write.end))
            .collect();
        let expected: [(u64, &[u8], bool); 3] = [
            (4, b"", false),
            (4, b"GET /i", false),
            (0, b"GET /index", true),
        ];
        assert_eq!(written, expected);
        assert_eq!(early.streams(), [0, 4]);
    }
}
