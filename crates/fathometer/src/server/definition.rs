//! Servers under test as data: `servers/<name>/server.toml`.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_http::origin::dress::{Dress, DressField, FieldValue, Responses};
use serde::Deserialize;

use crate::data::{self, DataError};

/// A server under test, as its file says it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The level of the factor `server`.
    pub name: String,
    /// What it is, for headings.
    pub title: String,
    /// Where its figures or its configuration come from.
    pub source: String,
    /// Settings of our own origin. Either this or `program`.
    pub embedded: Option<Embedded>,
    /// A program to start. Either this or `embedded`.
    pub program: Option<Program>,
}

/// How our own origin presents itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Embedded {
    /// When responses leave its output buffer.
    pub coalesce: CoalesceRule,
    /// Octets of that buffer.
    pub output_buffer: u64,
    /// Time that the server of the time took for a request, in milliseconds, by path: whoever asked
    /// there had a part in it. Asked for by cells with pace=period.
    #[serde(default)]
    pub service_time_ms: BTreeMap<String, f64>,
    /// What it took longer for the first request of a connection; likewise.
    #[serde(default)]
    pub connection_time_ms: BTreeMap<String, f64>,
    /// The response fields, in order.
    pub dress: Vec<Field>,
}

/// When responses leave the output buffer, besides when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoalesceRule {
    /// Each at once.
    EachResponse,
    /// When no complete request waits.
    UntilInputWouldBlock,
    /// When not even part of a request waits.
    UntilInputDrained,
}

/// One response field.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    name: String,
    value: Option<String>,
    from: Option<Source>,
    after_s: Option<u64>,
    on: On,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum On {
    All,
    Success,
    Content,
    NotModified,
}

/// A program and how to start it in a host.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The Debian package to install when it is missing.
    pub package: String,
    /// Names or paths to look for, the first found counts.
    pub commands: Vec<String>,
    /// Folders with its modules, the first found is `{modules}`.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Its arguments; `{config}` and the other words of the configuration are filled in.
    pub arguments: Vec<String>,
    /// The arguments that make it state its version.
    pub version: Vec<String>,
    /// Its configuration, a file beside this one, with `{root}`, `{runtime}`, `{address}`,
    /// `{port}`, `{modules}`, `{user}`, `{group}` and `{max_requests}` to fill in.
    pub config: String,
    /// Users it may run as, the first that exists counts; irrelevant without root.
    pub users: Vec<String>,
    /// The signal that asks it to end.
    pub stop: StopSignal,
    /// What `{max_requests}` is where a connection may have as many as it likes.
    #[serde(default)]
    pub unlimited_requests: u64,
    /// Levels of factors that it can be asked for; factors not named are not its business.
    pub levels: BTreeMap<String, Vec<String>>,
}

/// How a program is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGQUIT.
    Quit,
    /// SIGINT.
    Int,
}

/// Why a definition cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// It could not be had.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Its file is not of the form.
    #[error("failed to read servers/{name}/server.toml: {error}")]
    Syntax {
        /// The server.
        name: String,
        /// What is wrong, and in which line.
        error: toml::de::Error,
    },
    /// Its parts do not go together.
    #[error("servers/{name}/server.toml makes no sense: {reason}")]
    Nonsense {
        /// The server.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

impl Definition {
    /// The server of this name.
    pub fn load(name: &str) -> Result<Definition, DefinitionError> {
        let file = format!("servers/{name}/server.toml");
        let text = data::embedded(&file).ok_or_else(|| DataError::Unknown {
            what: "server",
            name: name.to_owned(),
            known: data::names("servers").join(", "),
        })?;
        let definition: Definition =
            toml::from_str(text).map_err(|error| DefinitionError::Syntax {
                name: name.to_owned(),
                error,
            })?;
        if definition.embedded.is_some() == definition.program.is_some() {
            return Err(DefinitionError::Nonsense {
                name: name.to_owned(),
                reason: "it needs either [embedded] or [program], and not both".to_owned(),
            });
        }
        Ok(definition)
    }

    /// Whether it can be asked for this level of a factor.
    pub fn can(&self, factor: &str, level: &str) -> bool {
        self.program.as_ref().is_none_or(|program| {
            program
                .levels
                .get(factor)
                .is_none_or(|levels| levels.iter().any(|l| l == level))
        })
    }
}

impl Embedded {
    /// The time of the period for a request on this path, and what the first of a connection takes
    /// longer.
    pub fn pace(&self, path: &str) -> (Duration, Duration) {
        let of = |times: &BTreeMap<String, f64>| {
            times
                .get(path)
                .map_or(Duration::ZERO, |ms| Duration::from_secs_f64(ms / 1e3))
        };
        (of(&self.service_time_ms), of(&self.connection_time_ms))
    }

    /// Its response fields as the origin wants them.
    pub fn dress(&self, name: &str) -> Result<Dress, DefinitionError> {
        let nonsense = |reason: String| DefinitionError::Nonsense {
            name: name.to_owned(),
            reason,
        };
        let fields = self
            .dress
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
                Ok(DressField {
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
        Ok(Dress {
            name: name.to_owned(),
            fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_definition_reads_and_its_dress_can_be_worn() {
        for name in data::names("servers") {
            let definition = Definition::load(name).unwrap();
            assert_eq!(definition.name, name);
            if let Some(embedded) = &definition.embedded {
                let dress = embedded.dress(name).unwrap();
                assert_eq!(dress.fields.len(), embedded.dress.len());
            }
            if let Some(program) = &definition.program {
                let config = format!("servers/{name}/{}", program.config);
                assert!(data::embedded(&config).is_some(), "{config}");
            }
        }
    }

    #[test]
    fn a_program_says_which_levels_it_can_be_asked_for() {
        let httpd = Definition::load("httpd").unwrap();
        assert!(httpd.can("limit", "5") && !httpd.can("limit", "7"));
        assert!(!httpd.can("close", "full"));
        assert!(httpd.can("policy", "anything"));
    }
}
