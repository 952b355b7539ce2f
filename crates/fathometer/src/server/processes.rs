//! A server at work as processes of its own: started in a host, waited for, ended with all that it
//! started.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use fathometer_sys::Clock;
use fathometer_sys::process::{Exit, HostProcess, Session};

use super::definition::StopSignal;
use super::probe::Ready;
use super::{Scratch, ServerError};
use crate::lab::Host;

/// How long a server may take until it answers: its host may have little processor time.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long a server may take to end when it is asked.
const GRACE: Duration = Duration::from_secs(3);

/// The status by which a program says that it cannot do what is asked of it, as in the interoperability
/// tests of QUIC.
const CANNOT: i32 = 127;

/// What is started, and how.
#[derive(Debug)]
pub(super) struct Start<'a> {
    /// The server, for messages.
    pub name: &'a str,
    /// What it must do to count as started.
    pub ready: Ready<'a>,
    /// Where it will listen.
    pub address: SocketAddr,
    /// How it is asked to end.
    pub stop: StopSignal,
}

/// A server at work. Dropping it kills it with all that it started.
#[derive(Debug)]
pub(super) struct Processes {
    process: HostProcess,
    stop: StopSignal,
    // Last: the processes may use the folder until they have ended.
    runtime: Scratch,
}

impl Processes {
    /// Starts a command in a host and waits until it answers a request from within. `runtime` is the
    /// folder where its words are.
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

    /// The number of the process at the root of all that belong to it.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How it ended, if it has ended by itself or was killed.
    pub fn ended(&self, name: &str) -> Option<ServerError> {
        let exit = self.process.try_wait()?;
        Some(ServerError::Ended {
            name: name.to_owned(),
            said: format!("{}; {}", exit.status, self.last_words()),
        })
    }

    /// What it listens on.
    pub fn listening_sockets(&self) -> Result<Vec<TcpListener>, ServerError> {
        Ok(self.process.listening_sockets()?)
    }

    /// Ends it; gives what it and its descendants used.
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
                        said: format!("{}; {}", exit.status, self.last_words()),
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
            said: self.last_words(),
        })
    }

    fn last_words(&self) -> String {
        let words: Vec<String> = ["stderr", "error.log", "behind/error.log"]
            .iter()
            .filter_map(|name| fs::read_to_string(self.runtime.path().join(name)).ok())
            .filter_map(|text| text.lines().last().map(str::to_owned))
            .collect();
        if words.is_empty() {
            "it said nothing".to_owned()
        } else {
            words.join("; ")
        }
    }
}
