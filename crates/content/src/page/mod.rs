//! Documents, minified.

mod minify;

pub use minify::{minify_html, style_sheets};
