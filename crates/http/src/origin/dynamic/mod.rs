//! Content that is generated during sending, so that its length is not known in advance.
//!
//! A [`Dynamic`] resource simulates the output of a program for each request. The parts of its content become ready one
//! after another, each at a fixed time after the request. The content is generated text, or the file at the same path,
//! as if a program copied the file to its output. Such content has no validators, no ranges and no `Content-Length`.
//! HTTP/1.1 sends it in the chunked transfer coding. HTTP/1.0 marks its end by the close of the connection, and later
//! versions by the end of the stream.
//!
//! A [`Flow`] is the content of one such response: of a single resource, or of a [package](super::packages)
//! that is composed on the fly and contains the resource.
//!
//! Packages without dynamic content also use flows if a file must be read for its checksum. The length of these
//! packages is known, and they are generated slice by slice.
//!
//! No program is executed. The time at which a part is ready depends only on the time of the request. Therefore
//! the same request always gives the same bytes at the same times.

mod flow;
mod packing;
mod running;
mod text;

pub use super::live::{Dynamic, DynamicError, LARGEST_PART};
pub use flow::Flow;
pub(crate) use flow::Ready;
pub use running::Flowed;
pub use text::DynamicTextError;

#[cfg(test)]
mod tests;
