//! Rules for the sizes of records.

use fathometer_model::Instant;

use crate::FirstRecords;

/// The maximum sizes of a session's records, in bytes of application data.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordSizes {
    largest: usize,
    first: Option<FirstRecords>,
    /// The number of bytes that remain to be sent in small records.
    left: u64,
    /// The time of the last write; `None` if `note_time` was never called.
    written: Option<Instant>,
}

impl RecordSizes {
    /// Sets the same size for all records.
    pub fn alike(largest: usize) -> RecordSizes {
        RecordSizes::new(largest, None)
    }

    pub fn new(largest: usize, first: Option<FirstRecords>) -> RecordSizes {
        // Small first records only have an effect if they are smaller than the others.
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

    /// The maximum number of bytes in the open or next record. It changes after [`sealed`](Self::sealed), and with
    /// [`note_time`](Self::note_time) while no record is open.
    pub fn next(&self) -> usize {
        match self.first {
            Some(first) if self.left > 0 => first.size,
            _ => self.largest,
        }
    }

    /// Notes that a record with `bytes` bytes of application data was sealed.
    pub fn sealed(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
    }

    /// Notes a write at `now`.
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
