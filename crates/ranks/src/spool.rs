//! The file in which a rank records its share, for a merge.
//!
//! A spool begins with a line of text. Each following entry has these parts: length (u32), kind (u8), content, and the
//! CRC-32 of kind and content. Numbers are little-endian; postcard encodes the contents. All complete entries of a
//! truncated spool are readable.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::environment::MOST_RANKS;
use crate::limits::printable;
use crate::record::TestFacts;
use crate::whole::{FiguresError, Whole};

/// The first bytes of a spool.
const MAGIC: &[u8] = b"fathometer spool 2\n";

/// The longest entry in bytes.
const LONGEST: usize = 64 << 20;

const HEADER: u8 = 1;
const INTERVAL: u8 = 2;
const ENDED: u8 = 3;
const LOST: u8 = 4;

/// The test and the rank of a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolHeader {
    /// The number of the test, which is the same in all its spools.
    pub test: u64,
    /// The rank.
    pub rank: u32,
    /// The facts that are equal on all ranks.
    pub facts: TestFacts,
}

/// The reason why spools cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// A file is not a spool of this version.
    #[error("it is not a spool of this version")]
    Magic,
    /// The spool ends before its header is complete.
    #[error("it ends before the test started")]
    Empty,
    /// An entry is malformed, although its checksum is correct.
    #[error("it has a malformed entry")]
    Entry,
    /// Two spools belong to different tests.
    #[error("it belongs to another test than the first spool")]
    OtherTest,
    /// Two spools belong to the same rank.
    #[error("there are two spools of rank {0}")]
    Twice(u32),
    /// The figures of a rank cannot be used.
    #[error("the figures of rank {0}: {1}")]
    Figures(u32, FiguresError),
}

/// Writes the spool of one rank.
#[derive(Debug)]
pub struct SpoolWriter<W> {
    to: W,
}

impl<W: Write> SpoolWriter<W> {
    /// Begins a spool with its header.
    ///
    /// # Errors
    /// If the spool cannot be written.
    pub fn begin(mut to: W, header: &SpoolHeader) -> io::Result<SpoolWriter<W>> {
        to.write_all(MAGIC)?;
        let mut writer = SpoolWriter { to };
        let header = postcard::to_allocvec(header).map_err(io::Error::other)?;
        writer.entry(HEADER, &header)?;
        Ok(writer)
    }

    /// Writes the figures of the next interval.
    ///
    /// # Errors
    /// If the spool cannot be written.
    pub fn interval(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.entry(INTERVAL, bytes)
    }

    /// Writes the result of the rank.
    ///
    /// # Errors
    /// If the spool cannot be written.
    pub fn ended(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.entry(ENDED, bytes)
    }

    /// Records that rank 0 lost another rank. A merge then reports the loss with the same reason.
    ///
    /// # Errors
    /// If the spool cannot be written.
    pub fn lost(&mut self, rank: u32, why: &str) -> io::Result<()> {
        let bytes = postcard::to_allocvec(&(rank, why)).map_err(io::Error::other)?;
        self.entry(LOST, &bytes)
    }

    /// Each entry is a single write, so that a killed process leaves only complete entries.
    fn entry(&mut self, kind: u8, content: &[u8]) -> io::Result<()> {
        let mut entry = Vec::with_capacity(content.len() + 9);
        entry.extend((content.len() as u32).to_le_bytes());
        entry.push(kind);
        entry.extend_from_slice(content);
        let sum = crc32fast::hash(&entry[4..]);
        entry.extend(sum.to_le_bytes());
        self.to.write_all(&entry)?;
        self.to.flush()
    }
}

/// The spool of one rank.
#[derive(Debug)]
pub struct Spool {
    /// The test and the rank of the spool.
    pub header: SpoolHeader,
    intervals: Vec<Vec<u8>>,
    ended: Option<Vec<u8>>,
    lost: Vec<(u32, String)>,
}

impl Spool {
    /// Reads a spool, up to the first damaged or incomplete entry.
    ///
    /// # Errors
    /// If it is not a spool, or if it ends before its header is complete.
    pub fn read(bytes: &[u8]) -> Result<Spool, SpoolError> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(SpoolError::Magic)?;
        let (kind, content) = next_entry(&mut rest).ok_or(SpoolError::Empty)?;
        if kind != HEADER {
            return Err(SpoolError::Entry);
        }
        let header: SpoolHeader = postcard::from_bytes(content).map_err(|_| SpoolError::Entry)?;
        if !header.facts.are_possible()
            || header.rank >= header.facts.ranks
            || header.facts.ranks > MOST_RANKS
        {
            return Err(SpoolError::Entry);
        }
        let mut spool = Spool {
            header,
            intervals: Vec::new(),
            ended: None,
            lost: Vec::new(),
        };
        while let Some((kind, content)) = next_entry(&mut rest) {
            match kind {
                INTERVAL => spool.intervals.push(content.to_vec()),
                ENDED => spool.ended = Some(content.to_vec()),
                LOST => {
                    let lost: Result<(u32, String), _> = postcard::from_bytes(content);
                    let (rank, why) = lost.map_err(|_| SpoolError::Entry)?;
                    spool.lost.push((rank, printable(&why)));
                }
                _ => return Err(SpoolError::Entry),
            }
        }
        Ok(spool)
    }
}

/// Reads the next complete entry.
fn next_entry<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST || after.len() < length + 5 {
        return None;
    }
    let (entry, after) = after.split_at(length + 1);
    let (sum, after) = after.split_first_chunk::<4>()?;
    if crc32fast::hash(entry) != u32::from_le_bytes(*sum) {
        return None;
    }
    *rest = after;
    Some((entry[0], &entry[1..]))
}

/// Computes the whole test from its spools, in any order. Each spool has its file name, for messages. A rank is lost if
/// its spool is missing or has no result.
///
/// # Errors
/// If the spools do not belong together, or if the figures of a rank cannot be used. The error includes the name of the
/// file.
pub fn whole(mut spools: Vec<(String, Spool)>) -> Result<Whole, (String, SpoolError)> {
    spools.sort_by_key(|(_, spool)| spool.header.rank);
    let Some((_, first)) = spools.first() else {
        return Err((String::new(), SpoolError::Empty));
    };
    let (test, facts) = (first.header.test, first.header.facts);
    let mut whole = Whole::new(facts);
    let mut last = None;
    let mut lost = Vec::new();
    for (name, spool) in spools {
        let header = spool.header;
        if (header.test, header.facts) != (test, facts) {
            return Err((name, SpoolError::OtherTest));
        }
        if last == Some(header.rank) {
            return Err((name, SpoolError::Twice(header.rank)));
        }
        last = Some(header.rank);
        for bytes in spool.intervals {
            let added = whole.interval(header.rank, bytes);
            added.map_err(|error| (name.clone(), SpoolError::Figures(header.rank, error)))?;
        }
        if let Some(bytes) = spool.ended {
            let added = whole.ended(header.rank, &bytes);
            added.map_err(|error| (name.clone(), SpoolError::Figures(header.rank, error)))?;
        }
        lost.extend(spool.lost);
    }
    for (rank, why) in lost {
        whole.lost(rank, why);
    }
    Ok(whole)
}
