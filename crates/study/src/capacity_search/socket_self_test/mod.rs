//! Runs capacity searches on real sockets. This program starts the servers, whose capacity is known.
//!
//! The servers sleep instead of using CPU time, and the loads are some hundred requests per second. So several searches
//! can run in parallel, and the processors are mostly idle.
//!
//! Two controls have no capacity that a search could find: a generator with too few connections, and a server that
//! fails too often at any load. A search must report no interval for a control, and must report an upper bound for the
//! server that fails too often.

mod model_server;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_capacity::self_test::{self, SearchResult};
use fathometer_capacity::simulated::{Arrivals, Kind, KnownServer, SOCKET_KINDS};
use fathometer_capacity::{Answer, Goal, Search, SloLimit};
use fathometer_load::{Live, LoadError};
use fathometer_model::Seed;
use fathometer_sys::Clock;
use fathometer_sys::stderr::say;
use fathometer_workload::arrivals::RateError;
use fathometer_workload::plan::{Plan, Target};

use self::model_server::{Behaviour, SocketServer};
use super::{ArrivalProcess, Demand, Subject, Trials, timeout};

/// The number of parallel searches.
const SIDE_BY_SIDE: usize = 4;
/// The default number of searches. Each server has eight, and each control has four.
pub const SEARCHES: u64 = 48;
/// The number of connections of the generator.
const CONNECTIONS: u32 = 128;
/// The number of connections of the slow generator: half as many as the capacity of the eight workers requires.
const TOO_FEW: u32 = 4;
/// The share of failing requests in the control with a server that fails too often.
const FAILING: f64 = 0.06;
/// The time limits of a search, in seconds: for a server, and for a control.
const BUDGET: f64 = 300.0;
const BUDGET_OF_CONTROL: f64 = 90.0;

/// The longest busy-wait of the generator before a planned instant, as in `fathometer load`.
const SPIN: Duration = Duration::from_micros(50);

/// The maximum number of repeats of a trial that is INVALID because of noise. The generator is fast enough for these
/// loads, so noise only delays the answer.
const NOISE_REPEATS: u32 = 25;

/// The server or the control of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Server(Kind),
    SlowGenerator,
    FailsAlways,
}

impl Case {
    /// Returns the case of the search with this number. Every sixth search is a control, and the two controls
    /// alternate.
    fn of(number: u64) -> Case {
        let servers = SOCKET_KINDS.len() as u64;
        match (number / (servers + 1), number % (servers + 1)) {
            (_, place) if place < servers => Case::Server(SOCKET_KINDS[place as usize]),
            (round, _) if round % 2 == 0 => Case::SlowGenerator,
            _ => Case::FailsAlways,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Case::Server(kind) => kind.name(),
            Case::SlowGenerator => "slow generator (control)",
            Case::FailsAlways => "fails always (control)",
        }
    }

    fn planted(self, seed: Seed) -> KnownServer {
        KnownServer::on_sockets(
            match self {
                Case::Server(kind) => kind,
                Case::SlowGenerator => Kind::Workers,
                Case::FailsAlways => Kind::TokenBucket,
            },
            seed,
        )
    }
}

/// The reason why the self-test has no result.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// A server does not start to listen.
    #[error("failed to start a server of the self-test: {0}")]
    Server(#[from] io::Error),
    /// A server answers no request.
    #[error("the server of the self-test answers no request")]
    NoAnswer,
    /// A trial cannot run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A trial has an invalid rate.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// A search failed.
    #[error("{0}")]
    Search(String),
}

/// The settings of the self-test.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The number of searches, including controls.
    pub searches: u64,
    /// The relative width of the intervals.
    pub width: f64,
    /// The confidence of the intervals.
    pub confidence: f64,
    /// The seed of the servers.
    pub seed: Seed,
    /// Whether progress is hidden.
    pub is_quiet: bool,
}

