//! The table `[embedded]` of a definition: the embedded origin imitates the response fields and the timing of another server.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_http::origin::persona::{FieldValue, Persona, PersonaField, Responses};
use fathometer_model::quantity::TimeSpan;
use schemars::JsonSchema;
use serde::Deserialize;

use super::DefinitionError;

/// The server persona of the embedded origin.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embedded {
    /// When responses in the output buffer are sent.
    pub coalesce: CoalesceRule,
    /// Size of the output buffer, in bytes.
    pub output_buffer: u64,
    /// Service time of the original server for a request, in milliseconds, by path: the time also depended on the
    /// client. Used by cells with pace=period.
    #[serde(default)]
    pub service_time_ms: BTreeMap<String, f64>,
    /// Additional service time for the first request of a connection, in milliseconds, by path.
    #[serde(default)]
    pub connection_time_ms: BTreeMap<String, f64>,
    /// The response fields, in order.
    pub fields: Vec<Field>,
}

/// One response field.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The name of the field.
    name: String,
    /// A fixed value. Either this or `from`.
    value: Option<String>,
    /// The source of the value. Either this or `value`.
    from: Option<Source>,
    /// For `expires`: lifetime of the response, in seconds.
    after_s: Option<u64>,
    /// The responses with this field.
    on: On,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Source {
    Date,
    Expires,
    LastModified,
    Etag,
    ContentType,
    ContentLength,
    ContentEncoding,
    ContentRange,
    Vary,
    Allow,
    Connection,
    KeepAlive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum On {
    All,
    Success,
    Content,
    NotModified,
}

/// When responses are sent from the output buffer; a full buffer is always sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoalesceRule {
    /// After each response.
    EachResponse,
    /// When no complete request is pending.
    UntilInputWouldBlock,
    /// When no part of a request is pending.
    UntilInputDrained,
}

impl Embedded {
    /// Adds an Alt-Svc field (RFC 7838) to every response. The field announces HTTP/3 on a port of the same host.
    pub fn announce_http3(&mut self, port: u16) {
        self.fields.push(Field {
            name: "Alt-Svc".to_owned(),
            value: Some(format!("h3=\":{port}\"; ma=86400")),
            from: None,
            after_s: None,
            on: On::All,
        });
    }

    /// Returns the original server's service time for a request over this path, and the additional time for the first
    /// request of a connection.
    pub fn pace(&self, path: &str) -> (Duration, Duration) {
        let of = |times: &BTreeMap<String, f64>| {
            times
                .get(path)
                // The value was validated when the definition was read.
                .and_then(|ms| TimeSpan::from_milliseconds(*ms).ok())
                .map_or(Duration::ZERO, Duration::from)
        };
        (of(&self.service_time_ms), of(&self.connection_time_ms))
    }

    /// Converts the response fields into the form that the origin uses.
    pub fn persona(&self, name: &str) -> Result<Persona, DefinitionError> {
        let nonsense = |reason: String| DefinitionError::Nonsense {
            file: format!("the definition of the server {name}"),
            reason,
        };
        let fields = self
            .fields
            .iter()
            .map(|field| {
                let value = match (&field.value, field.from) {
                    (Some(value), None) => FieldValue::Static(value.clone()),
                    (None, Some(source)) => match source {
                        Source::Date => FieldValue::Date,
                        Source::Expires => {
                            FieldValue::Expires(Duration::from_secs(field.after_s.ok_or_else(
                                || nonsense(format!("{} needs after_s", field.name)),
                            )?))
                        }
                        Source::LastModified => FieldValue::LastModified,
                        Source::Etag => FieldValue::ETag,
                        Source::ContentType => FieldValue::ContentType,
                        Source::ContentLength => FieldValue::ContentLength,
                        Source::ContentEncoding => FieldValue::ContentEncoding,
                        Source::ContentRange => FieldValue::ContentRange,
                        Source::Vary => FieldValue::Vary,
                        Source::Allow => FieldValue::Allow,
                        Source::Connection => FieldValue::Connection,
                        Source::KeepAlive => FieldValue::KeepAlive,
                    },
                    _ => {
                        return Err(nonsense(format!(
                            "the field {} needs either value or from",
                            field.name
                        )));
                    }
                };
                Ok(PersonaField {
                    name: field.name.clone(),
                    value,
                    on: match field.on {
                        On::All => Responses::ALL,
                        On::Success => Responses::SUCCESS,
                        On::Content => Responses::CONTENT,
                        On::NotModified => Responses::NOT_MODIFIED,
                    },
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Persona {
            name: name.to_owned(),
            fields,
        })
    }
}
