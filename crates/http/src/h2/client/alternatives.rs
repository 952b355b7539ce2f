//! Announcements of alternative services in ALTSVC frames (RFC 7838 section 4).
//!
//! A frame on a stream concerns the origin of its request and names no origin. A frame on the connection names
//! the origin that it concerns. All other forms are ignored, as the RFC requires, and so is a frame on a stream
//! that is not open. The caller decides whether the server may speak for the origin that it names.

use super::connection::Core;
use super::stream::request_of;
use crate::exchange::Event;
use crate::h2::StreamId;
use crate::h2::error::Fault;

/// The last announcement.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) origin: String,
    pub(super) value: String,
}

impl Core {
    /// Handles an ALTSVC frame.
    pub(super) fn take_alternatives(
        &mut self,
        stream: StreamId,
        origin: &[u8],
        value: &[u8],
    ) -> Result<(), Fault> {
        // It brings no response closer to its end, so it counts as a frame without content.
        self.nothing()?;
        let request = (!stream.is_connection()).then(|| request_of(stream));
        let is_in_place = match request {
            None => !origin.is_empty(),
            Some(request) => origin.is_empty() && self.streams.get(request).is_some(),
        };
        // Both are ASCII by their grammar.
        let (Ok(origin), Ok(value)) = (str::from_utf8(origin), str::from_utf8(value)) else {
            return Ok(());
        };
        if !is_in_place || !origin.is_ascii() || !value.is_ascii() {
            return Ok(());
        }
        for (kept, told) in [
            (&mut self.told.origin, origin),
            (&mut self.told.value, value),
        ] {
            kept.clear();
            kept.push_str(told);
        }
        self.notes.push_back(Event::Alternatives { request });
        Ok(())
    }
}
