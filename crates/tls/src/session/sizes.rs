//! How large records are.

use fathometer_model::Instant;

use crate::FirstRecords;

/// The sizes of one session's records, in octets of application data.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordSizes {
    largest: usize,
    first: Option<FirstRecords>,
    /// Octets that still go in small records.
    left: u64,
    /// When something was last written, as far as that was told.
    written: Option<Instant>,
}

impl RecordSizes {
    /// The same size from the start.
    pub fn alike(largest: usize) -> RecordSizes {
        RecordSizes::new(largest, None)
    }

    pub fn new(largest: usize, first: Option<FirstRecords>) -> RecordSizes {
        // Small ones that are not smaller are none.
        let first = first.filter(|first| first.size < largest);
        RecordSizes {
            largest,
            first,
            left: first.map_or(0, |first| first.octets),
            written: None,
        }
    }

    pub fn largest(&self) -> usize {
        self.largest
    }

    /// The most octets in the record that is next, or open. It changes with [`sealed`](Self::sealed)
    /// and, while no record is open, with [`note_time`](Self::note_time).
    pub fn next(&self) -> usize {
        match self.first {
            Some(first) if self.left > 0 => first.size,
            _ => self.largest,
        }
    }

    /// Records with so many octets were sealed.
    pub fn sealed(&mut self, octets: usize) {
        self.left = self.left.saturating_sub(octets as u64);
    }

    /// Something is written now.
    pub fn note_time(&mut self, now: Instant) {
        let Some(first) = self.first else {
            return;
        };
        if let (Some(written), Some(pause)) = (self.written, first.pause)
            && now.since(written) >= pause
        {
            self.left = first.octets;
        }
        self.written = Some(now);
    }
}
