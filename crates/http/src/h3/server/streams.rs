//! The open request streams.

use fathometer_model::Instant;

use super::stream::Stream;
use crate::exchange::{Pending, RequestId};
use crate::h3::stream_of;

/// The maximum number of closed streams whose memory is stored for reuse.
const MOST_SPARE: usize = 32;

/// The open request streams by request number (the stream ID divided by four).
///
/// Invariant: each stream object is either open or spare, and a newly opened stream has the initial state.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: Pending<Box<Stream>>,
    #[allow(clippy::vec_box, reason = "moved to and from a table of boxes")]
    spare: Vec<Box<Stream>>,
}

impl Streams {
    /// Whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a stream.
    pub fn open(&mut self, request: RequestId, now: Instant) -> Option<&mut Stream> {
        let stream = stream_of(request);
        let open = match self.spare.pop() {
            Some(mut open) => {
                open.renew(stream, now);
                open
            }
            None => Box::new(Stream::new(stream, now)),
        };
        self.open.insert(request, open);
        self.get_mut(request)
    }

    /// Returns an open stream.
    pub fn get(&self, request: RequestId) -> Option<&Stream> {
        self.open.get(request).map(|open| &**open)
    }

    /// Returns an open stream, mutable.
    pub fn get_mut(&mut self, request: RequestId) -> Option<&mut Stream> {
        self.open.get_mut(request).map(|open| &mut **open)
    }

    /// Iterates over all open streams, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Stream)> {
        self.open.iter().map(|(request, open)| (request, &**open))
    }

    /// Closes and returns a stream. The caller must [recycle](Self::recycle) it afterwards.
    pub fn close(&mut self, request: RequestId) -> Option<Box<Stream>> {
        self.open.remove(request)
    }

    /// Stores the memory of a closed stream for reuse.
    pub fn recycle(&mut self, mut closed: Box<Stream>) {
        if self.spare.len() < MOST_SPARE {
            closed.output.clear();
            closed.flowing = None;
            self.spare.push(closed);
        }
    }

    /// Closes all streams.
    pub fn drain(&mut self) -> impl Iterator<Item = (RequestId, Box<Stream>)> + '_ {
        self.open.drain()
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        self.spare = Vec::new();
        self.open.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_reuses_memory_is_like_a_new_one() {
        let mut streams = Streams::default();
        let open = streams.open(RequestId(1), Instant::ZERO).unwrap();
        open.output.write(|text| text.extend_from_slice(b"rest"));
        open.section.extend_from_slice(b"section");
        open.ends = true;
        open.scheduled = true;
        let closed = streams.close(RequestId(1)).unwrap();
        assert!(streams.is_empty() && streams.get(RequestId(1)).is_none());
        streams.recycle(closed);
        let open = streams.open(RequestId(3), Instant::ZERO).unwrap();
        assert!(open.section.is_empty() && open.section.capacity() > 0);
        assert!(open.output.is_empty() && !open.ends && !open.scheduled);
        assert_eq!(open.served.stream, 12);
        assert_eq!(streams.iter().count(), 1);
    }

    #[test]
    fn memory_of_few_closed_streams_is_kept() {
        let mut streams = Streams::default();
        for number in 0..MOST_SPARE as u32 + 5 {
            streams.open(RequestId(number), Instant::ZERO);
        }
        for number in 0..MOST_SPARE as u32 + 5 {
            let closed = streams.close(RequestId(number)).unwrap();
            streams.recycle(closed);
        }
        assert_eq!(streams.spare.len(), MOST_SPARE);
        streams.rest();
        assert_eq!(streams.spare.len(), 0);
    }
}