/// Runs the searches. The result excludes interrupted searches.
///
/// # Errors
/// If a server does not start, or a trial cannot run.
pub fn run(
    options: Options,
    clock: Clock,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<SearchResult>, SelfTestError> {
    let next = AtomicU64::new(0);
    let found: Mutex<Vec<(u64, Result<SearchResult, String>)>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.searches || interrupted() {
                        return;
                    }
                    let searched = search(options, number, clock, interrupted);
                    if interrupted() {
                        return;
                    }
                    let searched = searched.map_err(|error| error.to_string());
                    if let Ok(mut found) = found.lock() {
                        found.push((number, searched));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(number, _)| *number);
    let found = found.into_iter().map(|(_, searched)| searched);
    found
        .collect::<Result<Vec<_>, _>>()
        .map_err(SelfTestError::Search)
}

/// One search.
fn search(
    options: Options,
    number: u64,
    clock: Clock,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<SearchResult, SelfTestError> {
    let case = Case::of(number);
    let seed = options.seed.stream(case.name()).child(number);
    let planted = case.planted(seed);
    let mut slo = planted.slo;
    let is_control = !matches!(case, Case::Server(_));
    let mut failing = 0.0;
    if case == Case::FailsAlways {
        failing = FAILING;
        slo = SloLimit {
            text: "errors<2%".to_owned(),
            limit: None,
            share: 0.02,
        };
    }
    let behaviour = Behaviour {
        model: planted.model,
        failing,
        draws: seed.stream("failures"),
    };
    let server = SocketServer::start(behaviour, clock)?;
    let connections = match case {
        Case::SlowGenerator => TOO_FEW,
        _ => CONNECTIONS,
    };
    let demand = Demand::Rate {
        arrivals: match planted.arrivals {
            Arrivals::Constant => ArrivalProcess::Constant,
            Arrivals::Poisson => ArrivalProcess::Poisson,
        },
        connections,
        most_connections: connections,
    };
    let slos = vec![slo];
    let timeout = timeout(&slos);
    let goal = Goal {
        width: options.width,
        confidence: options.confidence,
        warm_up: 0.5,
        final_trial: 5.0,
        longest_trial: 60.0,
        timeout: timeout.as_secs_f64(),
        budget: if is_control {
            BUDGET_OF_CONTROL
        } else {
            BUDGET
        },
        noise_repeats: NOISE_REPEATS,
        ..Goal::default()
    };
    let subject = ModelledServer {
        address: server.address,
        timeout,
        seed: options.seed,
    };
    let mut trials = Trials::new(subject, demand, &slos, seed, clock, interrupted);
    if trials.first_test()?.is_none() && !interrupted() {
        return Err(SelfTestError::NoAnswer);
    }
    let mut search = Search::new(goal, slos);
    let outcome = super::run(&mut search, &mut trials, &mut |_| Ok(()))?.outcome;
    let answer = &outcome.slos[0].answer;
    if !options.is_quiet {
        say(format_args!(
            "{number}: {} of {:.1}/s: {} after {} trials, {:.0} s",
            case.name(),
            planted.capacity,
            in_words(answer),
            outcome.trials.len(),
            outcome.seconds
        ));
    }
    let (interval, fails_at) = self_test::bounds(answer);
    Ok(SearchResult {
        server: case.name(),
        capacity: (!is_control).then_some(planted.capacity),
        no_load_works: case == Case::FailsAlways,
        interval,
        fails_at,
        seconds: outcome.seconds,
        bisection_seconds: None,
        ramp: None,
    })
}

/// A server whose responses are sent at the instants that a model computes.
struct ModelledServer {
    address: SocketAddr,
    timeout: Duration,
    seed: Seed,
}

impl Subject for ModelledServer {
    type Error = SelfTestError;

    fn options(&self) -> Result<fathometer_load::Options, SelfTestError> {
        let plan = Arc::new(Plan::single(Target::get("/", None)));
        Ok(fathometer_load::Options {
            timeout: self.timeout,
            spin: SPIN,
            seed: self.seed,
            ..fathometer_load::Options::new(self.address, self.address.to_string(), plan)
        })
    }

    fn apply(
        &mut self,
        options: fathometer_load::Options,
        clock: Clock,
        stop: &(dyn Fn() -> bool + Sync),
        live: &mut dyn FnMut(&Live),
    ) -> Result<LoadResult, SelfTestError> {
        Ok(fathometer_load::run(options, clock, stop, live)?)
    }
}

fn in_words(answer: &Answer) -> String {
    match answer {
        Answer::Interval { works, fails } => format!("works at {works:.1}, fails at {fails:.1}"),
        Answer::Inconclusive {
            works,
            fails,
            reason,
        } => {
            let end = |load: &Option<f64>, verb: &str| {
                load.map_or(String::new(), |load| format!("{verb} at {load:.2}, "))
            };
            format!(
                "{}{}inconclusive: {reason}",
                end(works, "works"),
                end(fails, "fails")
            )
        }
        Answer::Invalid { reason, .. } => format!("INVALID: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_and_each_control_has_its_searches() {
        let count = |case: Case| {
            (0..SEARCHES)
                .filter(|&number| Case::of(number) == case)
                .count()
        };
        for kind in SOCKET_KINDS {
            assert_eq!(count(Case::Server(kind)), 8);
        }
        assert_eq!(
            (count(Case::SlowGenerator), count(Case::FailsAlways)),
            (4, 4)
        );
    }
}
