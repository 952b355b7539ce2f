//! Errors in a file that describes a workload, with their positions.

use std::fmt;

/// An error in the text of a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}{message}")]
pub struct Fault {
    /// The position of the error.
    pub place: Place,
    /// The expected and the actual text at the position.
    pub message: String,
}

/// A position in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line and a column, both counted from 1; the column in characters.
    Line {
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// A value of a JSON text, as in `log.entries[3].request.url`.
    Value(String),
    /// The text as a whole.
    Whole,
}

impl Fault {
    /// Creates an error at byte `offset` of line number `line` (from 0), whose text is `content`.
    pub(crate) fn in_line(
        line: usize,
        content: &str,
        offset: usize,
        message: impl Into<String>,
    ) -> Fault {
        let characters = content.char_indices().take_while(|&(at, _)| at < offset);
        Fault {
            place: Place::Line {
                line: line + 1,
                column: characters.count() + 1,
            },
            message: message.into(),
        }
    }

    /// Creates an error in a value of a JSON text.
    pub(crate) fn in_value(path: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault {
            place: Place::Value(path.into()),
            message: message.into(),
        }
    }

    /// Creates an error of the whole text.
    pub(crate) fn whole(message: impl Into<String>) -> Fault {
        Fault {
            place: Place::Whole,
            message: message.into(),
        }
    }
}

/// Formats the position as the beginning of a message. It ends with a colon and a space, and is empty for the whole
/// text.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line { line, column } => write!(f, "line {line}, column {column}: "),
            Place::Value(path) => write!(f, "{path}: "),
            Place::Whole => Ok(()),
        }
    }
}

/// Quotes a part of the text for a message, and truncates it if it is long.
pub(crate) fn found(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        _ if text.is_empty() => "nothing".to_owned(),
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Iterates over the words of a line, with the byte offset of each.
pub(crate) fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = line.as_ptr() as usize;
    line.split_whitespace()
        .map(move |word| (word.as_ptr() as usize - start, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_not_bytes() {
        let line = "höhe weight";
        let (offset, _) = words(line).nth(1).unwrap();
        let fault = Fault::in_line(4, line, offset, "expected a number");
        assert_eq!(fault.to_string(), "line 5, column 6: expected a number");
    }

    #[test]
    fn long_findings_are_cut() {
        assert_eq!(found(""), "nothing");
        assert_eq!(found("a\tb"), "\"a\\tb\"");
        assert!(found(&"ä".repeat(100)).chars().count() < 50);
    }
}
