//! Records of complete and incomplete exchanges.

use std::collections::VecDeque;
use std::ops::Range;

use fathometer_model::Instant;

use crate::exchange::{RequestText, StreamServed};
use crate::h2::StreamId;
use crate::h2::error::ErrorCode;

/// An exchange whose response was handed to the transport, completely or in part. The size of a head is the size of its
/// HEADERS and CONTINUATION frames.
pub type Served = StreamServed<StreamId, ErrorCode>;

/// The records of exchanges. A record is stored until the transport has taken the response and the caller has taken the
/// event.
///
/// Invariant: `texts` contains the texts of all events, followed by the texts of all outstanding responses, in order.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Completely queued responses whose last byte has not been sent.
    outstanding: VecDeque<Outstanding>,
    /// Queued DATA frames, except the last frame of each response.
    frames: VecDeque<QueuedFrame>,
    events: VecDeque<(Served, [u32; 3])>,
    texts: VecDeque<u8>,
    /// The text that the caller took last.
    text: Vec<u8>,
}

/// A queued response.
#[derive(Debug)]
struct Outstanding {
    /// The start and end positions of the response in the output.
    place: Range<u64>,
    /// The length of the content in the response's last frame, in bytes.
    last_content: u32,
    served: Served,
    text: [u32; 3],
}

/// A queued DATA frame.
#[derive(Debug)]
struct QueuedFrame {
    end: u64,
    stream: StreamId,
    content: u32,
}

impl Records {
    /// Notes a queued DATA frame that is not the last frame of its response. `end` is its end position in the output.
    pub fn note_frame(&mut self, stream: StreamId, content: u32, end: u64) {
        self.frames.push_back(QueuedFrame {
            end,
            stream,
            content,
        });
    }

    /// Notes a completely queued response with its range of positions in the output. Its last frame has `last_content`
    /// bytes of content. The text of its request consists of three parts with the given lengths.
    pub fn note_response(
        &mut self,
        served: Served,
        (text, lengths): (&[u8], [u32; 3]),
        place: Range<u64>,
        last_content: u32,
    ) {
        self.texts.extend(text);
        self.outstanding.push_back(Outstanding {
            place,
            last_content,
            served,
            text: lengths,
        });
    }

    /// Generates events for the responses of which the transport has taken the last byte. `sent` is the number of
    /// output bytes that the transport has taken.
    pub fn note_sent(&mut self, sent: u64, now: Instant) {
        while let Some(first) = self.outstanding.front()
            && first.place.end <= sent
        {
            let mut served = first.served;
            served.exchange.at = now;
            self.events.push_back((served, first.text));
            self.outstanding.pop_front();
        }
        while self.frames.front().is_some_and(|first| first.end <= sent) {
            self.frames.pop_front();
        }
    }

    /// Removes and returns the next event.
    pub fn take(&mut self) -> Option<(Served, RequestText<'_>)> {
        let (served, lengths) = self.events.pop_front()?;
        self.take_text(lengths);
        Some((served, RequestText::split(&self.text, lengths)))
    }

    /// Drops queued responses until the first one of which the transport took a part. Returns whether such a response
    /// exists.
    pub fn drop_unsent(&mut self, sent: u64) -> bool {
        while let Some(first) = self.outstanding.front() {
            if first.place.start < sent {
                return true;
            }
            let lengths = first.text;
            self.take_text(lengths);
            self.outstanding.pop_front();
        }
        false
    }

    /// Removes and returns the next queued response of which the transport took a part. All events must already be
    /// taken.
    pub fn take_cut(&mut self, sent: u64, now: Instant) -> Option<(Served, RequestText<'_>)> {
        let Outstanding {
            place,
            last_content,
            mut served,
            text,
        } = self.outstanding.pop_front()?;
        self.take_text(text);
        let unsent = u64::from(last_content).min(place.end.saturating_sub(sent));
        served.exchange.body.0 -= unsent;
        let served = self.cut(served, sent, now);
        Some((served, RequestText::split(&self.text, text)))
    }

    /// Returns the record of a response that was not queued completely and of which the transport took a part.
    pub fn cut_unfinished(
        &mut self,
        served: Served,
        (text, lengths): (&[u8], [u32; 3]),
        sent: u64,
        now: Instant,
    ) -> (Served, RequestText<'_>) {
        self.text.clear();
        self.text.extend_from_slice(text);
        let served = self.cut(served, sent, now);
        (served, RequestText::split(&self.text, lengths))
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        self.text = Vec::new();
        self.frames = VecDeque::new();
        self.outstanding.shrink_to_fit();
        self.events.shrink_to_fit();
        self.texts.shrink_to_fit();
    }

    /// Subtracts the content in DATA frames that were not sent.
    fn cut(&self, mut served: Served, sent: u64, now: Instant) -> Served {
        let frames = self.frames.iter();
        let frames = frames.filter(|frame| frame.stream == served.stream);
        let unsent: u64 = frames
            .map(|frame| u64::from(frame.content).min(frame.end.saturating_sub(sent)))
            .sum();
        served.exchange.body.0 = served.exchange.body.0.saturating_sub(unsent);
        served.exchange.at = now;
        served
    }

    fn take_text(&mut self, lengths: [u32; 3]) {
        let total: usize = lengths.iter().map(|&length| length as usize).sum();
        self.text.clear();
        self.text.extend(self.texts.drain(..total));
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::Bytes;

    use super::*;

    fn served(stream: u32, body: u64) -> Served {
        let mut served = Served::unread(StreamId::new(stream), false, Instant::ZERO);
        served.exchange.body = Bytes(body);
        served
    }

    #[test]
    fn events_come_when_the_last_byte_was_sent_with_their_texts() {
        let mut records = Records::default();
        records.note_response(served(1, 5), (b"line-ref-me", [4, 4, 3]), 0..10, 5);
        records.note_response(served(3, 5), (b"other", [5, 0, 0]), 10..20, 5);
        records.note_sent(9, Instant::ZERO);
        assert!(records.take().is_none());
        records.note_sent(19, Instant::ZERO);
        let (first, text) = records.take().unwrap();
        assert_eq!((first.stream, text.line), (StreamId::new(1), &b"line"[..]));
        assert_eq!((text.referer, text.user_agent), (&b"-ref"[..], &b"-me"[..]));
        assert!(records.take().is_none());
        let (cut, text) = records.take_cut(19, Instant::ZERO).unwrap();
        assert_eq!((cut.exchange.body, text.line), (Bytes(4), &b"other"[..]));
        assert!(records.take_cut(19, Instant::ZERO).is_none());
    }

    #[test]
    fn content_that_was_not_sent_is_not_counted() {
        let mut records = Records::default();
        let stream = StreamId::new(1);
        records.note_frame(stream, 10, 20);
        records.note_frame(StreamId::new(3), 10, 40);
        records.note_frame(stream, 10, 60);
        records.note_sent(20, Instant::ZERO);
        let (cut, _) = records.cut_unfinished(served(1, 20), (b"", [0; 3]), 54, Instant::ZERO);
        assert_eq!(cut.exchange.body, Bytes(14));
        // A response of which nothing was sent has no record.
        records.note_response(served(5, 1), (b"", [0; 3]), 60..70, 1);
        assert!(!records.drop_unsent(54));
        assert!(records.take_cut(54, Instant::ZERO).is_none());
    }
}
