//! Types that all crates of Fathometer share: units, instants, seeds, the site under measurement, and the
//! records that a run stores.
//!
//! This crate does no I/O, reads no clock and implements no protocol. The unit of a quantity is part of its type, so that
//! bytes and bits cannot be confused.
//!
//! - [`units`]: [`Bytes`], [`Bandwidth`], [`Probability`]
//! - [`time`]: [`Instant`], nanoseconds since a run's origin
//! - [`calendar`]: dates and the days between them
//! - [`digits`]: numbers as text
//! - [`quantity`]: numbers from user input, checked when they are read
//! - [`seed`]: [`Seed`], named streams and counter-based draws
//! - [`site`]: [`Site`], [`File`], [`Page`]
//! - [`body`]: [`Body`], the bytes of a file
//! - [`record`]: the records of exchanges, connections and replicates that a run stores

pub mod body;
pub mod calendar;
pub mod digits;
pub mod quantity;
pub mod record;
pub mod seed;
pub mod site;
pub mod time;
pub mod units;

pub use body::{Body, SharedSlice};
pub use quantity::{Factor, QuantityError, Rate};
pub use record::{
    CellKey, CloseReason, ConnectionRecord, Delivery, DirectionCertificate, ExchangeRecord,
    ExchangeRow, Failure, FileArrival, Outcome, PathCertificate, ReplicateRecord, ServiceEvent,
    ServiceRecord, TestPhase, TlsRecord, Validity, WindowWait,
};
pub use seed::Seed;
pub use site::{ContentCoding, File, FileId, Page, Site};
pub use time::Instant;
pub use units::{Bandwidth, Bytes, Probability};
