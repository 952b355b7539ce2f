//! Server personas: the fields of responses, their order and their spelling.
//!
//! Measured traffic depends on the size of response heads, so the origin can imitate the response heads of other
//! servers. Fields that the protocol needs are sent with every persona.

use std::time::Duration;

use crate::message::fields;

/// A server persona: the response fields, in the order in which they are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persona {
    /// The name of the persona.
    pub name: String,
    /// The fields. Fields that a response needs and that are not listed here are sent last.
    pub fields: Vec<PersonaField>,
}

/// One field of a server persona.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonaField {
    /// The name of the field, as it is sent.
    pub name: String,
    /// The source of the field's value.
    pub value: FieldValue,
    /// The kinds of responses that have this field. Ignored for fields that the protocol needs
    /// ([`FieldValue::is_required`]).
    pub on: Responses,
}

impl PersonaField {
    /// Whether the field announces range requests. It is omitted if ranges are not possible: for content that is
    /// generated during sending, and for answers without a representation.
    pub(super) fn announces_ranges(&self) -> bool {
        match &self.value {
            FieldValue::Static(value) => {
                self.name.eq_ignore_ascii_case("Accept-Ranges")
                    && !value.eq_ignore_ascii_case("none")
            }
            _ => false,
        }
    }
}

/// Kinds of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Responses {
    /// 200 and 204.
    pub ok: bool,
    /// 206.
    pub partial: bool,
    /// 304.
    pub not_modified: bool,
    /// All other responses: errors and redirects.
    pub refusal: bool,
}

impl Responses {
    /// All responses.
    pub const ALL: Responses = Responses {
        ok: true,
        partial: true,
        not_modified: true,
        refusal: true,
    };
    /// 200, 206 and 304.
    pub const SUCCESS: Responses = Responses {
        refusal: false,
        ..Responses::ALL
    };
    /// 200 and 206.
    pub const CONTENT: Responses = Responses {
        not_modified: false,
        ..Responses::SUCCESS
    };
    /// 304.
    pub const NOT_MODIFIED: Responses = Responses {
        ok: false,
        partial: false,
        not_modified: true,
        refusal: false,
    };
}

/// The source of a field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// A fixed value.
    Static(String),
    /// The time of the response.
    Date,
    /// The time of the response plus this duration.
    Expires(Duration),
    /// The time of the file's last modification.
    LastModified,
    /// The entity tag of the representation.
    ETag,
    /// The media type of the content.
    ContentType,
    /// The length of the content in bytes.
    ContentLength,
    /// The content coding of the representation, if any.
    ContentEncoding,
    /// The range of the content in 206 and 416 responses.
    ContentRange,
    /// `Accept-Encoding` for files that are stored in several codings, and `Accept` for pages with packages.
    Vary,
    /// The allowed methods, in 405 responses and in responses to OPTIONS.
    Allow,
    /// In a 301 response, the address of the folder, because the request omitted the final slash. In a response with a
    /// package, `Content-Location` has this position, if the page's address differs from the request's.
    Location,
    /// `close`, or `Keep-Alive` for a client that requested it; only in HTTP/1. An HTTP/1.1 client gets `Keep-Alive`
    /// only if the persona has the field [`KeepAlive`](Self::KeepAlive).
    Connection,
    /// The idle time-out and the number of remaining requests. Sent only if [`Connection`](Self::Connection) is
    /// `Keep-Alive`.
    KeepAlive,
}

impl FieldValue {
    /// Whether a client could misinterpret a message in which this field is missing.
    pub fn is_required(&self) -> bool {
        REQUIRED.iter().any(|(_, value)| value == self)
    }

    fn is_static(&self) -> bool {
        matches!(self, FieldValue::Static(_))
    }
}

/// The fields that every persona sends, with their default names.
const REQUIRED: [(&str, FieldValue); 8] = [
    ("Content-Type", FieldValue::ContentType),
    ("Content-Encoding", FieldValue::ContentEncoding),
    ("Vary", FieldValue::Vary),
    ("Content-Range", FieldValue::ContentRange),
    ("Allow", FieldValue::Allow),
    ("Location", FieldValue::Location),
    ("Content-Length", FieldValue::ContentLength),
    ("Connection", FieldValue::Connection),
];

/// Field names that a persona must not use, because the server controls the transfer coding.
const FORBIDDEN: [&str; 2] = ["Transfer-Encoding", "Trailer"];

/// The reason why a persona is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PersonaError {
    /// An invalid field name.
    #[error("{name:?} is not a field name")]
    BadName {
        /// The name.
        name: String,
    },
    /// A static value that is invalid in a field.
    #[error("the value of field {name} is invalid: {value:?}")]
    BadValue {
        /// The name of the field.
        name: String,
        /// The invalid value.
        value: String,
    },
    /// The name and the kind of value do not match, so the field would contradict the message.
    #[error(
        "the field {name} would contradict the message: the name is forbidden, or does not match the kind of value"
    )]
    Misnamed {
        /// The name of the field.
        name: String,
    },
    /// Two fields have the same name.
    #[error("{name} is listed twice")]
    Repeated {
        /// The name of the field.
        name: String,
    },
}

