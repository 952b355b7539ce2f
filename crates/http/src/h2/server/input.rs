//! Unprocessed input: the preface, incomplete frames, and the current DATA frame (RFC 9113 sections 3.4 and 4.1).

use fathometer_model::Instant;

use super::streams::Slot;
use crate::h2::PREFACE;
use crate::h2::error::Fault;
use crate::h2::frame::{Frame, Limits, Reader};

/// The expected next part of the input, and the time for which it has been incomplete.
///
/// Invariants: no frame is read before the preface, and the first handled frame is SETTINGS. The time limit of a frame
/// starts with its first byte. DATA frames have a different limit, which is not checked here.
#[derive(Debug)]
pub(super) struct Input {
    start: Start,
    reader: Reader,
    /// The time at which the first byte of an incomplete frame arrived.
    frame_started: Option<Instant>,
    /// The stream that receives the current DATA frame.
    data: Option<Slot>,
    /// Whether the current DATA frame has had any content so far.
    data_has_content: bool,
}

/// The expected next part of the connection start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The preface. The value is the number of its bytes received so far.
    Preface(usize),
    /// SETTINGS.
    Settings,
    Done,
}

impl Input {
    /// Creates the state before the first byte. From `now`, the preface and the first frame have the time limit of one
    /// frame.
    pub fn new(limits: Limits, now: Instant) -> Input {
        Input {
            start: Start::Preface(0),
            reader: Reader::new(limits),
            frame_started: Some(now),
            data: None,
            data_has_content: false,
        }
    }

    /// Reads and removes the preface from the front of `input`.
    pub fn read_preface(&mut self, input: &mut &[u8]) -> Result<(), Fault> {
        let Start::Preface(matched) = self.start else {
            return Ok(());
        };
        let expected = &PREFACE[matched..];
        let length = expected.len().min(input.len());
        let (bytes, rest) = input.split_at(length);
        *input = rest;
        if bytes != &expected[..length] {
            return Err(Fault::BadPreface);
        }
        self.start = match length == expected.len() {
            true => Start::Settings,
            false => Start::Preface(matched + length),
        };
        Ok(())
    }

    /// Whether the preface is complete.
    pub fn has_preface(&self) -> bool {
        !matches!(self.start, Start::Preface(_))
    }

    /// Whether the first frame has been handled.
    pub fn has_started(&self) -> bool {
        self.start == Start::Done
    }

    /// Checks that the first frame is SETTINGS.
    pub fn check_first(&mut self, frame: &Frame<'_>) -> Result<(), Fault> {
        if self.start == Start::Settings {
            if !matches!(frame, Frame::Settings(_)) {
                return Err(Fault::NoSettings);
            }
            self.start = Start::Done;
        }
        Ok(())
    }

    /// Takes the reader out, because the returned frames borrow it. The caller must [put it back](Self::put_reader).
    pub fn take_reader(&mut self) -> Reader {
        std::mem::take(&mut self.reader)
    }

    /// Puts the reader back. The reader must have read all input.
    pub fn put_reader(&mut self, reader: Reader, now: Instant) {
        if !self.has_started() {
            // The time limit from the start of the connection still applies.
        } else if reader.is_between_frames() || reader.is_within_data() {
            self.frame_started = None;
        } else {
            self.frame_started.get_or_insert(now);
        }
        self.reader = reader;
    }

    /// Whether the preface and the first frame are complete, and no later frame is incomplete.
    pub fn is_between_frames(&self) -> bool {
        self.has_started() && self.reader.is_between_frames()
    }

    /// The time at which the first byte of an incomplete frame arrived.
    pub fn frame_started(&self) -> Option<Instant> {
        self.frame_started
    }

    /// Ends the time limit of a frame, because no more frames are read.
    pub fn stop(&mut self) {
        self.frame_started = None;
    }

    /// Begins a DATA frame for `stream`; `None` if no stream accepts the frame.
    pub fn begin_data(&mut self, stream: Option<Slot>) {
        self.data = stream;
        self.data_has_content = false;
    }

    /// Counts a piece of the current DATA frame. Returns true if the frame is complete and had no content.
    pub fn note_data(&mut self, length: usize, is_last: bool) -> bool {
        self.data_has_content |= length > 0;
        is_last && !self.data_has_content
    }

    /// The stream that receives the current DATA frame.
    pub fn data(&self) -> Option<Slot> {
        self.data
    }

    /// Ends the current DATA frame.
    pub fn end_data(&mut self) {
        self.data = None;
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        self.reader.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> Input {
        Input::new(Limits::default(), Instant::ZERO)
    }

    #[test]
    fn the_preface_is_read_at_any_split() {
        let bytes = [&PREFACE[..], b"rest"].concat();
        for cut in 0..bytes.len() {
            let mut input = input();
            let (mut first, mut second) = bytes.split_at(cut);
            assert_eq!(input.read_preface(&mut first), Ok(()));
            assert_eq!(input.has_preface(), cut >= PREFACE.len());
            assert_eq!(input.read_preface(&mut second), Ok(()));
            assert!(input.has_preface() && !input.has_started());
            assert_eq!([first, second].concat(), b"rest");
        }
        let mut wrong = &b"PRI * HTTP/1"[..];
        assert_eq!(input().read_preface(&mut wrong), Err(Fault::BadPreface));
    }

    #[test]
    fn settings_come_first_and_incomplete_frames_are_timed() {
        let now = Instant::ZERO;
        let mut input = input();
        input.read_preface(&mut &PREFACE[..]).unwrap();
        let other = Frame::SettingsAcknowledged;
        assert_eq!(input.check_first(&other), Err(Fault::NoSettings));
        let mut reader = input.take_reader();
        assert!(reader.read(&mut &b"\0\0\0"[..]).is_none());
        input.put_reader(reader, now);
        assert_eq!(input.frame_started(), Some(now));
        let mut reader = input.take_reader();
        let mut rest = &b"\x04\0\0\0\0\0"[..];
        let settings = reader.read(&mut rest).unwrap().unwrap();
        assert_eq!(input.check_first(&settings), Ok(()));
        assert_eq!(input.check_first(&other), Ok(()));
        assert!(reader.read(&mut rest).is_none());
        input.put_reader(reader, now);
        assert!(input.is_between_frames());
        assert_eq!(input.frame_started(), None);
    }

    #[test]
    fn a_frame_of_padding_alone_has_no_content() {
        let mut input = input();
        input.begin_data(None);
        assert!(!input.note_data(0, false));
        assert!(input.note_data(0, true));
        input.begin_data(None);
        assert!(!input.note_data(1, false));
        assert!(!input.note_data(0, true));
    }
}
