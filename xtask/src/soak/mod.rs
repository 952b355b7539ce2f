//! `cargo xtask soak`: the origin server under a mixed attack, together with a load of well-behaved clients.
//!
//! Two servers run, one in cleartext (HTTP/1.1 and HTTP/2) and one with TLS (also HTTP/3). Well-behaved clients load
//! both servers at a moderate rate, all the time. In the first and in the last sixth of the time they run alone. In
//! between, the attackers of [`crowds`] and [`quic`] run too. Every few seconds the command reads the resident memory
//! and the number of descriptors of both servers. It computes the 99th percentile of the well-behaved clients'
//! latencies in that interval.
//!
//! The command fails when exchanges of well-behaved clients fail, or when memory does not return to its earlier level after the
//! attack. Latencies are reported and not judged: attackers, servers and clients share the processors of one
//! machine.

mod crowds;
mod quic;
mod servers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_sys::{Clock, Interrupt};
use serde_json::{Value, json};

use self::servers::{Honest, Server};
use crate::bench::{Scratch, build};

/// Length of one sample of the latencies of well-behaved clients.
const SAMPLE: Duration = Duration::from_secs(4);
/// Largest growth of memory after the attack, above the maximum before it.
const GROWTH_KIB: u64 = 64 * 1024;

/// Run the origin server under attack, together with a load of well-behaved clients.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Duration in minutes.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Connections of each kind of attacker.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=2000))]
    attackers: u64,
    /// QUIC Initial packets per second; each starts a connection.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(0..=20_000))]
    initials: u64,
    /// Program to test [default: a release build].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write `soak.json` and `soak.txt` into this folder, as for `runs/published`.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
}

/// The signal that stops all attackers.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    stop: AtomicBool,
}

impl Orders {
    fn are_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// One running kind of attacker.
pub(crate) struct Attack {
    name: &'static str,
    /// The number of opened connections, and the number of connections whose close was detected.
    begun: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Attack {
    /// Starts a thread for one kind.
    fn start(
        name: &'static str,
        work: impl FnOnce(&AtomicU64, &AtomicU64) + Send + 'static,
    ) -> Result<Attack, String> {
        let (begun, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counters = (Arc::clone(&begun), Arc::clone(&ended));
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&counters.0, &counters.1))
            .map_err(|error| format!("failed to start a thread: {error}"))?;
        Ok(Attack {
            name,
            begun,
            ended,
            thread,
        })
    }

    fn end(self) -> Value {
        if self.thread.join().is_err() {
            eprintln!("the thread of the attackers {:?} panicked", self.name);
        }
        json!({
            "kind": self.name,
            "connections": self.begun.load(Ordering::Relaxed),
            "ends_noticed": self.ended.load(Ordering::Relaxed),
        })
    }
}

/// The phase in which a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Attack,
    After,
}

impl Phase {
    const ALL: [Phase; 3] = [Phase::Before, Phase::Attack, Phase::After];

    fn name(self) -> &'static str {
        match self {
            Phase::Before => "before",
            Phase::Attack => "attack",
            Phase::After => "after",
        }
    }
}

/// The measurements of one sample.
struct Sample {
    at: Duration,
    phase: Phase,
    memory_kib: u64,
    descriptors: usize,
    honest: Vec<Honest>,
}

