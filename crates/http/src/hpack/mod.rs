//! HPACK, the field compression of HTTP/2 (RFC 7541), for both sides.
//!
//! An [`Encoder`] and a [`Decoder`] each keep the dynamic table of one direction of a connection. They write
//! and read field blocks with all fragments joined; frames are handled elsewhere. They do not check which
//! fields a message may have.
//!
//! Encoder and decoder allocate nothing once their buffers have grown. The memory of each is bounded by its dynamic
//! table, one field section and one string. The limits on the table and the section are arguments of the constructor.

mod decoder;
mod encoder;
pub(crate) mod fixed;
mod fuzz;
pub(crate) mod hash;
pub(crate) mod integer;
pub(crate) mod section;
mod static_table;
pub(crate) mod string;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use fuzz::fuzz;

/// The size of a dynamic table until settings change it (RFC 9113 section 6.5.2).
pub const DEFAULT_TABLE_SIZE: u32 = 4096;

/// Whether a field is inserted into the dynamic table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Indexing {
    /// The field is inserted if it fits, because it is expected to repeat.
    #[default]
    Yes,
    /// The field is not inserted; a reference to an existing entry is permitted.
    No,
    /// The field is a secret: it is never inserted, also not by intermediaries (RFC 7541 section 7.1.3).
    Never,
}

/// The reason why a field block cannot be decoded.
///
/// After all errors except [`SectionTooLarge`](Error::SectionTooLarge) the table is undefined. The connection
/// must then end with COMPRESSION_ERROR (RFC 9113 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The fields exceed the announced size. The table is still valid, and the connection continues.
    #[error("a field section exceeds this side's limit")]
    SectionTooLarge,
    /// The block ends within a field.
    #[error("a field block ends within a field")]
    Truncated,
    /// An integer is larger than any valid size or index.
    #[error("an integer in a field block is too large")]
    IntegerTooLarge,
    /// An index that is in neither table, such as 0.
    #[error("a field block refers to an entry that does not exist")]
    UnknownIndex,
    /// A string is not valid Huffman code.
    #[error("a string in a field block is not valid Huffman code")]
    BadHuffman,
    /// A size update after the first field of a block.
    #[error("a size update follows the first field of a field block")]
    LateSizeUpdate,
    /// A size update above the announced size.
    #[error("a size update exceeds the announced table size")]
    TableTooLarge,
    /// There is no size update, although a smaller size was announced and acknowledged.
    #[error("a required size update of the dynamic table is missing")]
    MissingSizeUpdate,
}

impl Error {
    /// Whether the connection must end.
    pub fn is_fatal(self) -> bool {
        self != Error::SectionTooLarge
    }
}
