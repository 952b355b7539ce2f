//! The unsent output of a connection.

use std::collections::VecDeque;

use fathometer_model::{Bytes, Instant};

use super::traffic::{Counter, Traffic};
use crate::h2::frame::{HEADER_LENGTH, Header};
use crate::h2::{PREFACE, StreamId};

/// The output of a connection that the transport has not taken. Both buffers consist of complete frames, so that the
/// connection's own frames can be inserted between them.
#[derive(Debug)]
pub(super) struct Output {
    /// Released output; the transport has taken `ready[..taken]`.
    pub(super) ready: Vec<u8>,
    taken: usize,
    /// Output that is not released yet.
    pub(super) held: Vec<u8>,
    /// For each request in `ready` of which no byte was sent: the position of its first byte in the whole output
    /// stream.
    begins: VecDeque<u64>,
    /// For each request: the position of its first byte in `held`.
    held_begins: VecDeque<usize>,
    /// The position of `ready[0]` in the whole output stream.
    before: u64,
    /// For each answer in `ready`: its end position in the whole output stream, and its size in bytes.
    answers: VecDeque<(u64, u32)>,
    /// The sum of the sizes in `answers`.
    waiting: u32,
    counter: Counter,
}

impl Default for Output {
    fn default() -> Output {
        Output {
            ready: Vec::new(),
            taken: 0,
            held: Vec::new(),
            begins: VecDeque::new(),
            held_begins: VecDeque::new(),
            before: 0,
            answers: VecDeque::new(),
            waiting: 0,
            counter: Counter::new(PREFACE.len()),
        }
    }
}

impl Output {
    /// Drops all output. Allocated memory is reused.
    pub(super) fn clear(&mut self) {
        self.drop_all();
        self.before = 0;
        self.counter = Counter::new(PREFACE.len());
    }

    /// Drops all output that the transport has not taken.
    pub(super) fn drop_all(&mut self) {
        self.ready.clear();
        self.taken = 0;
        self.held.clear();
        self.begins.clear();
        self.held_begins.clear();
        self.answers.clear();
        self.waiting = 0;
    }

    /// Drops all output that was not released.
    pub(super) fn drop_held(&mut self) {
        self.held.clear();
        self.held_begins.clear();
    }

    /// Frees unused memory.
    pub(super) fn shrink(&mut self) {
        if self.ready.is_empty() {
            self.ready = Vec::new();
        }
        if self.held.is_empty() {
            self.held = Vec::new();
        }
        if self.begins.is_empty() && self.held_begins.is_empty() {
            self.begins = VecDeque::new();
            self.held_begins = VecDeque::new();
        }
        if self.answers.is_empty() {
            self.answers = VecDeque::new();
        }
    }

    /// The number and size of the frames that the transport has taken, by type.
    pub(super) fn traffic(&self) -> &Traffic {
        self.counter.traffic()
    }

    /// Marks the current end of the output as the first byte of a request.
    pub(super) fn begin_request(&mut self) {
        self.held_begins.push_back(self.held.len());
    }

    /// The number of requests of which the transport has taken no byte.
    pub(super) fn unsent(&self) -> usize {
        self.begins.len() + self.held_begins.len()
    }

    /// Whether a frame of this stream is held.
    pub(super) fn holds(&self, stream: StreamId) -> bool {
        frames(&self.held).any(|(_, header)| header.stream == stream)
    }

    /// Counts the last `bytes` bytes of the released output as an answer; returns the total size of the waiting
    /// answers.
    pub(super) fn answered(&mut self, bytes: usize) -> u32 {
        let end = self.before + self.ready.len() as u64;
        let bytes = bytes as u32;
        self.waiting += bytes;
        match self.answers.back_mut() {
            // Adjacent answers are counted together, up to about 1024 bytes.
            Some((last, sum)) if *last + u64::from(bytes) == end && *sum < 1024 => {
                *last = end;
                *sum += bytes;
            }
            _ => self.answers.push_back((end, bytes)),
        }
        self.waiting
    }

    pub(super) fn flush(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let base = self.before + self.ready.len() as u64;
        let begins = self.held_begins.drain(..);
        self.begins.extend(begins.map(|begin| base + begin as u64));
        if self.ready.is_empty() {
            std::mem::swap(&mut self.ready, &mut self.held);
        } else {
            self.ready.append(&mut self.held);
        }
    }

