//! The looked-up files of a package.

use std::sync::Arc;

use crate::origin::Selected;
use crate::origin::live::Live;

/// The current files of a group.
#[derive(Debug, Clone)]
pub(super) struct Gathered {
    /// The address of the page; empty for a folder.
    pub base: Arc<str>,
    /// The page, if it is dynamic.
    pub page: Option<LivePart>,
    pub parts: Vec<Part>,
    /// The dynamic members except the page. They follow all files, so that a file never waits for a dynamic member.
    pub live: Vec<LivePart>,
    pub is_delta: bool,
    pub is_coded: bool,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered {
            base: Arc::from(""),
            page: None,
            parts: Vec::new(),
            live: Vec::new(),
            is_delta: false,
            is_coded: false,
        }
    }
}

impl Gathered {
    /// Whether the package has dynamic members.
    pub fn is_open(&self) -> bool {
        self.page.is_some() || !self.live.is_empty()
    }
}

/// A dynamic resource in a package.
#[derive(Debug, Clone)]
pub(in crate::origin) struct LivePart {
    /// The name of the resource in the package.
    pub name: Box<str>,
    pub live: Live,
}

/// A file of a package.
#[derive(Debug, Clone)]
pub(in crate::origin) struct Part {
    /// The name of the file in the package.
    pub name: Box<str>,
    pub critical: bool,
    /// Whether the client already has the file, so that the entry has no content.
    pub kept: bool,
    pub selected: Selected,
}
