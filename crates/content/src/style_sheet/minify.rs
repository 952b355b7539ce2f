//! Minifies style sheets with lightningcss.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lightningcss::printer::PrinterOptions;
use lightningcss::stylesheet::{MinifyOptions, ParserOptions, StyleSheet};
use lightningcss::targets::{Features, Targets};

use super::{MARK, StyleSheetError, charset, tokens};

/// Removes comments (except those that begin with `!`), white space and repetitions, and uses the shortest
/// notation that current browsers understand. Ranges of media queries are written with `min-` and `max-`, which
/// all browsers understand. Overridden declarations are removed, even those meant for old browsers.
///
/// # Errors
///
/// If the style sheet is not UTF-8, or has an error, because the rules that a browser then ignores are uncertain. The
/// style sheet should then be left unchanged.
pub fn minify_css(css: &[u8]) -> Result<Vec<u8>, StyleSheetError> {
    let text = css.strip_prefix(MARK).unwrap_or(css);
    // The parser is recursive over blocks, so the nesting is checked first, to protect the stack.
    tokens::scan(text, |_| {})?;
    // ASCII text in UTF-16 without a byte order mark is valid UTF-8 with NUL characters.
    if text.contains(&0) {
        return Err(StyleSheetError::Encoding);
    }
    let text = str::from_utf8(text).map_err(|_| StyleSheetError::Encoding)?;
    // This is unwind-safe, because only the result is used after a panic.
    let minified = catch_unwind(AssertUnwindSafe(|| minified(text)));
    let minified = minified.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        Err(StyleSheetError::Panicked(message.unwrap_or_default()))
    })?;
    // This rule states the encoding of the file. The library removes it.
    let mut out = Vec::with_capacity(minified.len());
    if !minified.is_ascii() {
        if css.starts_with(MARK) {
            out.extend_from_slice(MARK);
        } else if let Some((length, _)) = charset(css) {
            out.extend_from_slice(&css[..length]);
        }
    }
    out.extend_from_slice(minified.as_bytes());
    Ok(out)
}

fn minified(text: &str) -> Result<String, StyleSheetError> {
    let mut sheet = StyleSheet::parse(text, ParserOptions::default()).map_err(fault)?;
    let targets = Targets {
        include: Features::MediaQueries,
        ..Targets::default()
    };
    let options = MinifyOptions {
        targets,
        ..MinifyOptions::default()
    };
    sheet.minify(options).map_err(fault)?;
    let options = PrinterOptions {
        minify: true,
        targets,
        ..PrinterOptions::default()
    };
    Ok(sheet.to_css(options).map_err(fault)?.code)
}

fn fault<T: std::fmt::Display>(error: lightningcss::error::Error<T>) -> StyleSheetError {
    StyleSheetError::Malformed {
        // The library counts lines from 0.
        line: error.loc.map_or(1, |place| place.line as usize + 1),
        fault: error.kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minify(css: &str) -> String {
        String::from_utf8(minify_css(css.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn comments_white_space_and_long_notations_go() {
        for (before, after) in [
            ("/* x */ a { color : #ff0000 ; }\n", "a{color:red}"),
            ("/*! licence */a{b:c}", "/*! licence */\na{b:c}"),
            ("a{margin:0 0 0 0}a{color:red}", "a{color:red;margin:0}"),
            (
                "@media (max-width: 600px) { a { color: red } }",
                "@media (max-width:600px){a{color:red}}",
            ),
            ("@import url('x.css');", "@import \"x.css\";"),
            ("a{background:url( 'x.png' )}", "a{background:url(x.png)}"),
            ("@charset \"utf-8\"; a{b:c}", "a{b:c}"),
            (
                "@charset \"utf-8\"; a{content:'\u{e9}'}",
                "@charset \"utf-8\";a{content:\"\u{e9}\"}",
            ),
        ] {
            assert_eq!(minify(before), after, "{before}");
        }
    }

    #[test]
    fn a_fault_is_an_error_with_its_line() {
        let fault = minify_css(b"a{color:red}\n\nb{*zoom:1}").unwrap_err();
        assert!(fault.to_string().starts_with("line 3: "), "{fault}");
        assert_eq!(
            minify_css(b"a{content:'\xe9'}"),
            Err(StyleSheetError::Encoding)
        );
        assert!(minify_css(b"a{color:red").is_err());
    }

    #[test]
    fn blocks_within_blocks_do_not_exhaust_the_stack() {
        for (open, close) in [
            ("@media print{", "}"),
            ("a{", "}"),
            (":is(", ")"),
            ("a{b:calc(", ")}"),
            ("a{b:[", "]}"),
        ] {
            for depth in [30, 100_000] {
                let css = format!("{}{}", open.repeat(depth), close.repeat(depth));
                // Any result is accepted, but the call must not panic.
                drop(minify_css(css.as_bytes()));
            }
        }
    }
}
