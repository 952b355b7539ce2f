//! The rules for compression on the fly.

use std::fmt;
use std::str::FromStr;

use fathometer_model::Bytes;

use crate::message::fields;
use crate::origin::encoding::Coding;

/// The options for compression on the fly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressionOptions {
    /// The codings, each with its level.
    pub levels: Levels,
    /// The minimum length of compressed content. Shorter content fits into one packet with the response head.
    pub from: Bytes,
    /// The maximum length of compressed content. A response waits until all of its content is compressed.
    pub up_to: Bytes,
    /// The maximum memory of all compressed bodies: cached, in responses, and in progress.
    pub memory: Bytes,
}

impl CompressionOptions {
    /// Default of [`from`](Self::from).
    pub const FROM: Bytes = Bytes(256);
    /// Default of [`up_to`](Self::up_to).
    pub const UP_TO: Bytes = Bytes(8 << 20);
    /// Default of [`memory`](Self::memory).
    pub const MEMORY: Bytes = Bytes(64 << 20);

    /// Creates options with these codings and the default limits.
    pub fn new(levels: Levels) -> CompressionOptions {
        CompressionOptions {
            levels,
            from: CompressionOptions::FROM,
            up_to: CompressionOptions::UP_TO,
            memory: CompressionOptions::MEMORY,
        }
    }

    /// Whether content of this type and length is compressed.
    pub fn covers(&self, content_type: &[u8], length: u64) -> bool {
        (self.from.0..=self.up_to.0).contains(&length) && is_compressible(content_type)
    }
}

/// Content codings, each with a level, in order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels(Vec<(Coding, u32)>);

impl Levels {
    /// Iterates over the codings with their levels, in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = (Coding, u32)> + Clone {
        self.0.iter().copied()
    }

    /// The level of a coding. A coding with a dictionary has the level of the coding without one.
    pub fn of(&self, coding: Coding) -> Option<u32> {
        self.iter()
            .find(|(other, _)| *other == coding || other.with_dictionary() == Some(coding))
            .map(|(_, level)| level)
    }

    /// Whether one of the codings can use a dictionary.
    pub fn can_use_dictionaries(&self) -> bool {
        self.iter()
            .any(|(coding, _)| coding.with_dictionary().is_some())
    }
}

/// Returns the default level of a coding, and the levels that compress a slice within milliseconds. During that time,
/// an event loop serves no other connection. Higher levels are therefore only for files that are compressed in advance.
const fn permitted(coding: Coding) -> (u32, std::ops::RangeInclusive<u32>) {
    match coding {
        Coding::Deflate | Coding::Gzip => (6, 1..=9),
        Coding::Brotli | Coding::DictionaryBrotli => (4, 0..=6),
        Coding::Zstd | Coding::DictionaryZstd => (3, 1..=9),
    }
}

/// The text form is a list of codings separated by commas, such as `br:4,gzip`. A coding without a level has its
/// default level.
impl FromStr for Levels {
    type Err = String;

    fn from_str(text: &str) -> Result<Levels, String> {
        let mut levels: Vec<(Coding, u32)> = Vec::new();
        for word in text.split(',') {
            let (name, level) = match word.split_once(':') {
                Some((name, level)) => (name.trim(), Some(level.trim())),
                None => (word.trim(), None),
            };
            let coding = Coding::ALONE
                .into_iter()
                .find(|coding| coding.token() == name)
                .ok_or_else(|| {
                    format!("{name:?} is not a coding: use gzip, br, zstd or deflate")
                })?;
            let (default, range) = permitted(coding);
            let level = match level {
                None => default,
                Some(level) => level
                    .parse()
                    .ok()
                    .filter(|level| range.contains(level))
                    .ok_or_else(|| {
                        format!(
                            "{level:?} is not a level for compression with {name} on the fly: use {} to {}",
                            range.start(),
                            range.end()
                        )
                    })?,
            };
            if levels.iter().any(|(other, _)| *other == coding) {
                return Err(format!("{name} is given twice"));
            }
            levels.push((coding, level));
        }
        Ok(Levels(levels))
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (coding, level)) in self.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{}:{level}", coding.token())?;
        }
        Ok(())
    }
}

/// Compressible media types that neither start with `text/` nor end with a suffix such as `+json`.
const COMPRESSIBLE: [&str; 12] = [
    "application/javascript",
    "application/json",
    "application/manifest+json",
    "application/wasm",
    "application/x-javascript",
    "application/xml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "application/vnd.ms-fontobject",
];

/// Whether compression usually reduces the size of content of this type. Images, archives and most fonts are already
/// compressed. Event streams (`text/event-stream`) are excluded, because an event must not wait for later events.
fn is_compressible(content_type: &[u8]) -> bool {
    let essence = content_type
        .split(|&byte| byte == b';')
        .next()
        .map_or(&[][..], fields::trim);
    let is = |name: &str| essence.eq_ignore_ascii_case(name.as_bytes());
    let starts = |prefix: &[u8]| {
        let start = essence.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let ends = |suffix: &[u8]| {
        let end = essence
            .len()
            .checked_sub(suffix.len())
            .map(|at| &essence[at..]);
        end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    (starts(b"text/") && !is("text/event-stream"))
        || ends(b"+xml")
        || ends(b"+json")
        || COMPRESSIBLE.iter().any(|name| is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_in_the_order_of_preference() {
        let levels: Levels = "zstd:1, br,gzip:9,deflate".parse().unwrap();
        assert_eq!(levels.to_string(), "zstd:1,br:4,gzip:9,deflate:6");
        assert_eq!(levels.of(Coding::Gzip), Some(9));
        assert_eq!(levels.of(Coding::DictionaryZstd), Some(1));
        assert!(levels.can_use_dictionaries());
        assert!(
            !"gzip,deflate"
                .parse::<Levels>()
                .unwrap()
                .can_use_dictionaries()
        );
        for text in [
            "", "gzip:0", "gzip:10", "br:7", "zstd:10", "lzma", "br,br", "br:x", "dcb", "dcz:3",
        ] {
            assert!(text.parse::<Levels>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn compressed_types_and_short_or_long_content_are_left_alone() {
        let options = CompressionOptions::new("gzip".parse().unwrap());
        for content_type in [
            "text/html",
            "Text/CSS; charset=utf-8",
            "image/svg+xml",
            "application/ld+json ;x",
            "application/wasm",
        ] {
            assert!(
                options.covers(content_type.as_bytes(), 1000),
                "{content_type}"
            );
        }
        for content_type in [
            "image/png",
            "font/woff2",
            "text/event-stream",
            "application/octet-stream",
            "textual",
            "+xm",
        ] {
            assert!(
                !options.covers(content_type.as_bytes(), 1000),
                "{content_type}"
            );
        }
        for (length, covered) in [
            (255, false),
            (256, true),
            (8 << 20, true),
            ((8 << 20) + 1, false),
        ] {
            assert_eq!(options.covers(b"text/html", length), covered, "{length}");
        }
    }
}
