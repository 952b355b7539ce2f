//! Content that is made while it is sent, so that its size is not known before it ends.
//!
//! A [`Dynamic`] resource stands for what a program makes for each request: parts of its content are ready
//! one after another, each at its time after the request. The content is text of this origin's, or that of the file at
//! the same path, as a program that reads it would hand it on. It has no validators, no ranges and no
//! `Content-Length`: HTTP/1.1 sends it chunked, HTTP/1.0 ends it with the connection, later versions with
//! its stream.
//!
//! A [`Flow`] is the content of one response of that kind: of the resource by itself, or of a
//! [package](super::packages) that is composed on the fly and has it among its files.
//!
//! The same is done with packages that have nothing dynamic in them, when a file has to be read for its
//! checksum: content whose length is known, made a slice at a time.
//!
//! What is not done: nothing is run. When a part is ready is a matter of the time alone, so that the same
//! request brings the same octets at the same moments every time.

mod flow;
mod packing;

use std::sync::Arc;
use std::time::Duration;

use super::conditions::{ETAG_LENGTH, Validators};
use super::target;
use super::{Described, Origin, Selected};

pub(crate) use flow::Ready;
pub use flow::{Flow, Flowed};
pub(super) use packing::Packed;

/// The most octets of a part of text: it is kept in memory until the client has taken it.
pub const LARGEST_PART: u32 = 1 << 20;

/// Stands where an entity tag would be. No tag of a request is equal to it.
const NO_TAG: &[u8; ETAG_LENGTH] = &[0; ETAG_LENGTH];

/// A resource whose content is made for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dynamic {
    /// The canonical path that it is at ([`target::canonical`]), which does not end in a slash. Where that
    /// is the index of a folder, it stands for the folder as well.
    pub path: String,
    /// `Content-Type`; `None`: that of the file, or `text/plain`.
    pub content_type: Option<String>,
    /// How many parts its content has; at least one.
    pub parts: u32,
    /// Octets of each part, where the content is text of this origin's: 1 to [`LARGEST_PART`]. `None`: the
    /// content is that of the file at the path, in parts of the same size.
    pub part: Option<u32>,
    /// From the request until the first part is ready.
    pub first: Duration,
    /// From one part to the next.
    pub every: Duration,
}

/// Why a dynamic resource cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the dynamic resource {path:?} {fault}")]
pub struct DynamicError {
    path: String,
    fault: &'static str,
}

impl Dynamic {
    /// Whether it is one that can be served.
    pub fn check(&self) -> Result<(), DynamicError> {
        let mut scratch = Vec::new();
        let canonical = target::canonical(self.path.as_bytes(), &mut scratch);
        let fault = if canonical != Ok(Some(self.path.as_bytes())) || self.path.ends_with('/') {
            "needs the path of a file, from the first slash on"
        } else if self.parts == 0 {
            "has no parts"
        } else if self
            .part
            .is_some_and(|part| !(1..=LARGEST_PART).contains(&part))
        {
            "has parts of no size that can be sent"
        } else if self.content_type.as_deref().is_some_and(|text| {
            text.is_empty() || !text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        }) {
            "has no media type that could stand in a field"
        } else {
            return Ok(());
        };
        Err(DynamicError {
            path: self.path.clone(),
            fault,
        })
    }

    /// Whether it is what a canonical path stands for.
    pub(super) fn is_at(&self, path: &[u8]) -> bool {
        let own = self.path.as_bytes();
        own == path
            || path.ends_with(b"/") && own.strip_prefix(path) == Some(super::packages::INDEX)
    }

    /// Whether its content is text of this origin's.
    pub(super) fn is_text(&self) -> bool {
        self.part.is_some()
    }

    /// When a part is ready, counted from the request.
    fn ready(&self, part: u32) -> Duration {
        self.first.saturating_add(self.every.saturating_mul(part))
    }
}

/// A dynamic resource, with the file that its content is taken from.
#[derive(Debug, Clone)]
pub(super) struct Live {
    dynamic: Arc<Dynamic>,
    /// The file and its octets.
    file: Option<(Selected, u64)>,
    content_type: Arc<str>,
}

impl Live {
    /// One with text of this origin's.
    pub fn of_text(dynamic: &Arc<Dynamic>) -> Live {
        Live {
            dynamic: Arc::clone(dynamic),
            file: None,
            content_type: dynamic
                .content_type
                .as_deref()
                .unwrap_or("text/plain")
                .into(),
        }
    }

    /// One with the content of a file.
    pub fn of_file(dynamic: &Arc<Dynamic>, file: Selected, origin: &Origin) -> Live {
        let of = origin.describe_selected(&file);
        let own = String::from_utf8_lossy(of.content_type);
        let content_type = dynamic.content_type.as_deref().unwrap_or(&own).into();
        let length = of.length;
        Live {
            dynamic: Arc::clone(dynamic),
            file: Some((file, length)),
            content_type,
        }
    }

    /// The file that its content is taken from.
    pub fn file(&self) -> Option<&Selected> {
        self.file.as_ref().map(|(file, _)| file)
    }

    /// `Content-Type`
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// What its fields say.
    pub fn describe(&self) -> Described<'_> {
        Described {
            content_type: self.content_type.as_bytes(),
            ..of_unknown_state(b"")
        }
    }
}

/// What the fields say of content that is made while it is sent.
pub(super) fn of_unknown_state(content_type: &[u8]) -> Described<'_> {
    Described {
        validators: Validators {
            etag: NO_TAG,
            weak: true,
            modified: None,
        },
        coding: None,
        length: 0,
        content_type,
        is_coded: false,
        by_have: false,
    }
}

/// Whether these validators are those of content that has none.
pub(super) fn has_no_tag(validators: &Validators<'_>) -> bool {
    validators.etag == NO_TAG
}

#[cfg(test)]
mod tests;
