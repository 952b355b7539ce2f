//! QPACK, the compression of fields in HTTP/3 (RFC 9204), both sides.
//!
//! An [`Encoder`] writes sections and, where it uses a dynamic table, instructions for the peer's
//! decoder; it reads what that decoder says. A [`Decoder`] reads sections and instructions, and writes
//! what it has received and done. Sections travel on request streams, instructions each way on a
//! stream of their own; the three come in any order, and nothing here knows of streams but their
//! numbers.
//!
//! A section may need entries that have not arrived. Such a stream is *blocked*: the decoder says so,
//! and the caller asks again when instructions came. How much of that a peer may bring about is a
//! setting; whether the own encoder risks it is a [policy](EncoderPolicy).
//!
//! Bounds: a table of the announced capacity, one incomplete instruction no longer than an entry of
//! that table can be, one section of the announced size, and for an encoder a number of sections
//! that wait for the peer's acknowledgement; past it they are written without the table.

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

/// Why a section or an instruction was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The fields are more than was agreed. The tables are as they should be, and the connection
    /// goes on.
    #[error("a field section is larger than this side takes")]
    SectionTooLarge,
    /// A section cannot be decoded (QPACK_DECOMPRESSION_FAILED).
    #[error("a field section cannot be decoded: {0}")]
    Section(Fault),
    /// An encoder's instruction cannot be followed (QPACK_ENCODER_STREAM_ERROR).
    #[error("an instruction of the encoder cannot be followed: {0}")]
    EncoderStream(Fault),
    /// A decoder's instruction cannot be true (QPACK_DECODER_STREAM_ERROR).
    #[error("an instruction of the decoder cannot be true: {0}")]
    DecoderStream(Fault),
}

impl Error {
    /// Whether the connection must end.
    pub fn is_fatal(self) -> bool {
        self != Error::SectionTooLarge
    }
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It ends within a field.
    #[error("it ends within a field")]
    Truncated,
    /// An integer is larger than anything it could count.
    #[error("an integer is too large")]
    IntegerTooLarge,
    /// An entry that no table has, or that the section did not say it needs.
    #[error("it refers to an entry that does not exist")]
    UnknownIndex,
    /// A string breaks the Huffman code.
    #[error("a string breaks the Huffman code")]
    BadHuffman,
    /// A required insert count or a base that no encoder writes.
    #[error("its prefix is not one that an encoder writes")]
    BadPrefix,
    /// More streams are blocked than was agreed.
    #[error("more streams wait for entries than was agreed")]
    TooManyBlocked,
    /// A capacity above the one that was announced.
    #[error("the dynamic table is to be larger than was announced")]
    TableTooLarge,
    /// An entry that the table cannot take.
    #[error("an entry is larger than the dynamic table")]
    EntryTooLarge,
    /// An acknowledgement of a section that needs none.
    #[error("it acknowledges a section that is not outstanding")]
    UnknownSection,
    /// An increment of zero, or beyond what was inserted.
    #[error("it counts entries that were not inserted")]
    BadIncrement,
}

/// The entries that a table of this capacity can have at most.
fn most_entries(capacity: u64) -> u64 {
    capacity / crate::hpack::table::ENTRY_OVERHEAD
}
