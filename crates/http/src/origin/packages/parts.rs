//! The files of a package after look-up.

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
    /// The dynamic members except the page. They follow all files, so that no file waits for them.
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
    /// Whether there are dynamic members.
    pub fn is_open(&self) -> bool {
        self.page.is_some() || !self.live.is_empty()
    }
}

/// A dynamic resource in a package.
#[derive(Debug, Clone)]
pub(in crate::origin) struct LivePart {
    /// Its name in the package.
    pub name: Box<str>,
    pub live: Live,
}

/// A file of a package.
#[derive(Debug, Clone)]
pub(in crate::origin) struct Part {
    /// Its name in the package.
    pub name: Box<str>,
    pub critical: bool,
    /// Whether the client has the file, so that no content follows.
    pub kept: bool,
    pub selected: Selected,
}
