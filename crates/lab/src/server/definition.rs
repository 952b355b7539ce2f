//! Servers under test as data: `servers/<name>/server.toml`. `servers/README.md` describes the format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use fathometer_http::driver::{Policy, Protocol};
use fathometer_http::origin::persona::{FieldValue, Persona, PersonaField, Responses};
use fathometer_model::quantity::TimeSpan;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::throttle::{Capabilities, Throttle};
use crate::data::{self, DataError, is_path};
use crate::nearest::with_suggestion;

/// A server under test, as defined by its file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The level of the factor `server`.
    pub name: String,
    /// Its description, for headings.
    pub title: String,
    /// The source of its figures or its configuration.
    pub source: String,
    /// The server whose definition this one changes. Settings that this file lacks, including the
    /// configuration, are taken from there.
    pub based_on: Option<String>,
    /// Settings of our own origin. Either this or `program`.
    pub embedded: Option<Embedded>,
    /// A program to start. Either this or `embedded`.
    pub program: Option<Program>,
    /// The folder with its other files; `None`: it is built in.
    #[serde(skip)]
    folder: Option<PathBuf>,
    /// The files that it was read from, with their contents.
    #[serde(skip)]
    texts: Vec<(String, String)>,
}

/// The server persona of our own origin.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embedded {
    /// When responses are sent from its output buffer.
    pub coalesce: CoalesceRule,
    /// Size of that buffer in bytes.
    pub output_buffer: u64,
    /// Service time of the original server for a request, in milliseconds, by path: it depended on the client
    /// too. Used by cells with pace=period.
    #[serde(default)]
    pub service_time_ms: BTreeMap<String, f64>,
    /// Additional time for the first request of a connection, in the same way.
    #[serde(default)]
    pub connection_time_ms: BTreeMap<String, f64>,
    /// The response fields, in order.
    pub fields: Vec<Field>,
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
    /// For `expires`: seconds from the response until it expires.
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

/// A program and how to start it in a host.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The Debian packages that install it.
    pub package: String,
    /// Names or paths to look for; the first one found is used.
    pub commands: Vec<String>,
    /// Folders with its modules; the first one found is `{modules}`.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Its arguments. Placeholders of the configuration are filled in, and `{config}`, the path of the
    /// configuration.
    pub arguments: Vec<String>,
    /// Its environment variables, with the same placeholders.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The arguments that print its version.
    pub version: Vec<String>,
    /// The name of its configuration, a file beside this one. The placeholders are `{root}`, `{runtime}`,
    /// `{address}`, `{port}`, `{modules}`, `{user}`, `{group}`, `{behind}` and its parts `{behind_address}` and
    /// `{behind_port}`, with TLS `{certificate}`, `{key}` and `{certificate_and_key}`, those of
    /// [`words`](Program::words) and those of [`capabilities`](Program::capabilities). Empty if the arguments
    /// contain all settings.
    #[serde(default)]
    pub config: String,
    /// Further placeholders with their values, which may contain placeholders.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
    /// The protocols without TLS; HTTP/2 by prior knowledge.
    #[serde(default = "http1_alone")]
    pub protocols: Vec<Generation>,
    /// The differences with TLS; `None`: it does not support TLS.
    pub tls: Option<OverTls>,
    /// Users it may run as; the first one that exists is used. Ignored without root.
    pub users: Vec<String>,
    /// Whether it lacks a setting for the user: then it is started as that user, with the right to listen on
    /// low ports.
    #[serde(default)]
    pub started_as_user: bool,
    /// Another program that is started beside it, to which it forwards requests, at `{behind}`.
    pub behind: Option<String>,
    /// The path of the request that it must answer before it counts as started. Any status except a server
    /// error is accepted.
    #[serde(default = "slash")]
    pub ready: String,
    /// The signal that stops it.
    pub stop: StopSignal,
    /// How it supports limits of its connections.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The supported levels of factors; other factors are not restricted.
    #[serde(default)]
    pub levels: BTreeMap<String, Vec<String>>,
}

