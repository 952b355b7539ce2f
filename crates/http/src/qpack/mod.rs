//! QPACK, the field compression of HTTP/3 (RFC 9204), for both sides.
//!
//! An [`Encoder`] writes field sections and, if it uses a dynamic table, instructions for the peer's decoder.
//! It also reads the instructions of the peer's decoder. A [`Decoder`] reads field sections and encoder
//! instructions, and writes acknowledgements and cancellations. Field sections are sent on request streams, and
//! the instructions of each direction on a separate stream. These streams may arrive in any order. This module
//! refers to streams only by number.
//!
//! A field section may need entries that have not arrived. Its stream is then *blocked*: [`Decoder::decode`]
//! returns [`Decoded::Blocked`], and the caller decodes the section again after instructions have arrived. A
//! setting limits the number of streams that a peer may block. A [policy](EncoderPolicy) decides whether this
//! side's encoder may cause blocking.
//!
//! Memory is bounded by: a table of the announced capacity; one incomplete instruction, no longer than the
//! longest entry of that table; and one field section of the announced size. An encoder also keeps a limited
//! number of sections that wait for acknowledgement. Above that number it writes sections without the dynamic
//! table.

mod decoder;
mod encoder;
mod fuzz;
mod static_table;
#[cfg(test)]
mod tests;

pub use decoder::{Decoded, Decoder};
pub use encoder::{Encoder, EncoderPolicy};
pub use fuzz::fuzz;

pub use crate::hpack::Indexing;

/// The reason why a field section or an instruction cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The fields exceed the announced size. The tables are still valid, and the connection continues.
    #[error("a field section exceeds this side's limit")]
    SectionTooLarge,
    /// A field section cannot be decoded (QPACK_DECOMPRESSION_FAILED).
    #[error("a field section cannot be decoded: {0}")]
    Section(Fault),
    /// An encoder instruction cannot be carried out (QPACK_ENCODER_STREAM_ERROR).
    #[error("invalid encoder instruction: {0}")]
    EncoderStream(Fault),
    /// A decoder instruction is impossible (QPACK_DECODER_STREAM_ERROR).
    #[error("invalid decoder instruction: {0}")]
    DecoderStream(Fault),
}

impl Error {
    /// Whether the connection must end.
    pub fn is_fatal(self) -> bool {
        self != Error::SectionTooLarge
    }
}

/// The cause of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The section or instruction ends within a field.
    #[error("it ends within a field")]
    Truncated,
    /// An integer is larger than any valid count or index.
    #[error("an integer is too large")]
    IntegerTooLarge,
    /// A reference to an entry that is in no table, or that is outside the section's required insert count.
    #[error("it refers to an entry that does not exist")]
    UnknownIndex,
    /// A string is not valid Huffman code.
    #[error("a string is not valid Huffman code")]
    BadHuffman,
    /// An invalid required insert count or base.
    #[error("its required insert count or base is invalid")]
    BadPrefix,
    /// More streams are blocked than the settings permit.
    #[error("more streams are blocked than the settings permit")]
    TooManyBlocked,
    /// A capacity above the announced limit.
    #[error("the table capacity exceeds the announced limit")]
    TableTooLarge,
    /// An entry that is larger than the table.
    #[error("an entry is larger than the dynamic table")]
    EntryTooLarge,
    /// An acknowledgement of a section that has no outstanding references.
    #[error("it acknowledges a section that is not outstanding")]
    UnknownSection,
    /// An increment of zero, or beyond the inserted entries.
    #[error("its increment is zero or beyond the inserted entries")]
    BadIncrement,
}

/// Returns the maximum number of entries in a table of this capacity.
fn most_entries(capacity: u64) -> u64 {
    capacity / crate::hpack::table::ENTRY_OVERHEAD
}
