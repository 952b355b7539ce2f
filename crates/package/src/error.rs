//! Errors in reading and writing packages.

use super::name::NameError;
use super::roll::Refusal;

/// The reason why a package could not be read completely. Files that ended before the error are complete; a file that
/// started and did not end is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DecodeError {
    /// The input ended before the end of the package.
    #[error("the package is truncated")]
    Truncated,
    /// The input does not start like a package.
    #[error("it is not an object package")]
    NotAPackage,
    /// The version is not supported by this reader.
    #[error("the package has the unknown version {0}")]
    UnknownVersion(u8),
    /// The content coding is not supported by this reader.
    #[error("a file has the unknown content coding {0}")]
    UnknownCoding(u8),
    /// A checksum of the header is wrong.
    #[error("the header is damaged")]
    HeaderDamaged,
    /// A checksum of the table of version 1 is wrong.
    #[error("the table of files is damaged")]
    TableDamaged,
    /// A checksum of a record head, or of the end of the package, is wrong.
    #[error("the head of a record is damaged")]
    RecordDamaged,
    /// A file's content does not match its checksum.
    #[error("the content of file {entry} is damaged")]
    ContentDamaged {
        /// The file's index in the package, from 0.
        entry: usize,
    },
    /// A reserved bit is set, or a reserved byte is not zero.
    #[error("a reserved bit is set")]
    Reserved,
    /// A record has an undefined type.
    #[error("a record has the unknown kind {0}")]
    UnknownRecord(u8),
    /// The number of files contradicts another count in the package, or is impossible.
    #[error("the number of files is wrong")]
    WrongCount,
    /// A length is not the sum of its parts.
    #[error("a length is not the sum of its parts")]
    WrongLength,
    /// A name is invalid.
    #[error("a name {0}")]
    Name(#[from] NameError),
    /// Two files have the same name.
    #[error("two files have the same name")]
    DuplicateName,
    /// The names do not ascend, although the header states that they do.
    #[error("the names are not sorted, although the header states that they are")]
    OutOfOrder,
    /// A critical file follows a file that is not critical.
    #[error("a critical file follows a file that is not critical")]
    CriticalLate,
    /// A media type, an entity tag or a date is invalid in a field.
    #[error("a media type, entity tag or date is malformed")]
    Metadata,
    /// A kept file has a size or a coding, or has no entity tag.
    #[error("an entry without content has a size or a coding, or no entity tag")]
    Kept,
    /// Bytes follow the end of the package.
    #[error("bytes follow the end of the package")]
    Trailing,
    /// The number of files exceeds this reader's limit.
    #[error("the package has more files than are accepted")]
    TooManyFiles,
    /// The length of a name exceeds this reader's limit.
    #[error("a name is longer than is accepted")]
    NameTooLong,
    /// The size of the table exceeds this reader's limit.
    #[error("the table of files is larger than is accepted")]
    TableTooLarge,
    /// The size of a file exceeds this reader's limit.
    #[error("a file is larger than is accepted")]
    FileTooLarge,
}

/// The class of a [`DecodeError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The input is not a package, or this reader does not support its version or a coding.
    Unknown,
    /// The end is missing: a retry may succeed.
    Truncated,
    /// The package was changed in transit: a retry may succeed.
    Damaged,
    /// The package violates the format, by mistake or intentionally: a retry cannot succeed.
    Malformed,
    /// The package exceeds this reader's limits.
    TooLarge,
}

impl DecodeError {
    /// Returns the class of this error.
    pub const fn class(self) -> Class {
        match self {
            DecodeError::Truncated => Class::Truncated,
            DecodeError::NotAPackage
            | DecodeError::UnknownVersion(_)
            | DecodeError::UnknownCoding(_) => Class::Unknown,
            DecodeError::HeaderDamaged
            | DecodeError::TableDamaged
            | DecodeError::RecordDamaged
            | DecodeError::ContentDamaged { .. } => Class::Damaged,
            DecodeError::Reserved
            | DecodeError::UnknownRecord(_)
            | DecodeError::WrongCount
            | DecodeError::WrongLength
            | DecodeError::Name(_)
            | DecodeError::DuplicateName
            | DecodeError::OutOfOrder
            | DecodeError::CriticalLate
            | DecodeError::Metadata
            | DecodeError::Kept
            | DecodeError::Trailing => Class::Malformed,
            DecodeError::TooManyFiles
            | DecodeError::NameTooLong
            | DecodeError::TableTooLarge
            | DecodeError::FileTooLarge => Class::TooLarge,
        }
    }
}

impl From<Refusal> for DecodeError {
    fn from(refusal: Refusal) -> DecodeError {
        match refusal {
            Refusal::TooMany => DecodeError::TooManyFiles,
            Refusal::Duplicate => DecodeError::DuplicateName,
            Refusal::OutOfOrder => DecodeError::OutOfOrder,
            Refusal::CriticalLate => DecodeError::CriticalLate,
        }
    }
}

/// The reason why files cannot be packed, or cannot be packed in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EncodeError {
    /// Version 1 cannot express some metadata.
    #[error("{0} needs version 2")]
    TakesVersion2(&'static str),
    /// A name is invalid.
    #[error("a name {0}")]
    Name(#[from] NameError),
    /// Two files have the same name.
    #[error("two files have the same name")]
    DuplicateName,
    /// The names do not ascend, in a package whose names must ascend.
    #[error("the names are not sorted, although the header states that they are")]
    OutOfOrder,
    /// A critical file follows a file that is not critical.
    #[error("a critical file follows a file that is not critical")]
    CriticalLate,
    /// A media type, an entity tag or a date is invalid in a field.
    #[error("a media type, entity tag or date is malformed, or longer than 255 bytes")]
    Metadata,
    /// A kept file has no entity tag, which must identify its state.
    #[error("an entry without content has no entity tag")]
    KeptWithoutTag,
    /// The number of files exceeds the limits.
    #[error("there are more files than a package may have")]
    TooManyFiles,
    /// The length of a name exceeds the limits.
    #[error("a name is longer than a package may have")]
    NameTooLong,
    /// The size of the table exceeds the limits.
    #[error("the table of files is larger than a package may have")]
    TableTooLarge,
    /// A file is larger than the version can express or the limits permit.
    #[error("a file is larger than a package may have")]
    FileTooLarge,
    /// A file was pushed after the list was finished.
    #[error("the list of files is finished")]
    Finished,
    /// Content was passed although none is expected.
    #[error("content was passed, but none is expected")]
    NoContentDue,
    /// The content is longer than the file's stated size.
    #[error("the content is longer than its stated size")]
    ContentTooLong,
    /// The content is shorter than the file's stated size.
    #[error("the content is {left} bytes shorter than its stated size")]
    ContentTooShort {
        /// The number of missing bytes.
        left: u64,
    },
    /// Content was not passed to the encoder, and its checksum was not given in advance.
    #[error("the checksum of content that is not passed to the encoder is unknown")]
    ChecksumUnknown,
}

impl From<Refusal> for EncodeError {
    fn from(refusal: Refusal) -> EncodeError {
        match refusal {
            Refusal::TooMany => EncodeError::TooManyFiles,
            Refusal::Duplicate => EncodeError::DuplicateName,
            Refusal::OutOfOrder => EncodeError::OutOfOrder,
            Refusal::CriticalLate => EncodeError::CriticalLate,
        }
    }
}