fn slash() -> String {
    "/".to_owned()
}

fn http1_alone() -> Vec<Generation> {
    vec![Generation::HTTP1]
}

/// A generation of HTTP that a server supports: all versions of HTTP/1 are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Generation(Protocol);

impl Generation {
    /// HTTP/1.0 and HTTP/1.1.
    pub const HTTP1: Generation = Generation(Protocol::usual(false));
    /// HTTP/2.
    pub const HTTP2: Generation = Generation(Protocol::Http2);
    /// HTTP/3, on the same port number over UDP.
    pub const HTTP3: Generation = Generation(Protocol::Http3);

    /// The generation of a protocol.
    fn of(protocol: Protocol) -> Generation {
        let name = protocol.characteristics().generation;
        Generation(Protocol::of_generation(name).unwrap_or(protocol))
    }

    fn title(self) -> &'static str {
        self.0.characteristics().title
    }
}

impl FromStr for Generation {
    type Err = String;

    fn from_str(text: &str) -> Result<Generation, String> {
        Protocol::of_generation(text)
            .map(Generation)
            .ok_or_else(|| "give h1, h2 or h3".to_owned())
    }
}

/// The schema of its name.
impl JsonSchema for Generation {
    fn schema_name() -> Cow<'static, str> {
        "Generation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut names: Vec<&str> = Protocol::ALL
            .iter()
            .map(|protocol| protocol.characteristics().generation)
            .collect();
        names.dedup();
        json_schema!({
            "description": "A generation of HTTP: all versions of HTTP/1 are one.",
            "enum": names,
        })
    }
}

impl TryFrom<String> for Generation {
    type Error = String;

    fn try_from(text: String) -> Result<Generation, String> {
        let unknown = |advice| format!("unknown protocol {text:?}: {advice}");
        text.parse().map_err(unknown)
    }
}

/// How a program differs when it uses TLS.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverTls {
    /// The protocols; the handshake selects one of them for each client.
    pub protocols: Vec<Generation>,
    /// Placeholders that override those of the program.
    #[serde(default)]
    pub words: BTreeMap<String, String>,
}

/// The signal that stops a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
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
    /// The definition is not available.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The file is malformed.
    #[error("failed to read {file}: {}", with_suggestion(.error))]
    Syntax {
        /// The file.
        file: String,
        /// What is wrong, and in which line.
        error: toml::de::Error,
    },
    /// The file is well-formed but inconsistent.
    #[error("{file} is not consistent: {reason}")]
    Nonsense {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
}

