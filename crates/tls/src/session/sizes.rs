//! The sizes of records.

use fathometer_model::Instant;

use crate::FirstRecords;

/// The sizes of one session's records, in bytes of application data.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordSizes {
    largest: usize,
    first: Option<FirstRecords>,
    /// The number of bytes still to send in small records.
    left: u64,
    /// The time of the last write, if `note_time` was called.
    written: Option<Instant>,
}

impl RecordSizes {
    /// Uses the same size for all records.
    pub fn alike(largest: usize) -> RecordSizes {
        RecordSizes::new(largest, None)
    }

    pub fn new(largest: usize, first: Option<FirstRecords>) -> RecordSizes {
        // First records that are not smaller than the others have no effect.
        let first = first.filter(|first| first.size < largest);
        RecordSizes {
            largest,
            first,
            left: first.map_or(0, |first| first.bytes),
            written: None,
        }
    }

    pub fn largest(&self) -> usize {
        self.largest
    }

    /// The largest number of bytes in the open or next record. [`sealed`](Self::sealed) changes the number.
    /// [`note_time`](Self::note_time) changes it only while no record is open.
    pub fn next(&self) -> usize {
        match self.first {
            Some(first) if self.left > 0 => first.size,
            _ => self.largest,
        }
    }

    /// Records that this number of bytes was sealed.
    pub fn sealed(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
    }

    /// Records a write at `now`.
    pub fn note_time(&mut self, now: Instant) {
        let Some(first) = self.first else {
            return;
        };
        if let (Some(written), Some(pause)) = (self.written, first.pause)
            && now.since(written) >= pause
        {
            self.left = first.bytes;
        }
        self.written = Some(now);
    }
}
