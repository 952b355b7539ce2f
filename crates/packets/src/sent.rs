//! The retransmissions of senders, matched with the drops of the path.
//!
//! The taps where packets enter the path capture every transmission. Dropped packets have a comment with the cause of
//! the drop. A retransmission of data whose last transmission was dropped is necessary; any other retransmission is
//! spurious.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::parse::{Flags, Segment};
use super::sequence::{SequenceSet, first_reference, unwrap};

/// Maximum number of distinct causes; further causes are counted under the last name.
const CAUSE_LIMIT: usize = 64;
/// Maximum number of dropped ranges that are stored until they are retransmitted.
const LOST_LIMIT: usize = 65_536;

/// The transmissions of one end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Transmissions {
    reference: Option<u64>,
    highest: u64,
    sent: SequenceSet,
    /// Dropped ranges that are not yet retransmitted: start, end and cause.
    lost: Vec<(u64, u64, CauseId)>,
}

/// Index into [`Causes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct CauseId(u16);

impl CauseId {
    /// Returns the index of the cause's name in [`Causes::names`].
    pub(super) fn index(self) -> u16 {
        self.0
    }
}

/// The names of all causes in a capture.
#[derive(Debug, Default)]
pub(super) struct Causes(Vec<String>);

impl Causes {
    pub(super) fn id(&mut self, cause: &str) -> CauseId {
        let index = self.0.iter().position(|known| known == cause);
        CauseId(index.unwrap_or_else(|| {
            if self.0.len() < CAUSE_LIMIT {
                self.0.push(cause.to_owned());
            }
            self.0.len() - 1
        }) as u16)
    }

    pub(super) fn name(&self, id: CauseId) -> &str {
        &self.0[usize::from(id.0)]
    }

    /// Returns all names.
    pub(super) fn names(&self) -> &[String] {
        &self.0
    }
}

/// A retransmission, with the cause of the drop that it repairs; `None` if the retransmission is spurious.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeated(pub(super) Option<CauseId>);

impl Transmissions {
    /// Records a transmission, and the cause if the path dropped it.
    pub(super) fn transmit(
        &mut self,
        segment: &Segment,
        dropped: Option<CauseId>,
    ) -> Option<Repeated> {
        let (start, end) = self.range(segment)?;
        let repeated = start < self.highest && self.sent.covered(start, end) > 0;
        self.sent.insert(start, end);
        self.highest = self.highest.max(end);
        self.reference = self.reference.max(Some(self.highest));
        let repeated = repeated.then(|| {
            let cause = self
                .lost
                .iter()
                .rev()
                .find(|lost| overlap(lost, start, end));
            Repeated(cause.map(|lost| lost.2))
        });
        if repeated.is_some() {
            self.lost.retain(|lost| !overlap(lost, start, end));
        }
        if let Some(cause) = dropped {
            self.lose(start, end, cause);
        }
        repeated
    }

    /// Records that an earlier transmission was dropped. Some captures report a drop only after the transmission.
    pub(super) fn drop_later(&mut self, segment: &Segment, cause: CauseId) {
        if let Some((start, end)) = self.range(segment) {
            self.lose(start, end, cause);
        }
    }

    /// Returns the approximate memory, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let lost = self.lost.capacity() * size_of::<(u64, u64, CauseId)>();
        (size_of::<Transmissions>() + lost) as u64 + self.sent.memory()
    }

    fn lose(&mut self, start: u64, end: u64, cause: CauseId) {
        if self.lost.len() < LOST_LIMIT {
            self.lost.push((start, end, cause));
        }
    }

    /// Returns the range of sequence numbers that a segment occupies; `None` if the range is empty.
    fn range(&mut self, segment: &Segment) -> Option<(u64, u64)> {
        if segment.flags.contains(Flags::RST) {
            return None;
        }
        let length = occupied(segment);
        let reference = *self
            .reference
            .get_or_insert_with(|| first_reference(segment.sequence));
        let start = unwrap(reference, segment.sequence);
        (length > 0).then_some((start, start + length))
    }
}

/// Returns the number of sequence numbers that a segment occupies.
pub(super) fn occupied(segment: &Segment) -> u64 {
    if segment.flags.contains(Flags::RST) {
        return 0;
    }
    let syn = u64::from(segment.flags.contains(Flags::SYN));
    let fin = u64::from(segment.flags.contains(Flags::FIN));
    u64::from(segment.payload_length) + syn + fin
}

fn overlap(lost: &(u64, u64, CauseId), start: u64, end: u64) -> bool {
    lost.0 < end && start < lost.1
}

/// Counts retransmissions by cause.
#[derive(Debug, Default)]
pub(super) struct Tally {
    lost: BTreeMap<u16, u64>,
    spurious: u64,
}

impl Tally {
    pub(super) fn count(&mut self, repeated: Repeated) {
        match repeated.0 {
            Some(cause) => *self.lost.entry(cause.0).or_default() += 1,
            None => self.spurious += 1,
        }
    }

    pub(super) fn summary(&self, causes: &Causes) -> super::summary::Repetitions {
        super::summary::Repetitions {
            lost: self
                .lost
                .iter()
                .map(|(id, count)| (causes.name(CauseId(*id)).to_owned(), *count))
                .collect(),
            spurious: self.spurious,
        }
    }
}