impl Definition {
    /// The built-in server of this name, or the one of this `server.toml` or of the folder that contains it.
    ///
    /// # Errors
    /// When there is no such server, or its file is malformed or inconsistent.
    pub fn load(name: &str) -> Result<Definition, DefinitionError> {
        let mut texts = Vec::new();
        let table = table(name, &mut texts)?;
        let file = file_of(name);
        let mut definition: Definition =
            table.try_into().map_err(|error| DefinitionError::Syntax {
                file: file.clone(),
                error,
            })?;
        if is_path(name) {
            definition.folder = Path::new(&file).parent().map(Path::to_owned);
        }
        definition.texts = texts;
        let nonsense = |reason: String| {
            Err(DefinitionError::Nonsense {
                file: file.clone(),
                reason,
            })
        };
        if let Some(reason) = definition.times_nonsense() {
            return nonsense(reason);
        }
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
                        "`behind` must name a program that has no `behind` itself".to_owned(),
                    );
                }
            }
        }
        Ok(definition)
    }

    /// The configuration of its program, with placeholders.
    pub(super) fn template(&self, program: &Program) -> Result<Cow<'static, str>, DefinitionError> {
        if program.config.is_empty() {
            return Ok(Cow::Borrowed(""));
        }
        let own = match &self.folder {
            None => data::embedded(&format!("servers/{}/{}", self.name, program.config))
                .map(Cow::Borrowed),
            Some(folder) => {
                let path = folder.join(&program.config);
                match fs::read_to_string(&path) {
                    Ok(text) => Some(Cow::Owned(text)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                    Err(error) => {
                        let path = path.display().to_string();
                        return Err(DataError::Unreadable { path, error }.into());
                    }
                }
            }
        };
        match (own, &self.based_on) {
            (Some(text), _) => Ok(text),
            (None, Some(base)) => Definition::load(base)?.template(program),
            (None, None) => Err(DefinitionError::Nonsense {
                file: match &self.folder {
                    None => file_of(&self.name),
                    Some(folder) => folder.join("server.toml").display().to_string(),
                },
                reason: format!("there is no file {} beside it", program.config),
            }),
        }
    }

    /// The files of the definition, with their contents: its own, those of the definition it is based on and of
    /// the program behind it, and the configurations.
    pub fn texts(&self) -> Result<Vec<(String, String)>, DefinitionError> {
        let mut texts = self.texts.clone();
        if let Some(program) = &self.program {
            if !program.config.is_empty() {
                let name = format!("{}/{}", self.name, program.config);
                texts.push((name, self.template(program)?.into_owned()));
            }
            if let Some(behind) = &program.behind {
                texts.extend(Definition::load(behind)?.texts()?);
            }
        }
        Ok(texts)
    }

    /// Checks the times of the origin, which must be valid durations; returns what is wrong.
    fn times_nonsense(&self) -> Option<String> {
        let embedded = self.embedded.as_ref()?;
        let service = embedded.service_time_ms.iter();
        let times = service.chain(&embedded.connection_time_ms);
        times
            .filter_map(|(path, ms)| {
                let error = TimeSpan::from_milliseconds(*ms).err()?;
                Some(format!("the time for the path {path} {error}"))
            })
            .next()
    }

    /// The name or path with which [`Definition::load`] loads this definition again.
    pub fn reference(&self) -> String {
        match (&self.folder, self.texts.first()) {
            (Some(_), Some((file, _))) => file.clone(),
            _ => self.name.clone(),
        }
    }

    /// Whether it supports this level of a factor.
    pub fn can(&self, factor: &str, level: &str) -> bool {
        self.inability(factor, level).is_none()
    }

    /// Why it does not support this level of a factor; `None`: it does.
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
                "{factor} can be {}, not {level}",
                levels.join(", ")
            ));
        }
        self.refusal(&Throttle::of_level(factor, level))
    }

    /// Why it cannot limit its connections this way; `None`: it can.
    pub fn refusal(&self, throttle: &Throttle) -> Option<String> {
        self.program.as_ref()?.capabilities.refusal(throttle)
    }
}

impl Program {
    /// The protocols with or without TLS; empty if it does not support TLS.
    pub fn speaks(&self, tls: bool) -> &[Generation] {
        match (&self.tls, tls) {
            (_, false) => &self.protocols,
            (Some(over), true) => &over.protocols,
            (None, true) => &[],
        }
    }

    /// Why it supports no protocol with, or without, TLS.
    pub(super) fn silence(&self) -> String {
        match self.tls {
            Some(_) => "it supports no protocol without TLS".to_owned(),
            None => "it does not support TLS".to_owned(),
        }
    }

    /// Why no client with this policy can use it; `None`: one can.
    fn inability_of(&self, policy: Policy) -> Option<String> {
        if self.speaks(policy.tls).is_empty() {
            return Some(self.silence());
        }
        let wanted = Generation::of(policy.protocol);
        if self.speaks(policy.tls).contains(&wanted) {
            return None;
        }
        let how = if policy.tls {
            "over TLS"
        } else {
            "in the clear"
        };
        Some(format!("it does not support {} {how}", wanted.title()))
    }
}

/// The file with the definition of this name.
fn file_of(name: &str) -> String {
    match is_path(name) {
        false => format!("servers/{name}/server.toml"),
        true if Path::new(name).is_dir() => {
            Path::new(name).join("server.toml").display().to_string()
        }
        true => name.to_owned(),
    }
}

