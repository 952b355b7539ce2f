//! A running server as separate processes. It is started in a host, checked until it is ready, and stopped with all its
//! descendants.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use fathometer_sys::Clock;
use fathometer_sys::process::{Exit, HostProcess, Session};

use super::ServerError;
use super::definition::StopSignal;
use super::probe::Ready;
use crate::hosts::Host;
use fathometer_files::scratch::Scratch;

/// The longest wait until a server answers. It is long because the host may have little CPU time.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// The time between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// The longest time from the stop signal until a server exits.
const GRACE: Duration = Duration::from_secs(3);

/// The exit code of a program that does not support a requested setting, as the QUIC interoperability tests define it.
const CANNOT: i32 = 127;

/// The parameters of a start.
#[derive(Debug)]
pub(super) struct Start<'a> {
    /// The name of the server, for messages.
    pub name: &'a str,
    /// The check that the server must pass to count as started.
    pub ready: Ready<'a>,
    /// The address on which the server will listen.
    pub address: SocketAddr,
    /// The signal that stops the server.
    pub stop: StopSignal,
}

/// A running server. Dropping the value kills the server and all its descendants.
#[derive(Debug)]
pub(super) struct Processes {
    process: HostProcess,
    stop: StopSignal,
    // This field is dropped last: the processes may use the folder until they exit.
    runtime: Scratch,
}

impl Processes {
    /// Starts a command in a host and waits until it answers a request from the same host. `runtime` is the folder for
    /// its log files.
    pub fn start(
        start: &Start<'_>,
        command: Command,
        host: &Host,
        runtime: Scratch,
    ) -> Result<Processes, ServerError> {
        let processes = Processes {
            process: host.namespace.command(command, Session::Own)?,
            stop: start.stop,
            runtime,
        };
        processes.wait_until_ready(start, host)?;
        Ok(processes)
    }

    /// The process ID of the server's first process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns an error if the server has exited by itself or was killed; `None` if it runs.
    pub fn ended(&self, name: &str) -> Option<ServerError> {
        let exit = self.process.try_wait()?;
        Some(ServerError::Ended {
            name: name.to_owned(),
            output: format!("{}; {}", exit.status, self.last_words()),
        })
    }

    /// The server's listening sockets.
    pub fn listening_sockets(&self) -> Result<Vec<TcpListener>, ServerError> {
        Ok(self.process.listening_sockets()?)
    }

    /// Stops the server. Returns the resource usage of the server process and its descendants.
    pub fn stop(self) -> Result<Exit, ServerError> {
        let signal = match self.stop {
            StopSignal::Term => rustix::process::Signal::TERM,
            StopSignal::Quit => rustix::process::Signal::QUIT,
            StopSignal::Int => rustix::process::Signal::INT,
        };
        Ok(self.process.stop(signal.as_raw(), GRACE)?)
    }

    fn wait_until_ready(&self, start: &Start<'_>, host: &Host) -> Result<(), ServerError> {
        let name = || start.name.to_owned();
        let clock = Clock::start();
        let until = clock.now() + READY_WITHIN;
        while clock.now() < until {
            if let Some(exit) = self.process.try_wait() {
                return Err(if exit.status.code() == Some(CANNOT) {
                    ServerError::Cannot {
                        name: name(),
                        reason: self.last_words(),
                    }
                } else {
                    ServerError::Ended {
                        name: name(),
                        output: format!("{}; {}", exit.status, self.last_words()),
                    }
                });
            }
            let (ready, address) = (start.ready, start.address);
            if host.namespace.run(|| ready.is_reached(address))? {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Err(ServerError::NotReady {
            name: name(),
            seconds: READY_WITHIN.as_secs(),
            output: self.last_words(),
        })
    }

    fn last_words(&self) -> String {
        let words: Vec<String> = ["stderr", "error.log", "behind/error.log"]
            .iter()
            .filter_map(|name| fs::read_to_string(self.runtime.path().join(name)).ok())
            .filter_map(|text| text.lines().last().map(str::to_owned))
            .collect();
        if words.is_empty() {
            "it printed nothing".to_owned()
        } else {
            words.join("; ")
        }
    }
}
