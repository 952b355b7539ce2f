//! The role of a file in its page, and the urgency of a file by its role.

use std::fmt;
use std::str::FromStr;

use crate::html::ReferenceKind;

/// The role of a file in the page that needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// The page's base file.
    Document,
    /// A style sheet: it blocks rendering.
    StyleSheet,
    /// A script that blocks the parsing of the document.
    Script,
    /// A script that blocks nothing (`async`, `defer`).
    LaterScript,
    /// A font: it blocks the rendering of its text.
    Font,
    /// An image.
    Image,
    /// A document within the document.
    Frame,
    /// Files requested by scripts, and everything else.
    Other,
}

impl FileKind {
    /// Returns the kind for a reference in HTML. ([`ReferenceKind::Base`] refers to no file.)
    pub(super) const fn of_reference(kind: ReferenceKind) -> FileKind {
        match kind {
            ReferenceKind::Image | ReferenceKind::Background | ReferenceKind::ImageInput => {
                FileKind::Image
            }
            ReferenceKind::StyleSheet => FileKind::StyleSheet,
            ReferenceKind::Script => FileKind::Script,
            ReferenceKind::LaterScript => FileKind::LaterScript,
            ReferenceKind::Frame => FileKind::Frame,
            ReferenceKind::Base => FileKind::Other,
        }
    }

    /// Returns the kind for a media type, if nothing else is known. Scripts count as scripts that block nothing, and
    /// HTML as a frame.
    pub fn of_content_type(content_type: &str) -> FileKind {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let family = essence.split('/').next().unwrap_or_default();
        match (family, essence) {
            ("image", _) => FileKind::Image,
            ("font", _) | (_, "application/font-woff") => FileKind::Font,
            (_, "text/css") => FileKind::StyleSheet,
            (_, "text/javascript" | "application/javascript" | "application/x-javascript") => {
                FileKind::LaterScript
            }
            (_, "text/html" | "application/xhtml+xml") => FileKind::Frame,
            _ => FileKind::Other,
        }
    }

    /// Returns the kind for a destination of the Fetch standard (`as=style` in a preload).
    pub(super) fn of_destination(destination: &str) -> FileKind {
        match destination {
            "style" => FileKind::StyleSheet,
            "script" => FileKind::Script,
            "font" => FileKind::Font,
            "image" => FileKind::Image,
            "document" | "frame" | "iframe" => FileKind::Frame,
            _ => FileKind::Other,
        }
    }

    /// Whether the file has dimensions that the page's layout needs.
    pub const fn is_image(self) -> bool {
        matches!(self, FileKind::Image)
    }

    /// Whether the file is executed.
    pub const fn is_script(self) -> bool {
        matches!(self, FileKind::Script | FileKind::LaterScript)
    }

    /// Whether the page cannot be shown, or cannot be read, without the file.
    pub const fn is_critical(self) -> bool {
        matches!(
            self,
            FileKind::Document | FileKind::StyleSheet | FileKind::Script | FileKind::Font
        )
    }
}

/// The priority of a file (RFC 9218 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Urgency {
    /// From 0, the most urgent, to 7.
    pub level: u8,
    /// Whether parts of the file are useful, so that files of the same level may share the connection.
    pub incremental: bool,
}

impl Urgency {
    /// The default when no priority is given.
    pub const DEFAULT: Urgency = Urgency {
        level: 3,
        incremental: false,
    };

    const fn new(level: u8, incremental: bool) -> Urgency {
        Urgency { level, incremental }
    }
}

/// The value of a `Priority` field; empty for the default.
impl fmt::Display for Urgency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says_level = self.level != Urgency::DEFAULT.level;
        if says_level {
            write!(f, "u={}", self.level)?;
        }
        match (says_level, self.incremental) {
            (_, false) => Ok(()),
            (true, true) => f.write_str(", i"),
            (false, true) => f.write_str("i"),
        }
    }
}

/// The priorities that a client sends with its requests.
///
/// As text: `none`, `browser`, `round-robin`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Priorities {
    /// No priorities: files are requested in the order in which they were found.
    #[default]
    None,
    /// The priorities of browsers, in Chromium's five levels. First the document and style sheets; then fonts,
    /// scripts that block the document and files requested by scripts; then images and scripts that block
    /// nothing. Documents, images and files requested by scripts are incremental. If requests wait for a
    /// connection, the more urgent requests are sent first.
    Browser,
    /// All files have the same urgency and are incremental, so that the server interleaves them.
    RoundRobin,
}

impl Priorities {
    /// Returns the priority of a file of this kind.
    pub const fn of(self, kind: FileKind) -> Urgency {
        match (self, kind) {
            (Priorities::None, _) => Urgency::DEFAULT,
            (Priorities::RoundRobin, _) => Urgency::new(Urgency::DEFAULT.level, true),
            (Priorities::Browser, FileKind::Document | FileKind::Frame) => Urgency::new(0, true),
            (Priorities::Browser, FileKind::StyleSheet) => Urgency::new(0, false),
            (Priorities::Browser, FileKind::Font | FileKind::Script) => Urgency::new(1, false),
            (Priorities::Browser, FileKind::Other) => Urgency::new(1, true),
            (Priorities::Browser, FileKind::Image) => Urgency::new(3, true),
            (Priorities::Browser, FileKind::LaterScript) => Urgency::new(3, false),
        }
    }
}

/// The error for a text that is not a priority scheme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a priority scheme: write none, browser or round-robin")]
pub struct ParsePrioritiesError {
    text: String,
}

impl FromStr for Priorities {
    type Err = ParsePrioritiesError;

    fn from_str(text: &str) -> Result<Priorities, ParsePrioritiesError> {
        match text {
            "none" => Ok(Priorities::None),
            "browser" => Ok(Priorities::Browser),
            "round-robin" => Ok(Priorities::RoundRobin),
            _ => Err(ParsePrioritiesError {
                text: text.to_owned(),
            }),
        }
    }
}

/// The format that [`FromStr`] reads.
impl fmt::Display for Priorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Priorities::None => "none",
            Priorities::Browser => "browser",
            Priorities::RoundRobin => "round-robin",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgencies_are_written_as_structured_fields_without_defaults() {
        let field = |priorities: Priorities, kind| priorities.of(kind).to_string();
        assert_eq!(field(Priorities::Browser, FileKind::Document), "u=0, i");
        assert_eq!(field(Priorities::Browser, FileKind::Font), "u=1");
        assert_eq!(field(Priorities::Browser, FileKind::Image), "i");
        assert_eq!(field(Priorities::Browser, FileKind::LaterScript), "");
        assert_eq!(field(Priorities::RoundRobin, FileKind::Document), "i");
        assert_eq!(field(Priorities::None, FileKind::Document), "");
    }

    #[test]
    fn written_priorities_are_parsed_back() {
        for text in ["none", "browser", "round-robin"] {
            assert_eq!(text.parse::<Priorities>().unwrap().to_string(), text);
        }
        assert!("urgent".parse::<Priorities>().is_err());
    }

    #[test]
    fn media_types_determine_kinds() {
        for (content_type, kind) in [
            ("text/css", FileKind::StyleSheet),
            ("text/html; charset=utf-8", FileKind::Frame),
            ("font/woff2", FileKind::Font),
            ("image/webp", FileKind::Image),
            ("text/javascript", FileKind::LaterScript),
            ("application/json", FileKind::Other),
            ("", FileKind::Other),
        ] {
            assert_eq!(
                FileKind::of_content_type(content_type),
                kind,
                "{content_type}"
            );
        }
    }
}