/// Reads a definition and merges it over the one it is based on. Adds the files to `texts`.
fn table(name: &str, texts: &mut Vec<(String, String)>) -> Result<toml::Table, DefinitionError> {
    let file = file_of(name);
    let text = if is_path(name) {
        fs::read_to_string(&file).map_err(|error| DataError::Unreadable {
            path: file.clone(),
            error,
        })?
    } else {
        data::embedded(&file).map(str::to_owned).ok_or_else(|| {
            let known = data::names("servers");
            DataError::unknown("server", name, known.into_iter())
        })?
    };
    let mut own: toml::Table = toml::from_str(&text).map_err(|error| DefinitionError::Syntax {
        file: file.clone(),
        error,
    })?;
    texts.push((file.clone(), text));
    if is_path(name) {
        // A later load does not know from which folder they were named.
        if let Some(toml::Value::String(other)) = own.get_mut("based_on") {
            *other = seen_from(&file, other);
        }
        if let Some(toml::Value::String(other)) = behind_of(&mut own) {
            *other = seen_from(&file, other);
        }
    }
    let Some(base) = own.get("based_on").and_then(toml::Value::as_str) else {
        return Ok(own);
    };
    if texts.iter().any(|(before, _)| *before == file_of(base)) {
        return Err(DefinitionError::Nonsense {
            file,
            reason: "it is based on itself".to_owned(),
        });
    }
    let mut merged = table(base, texts)?;
    overlay(&mut merged, own);
    Ok(merged)
}

/// The name of the program behind this one.
fn behind_of(own: &mut toml::Table) -> Option<&mut toml::Value> {
    own.get_mut("program")?.as_table_mut()?.get_mut("behind")
}

/// The reference to another server in a definition on disk: a path relative to its folder, or the name of a
/// server in the folder beside it. Any other name is that of a built-in server, and so is a definition's own
/// name, whose built-in version it may change.
fn seen_from(file: &str, other: &str) -> String {
    let Some(folder) = Path::new(file).parent() else {
        return other.to_owned();
    };
    let path = match is_path(other) {
        true => folder.join(other),
        false => folder.join("..").join(other).join("server.toml"),
    };
    // One name for one file, so that a definition that is based on itself is found.
    let Ok(path) = path.canonicalize() else {
        return other.to_owned();
    };
    let is_itself = Path::new(file)
        .canonicalize()
        .is_ok_and(|file| file == path);
    match is_itself && !is_path(other) {
        true => other.to_owned(),
        false => path.display().to_string(),
    }
}

