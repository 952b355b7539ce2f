//! Comma-separated values (RFC 4180): quoted fields, doubled quotes, line breaks inside quotes. The reader copies its
//! input and is not optimised for speed, because it reads only short texts that are compiled into the program.

use std::borrow::Cow;

/// Splits a text into records of fields. Line ends may be LF or CRLF; a line end at the end of the text does
/// not begin another record.
///
/// # Errors
/// Returns the line number (from 1) and the problem: a quote inside an unquoted field, text after a closing quote, or
/// a missing closing quote.
pub fn records(text: &str) -> Result<Vec<Vec<String>>, (usize, &'static str)> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut field = String::new();
    let mut was_quoted = false;
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if field.is_empty() && !was_quoted => {
                was_quoted = true;
                let opened = line;
                loop {
                    match chars.next() {
                        Some('"') if chars.peek() == Some(&'"') => {
                            chars.next();
                            field.push('"');
                        }
                        Some('"') => break,
                        Some(inner) => {
                            line += usize::from(inner == '\n');
                            field.push(inner);
                        }
                        None => return Err((opened, "a quote is never closed")),
                    }
                }
            }
            ',' => {
                record.push(std::mem::take(&mut field));
                was_quoted = false;
            }
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
                was_quoted = false;
                line += 1;
            }
            '"' => {
                return Err((
                    line,
                    "a quote inside a field that does not begin with a quote",
                ));
            }
            _ if was_quoted => return Err((line, "text after a closing quote")),
            _ => field.push(c),
        }
    }
    if !field.is_empty() || was_quoted || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    Ok(records)
}

/// A field that [`records`] can read: quoted if necessary.
pub fn field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\r', '\n']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_commas_and_line_breaks_are_kept() {
        assert_eq!(
            records("a,\"b, \"\"c\"\"\"\r\n,\"two\nlines\"\n").unwrap(),
            [["a", "b, \"c\""], ["", "two\nlines"]]
        );
        assert_eq!(records("").unwrap(), Vec::<Vec<String>>::new());
        assert_eq!(records("a,").unwrap(), [["a", ""]]);
    }

    #[test]
    fn malformed_texts_name_their_line() {
        assert_eq!(records("a\nb\"c\n").unwrap_err().0, 2);
        assert_eq!(records("a\n\"b\"c\n").unwrap_err().0, 2);
        assert_eq!(records("a\n\n\"b\nc").unwrap_err().0, 3);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            table in prop::collection::vec(prop::collection::vec("[a\",\n\r é]{0,6}", 1..4), 0..5)
        ) {
            let text: String = table
                .iter()
                .map(|record| {
                    let fields: Vec<String> = record
                        .iter()
                        .map(|field| format!("\"{}\"", field.replace('"', "\"\"")))
                        .collect();
                    fields.join(",") + "\r\n"
                })
                .collect();
            prop_assert_eq!(records(&text).unwrap(), table);
        }

        #[test]
        fn a_field_is_quoted_where_it_needs_quotes(text in "[a\",\n\r é]{1,6}") {
            prop_assert_eq!(records(&field(&text)).unwrap(), [[text]]);
        }
    }
}
