//! Documents: minifies them, and joins their files.

mod minify;
mod runs;

pub use minify::{minify_html, style_sheets};
pub use runs::{Run, RunKind, join_runs, runs};
