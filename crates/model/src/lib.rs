//! What every other crate of Fathometer speaks in: units, instants, seeds, the site under
//! measurement, and the records that a run leaves behind.
//!
//! Nothing here does I/O, reads a clock or knows a protocol. Types carry their unit; a bare
//! number never means bytes in one place and bits in another.
//!
//! - [`units`]: [`Bytes`], [`Bandwidth`], [`Probability`]
//! - [`time`]: [`Instant`], nanoseconds since a run's origin
//! - [`quantity`]: numbers from outside, checked where they come in
//! - [`seed`]: [`Seed`], named streams and counter-based draws
//! - [`site`]: [`Site`], [`File`], [`Page`]
//! - [`body`]: [`Body`], the octets of a file
//! - [`record`]: what a run stores, exchange by exchange and replicate by replicate

pub mod body;
pub mod quantity;
pub mod record;
pub mod seed;
pub mod site;
pub mod time;
pub mod units;

pub use body::{Body, Stretch};
pub use quantity::{Factor, Microseconds, Milliseconds, QuantityError, Rate, Seconds};
pub use record::{
    CellKey, CloseReason, ConnectionRecord, Delivery, DirectionCertificate, ExchangeRecord,
    ExchangeRow, Failure, FileArrival, Outcome, PathCertificate, ReplicateRecord, ServiceNews,
    ServiceRecord, TlsRecord, Validity,
};
pub use seed::Seed;
pub use site::{ContentCoding, File, FileId, Page, Site};
pub use time::Instant;
pub use units::{Bandwidth, Bytes, Probability};