/// Builds the release program unless one is given, runs the soak, and prints a table. Fails if
/// exchanges of well-behaved clients failed, or if memory did not return to its earlier level.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => build(root)?,
    };
    let interrupt = Interrupt::install().map_err(|error| error.to_string())?;
    let scratch = Scratch::new()?;
    let site = servers::write_site(scratch.path())?;
    let clear = Server::start(&program, &site, &[])?;
    let secure = Server::start(&program, &site, &["--tls", "--http3"])?;
    let clock = Clock::start();
    let begun = clock.now();
    let whole = Duration::from_secs(60 * arguments.minutes);
    println!(
        "{} minutes, {} attackers of each kind, {} QUIC Initial packets per second\n",
        arguments.minutes, arguments.attackers, arguments.initials
    );
    println!("{}", servers::HEAD);
    let orders = Arc::new(Orders::default());
    let mut attacks: Vec<Attack> = Vec::new();
    let mut samples: Vec<Sample> = Vec::new();
    let mut results = Vec::new();
    while !interrupt.is_raised() {
        let at = clock.now().since(begun);
        let phase = match at.as_nanos() * 6 / whole.as_nanos() {
            0 => Phase::Before,
            1..5 => Phase::Attack,
            5 => Phase::After,
            _ => break,
        };
        if phase == Phase::Attack && attacks.is_empty() {
            attacks = attack(arguments, &clear, &secure, &orders, clock)?;
        }
        if phase == Phase::After && !attacks.is_empty() {
            orders.stop.store(true, Ordering::Relaxed);
            results.extend(attacks.drain(..).map(Attack::end));
        }
        let honest = servers::ask(&program, &clear, &secure, SAMPLE)?;
        let sample = Sample {
            at,
            phase,
            memory_kib: clear.memory_kib()? + secure.memory_kib()?,
            descriptors: clear.descriptors()? + secure.descriptors()?,
            honest,
        };
        println!("{}", servers::line(&sample));
        samples.push(sample);
    }
    orders.stop.store(true, Ordering::Relaxed);
    results.extend(attacks.drain(..).map(Attack::end));
    let took = clock.now().since(begun);
    let output = [clear.end()?, secure.end()?];
    conclude(arguments, &samples, &results, took, &output)
}

/// Starts all kinds of attackers.
fn attack(
    arguments: &Arguments,
    clear: &Server,
    secure: &Server,
    orders: &Arc<Orders>,
    clock: Clock,
) -> Result<Vec<Attack>, String> {
    let count = usize::try_from(arguments.attackers).unwrap_or(usize::MAX);
    let mut attacks = crowds::start(clear.address(), count, orders)?;
    attacks.extend(quic::start(
        secure.address(),
        (count, arguments.initials),
        orders,
        clock,
    )?);
    Ok(attacks)
}

/// Prints the results, writes them to files if requested, and judges them.
fn conclude(
    arguments: &Arguments,
    samples: &[Sample],
    attackers: &[Value],
    took: Duration,
    output: &[String; 2],
) -> Result<ExitCode, String> {
    let phases: Vec<Value> = Phase::ALL
        .into_iter()
        .map(|phase| servers::of_phase(phase, samples))
        .collect();
    let most = |phase| {
        let of = samples.iter().filter(|sample| sample.phase == phase);
        of.map(|sample| sample.memory_kib).max()
    };
    let last = samples.iter().rev().find(|one| one.phase == Phase::After);
    let failed: u64 = samples
        .iter()
        .flat_map(|sample| &sample.honest)
        .map(|honest| honest.failed)
        .sum();
    let has_returned = match (most(Phase::Before), last) {
        (Some(before), Some(last)) => last.memory_kib <= before + GROWTH_KIB,
        _ => false,
    };
    let summary = json!({
        "format": 1,
        "minutes": arguments.minutes,
        "took_s": took.as_secs_f64(),
        "attackers_of_each_kind": arguments.attackers,
        "initials_per_s": arguments.initials,
        "phases": phases,
        "honest_failed": failed,
        "memory_returned": has_returned,
        "attackers": attackers,
        "servers_said": output,
        "samples": samples.iter().map(servers::json_of).collect::<Vec<_>>(),
    });
    println!();
    for phase in &summary["phases"].as_array().cloned().unwrap_or_default() {
        println!("{phase}");
    }
    println!(
        "failed exchanges of well-behaved clients: {failed}; memory returned to its earlier level: {has_returned}"
    );
    if let Some(folder) = &arguments.save {
        let text: Vec<String> = samples.iter().map(servers::line).collect();
        let text = format!("{}\n{}\n", servers::HEAD, text.join("\n"));
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join("soak.txt"), text)?;
            std::fs::write(folder.join("soak.json"), format!("{summary:#}\n"))
        };
        write().map_err(|error| format!("failed to write {}: {error}", folder.display()))?;
    }
    Ok(match failed == 0 && has_returned {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Waits for the next turn of one kind of attacker.
pub(crate) fn pause(clock: Clock, since: Instant, every: Duration) {
    std::thread::sleep(every.saturating_sub(clock.now().since(since)));
}
