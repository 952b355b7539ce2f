//! Computes how much treatments of a file save: content codings, a shared dictionary, lower-case tags in HTML,
//! minification, joined files, and other image formats.
//!
//! All functions work on bytes, without files and clocks. Content is decoded by the same library as it was encoded,
//! with a limit; the tests also decode it with the programs `gzip`, `brotli` and `zstd`.
//!
//! ```
//! use fathometer_content::Coding;
//!
//! let page = b"<p>one</p><p>one</p><p>one</p><p>one</p><p>one</p><p>one</p>".as_slice();
//! let coded = Coding::Gzip(6).encode(page)?;
//! assert!(coded.len() < page.len());
//! assert_eq!(Coding::Gzip(6).decode(&coded, page.len())?, page);
//! # Ok::<(), fathometer_content::CodingError>(())
//! ```

mod coding;
mod dictionary;
#[cfg(feature = "images")]
pub mod image;
mod image_tags;
mod markup;
mod page;
#[cfg(test)]
mod random_texts;
mod references;
mod script;
mod style_sheet;
mod tag_case;

pub use coding::{Coding, CodingError};
pub use dictionary::{DCZ_HEADER_BYTES, Dictionary};
pub use image_tags::{ImageTag, image_tags};
pub use markup::Unchanged;
pub use page::{Run, RunKind, join_runs, minify_html, runs, style_sheets};
pub use references::{Rewritten, rewrite_css, rewrite_html};
pub use script::{ScriptError, join_scripts};
#[cfg(feature = "css")]
pub use style_sheet::minify_css;
pub use style_sheet::{
    KeptWhiteSpace, StyleSheet, StyleSheetError, join_style_sheets, names_element,
};
pub use tag_case::{change_tag_case, lower_case_tags};
