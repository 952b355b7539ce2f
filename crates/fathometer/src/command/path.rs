//! `fathometer path`: runs any program behind an emulated path.
//!
//! The program runs inside the client's host and can reach only the server's host. In the server's host, the kernel
//! answers (for example a ping), or the program of `--server` does.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use fathometer_model::Seed;
use fathometer_path::Profile;
use fathometer_sys::{HostProcess, Interrupt, Session, priority, privilege};

use super::Failure;
use fathometer_lab::data;
use fathometer_lab::era::Era;
use fathometer_lab::hosts::{Host, Lab, Side};
use fathometer_lab::path_report::{self, PathReport};
use fathometer_lab::wire::WireOptions;

/// Longest wait for the server to listen. After this time the command starts anyway.
const READY: Duration = Duration::from_secs(5);

/// Time that an interrupted command has to exit before it is stopped.
const GRACE: Duration = Duration::from_secs(1);

const SIGTERM: i32 = rustix::process::Signal::TERM.as_raw();

/// Arguments of `path`.
#[derive(Debug, Args)]
#[command(after_help = "\
The server's addresses are in the environment variables FATHOMETER_SERVER (IPv4) and FATHOMETER_SERVER6, \
the client's in FATHOMETER_CLIENT and FATHOMETER_CLIENT6. The command can reach no other address.

Examples:
  fathometer path wan -- ping -c 3 10.77.0.2
  fathometer path dsl --server 'python3 -m http.server 80' -- curl -o /dev/null http://10.77.0.2/

The exit code is the command's, or 3 if the command succeeded and the path was not exact enough.")]
pub struct PathArguments {
    /// A path profile: a name (see `fathometer list`) or a TOML file
    profile: String,
    /// TCP profile of both hosts: the name of an era, or a TOML file
    #[arg(long, default_value = "today")]
    era: String,
    /// Seed of losses, jitter and all other random events
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this shell command in the server's host until the main command exits
    #[arg(long, value_name = "COMMAND")]
    server: Option<OsString>,
    /// Write all packets at both ends to this pcapng file
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Print the path's report as JSON (on stderr, because stdout belongs to the command)
    #[arg(long)]
    json: bool,
    /// The program to run, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command behind the path and returns its exit code.
pub fn run(arguments: &PathArguments) -> Result<ExitCode, Failure> {
    let text = data::load("paths", "path profile", &arguments.profile)?;
    let profile = Profile::from_toml(&text, &arguments.profile)?;
    let era = Era::load(&arguments.era)?;
    // Must come before any thread starts: the kernel does not move a process with several threads into a namespace.
    privilege::acquire()?;
    let interrupt = Interrupt::install()?;
    let punctual_threads = std::thread::spawn(|| priority::set_real_time().is_ok())
        .join()
        .unwrap_or(false);

    let options = wire_options(arguments, &era);
    let lab = Lab::start(&profile, &options, |side| era.settings(side, None))?;
    let impossible_settings = path_report::impossible_settings(&lab);

    let server = match &arguments.server {
        None => None,
        Some(line) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(line);
            let server = start(&lab.server, shell, Session::Own)?;
            await_listener(&lab.server, &server)?;
            Some(server)
        }
    };
    let [program, rest @ ..] = &arguments.command[..] else {
        unreachable!("clap requires at least one word");
    };
    let mut command = Command::new(program);
    command.args(rest);
    let command = start(&lab.client, command, Session::Shared)?;
    let status = await_end(&command, interrupt)?;

    // Waits for the last packets of connections that were just closed. A delayed acknowledgement is sent at the next
    // tick of its clock.
    let ack_wait = options
        .client_acks
        .map_or(Duration::ZERO, |clock| clock.tick);
    lab.settle(
        ack_wait + Duration::from_millis(20),
        2 * profile.round_trip() + ack_wait + Duration::from_millis(500),
    );
    if let Some(server) = server {
        server.stop(SIGTERM, GRACE)?;
    }
    let (certificate, validity) = lab.stop();

    let exit_code = code(status);
    let report = PathReport {
        profile: &profile,
        era: &era.name,
        seed: arguments.seed,
        impossible_settings,
        punctual_threads,
        exit_code,
        path: &certificate,
        validity: &validity,
    };
    if arguments.json {
        eprintln!("{}", serde_json::to_string(&report)?);
    } else {
        eprint!("{report}");
    }
    Ok(match exit_code {
        0 if !validity.is_valid() => ExitCode::from(3),
        code => ExitCode::from(code),
    })
}

fn wire_options(arguments: &PathArguments, era: &Era) -> WireOptions {
    let mut options = WireOptions::new(Seed(arguments.seed));
    options.capture = arguments.capture.clone();
    options.comment = format!("era {}", era.name);
    options.client_acks = era.client_delayed_ack;
    options
}

fn start(host: &Host, mut command: Command, session: Session) -> Result<HostProcess, Failure> {
    command
        .env("FATHOMETER_SERVER", Side::Server.ipv4().to_string())
        .env("FATHOMETER_SERVER6", Side::Server.ipv6().to_string())
        .env("FATHOMETER_CLIENT", Side::Client.ipv4().to_string())
        .env("FATHOMETER_CLIENT6", Side::Client.ipv6().to_string());
    Ok(host.namespace.command(command, session)?)
}

/// Waits until a TCP or UDP socket listens in the server's host, on any port.
fn await_listener(host: &Host, server: &HostProcess) -> Result<(), Failure> {
    let clock = fathometer_sys::Clock::start();
    while clock.now().since(fathometer_model::Instant::ZERO) < READY {
        if host.has_listener()? {
            return Ok(());
        }
        if let Some(exit) = server.wait_for(Duration::from_millis(20)) {
            return Err(format!(
                "the server exited before the command started: {}",
                exit.status
            )
            .into());
        }
    }
    eprintln!(
        "fathometer: the server does not listen after {READY:?}; starting the command anyway"
    );
    Ok(())
}

/// Waits for the command to exit. The terminal sends Ctrl-C to the command, too. A signal to this process alone is
/// forwarded if the command does not exit within [`GRACE`].
fn await_end(command: &HostProcess, interrupt: Interrupt) -> Result<ExitStatus, Failure> {
    loop {
        if let Some(exit) = command.wait_for(Duration::from_millis(50)) {
            return Ok(exit.status);
        }
        if interrupt.is_raised() {
            if let Some(exit) = command.wait_for(GRACE) {
                return Ok(exit.status);
            }
            return Ok(command.stop(SIGTERM, GRACE)?.status);
        }
    }
}

/// Returns the exit code that a shell would return: 128 plus the signal's number for a killed process.
fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    // An exit code has only eight bits.
    code as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_era_delays_the_acknowledgements_of_the_client() {
        let arguments = PathArguments {
            profile: "wan".to_owned(),
            era: "1997".to_owned(),
            seed: 1,
            server: None,
            capture: None,
            json: false,
            command: Vec::new(),
        };
        let ticks = ["1997", "today"].map(|name| {
            let options = wire_options(&arguments, &Era::load(name).unwrap());
            options.client_acks.map(|clock| clock.tick)
        });
        assert_eq!(ticks, [Some(Duration::from_millis(200)), None]);
    }
}
