//! The whole test: the figures of all ranks, from the network or from spools.
//!
//! An interval of the whole test is closed when each rank has reported the interval, has finished or is lost. The
//! figures are merged in the order of the ranks, so the result does not depend on the order of arrival.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_analysis::load::Distribution;
use fathometer_load::MOST_INTERVALS;
use fathometer_load::timeline::{ClosedInterval, Part, Spares, Timeline, merge_counts};

use crate::limits::{ImpossibleFigure, Totals};
use crate::merge::{self, MergeError, Merged};
use crate::record::{RankRecord, Reported, TestFacts};

/// The longest latency for which histograms allocate memory at the start.
const LONGEST: Duration = Duration::from_secs(1);

/// The reason why the figures of a rank cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FiguresError {
    /// The rank does not exist, or it has finished.
    #[error("received figures from a rank that is not in this test")]
    Rank,
    /// The bytes are neither the figures of an interval nor a result.
    #[error("malformed figures: {0}")]
    Malformed(postcard::Error),
    /// An interval is missing or arrives twice.
    #[error("received interval {found}, expected interval {expected}")]
    Order {
        /// The interval that was received.
        found: u64,
        /// The interval that was expected.
        expected: u64,
    },
    /// A figure is impossible in a test.
    #[error("{0}")]
    Absurd(#[from] ImpossibleFigure),
}

/// The whole test.
#[derive(Debug)]
pub struct Whole {
    facts: TestFacts,
    timeline: Timeline,
    ranks: Vec<Rank>,
    /// Intervals that are not closed. Each has the figures of the ranks that have reported it.
    open: BTreeMap<u64, BTreeMap<u32, Vec<u8>>>,
    /// The next interval to close.
    next: u64,
}

/// The state of a rank.
#[derive(Debug, Default)]
struct Rank {
    /// Number of intervals that the rank has reported.
    reported: u64,
    so_far: Reported,
    totals: Totals,
    end: RankEnd,
}

/// The way in which the share of a rank ended.
#[derive(Debug, Default)]
enum RankEnd {
    #[default]
    Open,
    Ended(Box<RankRecord>),
    Lost(String),
}

/// Encodes the figures of an interval.
pub fn encode_part(part: &Part) -> Vec<u8> {
    // Writing to a vector does not fail.
    postcard::to_allocvec(part).unwrap_or_default()
}

/// Encodes the result of a rank.
pub fn encode_record(record: &RankRecord) -> Vec<u8> {
    postcard::to_allocvec(record).unwrap_or_default()
}

fn decode_part(bytes: &[u8]) -> Result<Part, FiguresError> {
    postcard::from_bytes(bytes).map_err(FiguresError::Malformed)
}

impl Whole {
    /// Creates a test without any figures.
    pub fn new(facts: TestFacts) -> Whole {
        let expected = facts.measured.map_or(0, |measured| {
            let all = facts.warm_up.saturating_add(measured);
            (all.as_nanos() / facts.interval.as_nanos().max(1)) as usize + 2
        });
        let spares = Spares::new(1, LONGEST);
        Whole {
            timeline: Timeline::new(1, facts.interval, MOST_INTERVALS, expected, spares),
            ranks: (0..facts.ranks).map(|_| Rank::default()).collect(),
            open: BTreeMap::new(),
            next: 0,
            facts,
        }
    }

    /// Adds the report of a rank's next interval.
    ///
    /// # Errors
    /// If the figures are malformed, out of order or impossible. In this case, they are not counted.
    pub fn interval(&mut self, rank: u32, bytes: Vec<u8>) -> Result<(), FiguresError> {
        let known = self.ranks.get_mut(rank as usize);
        let known = known.filter(|rank| matches!(rank.end, RankEnd::Open));
        let known = known.ok_or(FiguresError::Rank)?;
        let part = decode_part(&bytes)?;
        if part.interval != known.reported {
            return Err(FiguresError::Order {
                found: part.interval,
                expected: known.reported,
            });
        }
        self.facts.limits().part(&part, &mut known.totals)?;
        known.reported += 1;
        let so_far = &mut known.so_far;
        so_far.intervals += 1;
        if self.facts.is_measured(part.interval) {
            so_far.received += part.received.0;
            so_far.corrected.merge(&part.latency);
            so_far.send_lag.merge(&part.send_lag);
            so_far.counts = part.so_far;
        }
        self.open
            .entry(part.interval)
            .or_default()
            .insert(rank, bytes);
        Ok(())
    }

    /// Adds the result of a rank.
    ///
    /// # Errors
    /// If the result is malformed or impossible.
    pub fn ended(&mut self, rank: u32, bytes: &[u8]) -> Result<(), FiguresError> {
        let record: RankRecord = postcard::from_bytes(bytes).map_err(FiguresError::Malformed)?;
        let known = self.ranks.get_mut(rank as usize);
        let known = known.filter(|known| record.rank == rank && matches!(known.end, RankEnd::Open));
        let known = known.ok_or(FiguresError::Rank)?;
        self.facts.limits().record(&record)?;
        known.end = RankEnd::Ended(Box::new(record));
        Ok(())
    }

    /// Marks a rank as lost.
    pub fn lost(&mut self, rank: u32, why: String) {
        if let Some(known) = self.ranks.get_mut(rank as usize)
            && matches!(known.end, RankEnd::Open)
        {
            known.end = RankEnd::Lost(why);
        }
    }

    /// Closes the next interval if the reports of all ranks have arrived.
    pub fn close_next(&mut self) -> Option<ClosedInterval> {
        let next = self.next;
        let is_whole = |rank: &Rank| rank.reported > next || !matches!(rank.end, RankEnd::Open);
        if !self.ranks.iter().all(is_whole) {
            return None;
        }
        // The figures are in the order of the ranks.
        let figures = self.open.remove(&next)?;
        self.next += 1;
        let mut merged: Option<Part> = None;
        for bytes in figures.into_values() {
            // The bytes were decoded successfully before, so this does not fail.
            let Ok(mut part) = decode_part(&bytes) else {
                continue;
            };
            match &mut merged {
                None => merged = Some(part),
                Some(merged) => {
                    merged.merge(&part);
                    merge_counts(&mut merged.so_far, std::mem::take(&mut part.so_far));
                }
            }
        }
        self.timeline.add(merged?)
    }

    /// The corrected latency of all closed intervals.
    pub fn corrected(&self) -> &Distribution {
        self.timeline.corrected()
    }

    /// Returns the result of the whole test. Ranks that have not finished are marked as lost.
    ///
    /// # Errors
    /// If no rank has finished.
    pub fn finish(mut self) -> Result<Merged, MergeError> {
        for rank in &mut self.ranks {
            if matches!(rank.end, RankEnd::Open) {
                rank.end = RankEnd::Lost("it left no result".to_owned());
            }
        }
        while self.close_next().is_some() {}
        let (mut ended, mut lost) = (Vec::new(), Vec::new());
        for (number, rank) in (0..).zip(self.ranks) {
            match rank.end {
                RankEnd::Ended(record) => ended.push(*record),
                RankEnd::Lost(why) => lost.push((number, why, rank.so_far)),
                RankEnd::Open => {}
            }
        }
        merge::merge(&self.facts, ended, &lost, self.timeline)
    }
}
