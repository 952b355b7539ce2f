//! Writes every exchange of a load test as a row of Parquet files, which DuckDB, pandas, polars and R open
//! directly: `SELECT quantile_cont((last_byte_ns - planned_ns) / 1e6, 0.99) FROM 'exchanges-*.parquet'`.
//!
//! - [`ExchangeWriter`]: one file
//! - [`PartsWriter`]: a sequence of files (`exchanges-0001.parquet`, …), each finished before the next starts
//!
//! A Parquet file without its footer cannot be read, and the footer is written last. If a program is killed, the file
//! that it was writing is lost, but all earlier parts remain. The length of a part ([`PartsWriter::new`]) limits the
//! loss; ending parts early ([`PartsWriter::end_part`]) also reduces it.
//!
//! Memory is limited for any number of rows: a row group ([`ROWS_PER_GROUP`]) is in memory until it is encoded, and a
//! part's footer grows by about 2 kB per group. Encoding runs on the caller's thread and takes a few milliseconds for
//! every ten thousand rows. The loops of a load engine therefore pass their rows to a separate thread.
//!
//! This crate opens no files (the caller provides a writer), and does not read them.
//!
//! It uses the Rust implementation of [Apache Parquet](https://parquet.apache.org/docs/file-format/). Pages are
//! compressed with Snappy, which every reader supports.

mod columns;
mod parts;
mod writer;

pub use parts::{PartsWriter, Written, part_name};
pub use writer::{ExchangeWriter, FORMAT, ROWS_PER_GROUP};

/// The reason why rows could not be stored.
///
/// Messages are fragments that fit "failed to store exchanges: {error}".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A part could not be started, or its last bytes could not be written, because of missing permission or a full
    /// disk.
    #[error("cannot write part {part}: {source}")]
    Part {
        /// The number of the part, from 1.
        part: u32,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file could not be written, most likely because the disk is full.
    #[error("{0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A row refers to a target that is not in the list: the rows and the list belong to different plans.
    #[error("a row has target {target}, but there are only {targets} targets")]
    UnknownTarget {
        /// The target in the row, from 0.
        target: u32,
        /// The number of targets of the writer.
        targets: usize,
    },
}
