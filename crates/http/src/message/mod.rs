//! What messages have in common in all versions of HTTP (RFC 9110): fields, and the vocabulary of requests and
//! responses. The versions' own syntax is in [`h1`](crate::h1), [`h2`](crate::h2) and [`h3`](crate::h3).
//!
//! - [`fields`]: names and values
//! - [`ContentRange`]: which part of a file a response carries
//! - [`Priority`]: clients' priorities for responses

mod content_range;
pub mod fields;
mod priority;
pub(crate) mod section;

pub use content_range::ContentRange;
pub use priority::Priority;
