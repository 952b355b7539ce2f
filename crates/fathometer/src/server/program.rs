//! Other people's servers: finding, configuring, starting and ending them.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fathometer_sys::process::{HostProcess, Session};
use fathometer_sys::socket;

use super::definition::{Definition, Program, StopSignal};
use super::{Demands, PORT, Scratch, ServerError};
use crate::data;
use crate::lab::Host;

const READY_WITHIN: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(3);

/// A program that was found on this machine.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Where.
    pub path: PathBuf,
    /// Its modules.
    pub modules: Option<PathBuf>,
    /// The first line that it says about its version.
    pub version: String,
    user: Option<String>,
    group: Option<String>,
}

/// A program at work.
#[derive(Debug)]
pub struct RunningProgram {
    process: HostProcess,
    stop: StopSignal,
    // Last: the process may use the folder until it has ended.
    runtime: Scratch,
}

/// Looks for a program; `None` when this machine does not have it.
pub fn find(program: &Program) -> Option<Installed> {
    let path = program.commands.iter().find_map(|name| on_path(name))?;
    let version = Command::new(&path)
        .args(&program.version)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = if version.stdout.is_empty() {
        version.stderr
    } else {
        version.stdout
    };
    let version = String::from_utf8_lossy(&said)
        .lines()
        .next()
        .unwrap_or("")
        .trim_start_matches("Server version: ")
        .trim_start_matches("nginx version: ")
        .to_owned();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let known = |file: &str| {
        program
            .users
            .iter()
            .find(|user| {
                file.lines()
                    .any(|line| line.split(':').next() == Some(user))
            })
            .cloned()
    };
    Some(Installed {
        path,
        modules: program
            .modules
            .iter()
            .map(PathBuf::from)
            .find(|folder| folder.is_dir()),
        version,
        user: known(&users),
        group: known(&groups),
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    // Servers live where an ordinary user's PATH does not lead.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Configures a program to serve the folder `root` at an address; gives the command that starts it
/// in the foreground. Whatever it needs and says goes to the folder `runtime`.
pub fn command(
    definition: &Definition,
    program: &Program,
    installed: &Installed,
    address: SocketAddr,
    root: &Path,
    runtime: &Path,
    max_requests: Option<u32>,
) -> Result<Command, ServerError> {
    let template = format!("servers/{}/{}", definition.name, program.config);
    let mut text = data::embedded(&template).unwrap_or_default().to_owned();
    let text_of = |path: &Path| path.display().to_string();
    let max_requests = max_requests.map_or(program.unlimited_requests, u64::from);
    let modules = installed.modules.as_deref().map(text_of);
    let words = [
        ("{root}", text_of(root)),
        ("{runtime}", text_of(runtime)),
        ("{address}", address.ip().to_string()),
        ("{port}", address.port().to_string()),
        ("{modules}", modules.unwrap_or_default()),
        ("{user}", installed.user.clone().unwrap_or_default()),
        ("{group}", installed.group.clone().unwrap_or_default()),
        ("{max_requests}", max_requests.to_string()),
    ];
    for (word, value) in &words {
        text = text.replace(word, value);
    }
    let config = runtime.join("server.conf");
    fs::write(&config, text).map_err(system(format!("write {}", config.display())))?;
    // Apache wants a file of media types; what matters is in its configuration.
    fs::write(runtime.join("mime.types"), "")
        .map_err(system("write the media types".to_owned()))?;
    let errors = runtime.join("stderr");
    let stderr =
        fs::File::create(&errors).map_err(system(format!("write {}", errors.display())))?;
    let mut command = Command::new(&installed.path);
    command
        .args(program.arguments.iter().map(|argument| {
            argument
                .replace("{config}", &text_of(&config))
                .replace("{runtime}", &text_of(runtime))
        }))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr);
    Ok(command)
}

fn system(doing: String) -> impl FnOnce(std::io::Error) -> ServerError {
    move |error| ServerError::System { doing, error }
}

pub(super) fn start(
    definition: &Definition,
    program: &Program,
    installed: &Installed,
    host: &Host,
    root: &Path,
    demands: Demands,
) -> Result<RunningProgram, ServerError> {
    let runtime = Scratch::new().map_err(system("make a temporary folder".to_owned()))?;
    let address = SocketAddr::new(IpAddr::V4(host.side.ipv4()), PORT);
    let command = command(
        definition,
        program,
        installed,
        address,
        root,
        runtime.path(),
        demands.max_requests,
    )?;
    let process = host.namespace.command(command, Session::Own)?;
    let running = RunningProgram {
        process,
        stop: program.stop,
        runtime,
    };
    running.wait_until_ready(definition, host)?;
    if let Some(quick) = demands.quick_ack {
        for socket in running.process.listening_sockets()? {
            socket::set_quick_ack(&socket, quick)
                .map_err(system("set TCP_QUICKACK on the server's socket".to_owned()))?;
        }
    }
    Ok(running)
}

impl RunningProgram {
    /// Connects from within the host until somebody answers.
    fn wait_until_ready(&self, definition: &Definition, host: &Host) -> Result<(), ServerError> {
        let address = SocketAddr::new(IpAddr::V4(host.side.ipv4()), PORT);
        let rounds = READY_WITHIN.as_millis() / 10;
        for _ in 0..rounds {
            if let Some(exit) = self.process.try_wait() {
                return Err(ServerError::Ended {
                    name: definition.name.clone(),
                    said: format!("{}; {}", exit.status, self.last_words()),
                });
            }
            let answered = host
                .namespace
                .run(|| TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_ok())?;
            if answered {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(ServerError::NotReady {
            name: definition.name.clone(),
            seconds: READY_WITHIN.as_secs(),
            said: self.last_words(),
        })
    }

    fn last_words(&self) -> String {
        let words: Vec<String> = ["stderr", "error.log"]
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

    /// Ends it; gives the processor time that it and its descendants used.
    pub(super) fn stop(self) -> Result<Duration, ServerError> {
        let signal = match self.stop {
            StopSignal::Term => rustix::process::Signal::TERM,
            StopSignal::Quit => rustix::process::Signal::QUIT,
            StopSignal::Int => rustix::process::Signal::INT,
        };
        let exit = self.process.stop(signal.as_raw(), GRACE)?;
        Ok(exit.user + exit.system)
    }
}
