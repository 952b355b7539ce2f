//! Images of an exact size that every decoder accepts.
//!
//! Small images are one row of pixels, whose length depends on the size. Larger images are a small picture, followed by
//! noise in a part of the format without pixels: a comment extension (GIF), a private ancillary chunk (PNG), a comment
//! segment (JPEG), an unknown chunk (WebP). Files share the noise, except for a few bytes that differ between files, so
//! that files of equal size differ.

mod gif;
mod jpeg;
mod png;
mod webp;

pub(super) use gif::Gifs;
pub(super) use jpeg::Jpegs;
pub(crate) use png::{Pngs, mng};
pub(super) use webp::WebPs;

/// The smallest image of each format.
pub(super) const SMALLEST_GIF: u64 = gif::SMALLEST;
pub(super) const SMALLEST_PNG: u64 = png::SMALLEST;
pub(super) const SMALLEST_JPEG: u64 = jpeg::SMALLEST;
pub(super) const SMALLEST_WEBP: u64 = webp::SMALLEST;
