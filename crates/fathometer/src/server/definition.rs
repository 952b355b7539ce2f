//! Servers under test as data: `servers/<name>/server.toml`. How to write one: `servers/README.md`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use fathometer_http::driver::{Policy, Protocol};
use fathometer_http::origin::dress::{Dress, DressField, FieldValue, Responses};
use fathometer_model::Milliseconds;
use serde::Deserialize;

use super::throttle::{Capabilities, Throttle};
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
    /// The server whose definition this one changes. What this file does not say is said there, the
    /// configuration too.
    pub based_on: Option<String>,
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
    pub service_time_ms: BTreeMap<String, Milliseconds>,
    /// What it took longer for the first request of a connection; likewise.
    #[serde(default)]
    pub connection_time_ms: BTreeMap<String, Milliseconds>,
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
    /// The Debian packages to install when it is missing.
    pub package: String,
    /// Names or paths to look for, the first found counts.
    pub commands: Vec<String>,
    /// Folders with its modules, the first found is `{modules}`.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Its arguments; the words of the configuration are filled in, and `{config}`, where that is.
    pub arguments: Vec<String>,
    /// Variables of its environment, likewise.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The arguments that make it state its version.
    pub version: Vec<String>,
    /// Its configuration, a file beside this one. Words to fill in are `{root}`, `{runtime}`,
    /// `{address}`, `{port}`, `{modules}`, `{user}`, `{group}`, `{behind}` and its parts
    /// `{behind_address}` and `{behind_port}`, with TLS `{certificate}`, `{key}` and
    /// `{certificate_and_key}`, those of [`words`](Program::words) and those of
    /// [`capabilities`](Program::capabilities). Empty where everything is among the arguments.
    pub config: String,
    /// Further words of the configuration and what stands for them, which may have words in it.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    /// What it speaks in the clear; HTTP/2 by prior knowledge.
    #[serde(default = "http1_alone")]
    pub protocols: Vec<Spoken>,
    /// What is different when it is asked for TLS; `None`: it cannot be.
    pub tls: Option<OverTls>,
    /// Users it may run as, the first that exists counts; irrelevant without root.
    pub users: Vec<String>,
    /// It has no setting for the user: it is started as that user, with leave to listen on low ports.
    #[serde(default)]
    pub started_as_user: bool,
    /// Another program that is started beside it and that it passes requests on to, at `{behind}`.
    pub behind: Option<String>,
    /// The path of the request that it must answer, with whatever is not its own failure, before it
    /// counts as started.
    #[serde(default = "slash")]
    pub ready: String,
    /// The signal that asks it to end.
    pub stop: StopSignal,
    /// What it does about demands on its connections.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Levels of factors that it can be asked for; factors not named are not its business.
    #[serde(default)]
    pub levels: BTreeMap<String, Vec<String>>,
}

fn slash() -> String {
    "/".to_owned()
}

fn http1_alone() -> Vec<Spoken> {
    vec![Spoken::Http1]
}

/// A version of HTTP that a program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Spoken {
    /// HTTP/1.0 and HTTP/1.1.
    #[serde(rename = "h1")]
    Http1,
    /// HTTP/2.
    #[serde(rename = "h2")]
    Http2,
    /// HTTP/3, on the same port by UDP.
    #[serde(rename = "h3")]
    Http3,
}

impl FromStr for Spoken {
    type Err = String;

    fn from_str(text: &str) -> Result<Spoken, String> {
        match text {
            "h1" => Ok(Spoken::Http1),
            "h2" => Ok(Spoken::Http2),
            "h3" => Ok(Spoken::Http3),
            _ => Err("give h1, h2 or h3".to_owned()),
        }
    }
}

impl Spoken {
    fn of(protocol: Protocol) -> Spoken {
        match protocol {
            Protocol::Http1(_) => Spoken::Http1,
            Protocol::Http2 => Spoken::Http2,
            Protocol::Http3 => Spoken::Http3,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Spoken::Http1 => "HTTP/1.1",
            Spoken::Http2 => "HTTP/2",
            Spoken::Http3 => "HTTP/3",
        }
    }
}

/// What is different about a program when it speaks TLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverTls {
    /// What it speaks; which of them is settled with each client in the handshake.
    pub protocols: Vec<Spoken>,
    /// Words laid over those of the program.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
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
        let table = table(name, &mut Vec::new())?;
        let definition: Definition = table.try_into().map_err(|error| DefinitionError::Syntax {
            name: name.to_owned(),
            error,
        })?;
        let nonsense = |reason: String| {
            Err(DefinitionError::Nonsense {
                name: name.to_owned(),
                reason,
            })
        };
        if definition.embedded.is_some() == definition.program.is_some() {
            return nonsense("it needs either [embedded] or [program], and not both".to_owned());
        }
        if let Some(program) = &definition.program {
            if let Some(reason) = program.capabilities.nonsense() {
                return nonsense(reason);
            }
            if let Some(behind) = &program.behind {
                let behind = Definition::load(behind)?;
                if behind
                    .program
                    .is_none_or(|program| program.behind.is_some())
                {
                    return nonsense(
                        "behind must be a program with nothing behind it in turn".to_owned(),
                    );
                }
            }
        }
        Ok(definition)
    }

    /// The configuration of its program, with its words.
    pub(super) fn template(&self, program: &Program) -> Result<&'static str, DefinitionError> {
        if program.config.is_empty() {
            return Ok("");
        }
        let own = data::embedded(&format!("servers/{}/{}", self.name, program.config));
        match (own, &self.based_on) {
            (Some(text), _) => Ok(text),
            (None, Some(base)) => Definition::load(base)?.template(program),
            (None, None) => Err(DefinitionError::Nonsense {
                name: self.name.clone(),
                reason: format!("there is no file {}", program.config),
            }),
        }
    }

    /// Whether it can be asked for this level of a factor.
    pub fn can(&self, factor: &str, level: &str) -> bool {
        self.inability(factor, level).is_none()
    }

    /// Why it cannot be asked for this level of a factor; `None`: it can.
    pub fn inability(&self, factor: &str, level: &str) -> Option<String> {
        let program = self.program.as_ref()?;
        if factor == "policy"
            && let Ok(policy) = level.parse::<Policy>()
            && let Some(reason) = program.inability_of(policy)
        {
            return Some(reason);
        }
        if let Some(levels) = program.levels.get(factor)
            && !levels.iter().any(|known| known == level)
        {
            return Some(format!(
                "{factor} can be {} and not {level}",
                levels.join(", ")
            ));
        }
        self.refusal(&Throttle::of_level(factor, level))
    }

    /// Why it cannot limit its connections like this; `None`: it can.
    pub fn refusal(&self, throttle: &Throttle) -> Option<String> {
        self.program.as_ref()?.capabilities.refusal(throttle)
    }
}

