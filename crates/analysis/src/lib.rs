//! Packet accounting, statistics, claims, tables, figures and the report, from recorded files alone.
//!
//! Everything here is a function of files: a run's folder, a capture, a paper's published figures.
//! There is no clock, no network and no randomness beyond the seed that a run recorded, so that a
//! report made again years later is the same report.
//!
//! - [`statistics`]: bootstrap intervals over replicates

pub mod statistics;
