//! The run's plots, embedded in the page.

use std::fs;

use maud::{Markup, html};

use crate::Error;
use crate::run::Run;

/// Every plot as a separate image, so that its identifiers and styles do not affect the page.
pub(super) fn plots(run: &Run) -> Result<Markup, Error> {
    let mut figures = Vec::new();
    for plot in &run.plots {
        let path = run.folder.join(&plot.file);
        let svg = fs::read(&path).map_err(|source| Error::Read { path, source })?;
        figures.push((plot, format!("data:image/svg+xml;base64,{}", base64(&svg))));
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

/// RFC 4648 section 4.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            if place > chunk.len() {
                text.push('=');
            } else {
                let digit = word >> (18 - 6 * place) & 63;
                text.push(char::from(ALPHABET[digit as usize]));
            }
        }
    }
    text
}

/// A relative path of a run as a URL reference. Bytes other than RFC 3986's unreserved ones, the slash and the
/// equals sign are escaped.
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
    fn base64_is_that_of_the_rfc() {
        // RFC 4648 section 10.
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn references_hold_no_surprises() {
        assert_eq!(reference("cells/a=1/r0"), "cells/a=1/r0");
        assert_eq!(reference("a b\"#?é"), "a%20b%22%23%3F%C3%A9");
    }
}
