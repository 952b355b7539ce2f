//! HPACK, the compression of fields in HTTP/2 (RFC 7541), both sides.
//!
//! An [`Encoder`] and a [`Decoder`] each keep the dynamic table of one direction of a connection.
//! They know nothing of frames: what they write and read is a field block, its fragments joined.
//! Which fields a message may have is not their business either.
//!
//! Neither allocates once its buffers have grown, and neither holds more than its table, of at most
//! the size it was given, and one block of fields, of at most the size it was given and a string.

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

/// The size of a dynamic table until settings say otherwise (RFC 9113 section 6.5.2).
pub const DEFAULT_TABLE_SIZE: u32 = 4096;

/// Whether a field goes into the dynamic table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Indexing {
    /// It does, where it fits: it is expected again.
    #[default]
    Yes,
    /// It does not; it may be taken from a table where it is there.
    No,
    /// It does not, nor does any intermediary put it there: it is a secret (RFC 7541 section 7.1.3).
    Never,
}

/// Why a field block was not decoded as it should be.
///
/// All but [`SectionTooLarge`](Error::SectionTooLarge) leave the table in doubt, so that the
/// connection ends with COMPRESSION_ERROR (RFC 9113 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The fields are more than was agreed. The table is as it should be, and the connection goes on.
    #[error("a field section is larger than this side takes")]
    SectionTooLarge,
    /// The block ends within a field.
    #[error("a field block ends within a field")]
    Truncated,
    /// An integer is larger than anything it could count.
    #[error("an integer in a field block is too large")]
    IntegerTooLarge,
    /// An index that neither table has, 0 among them.
    #[error("a field block refers to an entry that does not exist")]
    UnknownIndex,
    /// A string breaks the Huffman code.
    #[error("a string in a field block breaks the Huffman code")]
    BadHuffman,
    /// A change of the table's size after the first field of a block.
    #[error("the size of the dynamic table changes within a field block")]
    LateSizeUpdate,
    /// A size of the table above the one that was announced.
    #[error("the dynamic table is to be larger than was announced")]
    TableTooLarge,
    /// No change of the table's size after a smaller one was announced and acknowledged.
    #[error("the dynamic table stays larger than was announced")]
    MissingSizeUpdate,
}

impl Error {
    /// Whether the connection must end.
    pub fn is_fatal(self) -> bool {
        self != Error::SectionTooLarge
    }
}