/// Merges nested tables; any other value replaces the one below.
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
    /// Adds an Alt-Svc field to every response that announces HTTP/3 on a port of the same host (RFC 7838).
    pub fn announce_http3(&mut self, port: u16) {
        self.fields.push(Field {
            name: "Alt-Svc".to_owned(),
            value: Some(format!("h3=\":{port}\"; ma=86400")),
            from: None,
            after_s: None,
            on: On::All,
        });
    }

    /// The service time of the period for a request on this path, and the additional time for the first request
    /// of a connection.
    pub fn pace(&self, path: &str) -> (Duration, Duration) {
        let of = |times: &BTreeMap<String, f64>| {
            times
                .get(path)
                // Validated when the definition was read.
                .and_then(|ms| TimeSpan::from_milliseconds(*ms).ok())
                .map_or(Duration::ZERO, Duration::from)
        };
        (of(&self.service_time_ms), of(&self.connection_time_ms))
    }

    /// Its response fields in the form that the origin uses.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_definition_is_valid_and_so_is_its_persona() {
        for name in data::names("servers") {
            let definition = Definition::load(name).unwrap();
            assert_eq!(definition.name, name);
            if let Some(embedded) = &definition.embedded {
                let persona = embedded.persona(name).unwrap();
                assert_eq!(persona.fields.len(), embedded.fields.len());
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
            Some("close can be half, not full")
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

    #[test]
    fn a_definition_given_by_path_is_read_with_the_configuration_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.toml");
        let text = "name = \"mine\"\ntitle = \"Mine\"\nsource = \"a test\"\nbased_on = \"nginx\"\n";
        fs::write(&file, text).unwrap();
        for name in [file.to_str().unwrap(), folder.path().to_str().unwrap()] {
            let mine = Definition::load(name).unwrap();
            let nginx = Definition::load("nginx").unwrap();
            let (own, program) = (
                mine.program.as_ref().unwrap(),
                nginx.program.as_ref().unwrap(),
            );
            assert_eq!(mine.name, "mine");
            assert_eq!(Definition::load(&mine.reference()).unwrap().name, "mine");
            assert_eq!(nginx.reference(), "nginx");
            assert_eq!(own.commands, program.commands);
            // A file that is not beside it is taken from the server that it is based on.
            let base = mine.template(own).unwrap();
            assert!(!base.is_empty());
            let config = folder.path().join(&own.config);
            fs::write(&config, "my own").unwrap();
            assert_eq!(mine.template(own).unwrap(), "my own");
            let texts = mine.texts().unwrap();
            assert_eq!(texts.len(), 3, "{texts:?}");
            fs::remove_file(config).unwrap();
        }
        fs::write(&file, "name = 7").unwrap();
        let error = Definition::load(file.to_str().unwrap()).unwrap_err();
        assert!(
            error.to_string().contains(file.to_str().unwrap()),
            "{error}"
        );
        let absent = folder.path().join("absent.toml");
        assert!(Definition::load(absent.to_str().unwrap()).is_err());
    }

    #[test]
    fn a_definition_on_disk_finds_the_servers_in_the_folder_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let place = folder.path().join(name);
            fs::create_dir(&place).unwrap();
            let head = format!("name = \"{name}\"\ntitle = \"t\"\nsource = \"s\"\n");
            fs::write(place.join("server.toml"), head + text).unwrap();
            place.join("server.toml").display().to_string()
        };
        // The built-in server of the same name, with one setting changed.
        let nginx = write(
            "nginx",
            "based_on = \"nginx\"\n[program]\nready = \"/ready\"\n",
        );
        let mine = write("mine", "based_on = \"nginx\"\n");
        let other = write("other", "based_on = \"../mine\"\n");
        for file in [&nginx, &mine, &other] {
            let definition = Definition::load(file).unwrap();
            assert_eq!(definition.program.as_ref().unwrap().ready, "/ready");
            let program = definition.program.as_ref().unwrap();
            assert!(!definition.template(program).unwrap().is_empty());
        }
        let itself = write("itself", "based_on = \"../itself\"\n");
        assert!(Definition::load(&itself).is_err());
        let front = write(
            "front",
            "based_on = \"nginx\"\n[program]\nbehind = \"mine\"\n",
        );
        let front = Definition::load(&front).unwrap();
        let behind = front.program.unwrap().behind.unwrap();
        assert_eq!(Definition::load(&behind).unwrap().name, "mine");
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.toml");
        let text = "name = \"mine\"\ntitle = \"t\"\nsource = \"s\"\nbased_on = \"nginx\"\n[program]\nargments = []\n";
        fs::write(&file, text).unwrap();
        let error = Definition::load(file.to_str().unwrap()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("did you mean `arguments`?"), "{error}");
    }

    #[test]
    fn times_that_are_none_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.toml");
        for time in ["nan", "inf", "-1", "1e300"] {
            let text = format!(
                "name = \"mine\"\ntitle = \"Mine\"\nsource = \"a test\"\nbased_on = \
                 \"embedded-jigsaw\"\n[embedded.service_time_ms]\nlan = {time}\n"
            );
            fs::write(&file, text).unwrap();
            let error = Definition::load(file.to_str().unwrap()).expect_err(time);
            assert!(error.to_string().contains("path lan"), "{error}");
        }
    }
}
