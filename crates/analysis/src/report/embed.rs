//! The run's plots, embedded in the page.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{Markup, html};

use crate::Error;
use crate::run::Run;

/// The plots of the run. Each plot is a separate image, so that its identifiers and styles do not affect the page.
pub(super) fn plots(run: &Run) -> Result<Markup, Error> {
    let mut figures = Vec::new();
    for plot in &run.plots {
        let path = run.folder.join(&plot.file);
        let svg = fs::read(&path).map_err(|source| Error::Read { path, source })?;
        figures.push((
            plot,
            format!("data:image/svg+xml;base64,{}", BASE64_STANDARD.encode(svg)),
        ));
    }
    Ok(html! {
        @for (plot, source) in figures {
            figure.plot {
                h3 { (plot.title) }
                img src=(source) alt=(plot.title);
                figcaption { (plot.caption) }
            }
        }
    })
}

/// Converts a relative path of a run to a URL reference. All bytes are escaped except the unreserved characters of RFC
/// 3986, the slash and the equals sign.
pub(super) fn reference(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/=".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_hold_no_surprises() {
        assert_eq!(reference("cells/a=1/r0"), "cells/a=1/r0");
        assert_eq!(reference("a b\"#?é"), "a%20b%22%23%3F%C3%A9");
    }
}
