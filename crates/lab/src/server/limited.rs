//! A server in a host with limits. Every server, including the embedded origin, runs as its own process, so that the
//! control group limits and accounts for this server only.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use fathometer_sys::cgroup::Group;

use super::definition::{Definition, StopSignal};
use super::probe::Ready;
use super::processes::{Processes, Start};
use super::program::{self, Place};
pub use super::throttle::Throttle;
use super::{Access, Installed, ServerError, ServerSlot};
use crate::hosts::Host;
use crate::program as own_program;
use fathometer_files::scratch::Scratch;
use fathometer_quic_sockets::UdpOffload;

/// A running server in a host with limits. Dropping the value kills the server.
#[derive(Debug)]
pub struct Limited(Processes);

/// The server to start, and the way in which clients connect to it.
#[derive(Debug, Clone, Copy)]
pub struct Service<'a> {
    /// The server.
    pub definition: &'a Definition,
    /// The installed program; `None` for the embedded origin.
    pub installed: Option<&'a Installed>,
    /// The folder that the server serves.
    pub root: &'a Path,
    /// The limits of the server's connections.
    pub throttle: Throttle,
    /// Whether clients connect with TLS.
    pub access: Access<'a>,
    /// Whether the embedded origin also serves HTTP/3, and with which UDP offloads. For other programs, the definition
    /// sets this.
    pub http3: Option<UdpOffload>,
    /// The slot of the server on its host.
    pub slot: ServerSlot,
}

/// Starts a server in a host and a control group. The server serves `root` without TLS. Waits until the server answers.
pub fn start(
    definition: &Definition,
    installed: Option<&Installed>,
    host: &Host,
    group: &Group,
    root: &Path,
    throttle: Throttle,
) -> Result<Limited, ServerError> {
    let service = Service {
        definition,
        installed,
        root,
        throttle,
        access: Access::Clear,
        http3: None,
        slot: ServerSlot::First,
    };
    start_service(&service, host, group)
}

/// Starts a server like [`start`], with all settings of a [`Service`].
pub fn start_service(
    service: &Service<'_>,
    host: &Host,
    group: &Group,
) -> Result<Limited, ServerError> {
    let Service {
        definition,
        installed,
        root,
        throttle,
        access,
        http3,
        slot,
    } = *service;
    let system = |doing: &str| {
        let doing = doing.to_owned();
        move |error| ServerError::System { doing, error }
    };
    let runtime = Scratch::new()?;
    let address = SocketAddr::new(IpAddr::V4(host.side.ipv4()), access.port_at(slot));
    let place = Place {
        address,
        root,
        runtime: runtime.path(),
        access,
        behind: program::behind_address(slot),
    };
    let mut command = match (&definition.program, installed) {
        (Some(program), Some(installed)) => {
            program::throttled_command(definition, program, installed, place, &throttle)?
        }
        (Some(program), None) => return Err(ServerError::missing(definition, program)),
        (None, _) => {
            ours(definition, place, throttle, http3).map_err(system("start the origin"))?
        }
    };
    if let Some(backlog) = throttle.backlog {
        // The kernel's limit is set for every server, because a server may pass a different backlog to the kernel.
        host.namespace.set_listen_backlog(backlog)?;
    }
    group.place(&mut command)?;
    let program = definition.program.as_ref();
    let start = Start {
        name: &definition.name,
        ready: match program {
            Some(program) => Ready::of(program, access),
            None => Ready::ours(access),
        },
        address,
        stop: program.map_or(StopSignal::Term, |program| program.stop),
    };
    Processes::start(&start, command, host, runtime).map(Limited)
}

/// Returns the command that starts this program as `fathometer serve`.
fn ours(
    definition: &Definition,
    place: Place<'_>,
    throttle: Throttle,
    http3: Option<UdpOffload>,
) -> std::io::Result<Command> {
    let mut command = Command::new(own_program::ours());
    command
        .arg("serve")
        .arg(place.root)
        .args(["--listen", &place.address.to_string()])
        .args(["--as", &definition.reference()])
        .args(["--threads", "1"]);
    let requests = throttle.keep_alive_requests.filter(|most| *most > 0);
    for (option, value) in [
        ("--backlog", throttle.backlog),
        ("--max-connections", throttle.connections),
        ("--shed-above", throttle.shed_above),
        ("--max-requests", requests),
    ] {
        if let Some(value) = value {
            command.args([option, &value.to_string()]);
        }
    }
    if let Access::Tls(credentials) = place.access {
        let files = credentials.write(place.runtime)?;
        command.arg("--certificate").arg(files.certificate);
        command.arg("--key").arg(files.key);
    }
    if let Some(offload) = http3 {
        command.args(["--http3", "--udp-offload", offload.name()]);
    }
    if let Some(time) = throttle.keep_alive {
        command.args(["--keep-alive", &format!("{}ms", time.as_millis())]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(place.runtime.join("stderr"))?);
    Ok(command)
}

impl Limited {
    /// The process ID of the server's first process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Returns an error if the server has exited by itself or was killed, for example by the OOM killer; `None` if it
    /// runs.
    pub fn ended(&self, name: &str) -> Option<ServerError> {
        self.0.ended(name)
    }

    /// Stops the server.
    pub fn stop(self) -> Result<(), ServerError> {
        self.0.stop().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_origin_gets_the_offloads_of_the_cell() {
        let runtime = tempfile::tempdir().unwrap();
        let definition = Definition::load("embedded").unwrap();
        let arguments = |http3| {
            let place = Place {
                address: SocketAddr::from(([10, 0, 0, 2], 443)),
                root: runtime.path(),
                runtime: runtime.path(),
                access: Access::Clear,
                behind: program::behind_address(ServerSlot::First),
            };
            let command = ours(&definition, place, Throttle::default(), http3).unwrap();
            let arguments = command
                .get_args()
                .map(|argument| argument.to_str().unwrap());
            arguments.collect::<Vec<_>>().join(" ")
        };
        for offload in UdpOffload::ALL {
            let expected = format!(" --http3 --udp-offload {offload}");
            assert!(arguments(Some(offload)).ends_with(&expected), "{offload}");
        }
        assert!(!arguments(None).contains("udp"));
    }
}