impl Program {
    /// What it speaks, with TLS or without; nothing where it has no TLS.
    pub fn speaks(&self, tls: bool) -> &[Spoken] {
        match (&self.tls, tls) {
            (_, false) => &self.protocols,
            (Some(over), true) => &over.protocols,
            (None, true) => &[],
        }
    }

    /// Why it cannot be spoken to at all, where it cannot.
    pub(super) fn silence(&self) -> String {
        match self.tls {
            Some(_) => "it speaks nothing in the clear".to_owned(),
            None => "it has no TLS".to_owned(),
        }
    }

    /// Why no client with this policy can talk to it; `None`: one can.
    fn inability_of(&self, policy: Policy) -> Option<String> {
        if self.speaks(policy.tls).is_empty() {
            return Some(self.silence());
        }
        let wanted = Spoken::of(policy.protocol);
        if self.speaks(policy.tls).contains(&wanted) {
            return None;
        }
        let how = if policy.tls {
            "over TLS"
        } else {
            "in the clear"
        };
        Some(format!("it does not speak {} {how}", wanted.name()))
    }
}

/// A definition's file, laid over that of the definition it is based on.
fn table(name: &str, on_the_way: &mut Vec<String>) -> Result<toml::Table, DefinitionError> {
    let file = format!("servers/{name}/server.toml");
    let text = data::embedded(&file).ok_or_else(|| DataError::Unknown {
        what: "server",
        name: name.to_owned(),
        known: data::names("servers").join(", "),
    })?;
    let own: toml::Table = toml::from_str(text).map_err(|error| DefinitionError::Syntax {
        name: name.to_owned(),
        error,
    })?;
    let Some(base) = own.get("based_on").and_then(toml::Value::as_str) else {
        return Ok(own);
    };
    on_the_way.push(name.to_owned());
    if on_the_way.iter().any(|before| before == base) {
        return Err(DefinitionError::Nonsense {
            name: name.to_owned(),
            reason: "it is based on itself".to_owned(),
        });
    }
    let mut merged = table(base, on_the_way)?;
    overlay(&mut merged, own);
    Ok(merged)
}

/// Tables within tables are laid over each other; any other value replaces the one below.
fn overlay(below: &mut toml::Table, above: toml::Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => overlay(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

impl Embedded {
    /// Has every response tell that HTTP/3 is spoken on a port of the same host (RFC 7838).
    pub fn announce_http3(&mut self, port: u16) {
        self.dress.push(Field {
            name: "Alt-Svc".to_owned(),
            value: Some(format!("h3=\":{port}\"; ma=86400")),
            from: None,
            after_s: None,
            on: On::All,
        });
    }

    /// The time of the period for a request on this path, and what the first of a connection takes
    /// longer.
    pub fn pace(&self, path: &str) -> (Duration, Duration) {
        let of = |times: &BTreeMap<String, Milliseconds>| {
            times
                .get(path)
                .map_or(Duration::ZERO, |time| time.duration())
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
                assert!(definition.template(program).is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn a_program_says_which_levels_it_can_be_asked_for() {
        let httpd = Definition::load("httpd").unwrap();
        assert!(httpd.can("limit", "5") && !httpd.can("limit", "7"));
        assert!(!httpd.can("close", "full"));
        assert!(httpd.can("policy", "anything"));
        assert_eq!(
            httpd.inability("close", "full").as_deref(),
            Some("close can be half and not full")
        );
    }

    #[test]
    fn a_definition_based_on_another_says_only_what_is_different() {
        let httpd = Definition::load("httpd").unwrap();
        let prefork = Definition::load("httpd-prefork").unwrap();
        assert_eq!(prefork.name, "httpd-prefork");
        assert_eq!(prefork.based_on.as_deref(), Some("httpd"));
        let (httpd, prefork) = (httpd.program.unwrap(), prefork.program.unwrap());
        assert_eq!(httpd.commands, prefork.commands);
        assert_eq!(httpd.words["model"], "event");
        assert_eq!(prefork.words["model"], "prefork");
    }

    #[test]
    fn apache_prefork_is_configured_as_in_the_papers_table_10() {
        let prefork = Definition::load("httpd-prefork").unwrap().program.unwrap();
        let words = prefork.capabilities.words(&Throttle::default());
        for (name, value) in [
            ("connections", "900"),
            ("keep_alive_s", "15"),
            ("keep_alive_requests", "150"),
        ] {
            assert!(
                words.contains(&(name.to_owned(), value.to_owned())),
                "{name}"
            );
        }
        for line in ["StartServers 5", "MinSpareServers 5", "MaxSpareServers 10"] {
            assert!(prefork.words["processes_of_model"].contains(line), "{line}");
        }
    }
}
