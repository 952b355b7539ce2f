//! Joins several scripts into one.

/// The reason why a script is left unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The encoding of the script would depend on the other scripts.
    #[error("it is not in UTF-8")]
    Encoding,
    /// The script would behave differently if it was joined with other scripts.
    #[error("it has {0}")]
    NotJoinable(&'static str),
}

/// Texts in a script that depend on the element that loads the script, or that affect all later content.
const DEPENDS: [(&[u8], &str); 2] = [
    (
        b"currentScript",
        "`currentScript`, which refers to the script's element",
    ),
    (
        b"document.write",
        "`document.write`, which writes after the script's element",
    ),
];

/// Joins the scripts in order; each remains a separate sequence of statements. They then run as one program: an error
/// in one script also stops the later scripts, and the functions of a later script are already declared when an earlier
/// one runs.
///
/// # Errors
///
/// The index of the script that certainly or probably depends on being a separate file, and the reason.
pub fn join_scripts(scripts: &[&[u8]]) -> Result<Vec<u8>, (usize, ScriptError)> {
    let mut joined = Vec::new();
    for (index, script) in scripts.iter().enumerate() {
        let marked = script.strip_prefix(b"\xef\xbb\xbf");
        // A byte order mark makes a script UTF-8 in a document of any encoding. In a joined file it would affect all
        // scripts.
        let depends = marked.is_some_and(|text| !text.is_ascii());
        let script = marked.unwrap_or(script);
        if depends || str::from_utf8(script).is_err() {
            return Err((index, ScriptError::Encoding));
        }
        for (text, what) in DEPENDS {
            if memchr::memmem::find(script, text).is_some() {
                return Err((index, ScriptError::NotJoinable(what)));
            }
        }
        // An initial directive such as "use strict" would apply to all scripts, or to none.
        if matches!(first_byte(script), Some(b'"' | b'\'')) {
            return Err((
                index,
                ScriptError::NotJoinable("a directive at its beginning"),
            ));
        }
        if index > 0 {
            // The new script begins on a separate line, because the previous script may end with a comment or without a
            // semicolon.
            joined.extend_from_slice(b"\n;");
        }
        joined.extend_from_slice(script.trim_ascii());
    }
    Ok(joined)
}

/// Returns the first byte after white space and comments.
fn first_byte(script: &[u8]) -> Option<u8> {
    let mut rest = script.trim_ascii_start();
    loop {
        let (end, skipped): (&[u8], usize) = if rest.starts_with(b"/*") {
            (b"*/", 2)
        } else if rest.starts_with(b"//") {
            (b"\n", 0)
        } else {
            return rest.first().copied();
        };
        let at = memchr::memmem::find(&rest[2..], end)?;
        rest = rest[2 + at + skipped..].trim_ascii_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_statements_of_their_own() {
        let joined = join_scripts(&[b"a = 1 // x", b"\xef\xbb\xbf(b)()\n", b"c()"]);
        assert_eq!(joined.unwrap(), b"a = 1 // x\n;(b)()\n;c()");
    }

    #[test]
    fn scripts_that_depend_on_being_a_file_are_not_joined() {
        for script in [
            b"'use strict';a()".as_slice(),
            b"// x\n /* y */ \"use strict\"",
            b"document.write('<p>')",
            b"x(document.currentScript)",
            b"a('\xff')",
            b"\xef\xbb\xbfa('\xc3\xa9')",
        ] {
            let (index, _) = join_scripts(&[b"a()", script]).unwrap_err();
            assert_eq!(index, 1);
        }
        assert!(join_scripts(&[b"(function() { 'use strict' })()", b""]).is_ok());
    }
}
