//! The subset of YAML that manifests need. Parsers of YAML 1.1 and 1.2 read the same values.

use std::fmt::Write as _;

/// A value of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A mapping, written in this order.
    Map(Vec<(&'static str, Node)>),
    /// A sequence.
    List(Vec<Node>),
    /// A string.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A truth value.
    Bool(bool),
}

/// Returns a string value.
pub fn text(value: &(impl ToString + ?Sized)) -> Node {
    Node::Text(value.to_string())
}

impl Node {
    /// Returns the value in block style, as a whole document.
    pub fn to_document(&self) -> String {
        let mut document = String::new();
        self.write(&mut document, 0, false);
        document
    }

    /// Writes the value with this indentation. `started`: the first line is already indented.
    fn write(&self, out: &mut String, indent: usize, mut started: bool) {
        let mut begin = |out: &mut String| {
            if !std::mem::take(&mut started) {
                out.push_str(&" ".repeat(indent));
            }
        };
        match self {
            Node::Map(entries) if !entries.is_empty() => {
                for (key, value) in entries {
                    begin(out);
                    let _ = write!(out, "{key}:");
                    if value.is_block() {
                        out.push('\n');
                        value.write(out, indent + 2, false);
                    } else {
                        out.push(' ');
                        value.write(out, 0, true);
                    }
                }
            }
            Node::List(values) if !values.is_empty() => {
                for value in values {
                    begin(out);
                    out.push_str("- ");
                    value.write(out, indent + 2, true);
                }
            }
            scalar => {
                begin(out);
                let _ = match scalar {
                    Node::Text(value) => writeln!(out, "{}", scalar_of(value)),
                    Node::Number(number) => writeln!(out, "{number}"),
                    Node::Bool(value) => writeln!(out, "{value}"),
                    Node::Map(_) => writeln!(out, "{{}}"),
                    Node::List(_) => writeln!(out, "[]"),
                };
            }
        }
    }

    /// Whether the value is written on separate lines.
    fn is_block(&self) -> bool {
        match self {
            Node::Map(entries) => !entries.is_empty(),
            Node::List(values) => !values.is_empty(),
            _ => false,
        }
    }
}

/// Returns a string as a plain scalar if every parser reads that scalar as a string. Otherwise returns it in double
/// quotes, and escapes every character that is not printable ASCII (YAML 1.2.2 section 5.7).
fn scalar_of(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    // Plain words that YAML 1.1 parsers do not read as strings.
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    if value.starts_with(|first: char| first.is_ascii_alphabetic())
        && value.bytes().all(plain)
        && !reserved.contains(&value.to_ascii_lowercase().as_str())
    {
        return value.to_owned();
    }
    let mut quoted = String::from("\"");
    for character in value.chars() {
        let _ = match character {
            '"' | '\\' => write!(quoted, "\\{character}"),
            ' '..='~' => write!(quoted, "{character}"),
            character => write!(quoted, "\\U{:08x}", u32::from(character)),
        };
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_stay_strings() {
        for plain in ["load", "batch/v1", "a.b-c_d"] {
            assert_eq!(scalar_of(plain), plain);
        }
        for (value, expected) in [
            ("", r#""""#),
            ("yes", r#""yes""#),
            ("NO", r#""NO""#),
            ("1", r#""1""#),
            ("~", r#""~""#),
            ("a: b", r#""a: b""#),
            ("- #", r##""- #""##),
            ("it's \"\\", r#""it's \"\\""#),
            ("é\n", r#""\U000000e9\U0000000a""#),
        ] {
            assert_eq!(scalar_of(value), expected);
        }
    }

    #[test]
    fn blocks_are_nested_by_two_spaces() {
        let document = Node::Map(vec![
            (
                "a",
                Node::List(vec![
                    text("x"),
                    Node::Map(vec![("b", Node::Number(1)), ("c", Node::Map(vec![]))]),
                ]),
            ),
            (
                "d",
                Node::Map(vec![("e", Node::Bool(true)), ("f", Node::List(vec![]))]),
            ),
        ]);
        assert_eq!(
            document.to_document(),
            "a:\n  - x\n  - b: 1\n    c: {}\nd:\n  e: true\n  f: []\n"
        );
    }
}
