//! What is wrong with a package, or with what is to become one.

use super::name::NameError;
use super::roll::Refusal;

/// Why a package was not, or not wholly, read. Files that ended before are whole; one that was started
/// and has not ended is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum DecodeError {
    /// The input ended before the package did.
    #[error("the package is truncated")]
    Truncated,
    /// The input does not begin as a package does.
    #[error("it is no object package")]
    NotAPackage,
    /// A version that this reader does not know.
    #[error("the package is of version {0}, which is not known")]
    UnknownVersion(u8),
    /// A content coding that this reader does not know.
    #[error("a file has content coding {0}, which is not known")]
    UnknownCoding(u8),
    /// A checksum over the header is wrong.
    #[error("the header is damaged")]
    HeaderDamaged,
    /// A checksum over the table of version 1 is wrong.
    #[error("the table of files is damaged")]
    TableDamaged,
    /// A checksum over what is known of a file, or over the end of the package, is wrong.
    #[error("the head of a record is damaged")]
    RecordDamaged,
    /// A file's content is not what the checksum behind it says.
    #[error("the content of file {entry} is damaged")]
    ContentDamaged {
        /// The file's place in the package, from 0.
        entry: usize,
    },
    /// A bit is set, or an octet is not zero, that means nothing.
    #[error("a reserved bit is set")]
    Reserved,
    /// A record of no known kind.
    #[error("a record is of kind {0}, which does not exist")]
    UnknownRecord(u8),
    /// The number of files is not what was said elsewhere, or cannot be true.
    #[error("the number of files is wrong")]
    WrongCount,
    /// A length is not the sum of its parts.
    #[error("a length is not the sum of its parts")]
    WrongLength,
    /// A name that no file may have.
    #[error("a name {0}")]
    Name(#[from] NameError),
    /// Two files of the same name.
    #[error("two files have the same name")]
    DuplicateName,
    /// A name is not behind the one before it, as was promised.
    #[error("the names do not ascend, as was promised")]
    OutOfOrder,
    /// A critical file behind one that is not.
    #[error("a critical file comes behind others")]
    CriticalLate,
    /// A media type, an entity tag or a date that no field could carry.
    #[error("a media type, entity tag or date is malformed")]
    Metadata,
    /// What is kept cannot have a size or a coding, and must have an entity tag.
    #[error("an entry without content has a size or a coding, or no entity tag")]
    Kept,
    /// Octets behind the end of the package.
    #[error("octets follow the end of the package")]
    Trailing,
    /// More files than this reader takes.
    #[error("the package has more files than are taken")]
    TooManyFiles,
    /// A longer name than this reader takes.
    #[error("a name is longer than is taken")]
    NameTooLong,
    /// A larger table than this reader takes.
    #[error("the table of files is larger than is taken")]
    TableTooLarge,
    /// A larger file than this reader takes.
    #[error("a file is larger than is taken")]
    FileTooLarge,
}

/// What kind of fault a [`DecodeError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// It is no package, or of a kind that this reader does not know.
    Unknown,
    /// The end is missing: asking again helps.
    Truncated,
    /// It was changed on its way: asking again helps.
    Damaged,
    /// Its maker broke the format, by mistake or on purpose: asking again does not help.
    Malformed,
    /// It is beyond what this reader takes.
    TooLarge,
}

impl DecodeError {
    /// What kind of fault it is.
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

/// Why files cannot be packed, or not in this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EncodeError {
    /// Something that version 1 cannot say.
    #[error("{0} takes version 2")]
    TakesVersion2(&'static str),
    /// A name that no file may have.
    #[error("a name {0}")]
    Name(#[from] NameError),
    /// Two files of the same name.
    #[error("two files have the same name")]
    DuplicateName,
    /// A name is not behind the one before it, in a package that promises so.
    #[error("the names do not ascend, as was promised")]
    OutOfOrder,
    /// A critical file behind one that is not.
    #[error("a critical file comes behind others")]
    CriticalLate,
    /// A media type, an entity tag or a date that no field could carry.
    #[error("a media type, entity tag or date is malformed, or longer than 255 octets")]
    Metadata,
    /// What is kept is known by its entity tag, and this one has none.
    #[error("an entry without content has no entity tag")]
    KeptWithoutTag,
    /// More files than a reader with these limits takes.
    #[error("there are more files than a package may have")]
    TooManyFiles,
    /// A longer name than a reader with these limits takes.
    #[error("a name is longer than a package may have")]
    NameTooLong,
    /// A larger table than a reader with these limits takes.
    #[error("the table of files is larger than a package may have")]
    TableTooLarge,
    /// A larger file than the version can say or a reader with these limits takes.
    #[error("a file is larger than a package may have")]
    FileTooLarge,
    /// A file was pushed after the list was finished.
    #[error("the list of files is finished")]
    Finished,
    /// Content where none belongs.
    #[error("no content is due")]
    NoContentDue,
    /// More content than the file's size.
    #[error("the content is longer than the size that was given")]
    ContentTooLong,
    /// Less content than the file's size.
    #[error("the content is {left} octets shorter than the size that was given")]
    ContentTooShort {
        /// The octets that are missing.
        left: u64,
    },
    /// Content was not shown, and its checksum was not given beforehand.
    #[error("the checksum of content that is not shown is not known")]
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