impl Persona {
    /// Adds the `Keep-Alive` announcement for clients that request it: the time and the number of requests for which a
    /// connection stays open.
    #[must_use]
    pub fn announcing_keep_alive(mut self) -> Persona {
        let value = FieldValue::KeepAlive;
        if !self.fields.iter().any(|field| field.value == value) {
            self.fields.push(PersonaField {
                name: "Keep-Alive".to_owned(),
                value,
                on: Responses::ALL,
            });
        }
        self
    }

    /// Creates a minimal modern persona with only the fields that clients use.
    pub fn minimal() -> Persona {
        use FieldValue::*;
        persona(
            "minimal",
            &[
                ("Date", Date, Responses::ALL),
                ("Content-Type", ContentType, Responses::CONTENT),
                ("Content-Length", ContentLength, Responses::CONTENT),
                ("Last-Modified", LastModified, Responses::CONTENT),
                ("ETag", ETag, Responses::SUCCESS),
                ("Accept-Ranges", fixed("bytes"), Responses::CONTENT),
            ],
        )
    }

    /// Creates a persona with every kind of field, and so with the longest heads.
    pub fn verbose() -> Persona {
        use FieldValue::*;
        persona(
            "verbose",
            &[
                ("Date", Date, Responses::ALL),
                ("Server", fixed("Fathometer"), Responses::ALL),
                ("Connection", Connection, Responses::ALL),
                ("Keep-Alive", KeepAlive, Responses::ALL),
                ("Cache-Control", fixed("public"), Responses::SUCCESS),
                (
                    "Expires",
                    Expires(Duration::from_secs(86_400)),
                    Responses::SUCCESS,
                ),
                ("Last-Modified", LastModified, Responses::SUCCESS),
                ("ETag", ETag, Responses::SUCCESS),
                ("Accept-Ranges", fixed("bytes"), Responses::CONTENT),
                ("Content-Length", ContentLength, Responses::CONTENT),
                ("Content-Type", ContentType, Responses::CONTENT),
            ],
        )
    }

    /// Checks the persona and adds the required fields that it does not list.
    pub(super) fn complete(mut self) -> Result<Vec<PersonaField>, PersonaError> {
        for (place, field) in self.fields.iter().enumerate() {
            let name = field.name.clone();
            if !fields::is_token(name.as_bytes()) {
                return Err(PersonaError::BadName { name });
            }
            if let FieldValue::Static(value) = &field.value {
                let value = value.clone();
                if !fields::is_value(value.as_bytes()) {
                    return Err(PersonaError::BadValue { name, value });
                }
            }
            let misnamed = REQUIRED.iter().any(|(required, value)| {
                required.eq_ignore_ascii_case(&name) != (*value == field.value)
            });
            if misnamed
                || FORBIDDEN
                    .iter()
                    .any(|other| other.eq_ignore_ascii_case(&name))
            {
                return Err(PersonaError::Misnamed { name });
            }
            let twice = self.fields[..place].iter().any(|earlier| {
                earlier.name.eq_ignore_ascii_case(&name)
                    || earlier.value == field.value && !field.value.is_static()
            });
            if twice {
                return Err(PersonaError::Repeated { name });
            }
        }
        for (name, value) in REQUIRED {
            if !self.fields.iter().any(|field| field.value == value) {
                self.fields.push(PersonaField {
                    name: name.to_owned(),
                    value,
                    on: Responses::ALL,
                });
            }
        }
        Ok(self.fields)
    }
}

impl Default for Persona {
    fn default() -> Persona {
        Persona::minimal()
    }
}

fn fixed(text: &str) -> FieldValue {
    FieldValue::Static(text.to_owned())
}

fn persona(name: &str, fields: &[(&str, FieldValue, Responses)]) -> Persona {
    Persona {
        name: name.to_owned(),
        fields: fields
            .iter()
            .map(|(name, value, on)| PersonaField {
                name: (*name).to_owned(),
                value: value.clone(),
                on: *on,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_fields_are_added_once() {
        let fields = Persona::verbose().complete().unwrap();
        for (_, value) in REQUIRED {
            let count = fields.iter().filter(|field| field.value == value).count();
            assert_eq!(count, 1, "{value:?}");
        }
    }

    #[test]
    fn a_persona_cannot_split_or_contradict_a_message() {
        let with = |name: &str, value: FieldValue| {
            persona(
                "test",
                &[
                    ("Date", FieldValue::Date, Responses::ALL),
                    (name, value, Responses::ALL),
                ],
            )
            .complete()
            .unwrap_err()
        };
        let name = |name: &str| name.to_owned();
        assert_eq!(
            with("A b", fixed("c")),
            PersonaError::BadName { name: name("A b") }
        );
        assert_eq!(
            with("A", fixed("b\r\nC: d")),
            PersonaError::BadValue {
                name: name("A"),
                value: name("b\r\nC: d")
            }
        );
        for (wrong, value) in [
            ("transfer-encoding", fixed("chunked")),
            ("content-length", fixed("5")),
            ("Connection", FieldValue::ETag),
            ("X-Length", FieldValue::ContentLength),
        ] {
            assert_eq!(
                with(wrong, value),
                PersonaError::Misnamed { name: name(wrong) }
            );
        }
        assert_eq!(
            with("date", fixed("never")),
            PersonaError::Repeated { name: name("date") }
        );
        assert_eq!(
            with("Now", FieldValue::Date),
            PersonaError::Repeated { name: name("Now") }
        );
    }
}
