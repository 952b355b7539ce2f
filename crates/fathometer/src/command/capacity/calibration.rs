//! The generator's own limit: the highest rate at which it sends on time to our own origin, which costs a server less
//! than any real one. It is measured before the first trial, with the same protocol, connections and recorder.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use fathometer_capacity::Promise;
use fathometer_model::{Bytes, Seed};
use fathometer_study::capacity_search::{ArrivalProcess, Demand, Trials};
use fathometer_sys::{Clock, sched};
use serde::Serialize;

use super::super::Failure;
use super::super::load::{LoadArguments, TrialSetup};
use super::server::{self, Server};

/// Seconds before each measured part, and of it: the closed loop, then each rate.
const WARM_UP: f64 = 0.2;
const CLOSED: f64 = 0.6;
const OPEN: f64 = 1.0;
/// Users of the closed loop, at most.
const USERS: u32 = 64;
/// The rates that are tried, as shares of the closed loop's rate, in ascending order. Bisection tries three of them.
const SHARES: [f64; 7] = [0.15, 0.2, 0.28, 0.4, 0.55, 0.75, 0.95];
/// How often a rate is repeated at which noise may have made the generator late.
const NOISE_REPEATS: u32 = 1;
/// The longest name of the origin's file, a limit of file systems.
const LONGEST_NAME: usize = 200;

/// What the generator can apply.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The highest rate at which it was on time, in requests per second.
    pub limit_per_s: f64,
    /// The size of the origin's responses in bytes: that of the server's.
    pub response_bytes: u64,
    /// The policy of the connections.
    pub policy: String,
    /// Seconds that the calibration took.
    pub seconds: f64,
}

impl Calibration {
    /// Why a load above the limit is not tried.
    pub fn reason(&self) -> String {
        format!(
            "the generator is on time up to {:.0} requests/s of this kind against its own origin on this machine \
             (calibration); use more threads (-- --threads N), another machine, or --no-calibration",
            self.limit_per_s
        )
    }
}

/// The requests that are calibrated.
pub struct Requests<'a> {
    /// The URL under test.
    pub url: &'a str,
    /// Options of `load` after `--`.
    pub options: &'a [String],
    /// Connections of an open loop.
    pub connections: u32,
    /// The promises of the search: its recorder counts for each.
    pub promises: &'a [Promise],
    /// Seed of the workload.
    pub seed: u64,
}

/// Measures the limit for the requests of a setup; `None` if the generator is not on time at any rate.
///
/// # Errors
/// If the origin does not start, or a test fails.
pub fn measure(
    requests: &Requests<'_>,
    setup: &TrialSetup,
    response: Bytes,
    clock: Clock,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Calibration>, Failure> {
    let started = clock.now();
    let demand = Demand::Rate {
        arrivals: ArrivalProcess::Constant,
        connections: requests.connections,
        most_connections: requests.connections,
    };
    let origin = OwnOrigin::start(requests, setup, response)?;
    let load = LoadArguments::for_trials(
        &origin.url,
        server::options(demand),
        requests.seed,
        setup.options().timeout,
        requests.options,
    )?;
    let own = Server {
        setup: TrialSetup::of(load.for_own_origin(setup), clock)?,
        targets: Vec::new(),
    };
    let seed = Seed(requests.seed).stream("calibration");
    let mut trials = Trials::new(own, demand, requests.promises, seed, clock, interrupted);
    let fastest = trials.throughput(requests.connections.min(USERS), WARM_UP, CLOSED)?;
    let mut limit = None;
    // The share at `valid` - 1 is valid, and that at `invalid` is not.
    let (mut valid, mut invalid) = (0, SHARES.len());
    while valid < invalid && fastest > 0.0 && !interrupted() {
        let middle = (valid + invalid) / 2;
        let rate = SHARES[middle] * fastest;
        if is_on_time(&mut trials, rate)? {
            limit = Some(rate);
            valid = middle + 1;
        } else {
            invalid = middle;
        }
    }
    Ok(limit.map(|limit_per_s| Calibration {
        limit_per_s,
        response_bytes: response.0,
        policy: setup.policy(),
        seconds: clock.now().since(started).as_secs_f64(),
    }))
}

/// Whether the generator is on time at a rate. Noise of the machine may be the reason why it is not: then it is tried
/// again.
fn is_on_time(trials: &mut Trials<'_, Server>, rate: f64) -> Result<bool, Failure> {
    for _ in 0..=NOISE_REPEATS {
        let (_, ending) = trials.measure(rate, WARM_UP, OPEN, &mut |_| false)?;
        if ending.invalid.is_empty() {
            return Ok(true);
        }
        if !ending.is_noise {
            break;
        }
    }
    Ok(false)
}

/// `fathometer serve` on a free port, killed when dropped.
struct OwnOrigin {
    child: Child,
    /// The line that names its address is read from here; it stays open until the origin ends.
    output: BufReader<ChildStdout>,
    url: String,
    _folder: Option<Folder>,
}

impl OwnOrigin {
    fn start(
        requests: &Requests<'_>,
        setup: &TrialSetup,
        response: Bytes,
    ) -> Result<OwnOrigin, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        // The generator has the other half of the processors.
        let threads = sched::processors().map_or(1, |processors| processors.len().div_ceil(2));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--threads"])
            .arg(threads.to_string());
        if setup.is_secure() {
            command.arg("--tls");
        }
        if setup.is_over_quic() {
            command.arg("--http3");
        }
        let (folder, path) = match setup.workload() {
            Some(workload) => {
                command.args(["--site", workload, "--seed", &requests.seed.to_string()]);
                (None, String::new())
            }
            None => {
                // The request has the size of that under test.
                let url = requests.url;
                let path = url.splitn(4, '/').nth(3).map_or(0, str::len);
                let name = "x".repeat(path.clamp(1, LONGEST_NAME));
                let folder = Folder::create(&name, response)?;
                command.arg(&folder.0);
                (Some(folder), name)
            }
        };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = child.stdout.take().ok_or("the origin has no output")?;
        let mut origin = OwnOrigin {
            child,
            output: BufReader::new(output),
            url: String::new(),
            _folder: folder,
        };
        let mut line = String::new();
        origin.output.read_line(&mut line)?;
        let base = line.split_whitespace().last().ok_or(
            "the origin of the calibration does not start: check `fathometer serve`, or use --no-calibration",
        )?;
        origin.url = format!("{base}{path}");
        Ok(origin)
    }
}

impl Drop for OwnOrigin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with one file, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn create(name: &str, size: Bytes) -> Result<Folder, Failure> {
        let folder = format!("fathometer-calibration-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(folder));
        fs::create_dir(&folder.0)?;
        let file: &Path = &folder.0.join(name);
        fs::write(file, vec![b'x'; size.0.min(MOST_CONTENT) as usize])?;
        Ok(folder)
    }
}

/// The largest content of the origin's file.
const MOST_CONTENT: u64 = 64 << 20;

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