    /// Releases the oldest `bytes` bytes and completes the last frame; returns the number of released bytes.
    pub(super) fn release(&mut self, bytes: u64) -> u64 {
        let end = frames(&self.held)
            .map(|(end, _)| end)
            .find(|&end| end as u64 >= bytes);
        let end = end.unwrap_or(self.held.len());
        if end == self.held.len() {
            self.flush();
            return end as u64;
        }
        let base = self.before + self.ready.len() as u64;
        while let Some(&begin) = self.held_begins.front()
            && begin < end
        {
            self.held_begins.pop_front();
            self.begins.push_back(base + begin as u64);
        }
        for begin in &mut self.held_begins {
            *begin -= end;
        }
        self.ready.extend(self.held.drain(..end));
        end as u64
    }

    pub(super) fn transmit(&self) -> &[u8] {
        &self.ready[self.taken..]
    }

    /// Removes the bytes that the transport took; returns the number of requests whose first byte was among them.
    pub(super) fn transmitted(&mut self, bytes: usize) -> u32 {
        let end = self.taken + bytes;
        self.counter.pass(&self.ready[self.taken..end]);
        self.taken = end;
        let passed = self.before + end as u64;
        let mut begun = 0;
        while self.begins.front().is_some_and(|&begin| begin < passed) {
            self.begins.pop_front();
            begun += 1;
        }
        while let Some(&(end, bytes)) = self.answers.front()
            && end <= passed
        {
            self.answers.pop_front();
            self.waiting -= bytes;
        }
        self.compact();
        begun
    }

    /// Drops the bytes that the transport took, if they fill the buffer or are at least 64 KiB.
    fn compact(&mut self) {
        if self.taken == self.ready.len() {
            self.ready.clear();
        } else if self.taken >= 64 * 1024 {
            self.ready.drain(..self.taken);
        } else {
            return;
        }
        self.before += self.taken as u64;
        self.taken = 0;
    }

    /// The number of held bytes.
    pub(super) fn held(&self) -> Bytes {
        Bytes(self.held.len() as u64)
    }
}

/// Iterates over the frames in `bytes`; returns the end position and the header of each.
fn frames(bytes: &[u8]) -> impl Iterator<Item = (usize, Header)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header = Header::parse(bytes.get(at..)?.first_chunk()?);
        at += HEADER_LENGTH + header.length as usize;
        Some((at, header))
    })
}

/// Returns the end of a time limit that starts at `start`.
pub(super) fn deadline(start: Instant, limit: Option<std::time::Duration>) -> Option<Instant> {
    limit.map(|limit| start + limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::frame::write;

    #[test]
    fn connection_frames_are_sent_between_released_whole_frames() {
        let mut output = Output {
            counter: Counter::new(0),
            ..Output::default()
        };
        for stream in [1, 3, 5] {
            output.begin_request();
            write::reset(
                &mut output.held,
                StreamId::new(stream),
                crate::h2::error::ErrorCode(0),
            );
        }
        assert_eq!((output.held(), output.unsent()), (Bytes(39), 3));
        assert_eq!(output.release(14), 26);
        assert!(!output.holds(StreamId::new(3)) && output.holds(StreamId::new(5)));
        write::window_update(&mut output.ready, StreamId::CONNECTION, 9);
        assert_eq!(output.release(1), 13);
        let streams: Vec<u32> = frames(output.transmit())
            .map(|(_, header)| header.stream.number())
            .collect();
        assert_eq!(streams, [1, 3, 0, 5]);
        assert_eq!(output.transmitted(13), 1);
        assert_eq!(output.transmitted(1), 1);
        assert_eq!(
            output.transmitted(25),
            0,
            "the third request begins after the window update"
        );
        assert_eq!(output.unsent(), 1);
        assert_eq!(output.transmitted(13), 1);
        assert!(output.transmit().is_empty());
        let reset = crate::h2::frame::FrameType::RST_STREAM;
        assert_eq!(output.traffic().frames(reset), 3);
        assert_eq!(output.traffic().total(), Bytes(52));
    }
}
