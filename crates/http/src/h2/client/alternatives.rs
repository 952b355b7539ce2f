//! What a server tells of alternative services in frames of their own (RFC 7838 section 4).
//!
//! What is said on a stream is about the origin of its request, and names none; what is said on the
//! connection names the origin that it is about. All else is ignored, as the standard wants it, and so is
//! what is said on a stream that is not open. Whether a server may speak for the origin that it names is
//! for the caller to judge.

use super::connection::Core;
use super::stream::request_of;
use crate::client::Event;
use crate::h2::StreamId;
use crate::h2::error::Fault;

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) origin: String,
    pub(super) value: String,
}

impl Core {
    /// A frame told of alternative services.
    pub(super) fn take_alternatives(
        &mut self,
        stream: StreamId,
        origin: &[u8],
        value: &[u8],
    ) -> Result<(), Fault> {
        // No response gets on by it.
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
