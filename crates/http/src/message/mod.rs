//! The parts of messages that all versions of HTTP share (RFC 9110): fields, and types for requests and
//! responses. The syntax of each version is in [`h1`](crate::h1), [`h2`](crate::h2) and [`h3`](crate::h3).
//!
//! - [`fields`]: names and values
//! - [`ContentRange`]: the part of a file that a response carries
//! - [`Priority`]: a client's priority for a response

mod content_range;
pub mod fields;
mod priority;
pub(crate) mod section;

pub use content_range::ContentRange;
pub use priority::Priority;
