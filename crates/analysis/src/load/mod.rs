//! What a load test measured.
//!
//! A [`LoadResult`] is what a load engine hands over when it has ended: exact counts, exact sums and
//! histograms, merged over its threads, never averaged percentiles. Everything shown of a load test
//! is a function of it.
//!
//! An exchange's life, and which [`Distribution`] of [`Latency`] each part goes into:
//!
//! ```text
//! planned ──── due ──────── sent ───────────── first byte ──────────── last byte
//!    └─ queue ─┴─ send lag ──┴──── first byte ─────┴────── transfer ─────┘
//!    └──────── corrected ────┬───────────────────────────────────────────┘
//!                            └──────── uncorrected ──────────────────────┘
//! ```
//!
//! *planned* is the plan's instant; *due* is when the exchange was planned and a connection was free
//! for it: until then the server is to blame, from then on the generator.
//!
//! - [`screen`]: for people, when a test has ended; [`webstone`]: in that benchmark's words
//! - [`Summary`]: for programs, as JSON with a published schema; [`mod@csv`], [`hdr`], [`prometheus`]:
//!   the same in others' formats
//! - [`server`]: what probes saw of the server's machine, when they could, and which resource that
//!   makes suspect
//! - [`findings`]: what stands out, in sentences
//! - [`Slo`]: promises, and whether they were kept

mod buckets;
pub mod csv;
mod distribution;
pub mod findings;
pub mod hdr;
mod numbers;
mod phases;
pub mod prometheus;
mod protocols;
mod quantity;
mod rates;
mod result;
pub mod screen;
pub mod server;
mod server_screen;
pub mod slo;
pub mod summary;
pub mod webstone;

pub use distribution::Distribution;
pub use numbers::Numbers;
pub use protocols::{Datagrams, FrameCount, Frames, Handshakes};
pub use result::{
    Connections, Counts, Ended, Generator, Interval, Latency, LoadResult, LoopKind, Octets,
    SequenceUse, Setup, TargetCount, Window, WorkerHealth,
};
pub use slo::{Slo, SloError, Verdict};
pub use summary::Summary;
