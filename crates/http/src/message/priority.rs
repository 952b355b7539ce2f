//! Clients' priorities for responses (RFC 9218).
//!
//! The older scheme of dependencies and weights (RFC 7540 section 5.3) is in
//! [`Dependency`](crate::h2::frame::Dependency).

/// The urgency of a response, and whether it is useful in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// Whether the response may be interleaved with other responses.
    pub incremental: bool,
}

impl Priority {
    /// The lowest urgency.
    pub const LEAST_URGENT: u8 = 7;

    /// Parses a `priority` field or the field of a PRIORITY_UPDATE frame: a dictionary (RFC 8941 section 3.2).
    /// A member that is missing, of the wrong type or out of range gets its default. A field that is not a
    /// dictionary is ignored.
    pub fn parse(field: &[u8]) -> Priority {
        let mut priority = Priority::default();
        let mut rest = trim_start(field);
        while !rest.is_empty() {
            let Some((member, after)) = Member::parse(rest) else {
                return Priority::default();
            };
            match (member.key, member.value) {
                (b"u", Value::Integer(urgency @ 0..=7)) => priority.urgency = urgency as u8,
                (b"u", _) => priority.urgency = Priority::default().urgency,
                (b"i", Value::Boolean(incremental)) => priority.incremental = incremental,
                (b"i", _) => priority.incremental = false,
                _ => {}
            }
            let after = trim_start(after);
            rest = match after.split_first() {
                None => after,
                // A trailing comma is an error in a dictionary.
                Some((b',', more)) if !trim_start(more).is_empty() => trim_start(more),
                Some(_) => return Priority::default(),
            };
        }
        priority
    }

    /// Returns the value of a `priority` field for this priority; empty for the default.
    pub const fn text(self) -> &'static str {
        const TEXTS: [[&str; 2]; 8] = [
            ["u=0", "u=0, i"],
            ["u=1", "u=1, i"],
            ["u=2", "u=2, i"],
            ["", "i"],
            ["u=4", "u=4, i"],
            ["u=5", "u=5, i"],
            ["u=6", "u=6, i"],
            ["u=7", "u=7, i"],
        ];
        let urgency = if self.urgency > 7 { 7 } else { self.urgency };
        TEXTS[urgency as usize][self.incremental as usize]
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority {
            urgency: 3,
            incremental: false,
        }
    }
}

/// A member of a dictionary.
struct Member<'a> {
    key: &'a [u8],
    value: Value,
}

enum Value {
    Boolean(bool),
    Integer(i64),
    Other,
}

impl<'a> Member<'a> {
    /// Parses a member; its parameters are ignored. Returns the member and the text after it.
    fn parse(text: &'a [u8]) -> Option<(Member<'a>, &'a [u8])> {
        let (key, rest) = key(text)?;
        let (value, mut rest) = match rest.split_first() {
            Some((b'=', rest)) => value(rest)?,
            _ => (Value::Boolean(true), rest),
        };
        while let Some((b';', parameter)) = rest.split_first() {
            let start = parameter.iter().position(|&byte| byte != b' ');
            (_, rest) = self::key(&parameter[start?..])?;
            if let Some((b'=', after)) = rest.split_first() {
                (_, rest) = bare_item(after)?;
            }
        }
        Some((Member { key, value }, rest))
    }
}

fn key(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = *text.first()?;
    if !first.is_ascii_lowercase() && first != b'*' {
        return None;
    }
    let end = text.iter().position(|byte| {
        !byte.is_ascii_lowercase() && !byte.is_ascii_digit() && !b"_-.*".contains(byte)
    });
    Some(text.split_at(end.unwrap_or(text.len())))
}

/// Parses a value: an item, or a list of items in parentheses.
fn value(text: &[u8]) -> Option<(Value, &[u8])> {
    let Some((b'(', mut rest)) = text.split_first() else {
        return bare_item(text);
    };
    loop {
        rest = trim_start(rest);
        if let Some((b')', after)) = rest.split_first() {
            return Some((Value::Other, after));
        }
        (_, rest) = bare_item(rest)?;
        while let Some((b';', parameter)) = rest.split_first() {
            (_, rest) = key(trim_start(parameter))?;
            if let Some((b'=', after)) = rest.split_first() {
                (_, rest) = bare_item(after)?;
            }
        }
    }
}

fn bare_item(text: &[u8]) -> Option<(Value, &[u8])> {
    let split_where = |found: fn(&u8) -> bool| {
        let end = text.iter().skip(1).position(|byte| !found(byte));
        text.split_at(end.map_or(text.len(), |end| end + 1))
    };
    match *text.first()? {
        b'?' => match text {
            [_, digit @ (b'0' | b'1'), rest @ ..] => Some((Value::Boolean(*digit == b'1'), rest)),
            _ => None,
        },
        b'-' | b'0'..=b'9' => {
            let (number, rest) = split_where(|byte| byte.is_ascii_digit() || *byte == b'.');
            let value = std::str::from_utf8(number).ok()?;
            if number.len() > 16 {
                return None;
            }
            match value.parse() {
                Ok(integer) => Some((Value::Integer(integer), rest)),
                Err(_) => value.parse::<f64>().ok().map(|_| (Value::Other, rest)),
            }
        }
        b'"' => {
            let mut escaped = false;
            let end = text.iter().skip(1).position(|&byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            Some((Value::Other, &text[end? + 2..]))
        }
        b':' => {
            let end = text.iter().skip(1).position(|&byte| byte == b':')?;
            Some((Value::Other, &text[end + 2..]))
        }
        byte if byte.is_ascii_alphabetic() || byte == b'*' => {
            let (_, rest) = split_where(|byte| {
                byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte)
            });
            Some((Value::Other, rest))
        }
        _ => None,
    }
}

fn trim_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'));
    &text[start.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_dictionaries() {
        let default = Priority::default();
        for (field, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i,u=5", 5, true),
            ("i=?0", 3, false),
            ("i=?1, i=?0", 3, false),
            ("u=1;x=2;y, i;z=\"a,b\"", 1, true),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=2.5", 3, false),
            ("u=\"1\", i", 3, true),
            (
                "foo=(1 2;a \"x\");q=1, u=2, bar=:YQ==:, baz=tok/en",
                2,
                false,
            ),
            ("i=1", 3, false),
            (" u=4\t, i ", 4, true),
        ] {
            let wanted = Priority {
                urgency,
                incremental,
            };
            assert_eq!(Priority::parse(field.as_bytes()), wanted, "{field}");
        }
        for field in [
            "u=", "U=1", "u=1,", "u=1 i", "u=1,,i", "i=?2", "u=1;", "=1", "u=\"1", "u=1é",
        ] {
            assert_eq!(Priority::parse(field.as_bytes()), default, "{field}");
        }
    }

    #[test]
    fn written_priorities_are_parsed_back() {
        for urgency in 0..=7 {
            for incremental in [false, true] {
                let priority = Priority {
                    urgency,
                    incremental,
                };
                assert_eq!(Priority::parse(priority.text().as_bytes()), priority);
            }
        }
    }
}
