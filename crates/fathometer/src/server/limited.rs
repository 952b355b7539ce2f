//! A server in a host with limits: always a process of its own, ours too, so that a control group can
//! hold it and its accounts are nobody else's.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fathometer_sys::cgroup::Group;
use fathometer_sys::process::{HostProcess, Session};

use super::definition::Definition;
use super::{Installed, PORT, Scratch, ServerError};
use crate::lab::Host;

/// How long a server may take until it answers: its host may have little processor time.
const READY_WITHIN: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(3);

/// What limits the connections of a server. `None` leaves it to the server's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttle {
    /// Connections that may wait to be accepted.
    pub backlog: Option<u32>,
    /// Connections served at a time; the others are not accepted.
    pub connections: Option<u32>,
    /// Connections served at a time; the others are reset.
    pub shed_above: Option<u32>,
    /// How long a connection may be idle before it is closed.
    pub keep_alive: Option<Duration>,
    /// Requests after which a connection is closed; zero: there is no limit.
    pub keep_alive_requests: Option<u32>,
}

/// A server at work within limits. Dropping it kills it.
#[derive(Debug)]
pub struct Limited {
    process: HostProcess,
    // Last: the process may use the folder until it has ended.
    _runtime: Scratch,
}

/// Starts a server in a host and a group, serving `root`, and waits until it takes connections.
pub fn start(
    definition: &Definition,
    installed: Option<&Installed>,
    host: &Host,
    group: &Group,
    root: &Path,
    throttle: Throttle,
) -> Result<Limited, ServerError> {
    let system = |doing: &str| {
        let doing = doing.to_owned();
        move |error| ServerError::System { doing, error }
    };
    let runtime = Scratch::new().map_err(system("make a temporary folder"))?;
    let address = SocketAddr::new(IpAddr::V4(host.side.ipv4()), PORT);
    let mut command = match (&definition.program, installed) {
        (Some(program), Some(installed)) => super::command(
            definition,
            program,
            installed,
            address,
            root,
            runtime.path(),
            None,
        )?,
        (Some(_), None) => {
            return Err(ServerError::System {
                doing: format!("start {}", definition.name),
                error: std::io::ErrorKind::NotFound.into(),
            });
        }
        (None, _) => ours(definition, address, root, runtime.path(), throttle)
            .map_err(system("start the origin"))?,
    };
    group.place(&mut command)?;
    let process = host.namespace.command(command, Session::Own)?;
    let limited = Limited {
        process,
        _runtime: runtime,
    };
    limited.wait_until_ready(definition, host, address)?;
    Ok(limited)
}

/// This program as `fathometer serve`.
fn ours(
    definition: &Definition,
    address: SocketAddr,
    root: &Path,
    runtime: &Path,
    throttle: Throttle,
) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("serve")
        .arg(root)
        .args(["--listen", &address.to_string()])
        .args(["--as", &definition.name])
        .args(["--threads", "1"]);
    for (option, value) in [
        ("--backlog", throttle.backlog),
        ("--max-connections", throttle.connections),
        ("--shed-above", throttle.shed_above),
    ] {
        if let Some(value) = value {
            command.args([option, &value.to_string()]);
        }
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(runtime.join("stderr"))?);
    Ok(command)
}

impl Limited {
    /// The process at the root of all that belongs to it.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Connects from within the host until somebody answers.
    fn wait_until_ready(
        &self,
        definition: &Definition,
        host: &Host,
        address: SocketAddr,
    ) -> Result<(), ServerError> {
        let last_words = || {
            std::fs::read_to_string(self._runtime.path().join("stderr"))
                .ok()
                .and_then(|text| text.lines().last().map(str::to_owned))
                .unwrap_or_else(|| "it said nothing".to_owned())
        };
        for _ in 0..READY_WITHIN.as_millis() / 20 {
            if let Some(exit) = self.process.try_wait() {
                return Err(ServerError::Ended {
                    name: definition.name.clone(),
                    said: format!("{}; {}", exit.status, last_words()),
                });
            }
            let answered = host
                .namespace
                .run(|| TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok())?;
            if answered {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(ServerError::NotReady {
            name: definition.name.clone(),
            seconds: READY_WITHIN.as_secs(),
            said: last_words(),
        })
    }

    /// Ends it.
    pub fn stop(self) -> Result<(), ServerError> {
        let signal = rustix::process::Signal::TERM.as_raw();
        self.process.stop(signal, GRACE)?;
        Ok(())
    }
}
