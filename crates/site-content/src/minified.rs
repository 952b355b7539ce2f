//! Minifies HTML and style sheets.

use fathometer_content::{KeptWhiteSpace, StyleSheetError, Unchanged, minify_html};

use super::treatment::{Minified, timed};

/// The reason why a file is left unchanged.
#[derive(Debug, thiserror::Error)]
pub enum NotMinified {
    /// The document has a construct whose extent depends on the element tree. The document itself is valid.
    #[error("{0}")]
    Document(Unchanged),
    /// The style sheet has an error.
    #[error("{0}")]
    StyleSheet(#[from] StyleSheetError),
}

/// The kind of a file that can be minified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minifiable {
    /// A document.
    Html,
    /// A style sheet.
    Css,
}

/// Minifies a file. The result is not longer than the file.
pub fn minify(
    kind: Minifiable,
    content: &[u8],
    kept: &KeptWhiteSpace,
) -> Result<Vec<u8>, NotMinified> {
    let minified = match kind {
        Minifiable::Html => {
            minify_html(content, kept, minified_part).map_err(NotMinified::Document)?
        }
        Minifiable::Css => style_sheet(content)?,
    };
    Ok(match minified.len() < content.len() {
        true => minified,
        false => content.to_vec(),
    })
}

/// Minifies a file `repetitions` times, so that the CPU time has a spread.
pub fn minify_repeatedly(
    kind: Minifiable,
    content: &[u8],
    kept: &KeptWhiteSpace,
    repetitions: usize,
) -> Result<Minified, NotMinified> {
    let mut minified = Minified {
        content: Vec::new(),
        times: Vec::new(),
    };
    for _ in 0..repetitions {
        let (result, time) = timed(|| minify(kind, content, kept));
        minified.content = result?;
        minified.times.push(time);
    }
    Ok(minified)
}

/// Minifies a style sheet in a document. Returns `None` for a style sheet with an error, which is left unchanged.
#[cfg(feature = "css")]
fn minified_part(css: &[u8]) -> Option<Vec<u8>> {
    style_sheet(css).ok()
}

#[cfg(not(feature = "css"))]
fn minified_part(_: &[u8]) -> Option<Vec<u8>> {
    None
}

#[cfg(feature = "css")]
fn style_sheet(css: &[u8]) -> Result<Vec<u8>, StyleSheetError> {
    fathometer_content::minify_css(css)
}

/// Without the library, style sheets are left unchanged.
#[cfg(not(feature = "css"))]
fn style_sheet(css: &[u8]) -> Result<Vec<u8>, StyleSheetError> {
    Ok(css.to_vec())
}
