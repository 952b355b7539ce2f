//! The results of a load test.
//!
//! A load engine returns a [`LoadResult`] when it finishes: exact counts, exact sums and histograms, merged over its
//! threads. Percentiles are never averaged. All output about a load test is computed from its [`LoadResult`].
//!
//! The phases of an exchange, named after the distributions in [`Latency`]:
//!
//! ```text
//! planned ──── due ──────── sent ───────────── first byte ──────────── last byte
//!    └─ queue ─┴─ send lag ──┴──── first byte ─────┴────── transfer ─────┘
//!    └──────── corrected ────┬───────────────────────────────────────────┘
//!                            └──────── uncorrected ──────────────────────┘
//! ```
//!
//! *planned* is the planned instant. *due* is the first instant at which the exchange is planned and has a free
//! connection. The server causes the delay from *planned* to *due*, and the generator the delay from *due* to *sent*.
//!
//! - [`screen`]: the report on the terminal; [`webstone`]: the same report in the terms of the WebStone benchmark
//! - [`Summary`]: the result as JSON with a published schema; [`mod@csv`], [`hdr`], [`prometheus`]: the result
//!   in other formats
//! - [`server`]: the measurements of probes on the server's machine
//! - [`bound`]: the cause that limited the rate; [`findings`]: notable facts, in sentences
//! - [`Slo`]: thresholds, and the verdicts on them

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
