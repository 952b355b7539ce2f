//! Every exchange of a load test as a row of Parquet files, which DuckDB, pandas, polars and R open as
//! they are: `SELECT quantile_cont((last_byte_ns - planned_ns) / 1e6, 0.99) FROM 'exchanges-*.parquet'`.
//!
//! - [`ExchangeWriter`]: one file
//! - [`PartsWriter`]: a sequence of files (`exchanges-0001.parquet`, …), each finished before the next
//!   is begun
//!
//! A Parquet file without its footer cannot be read, and the footer comes last. A program that is
//! killed therefore loses the file that it was writing, whole, and keeps all the parts before it: how
//! much may be lost is chosen by the length of a part ([`PartsWriter::new`]) and by ending parts early
//! ([`PartsWriter::end_part`]).
//!
//! Memory is bounded whatever the number of rows: a row group ([`ROWS_PER_GROUP`]) is held until it
//! is encoded, and a part's footer grows by some two kilobytes a group. Encoding takes the caller's
//! time, some milliseconds for every ten thousand rows, so a load engine's loops hand their rows to a
//! thread of their own for it.
//!
//! Not here: opening files (the caller gives something to write to), and reading them back, which is
//! what others' tools are for.
//!
//! The library beneath is the Rust implementation of [Apache Parquet](https://parquet.apache.org/docs/file-format/);
//! pages are compressed by Snappy, which every reader knows.

mod columns;
mod parts;
mod writer;

pub use parts::{PartsWriter, Written, part_name};
pub use writer::{ExchangeWriter, FORMAT, ROWS_PER_GROUP};

/// Why rows could not be stored.
///
/// Messages are fragments that fit "failed to store exchanges: {error}".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A part could not be begun, or its last octets not written: no permission, or the disk is full.
    #[error("part {part} could not be written: {source}")]
    Part {
        /// Which part, from 1.
        part: u32,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file could not be written: the disk is full, most likely.
    #[error("{0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A row names a target that is not in the list: the rows and the list are of two plans.
    #[error("a row names target {target}, and there are {targets}")]
    UnknownTarget {
        /// What the row says, from 0.
        target: u32,
        /// How many the writer was given.
        targets: usize,
    },
}
