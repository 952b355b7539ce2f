//! The site: files, and pages that consist of files.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::Body;

/// A content coding of RFC 9110 section 8.4.1 under which a representation is stored in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentCoding {
    /// `deflate`: the zlib format of RFC 1950 around DEFLATE (RFC 1951).
    Deflate,
    /// `gzip`: RFC 1952.
    Gzip,
}

impl ContentCoding {
    /// The token in `Content-Encoding` and `Accept-Encoding`.
    pub const fn token(self) -> &'static str {
        match self {
            ContentCoding::Deflate => "deflate",
            ContentCoding::Gzip => "gzip",
        }
    }
}

/// The index of a file in [`Site::files`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileId(pub u32);

/// One resource of a site.
#[derive(Debug, Clone)]
pub struct File {
    /// The path component of the file's URI. It starts with `/`, is percent-encoded where necessary, and has no
    /// `.` or `..` segment and no query.
    pub path: String,
    /// The media type, as in `Content-Type`.
    pub content_type: Cow<'static, str>,
    /// The bytes of the file without content coding.
    pub body: Body,
    /// The same bytes with a content coding that was applied in advance, at most one entry per coding.
    pub encoded: Vec<(ContentCoding, Body)>,
    /// The time of the last modification, in seconds since the Unix epoch.
    pub last_modified: u64,
}

/// A base file with the files embedded in it (the papers' "Web object").
#[derive(Debug, Clone)]
pub struct Page {
    /// The base file.
    pub base: FileId,
    /// The embedded files, in document order, without repetitions.
    pub embedded: Vec<FileId>,
    /// For each file in `embedded`, the file that refers to it: `None` for the base file, otherwise the index in `embedded`
    /// of an earlier file, which a client must read first to discover the file. Empty if the base file refers to all
    /// embedded files.
    pub named_by: Vec<Option<u16>>,
}

/// A site: files, and the pages that consist of these files.
#[derive(Debug, Clone)]
pub struct Site {
    /// The name of the site, as in `microscape`.
    pub name: String,
    /// All files, indexed by [`FileId`].
    pub files: Vec<File>,
    /// All pages.
    pub pages: Vec<Page>,
}

impl Site {
    /// Returns the file with this id. Panics if the id is out of range: the id is then of another site.
    pub fn file(&self, id: FileId) -> &File {
        &self.files[id.0 as usize]
    }
}
