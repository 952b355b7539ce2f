//! Servers under test as data: `servers/<name>/server.toml`. `servers/README.md` describes the format.

mod embedded;
mod file;
mod generation;
mod program;

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fathometer_http::driver::Policy;
use fathometer_model::quantity::TimeSpan;
use schemars::JsonSchema;
use serde::Deserialize;

pub use self::embedded::{CoalesceRule, Embedded, Field};
use self::file::{file_of, table};
pub use self::generation::Generation;
pub use self::program::{OverTls, Program, StopSignal};
use super::throttle::Throttle;
use crate::data::{self, DataError, is_path};
use crate::nearest::with_suggestion;

/// A server under test, as defined by its file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The level of the factor `server`.
    pub name: String,
    /// The description of the server, for headings.
    pub title: String,
    /// The source of the server's figures or configuration.
    pub source: String,
    /// The server whose definition this file changes. Settings that this file lacks, including the
    /// configuration, are taken from that definition.
    pub based_on: Option<String>,
    /// Settings of the embedded origin. Either this or `program`.
    pub embedded: Option<Embedded>,
    /// A program to start. Either this or `embedded`.
    pub program: Option<Program>,
    /// The folder with the definition's other files; `None` for a built-in definition.
    #[serde(skip)]
    folder: Option<PathBuf>,
    /// The files from which the definition was read, with their contents.
    #[serde(skip)]
    texts: Vec<(String, String)>,
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
        /// The cause, with the line.
        error: toml::de::Error,
    },
    /// The file is well-formed but inconsistent.
    #[error("{file} is not consistent: {reason}")]
    Nonsense {
        /// The file.
        file: String,
        /// The inconsistency.
        reason: String,
    },
}

impl DefinitionError {
    /// Whether this is a usage error: the given name is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, DefinitionError::Data(error) if error.is_usage())
    }
}

impl Definition {
    /// Loads the built-in server of this name, or a server by the path of its `server.toml` or of its folder.
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

    /// Returns the configuration of the program, with placeholders.
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
                reason: format!("there is no file {} in its folder", program.config),
            }),
        }
    }

    /// Returns the files of the definition with their contents: the definition, the definitions on which it is based,
    /// the definition of the program behind it, and the configurations.
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

    /// Checks that the times of the origin are valid durations. Returns the error, if any.
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

    /// Returns the name or path with which [`Definition::load`] loads this definition.
    pub fn reference(&self) -> String {
        match (&self.folder, self.texts.first()) {
            (Some(_), Some((file, _))) => file.clone(),
            _ => self.name.clone(),
        }
    }

    /// Whether the server supports this level of a factor.
    pub fn can(&self, factor: &str, level: &str) -> bool {
        self.inability(factor, level).is_none()
    }

    /// Returns the reason why the server does not support this level of a factor; `None` if the server supports it.
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

    /// Returns the reason why the server does not support these connection limits; `None` if the server supports them.
    pub fn refusal(&self, throttle: &Throttle) -> Option<String> {
        self.program.as_ref()?.capabilities.refusal(throttle)
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
    fn a_program_states_which_levels_it_supports() {
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
            // A file that is not in the definition's folder is read from the server on which the definition is based.
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
        // A definition of the same name as its base, a built-in server, with one setting changed.
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
