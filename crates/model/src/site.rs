//! The site: files, and pages made of files.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

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

/// The place of a file in [`Site::files`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileId(pub u32);

/// One resource of a site.
#[derive(Debug, Clone)]
pub struct File {
    /// The path component of its URI: starts with `/`, is percent-encoded where it must be, has no
    /// `.` or `..` segment and no query.
    pub path: String,
    /// Its media type, as in `Content-Type`.
    pub content_type: String,
    /// Its bytes without any content coding.
    pub body: Arc<[u8]>,
    /// The same bytes coded in advance, at most one a coding.
    pub encoded: Vec<(ContentCoding, Arc<[u8]>)>,
    /// Its last modification, in seconds since the Unix epoch.
    pub last_modified: u64,
}

/// A base file with the files embedded in it (the papers' "Web object").
#[derive(Debug, Clone)]
pub struct Page {
    /// The base file.
    pub base: FileId,
    /// The files embedded in it, in document order, without repetition.
    pub embedded: Vec<FileId>,
}

/// Files and the pages they make.
#[derive(Debug, Clone)]
pub struct Site {
    /// A word to name it by, as in `microscape`.
    pub name: String,
    /// All files; [`FileId`] indexes this.
    pub files: Vec<File>,
    /// All pages.
    pub pages: Vec<Page>,
}

impl Site {
    /// The file with this id. Panics when the id is of another site and out of range.
    pub fn file(&self, id: FileId) -> &File {
        &self.files[id.0 as usize]
    }
}
