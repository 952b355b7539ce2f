//! The server under test: a server from `servers/`, or a command line of the user.

use super::error::SearchError;
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{self, Installed, Throttle};

/// A server that can be started on a host.
#[derive(Debug, Clone)]
pub struct Server {
    definition: Definition,
    installed: Option<Installed>,
}

impl Server {
    /// Loads the server with this name in `servers/`.
    pub fn named(name: &str) -> Result<Server, SearchError> {
        let definition = Definition::load(name)?;
        let installed = definition.program.as_ref().and_then(server::find);
        if let (Some(program), None) = (&definition.program, &installed) {
            return Err(SearchError::NotInstalled {
                title: definition.title.clone(),
                package: program.package.clone(),
            });
        }
        Ok(Server {
            definition,
            installed,
        })
    }

    /// Creates a server from a command line. The server must listen on `{address}` and `{port}`. `{root}` is the folder
    /// to serve, and `{runtime}` is a folder for the program's own files. `{connections}` is the number of connections
    /// to serve at a time, if the program has such a setting.
    pub fn command(line: &[String]) -> Result<Server, SearchError> {
        let title = line.first().cloned().unwrap_or_default();
        let mut capabilities = toml::Table::new();
        let able = |setting: &str, value: toml::Value| {
            toml::Value::from(toml::Table::from_iter([(setting.to_owned(), value)]))
        };
        capabilities.insert("backlog".to_owned(), able("by_kernel", true.into()));
        if line.iter().any(|word| word.contains("{connections}")) {
            capabilities.insert("connections".to_owned(), able("default", 1024.into()));
        }
        // The program is run by env(1), because `env --version` is safe. An unknown program may do anything when it is
        // run with `--version`.
        let mut definition = toml::toml! {
            name = "command"
            title = "command"
            source = "the command line"
            [program]
            package = "coreutils"
            commands = ["/usr/bin/env", "/bin/env"]
            arguments = []
            version = ["--version"]
            config = ""
            users = []
            stop = "TERM"
        };
        definition.insert("title".to_owned(), title.into());
        if let Some(program) = definition.get_mut("program").and_then(|p| p.as_table_mut()) {
            program.insert("arguments".to_owned(), line.to_vec().into());
            program.insert("capabilities".to_owned(), capabilities.into());
        }
        let definition: Definition = definition.try_into()?;
        let installed = definition.program.as_ref().and_then(server::find);
        if installed.is_none() {
            return Err(SearchError::NoEnv);
        }
        Ok(Server {
            definition,
            installed,
        })
    }

    /// Creates a server with a fault in its handler. `faults` may contain `{connections}`.
    pub fn slow(faults: &str) -> Result<Server, SearchError> {
        let program = std::env::current_exe()?;
        let line = [
            &program.display().to_string(),
            "bottleneck",
            "--serve-slowly",
            faults,
            "--at",
            "{address}:{port}",
            "--site",
            "{root}",
        ];
        let mut server = Server::command(&line.map(str::to_owned))?;
        server.definition.title = format!("a server with {faults}");
        Ok(server)
    }

    /// Returns the server's name and version, or the command.
    pub fn title(&self) -> String {
        match &self.installed {
            Some(installed) if self.definition.name != "command" => {
                format!("{} ({})", self.definition.name, installed.version)
            }
            Some(_) => self.definition.title.clone(),
            None => self.definition.name.clone(),
        }
    }

    /// The server's definition.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The installed program; `None` for a built-in server.
    pub fn installed(&self) -> Option<&Installed> {
        self.installed.as_ref()
    }

    /// Checks that the server supports these connection limits.
    ///
    /// # Errors
    /// Returns the reason why the server does not support the limits.
    pub fn can(&self, throttle: &Throttle) -> Result<(), String> {
        self.definition.refusal(throttle).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_or_given_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.toml");
        let text =
            "name = \"mine\"\ntitle = \"Mine\"\nsource = \"a test\"\nbased_on = \"embedded\"\n";
        std::fs::write(&file, text).unwrap();
        assert_eq!(
            Server::named(file.to_str().unwrap()).unwrap().title(),
            "mine"
        );
        assert_eq!(Server::named("embedded").unwrap().title(), "embedded");
        let error = Server::named("/nowhere/server.toml").unwrap_err();
        assert!(
            error.to_string().contains("/nowhere/server.toml"),
            "{error}"
        );
    }
}
