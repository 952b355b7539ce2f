//! Values of the archive with their paths, so that an error states its position.
//!
//! [`Text`] decodes one value at a time; [`Node`] is a decoded value.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::fault::{Fault, Place, found};

/// The text of the archive; its values are decoded when they are needed.
#[derive(Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl<'a> Text<'a> {
    /// Returns the whole text as a JSON value, and checks its syntax to the end.
    pub(super) fn whole(self) -> Result<&'a RawValue, Fault> {
        serde_json::from_str(self.0).map_err(|error| self.fault(0, &error))
    }

    /// Returns the members of the object at `path`.
    pub(super) fn members(
        self,
        path: &'static str,
        of: &'a RawValue,
    ) -> Result<Members<'a>, Fault> {
        if !of.get().starts_with('{') {
            let found = kind(&self.decode(path, of, "a value")?);
            return Err(match path {
                "" => Fault::whole(format!("expected an object with \"log\", found {found}")),
                _ => Fault::in_value(path, format!("expected an object, found {found}")),
            });
        }
        let values = self.decode(path, of, "an object")?;
        Ok(Members { path, values })
    }

    /// Decodes a value as a Rust type. Invalid JSON within the value, such as half a surrogate pair, is reported with
    /// its line.
    pub(super) fn decode<T: serde::Deserialize<'a>>(
        self,
        path: &str,
        raw: &'a RawValue,
        what: &str,
    ) -> Result<T, Fault> {
        serde_json::from_str(raw.get()).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => {
                let found = serde_json::from_str(raw.get()).map(|value| kind(&value));
                let found = found.unwrap_or_else(|_| "another value".to_owned());
                Fault::in_value(path, format!("expected {what}, found {found}"))
            }
            _ => self.fault(
                raw.get().as_ptr() as usize - self.0.as_ptr() as usize,
                &error,
            ),
        })
    }

    /// Creates the syntax error for an error in the part of the text that begins at byte `from`.
    fn fault(self, from: usize, error: &serde_json::Error) -> Fault {
        let before = &self.0[..from];
        let lines = before.bytes().filter(|&byte| byte == b'\n').count();
        let on_its_line = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let column = match error.line() {
            1 => on_its_line + error.column(),
            _ => error.column(),
        };
        let message = error.to_string();
        let what = message.split(" at line ").next().unwrap_or_default();
        Fault {
            place: Place::Line {
                line: lines + error.line(),
                column: column.max(1),
            },
            message: format!("expected JSON: {what}"),
        }
    }
}

/// The members of an object, not yet decoded.
pub(super) struct Members<'a> {
    path: &'static str,
    values: HashMap<String, &'a RawValue>,
}

impl<'a> Members<'a> {
    pub(super) fn optional(&self, name: &str) -> Option<&'a RawValue> {
        let value = self.values.get(name).copied();
        value.filter(|value| value.get() != "null")
    }

    pub(super) fn member(&self, name: &str) -> Result<&'a RawValue, Fault> {
        let path = match self.path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        self.optional(name)
            .ok_or_else(|| Fault::in_value(path, "expected a value, found none"))
    }
}

/// A decoded value of the archive, with its path.
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl<'a> Node<'a> {
    pub(super) fn optional(&self, name: &str) -> Option<Node<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Node {
            value,
            path: format!("{}.{name}", self.path),
        })
    }

    pub(super) fn member(&self, name: &str) -> Result<Node<'a>, Fault> {
        if !self.value.is_object() {
            return Err(self.expected("an object"));
        }
        self.optional(name).ok_or_else(|| {
            Fault::in_value(
                format!("{}.{name}", self.path),
                "expected a value, found none",
            )
        })
    }

    pub(super) fn elements(&self) -> Result<Vec<Node<'a>>, Fault> {
        let elements = self
            .value
            .as_array()
            .ok_or_else(|| self.expected("an array"))?;
        Ok(elements
            .iter()
            .enumerate()
            .map(|(n, value)| Node {
                value,
                path: format!("{}[{n}]", self.path),
            })
            .collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, Fault> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    pub(super) fn expected(&self, what: &str) -> Fault {
        let found = match self.value {
            Value::String(text) => found(text),
            other => kind(other),
        };
        Fault::in_value(&self.path, format!("expected {what}, found {found}"))
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
