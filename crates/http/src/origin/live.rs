//! Resources whose content is generated for each request, and the properties that are known in advance.

use std::sync::Arc;
use std::time::Duration;

use super::conditions::Validators;
use super::target;
use super::{Described, Origin, Selected};

/// The maximum number of bytes in a text part. A part is buffered in memory until the client has taken it.
pub const LARGEST_PART: u32 = 1 << 20;

/// A resource whose content is generated for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dynamic {
    /// The canonical path of the resource ([`target::canonical`]), which does not end in a slash. If it is the path of
    /// a folder's index, the resource is also served at the folder's path.
    pub path: String,
    /// `Content-Type`; `None`: the media type of the file, or `text/plain` for text.
    pub content_type: Option<String>,
    /// The number of parts of the content; at least one.
    pub parts: u32,
    /// The number of bytes in each part of generated text, from 1 to [`LARGEST_PART`]. `None`: the content is the file
    /// at the path, in parts of equal size.
    pub part: Option<u32>,
    /// The time from the request until the first part is ready.
    pub first: Duration,
    /// The time between two parts.
    pub every: Duration,
}

/// The reason why a dynamic resource cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the dynamic resource {path:?} {fault}")]
pub struct DynamicError {
    path: String,
    fault: &'static str,
}

impl Dynamic {
    /// Checks that the resource can be served.
    pub fn check(&self) -> Result<(), DynamicError> {
        let mut scratch = Vec::new();
        let canonical = target::canonical(self.path.as_bytes(), &mut scratch);
        let fault = if canonical != Ok(Some(self.path.as_bytes())) || self.path.ends_with('/') {
            "needs a file path that starts with a slash"
        } else if self.parts == 0 {
            "needs at least one part"
        } else if self
            .part
            .is_some_and(|part| !(1..=LARGEST_PART).contains(&part))
        {
            "has parts of an invalid size: use 1 byte to 1 MiB"
        } else if self.content_type.as_deref().is_some_and(|text| {
            text.is_empty() || !text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        }) {
            "has an invalid media type"
        } else {
            return Ok(());
        };
        Err(DynamicError {
            path: self.path.clone(),
            fault,
        })
    }

    /// Whether a canonical path identifies the resource.
    pub(super) fn is_at(&self, path: &[u8]) -> bool {
        let own = self.path.as_bytes();
        own == path || path.ends_with(b"/") && own.strip_prefix(path) == Some(target::INDEX)
    }

    /// Whether the content is generated text.
    pub(super) fn is_text(&self) -> bool {
        self.part.is_some()
    }

    /// The time from the request until this part is ready.
    pub(super) fn ready(&self, part: u32) -> Duration {
        self.first.saturating_add(self.every.saturating_mul(part))
    }
}

/// A dynamic resource with the file that provides its content.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) dynamic: Arc<Dynamic>,
    /// The file and its length in bytes; `None` for generated text.
    pub(super) file: Option<(Selected, u64)>,
    content_type: Arc<str>,
}

impl Live {
    /// Creates a resource with generated text.
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

    /// Creates a resource with the content of a file.
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

    /// The file that provides the content, if any.
    pub fn file(&self) -> Option<&Selected> {
        self.file.as_ref().map(|(file, _)| file)
    }

    /// `Content-Type`
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The values for the response fields.
    pub fn describe(&self) -> Described<'_> {
        Described {
            content_type: self.content_type.as_bytes(),
            ..of_unknown_state(b"")
        }
    }
}

/// Values for the response fields of content that is generated during sending.
pub(super) fn of_unknown_state(content_type: &[u8]) -> Described<'_> {
    Described {
        validators: Validators::NONE,
        coding: None,
        length: 0,
        content_type,
        is_coded: false,
        by_have: false,
    }
}

/// The source of a file in a package that is composed during sending.
#[derive(Debug, Clone)]
pub(super) enum Packed {
    /// A stored file, and its length in bytes.
    File(Selected, u64),
    Live(Live),
}

impl Packed {
    /// The file of the content, if it has one.
    pub fn file(&self) -> Option<&Selected> {
        match self {
            Packed::File(file, _) => Some(file),
            Packed::Live(live) => live.file(),
        }
    }
}
