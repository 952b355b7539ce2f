//! The table `[program]` of a definition. It describes an installed server, its start and its abilities.

use std::collections::BTreeMap;

use fathometer_http::driver::Policy;
use schemars::JsonSchema;
use serde::Deserialize;

use super::generation::Generation;
use crate::server::throttle::Capabilities;

/// A program, and how to start it in a host.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The Debian packages that install the program.
    pub package: String,
    /// Names or paths of the program; the first that exists is used.
    pub commands: Vec<String>,
    /// Folders with the program's modules; the first that exists is `{modules}`.
    #[serde(default)]
    pub modules: Vec<String>,
    /// The arguments of the program. They may contain the placeholders of the configuration, and `{config}`, the path of
    /// the configuration.
    pub arguments: Vec<String>,
    /// The environment variables of the program, with the same placeholders.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The arguments that print the program's version.
    pub version: Vec<String>,
    /// The name of the configuration file, in the folder of this file. Its placeholders are `{root}`, `{runtime}`,
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
    /// The settings with TLS; absent if the program does not support TLS.
    pub tls: Option<OverTls>,
    /// Users as which the program may run; the first that exists is used. Ignored without root.
    pub users: Vec<String>,
    /// Whether the program has no setting for its user. It is then started as that user, with the right to listen on
    /// low ports.
    #[serde(default)]
    pub started_as_user: bool,
    /// Another server's program, which is started together with this program and to which this program forwards requests;
    /// its address is `{behind}`.
    pub behind: Option<String>,
    /// The path of the request that the program must answer before it counts as started. Any status except a server
    /// error is accepted.
    #[serde(default = "slash")]
    pub ready: String,
    /// The signal that stops the program.
    pub stop: StopSignal,
    /// How the program supports limits of its connections.
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

/// The settings of a program that differ with TLS.
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

impl Program {
    /// Returns the protocols with or without TLS. The list with TLS is empty if the program does not support TLS.
    pub fn versions(&self, tls: bool) -> &[Generation] {
        match (&self.tls, tls) {
            (_, false) => &self.protocols,
            (Some(over), true) => &over.protocols,
            (None, true) => &[],
        }
    }

    /// Returns the reason why the program supports no protocol with TLS, or no protocol without TLS.
    pub(in crate::server) fn silence(&self) -> String {
        match self.tls {
            Some(_) => "it supports no protocol without TLS".to_owned(),
            None => "it does not support TLS".to_owned(),
        }
    }

    /// Returns the reason why clients with this policy cannot use the program; `None` if they can use it.
    pub(super) fn inability_of(&self, policy: Policy) -> Option<String> {
        if self.versions(policy.tls).is_empty() {
            return Some(self.silence());
        }
        let wanted = Generation::of(policy.protocol);
        if self.versions(policy.tls).contains(&wanted) {
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
