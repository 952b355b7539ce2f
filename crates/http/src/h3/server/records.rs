//! Records of exchanges whose responses were passed to the transport, and the texts of their requests.

use std::collections::VecDeque;

use fathometer_model::{Bytes, Instant};

use crate::exchange::{self, Pending, RequestId, RequestText, StreamServed};
use crate::h3::ErrorCode;

/// An exchange whose response was passed to the transport, completely or in part. The size of a head is the size of its
/// HEADERS frames, with their types and lengths.
pub type Served = StreamServed<u64, ErrorCode>;

/// Records that the caller has not taken.
///
/// Invariant: the text of a request is stored only from the time at which the request is read until its record is
/// created or dropped.
#[derive(Debug)]
pub(super) struct Records {
    /// Whether records are created.
    are_made: bool,
    /// Whether records include the texts of requests.
    have_text: bool,
    events: VecDeque<(Served, [u32; 3], Vec<u8>)>,
    /// Texts of the requests in flight.
    texts: Pending<Vec<u8>>,
    /// The text of the event that the caller took last.
    text: Vec<u8>,
}

impl Records {
    pub fn new(are_made: bool, have_text: bool) -> Records {
        Records {
            are_made,
            have_text,
            events: VecDeque::new(),
            texts: Pending::default(),
            text: Vec::new(),
        }
    }

    /// The hash of a request target for a record; 0 if no records are created.
    pub fn target_hash(&self, target: &[u8]) -> u64 {
        match self.are_made {
            true => exchange::Served::target_hash(target),
            false => 0,
        }
    }

    /// Stores the texts of a request that access logs contain; returns the lengths of the texts.
    pub fn keep_text(
        &mut self,
        request: RequestId,
        [method, target, referer, user_agent]: [&[u8]; 4],
    ) -> [u32; 3] {
        if !self.have_text {
            return [0; 3];
        }
        let mut text = Vec::new();
        for part in [method, b" ", target, b" HTTP/3"] {
            text.extend_from_slice(part);
        }
        let lengths = [text.len(), referer.len(), user_agent.len()];
        text.extend_from_slice(referer);
        text.extend_from_slice(user_agent);
        self.texts.insert(request, text);
        lengths.map(|length| length as u32)
    }

    /// Records an exchange that ended at `now`, after the transport took `sent` bytes of its stream. If `reset` is set,
    /// the exchange ended before its response was complete. An incomplete response of which no byte was taken has no
    /// record.
    pub fn note_end(
        &mut self,
        request: RequestId,
        (served, lengths): (&Served, [u32; 3]),
        sent: u64,
        reset: Option<ErrorCode>,
        now: Instant,
    ) {
        let text = self.texts.remove(request).unwrap_or_default();
        if !self.are_made || (reset.is_some() && sent == 0) {
            return;
        }
        let mut served = match reset {
            None => *served,
            Some(_) => cut(*served, sent),
        };
        served.reset = reset;
        served.exchange.at = now;
        self.events.push_back((served, lengths, text));
    }

    /// Removes and returns the next record.
    pub fn take(&mut self) -> Option<(Served, RequestText<'_>)> {
        let (served, lengths, text) = self.events.pop_front()?;
        self.text = text;
        Some((served, RequestText::split(&self.text, lengths)))
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        self.texts.shrink();
    }
}

/// Reduces a record to the first `sent` bytes of the stream.
fn cut(mut served: Served, sent: u64) -> Served {
    let head = served.exchange.head.0.min(sent);
    let frames = served.body_frames.0.min(sent - head);
    let framing = served.body_frames.0 - served.exchange.body.0;
    served.exchange.head = Bytes(head);
    served.body_frames = Bytes(frames);
    served.exchange.body = Bytes(frames.saturating_sub(framing));
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: RequestId = RequestId(1);

    /// Creates the record of a response: a head of 10 bytes, and 20 bytes of content in frames of 23 bytes.
    fn served() -> Served {
        let mut served = Served::unread(4, false, Instant::ZERO);
        served.exchange.head = Bytes(10);
        served.exchange.body = Bytes(20);
        served.body_frames = Bytes(23);
        served
    }

    fn cut_at(sent: u64) -> Option<[u64; 3]> {
        let mut records = Records::new(true, false);
        let reset = Some(ErrorCode::REQUEST_CANCELLED);
        records.note_end(REQUEST, (&served(), [0; 3]), sent, reset, Instant::ZERO);
        let (served, _) = records.take()?;
        assert_eq!(served.reset, reset);
        let counts = [
            served.exchange.head,
            served.body_frames,
            served.exchange.body,
        ];
        Some(counts.map(|count| count.0))
    }

    #[test]
    fn a_record_counts_what_was_sent() {
        assert_eq!(cut_at(0), None);
        assert_eq!(cut_at(4), Some([4, 0, 0]));
        assert_eq!(
            cut_at(12),
            Some([10, 2, 0]),
            "the cut is within the frame header"
        );
        assert_eq!(cut_at(18), Some([10, 8, 5]));
        assert_eq!(cut_at(33), Some([10, 23, 20]));
    }

    #[test]
    fn a_record_has_the_text_of_its_request() {
        let mut records = Records::new(true, true);
        let now = Instant::ZERO;
        let lengths = records.keep_text(REQUEST, [b"GET", b"/a", b"there", b"me"]);
        records.note_end(REQUEST, (&served(), lengths), 33, None, now);
        records.note_end(REQUEST, (&served(), [0; 3]), 33, None, now);
        let (_, text) = records.take().unwrap();
        assert_eq!(text.line, b"GET /a HTTP/3");
        assert_eq!((text.referer, text.user_agent), (&b"there"[..], &b"me"[..]));
        let (_, text) = records.take().unwrap();
        assert_eq!(text.line, b"", "a text belongs to one record");
        assert!(records.take().is_none());
    }

    #[test]
    fn disabled_records_compute_no_hash() {
        let mut records = Records::new(false, false);
        assert_eq!(records.target_hash(b"/"), 0);
        records.note_end(REQUEST, (&served(), [0; 3]), 33, None, Instant::ZERO);
        assert!(records.take().is_none());
    }
}
