//! The results of a load test.
//!
//! A [`LoadResult`] is what a load engine returns when it finishes: exact counts, exact sums and histograms,
//! merged over its threads. Percentiles are never averaged. All output about a load test is a function of its
//! [`LoadResult`].
//!
//! The phases of an exchange, and the [`Distribution`] of [`Latency`] to which each belongs:
//!
//! ```text
//! planned ──── due ──────── sent ───────────── first byte ──────────── last byte
//!    └─ queue ─┴─ send lag ──┴──── first byte ─────┴────── transfer ─────┘
//!    └──────── corrected ────┬───────────────────────────────────────────┘
//!                            └──────── uncorrected ──────────────────────┘
//! ```
//!
//! *planned* is the planned instant. *due* is the instant from which the exchange was planned and had a free
//! connection. The server causes the delay before *due*, and the generator the delay after it.
//!
//! - [`screen`]: the report on the terminal; [`webstone`]: the same report in the terms of that benchmark
//! - [`Summary`]: the result as JSON with a published schema; [`mod@csv`], [`hdr`], [`prometheus`]: the result
//!   in other formats
//! - [`server`]: the measurements of probes on the server's machine, if there were probes
//! - [`bound`]: what limited the rate; [`findings`]: notable facts, in sentences
//! - [`Slo`]: thresholds, and whether the result meets them

pub mod bound;
mod buckets;
pub mod csv;
mod cut_short;
mod distribution;
pub mod findings;
pub mod hdr;
mod lines;
mod little;
mod numbers;
mod packed;
mod phases;
pub mod prometheus;
mod protocol_screen;
mod protocols;
mod quantity;
mod ranks;
mod rates;
mod result;
pub mod screen;
pub mod server;
mod server_screen;
mod signals;
pub mod slo;
pub mod summary;
pub mod webstone;

pub use cut_short::cut_short;
pub use distribution::Distribution;
pub use numbers::Numbers;
pub use protocols::{Datagrams, FrameCount, Frames, Handshakes};
pub use ranks::RankFigures;
pub use result::{
    ByteCounts, Connections, Counts, Ended, Generator, Interval, Latency, LoadResult, LoopKind,
    SequenceUse, Setup, TargetCount, UserTime, Window, WorkerHealth,
};
pub use signals::{signals_of, signals_of_clients};
pub use slo::{Slo, SloError, Verdict};
pub use summary::Summary;
