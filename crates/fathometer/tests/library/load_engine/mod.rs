//! The load engine against servers whose behaviour the test sets, on real sockets.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

mod connections;
mod fairness;
mod frames_server;
mod multiplexed;
mod streams;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use fathometer_analysis::load::LoadResult;
use fathometer_load::{Limit, Live, Options, Phase, Recorder, RecorderError, Users, run};
use fathometer_model::{Bytes, ExchangeRow, Failure, Outcome, Seed};
use fathometer_sys::Clock;
use fathometer_workload::arrivals::{Arrivals, Profile};
use fathometer_workload::distribution::Law;
use fathometer_workload::plan::{
    Choice, PageId, Pages, Plan, Script, Sessions, Target, TargetId, Weights,
};

use crate::support::closed_port::ClosedPort;
use crate::support::quiet::{below, in_a_quiet_moment, near};
use crate::support::scripted_server::{Answer, Seen, Server};

const MILLI: Duration = Duration::from_millis(1);

fn single() -> Arc<Plan> {
    Arc::new(Plan::single(Target::get("/x", Some(Bytes(100)))))
}

fn options(server: &Server, plan: Arc<Plan>) -> Options {
    Options::new(server.address, "localhost", plan)
}

fn carry_out(options: Options) -> LoadResult {
    run(options, Clock::start(), &|| false, &mut |_| {}).unwrap()
}

/// Checks that the counts add up: no exchange is lost and none is counted twice.
fn adds_up(result: &LoadResult) {
    let counts = &result.measured.counts;
    assert_eq!(
        counts.planned,
        counts.completed + counts.failed() + counts.unfinished,
        "{counts:?}"
    );
    assert_eq!(counts.completed, counts.statuses.values().sum::<u64>());
    let latency = &result.measured.latency;
    assert_eq!(latency.corrected.count(), counts.planned);
    assert_eq!(latency.failed.count(), counts.failed() + counts.unfinished);
    if let Some(time) = result.user_time {
        assert!(time.is_kept(), "{time:?}");
    }
}

/// A recorder that stores rows for a test.
#[derive(Clone, Default)]
struct Rows(Arc<Mutex<Vec<ExchangeRow>>>);

impl Recorder for Rows {
    fn record(&mut self, rows: Vec<ExchangeRow>) -> Result<(), RecorderError> {
        self.0.lock().unwrap().extend(rows);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), RecorderError> {
        Ok(())
    }
}

#[test]
fn a_count_of_exchanges_is_exact_over_all_threads_and_targets() {
    let server = Server::start(|seen| match &*seen.path {
        "/missing" => Answer::Status(404),
        _ => Answer::Whole(100),
    });
    let mut plan = Plan::single(Target::get("/a", Some(Bytes(100))));
    plan.targets.push(Target::get("/b", Some(Bytes(99))));
    plan.targets.push(Target::get("/missing", None));
    plan.pages = Pages::single(3);
    plan.choice = Choice::Weighted(Weights::new([5, 3, 2]).unwrap());
    let mut options = options(&server, Arc::new(plan));
    options.users = Users::closed(9);
    options.threads = 3;
    options.limit = Limit::Exchanges(3000);
    options.count_targets = true;
    let rows = Rows::default();
    options.recorder = Some(Box::new(rows.clone()));
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!((counts.planned, counts.completed), (3000, 3000));
    assert_eq!((counts.connects, counts.connected), (9, 9));
    assert_eq!(counts.pages, 3000);
    let mut by_path: BTreeMap<String, u64> = BTreeMap::new();
    for seen in server.seen() {
        *by_path.entry(format!("GET {}", seen.path)).or_default() += 1;
    }
    for target in &result.targets {
        // A response with an error status counts as a failure of its target.
        let all = by_path[&target.target];
        let refused = target.target == "GET /missing";
        let (completed, failed) = if refused { (0, all) } else { (all, 0) };
        assert_eq!(
            (target.completed, target.failed),
            (completed, failed),
            "{target:?}"
        );
    }
    assert_eq!(counts.statuses[&404], by_path["GET /missing"]);
    assert_eq!(counts.wrong_size, by_path["GET /b"]);
    // The seed determines all random choices, on any number of threads.
    assert!((by_path["GET /a"] as i64 - 1500).abs() < 120, "{by_path:?}");
    let ended = result.measured.ended;
    assert_eq!(
        (ended.completed, ended.status_errors),
        (3000, by_path["GET /missing"])
    );
    let bytes = &result.measured.bytes;
    assert_eq!(bytes.content, Bytes(100 * (3000 - by_path["GET /missing"])));
    assert_eq!(bytes.request_heads.0, {
        let length = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").len();
        server
            .seen()
            .iter()
            .map(|seen| length(&seen.path) as u64)
            .sum::<u64>()
    });
    let rows = rows.0.lock().unwrap();
    assert_eq!(rows.len(), 3000);
    for row in rows.iter() {
        assert_eq!(row.outcome, Outcome::Complete);
        assert!(row.planned <= row.due && row.due <= row.sent);
        assert!(row.sent <= row.first_byte && row.first_byte <= row.last_byte);
        assert!(row.user < 9 && row.connection < 9 && row.target < 3);
    }
    assert_eq!(result.setup.threads, 3);
}

/// Fetches pages of a base and three embedded files, as one user, one page after another.
fn fetch_pages(policy: &str, pages: u64) -> (LoadResult, Vec<Seen>, u64) {
    let server = Server::start(|_| Answer::Whole(10));
    let mut plan = Plan::single(Target::get("/base", None));
    for name in ["/1", "/2", "/3"] {
        plan.targets.push(Target::get(name, None));
    }
    plan.pages = Pages::new();
    plan.pages.push(&[0, 1, 2, 3].map(TargetId));
    let mut options = options(&server, Arc::new(plan));
    options.users = Users::closed(1);
    options.policy = policy.parse().unwrap();
    options.limit = Limit::Exchanges(4 * pages);
    let result = carry_out(options);
    adds_up(&result);
    assert_eq!(result.measured.counts.completed, 4 * pages, "{policy}");
    assert_eq!(result.measured.counts.pages, pages, "{policy}");
    assert_eq!(result.measured.latency.page.count(), pages);
    (result, server.seen(), server.accepted())
}

#[test]
fn a_page_is_its_base_first_and_then_the_rest_as_the_policy_says() {
    for (policy, connections) in [
        ("h1.1", 1),
        ("h1.1x2", 2),
        ("h1.1-pipeline", 1),
        ("h1.1x3-pipeline", 3),
        ("h1.0-keepalive", 1),
        ("h1.1-early-close", 5),
        ("h1.1-pipeline-early-close", 5),
        ("h1.0", 20),
        ("h1.0x4", 20),
    ] {
        let (result, seen, accepted) = fetch_pages(policy, 5);
        assert_eq!(accepted, connections, "{policy}");
        assert_eq!(result.measured.counts.connects, connections, "{policy}");
        for page in seen.chunks(4) {
            assert_eq!(page[0].path, "/base", "{policy}");
            let mut rest: Vec<&str> = page[1..].iter().map(|seen| &*seen.path).collect();
            rest.sort_unstable();
            assert_eq!(rest, ["/1", "/2", "/3"], "{policy}");
        }
        if policy == "h1.1x3-pipeline" {
            // Round-robin: the base and the first embedded file share a connection.
            let used = seen.iter().map(|seen| seen.connection);
            assert_eq!(used.collect::<std::collections::BTreeSet<_>>().len(), 3);
        }
    }
}

#[test]
fn a_member_is_asked_for_when_the_one_that_names_it_is_complete() {
    // The server answers the style sheet only after the request for the file that the picture references, so the
    // picture is complete. The file that the style sheet references must not be requested earlier.
    let framed = Arc::new((Mutex::new(false), Condvar::new()));
    let seen = Arc::clone(&framed);
    let server = Server::start(move |asked| {
        let (is_framed, changed) = &*seen;
        match &*asked.path {
            "/frame" => {
                *is_framed.lock().unwrap() = true;
                changed.notify_all();
            }
            "/style" => {
                let waiting = is_framed.lock().unwrap();
                let patience = Duration::from_secs(25);
                let (_guard, waited) = changed
                    .wait_timeout_while(waiting, patience, |is_framed| !*is_framed)
                    .unwrap();
                assert!(!waited.timed_out(), "/frame is never requested");
            }
            _ => {}
        }
        match &*asked.path {
            "/broken" => Answer::Last(b"nonsense".to_vec()),
            _ => Answer::Whole(10),
        }
    });
    let mut plan = Plan::single(Target::get("/base", None));
    for name in ["/style", "/picture", "/font", "/broken", "/never", "/frame"] {
        plan.targets.push(Target::get(name, None));
    }
    plan.pages = Pages::new();
    plan.pages
        .push_with_dependencies(&[0, 1, 2, 3, 4, 5, 6].map(TargetId), &[0, 0, 0, 1, 0, 4, 2]);
    let mut options = options(&server, Arc::new(plan));
    options.users = Users::closed(1);
    options.policy = "h1.1x6".parse().unwrap();
    options.limit = Limit::Exchanges(6);
    let rows = Rows::default();
    options.recorder = Some(Box::new(rows.clone()));
    let result = carry_out(options);
    adds_up(&result);
    let paths: Vec<String> = server.seen().into_iter().map(|seen| seen.path).collect();
    assert!(!paths.contains(&"/never".to_owned()), "{paths:?}");
    assert_eq!(result.measured.counts.pages_failed, 1);
    assert_eq!(result.measured.counts.failures[&Failure::BadResponse], 1);
    let rows = rows.0.lock().unwrap();
    let row = |target: u32| *rows.iter().find(|row| row.target == target).unwrap();
    assert!(row(3).planned >= row(1).last_byte && row(1).planned == row(2).planned);
    assert!(row(6).planned >= row(2).last_byte);
    assert!(row(2).last_byte < row(1).last_byte);
}

#[test]
fn sessions_have_the_pages_and_pauses_that_the_plan_says() {
    let server = Server::start(|_| Answer::Whole(100));
    let pause = Law::Uniform {
        low: 0.01,
        high: 0.05,
    };
    let plan = Plan {
        sessions: Sessions {
            pages: Some(Law::Fixed(3.0)),
            off: Some(pause),
        },
        ..Plan::clone(&single())
    };
    let mut options = options(&server, Arc::new(plan));
    options.users = Users::closed(4);
    options.limit = Limit::Exchanges(60);
    let rows = Rows::default();
    options.recorder = Some(Box::new(rows.clone()));
    let seed = options.seed;
    let result = carry_out(options);
    adds_up(&result);
    // One connection for each session of three pages; the last sessions may still be in progress.
    let accepted = server.accepted();
    assert!((20..=23).contains(&accepted), "{accepted}");
    let counts = &result.measured.counts;
    assert!((16..=20).contains(&counts.sessions), "{counts:?}");
    // The time from a page's end to the next planned instant is exactly a random value from the distribution.
    let mut rows = rows.0.lock().unwrap().clone();
    rows.sort_by_key(|row| (row.user, row.planned));
    let mut pauses: Vec<u64> = rows
        .windows(2)
        .filter(|pair| pair[0].user == pair[1].user)
        .map(|pair| pair[1].planned - pair[0].last_byte)
        .collect();
    let draws = seed.stream("load.off");
    let mut wanted: Vec<u64> = (0..24)
        .flat_map(|session| (0..3).map(move |page| (session, page)))
        .map(|(session, page)| (pause.sample(draws.child(session), page) * 1e9) as u64)
        .collect();
    wanted.sort_unstable();
    pauses.sort_unstable();
    assert!(pauses.len() >= 50);
    assert!(
        pauses
            .iter()
            .all(|pause| wanted.binary_search(pause).is_ok())
    );
}

#[test]
fn scripts_are_played_as_written() {
    let server = Server::start(|_| Answer::Whole(1));
    let mut plan = Plan::single(Target::get("/a", None));
    plan.targets.push(Target::get("/b", None));
    plan.targets.push(Target {
        method: "POST".into(),
        path: "/c".to_owned(),
        content: Some(b"content".as_slice().into()),
        content_type: None,
        size: None,
    });
    plan.pages = Pages::single(3);
    let script = |steps: &[(u32, u64)]| Script {
        steps: steps
            .iter()
            .map(|&(page, pause)| (PageId(page), Duration::from_millis(pause)))
            .collect(),
    };
    let scripts = vec![
        script(&[(0, 30), (2, 0)]),
        script(&[(1, 0), (1, 0), (0, 0)]),
    ];
    plan.choice = Choice::Scripts(scripts.into());
    let mut options = options(&server, Arc::new(plan));
    options.users = Users::closed(1);
    options.limit = Limit::Exchanges(10);
    let result = carry_out(options);
    adds_up(&result);
    let seen = server.seen();
    let asked: Vec<(&str, &str, u64)> = seen
        .iter()
        .map(|seen| (&*seen.method, &*seen.path, seen.connection))
        .collect();
    let round = |at| {
        [
            ("GET", "/a", at),
            ("POST", "/c", at),
            ("GET", "/b", at + 1),
            ("GET", "/b", at + 1),
            ("GET", "/a", at + 1),
        ]
    };
    assert_eq!(asked, [round(0), round(2)].concat());
    assert_eq!(result.measured.bytes.request_bodies, Bytes(14));
}

#[test]
fn users_come_and_go_in_steps() {
    // Each number of users is read in the middle of its 400 ms.
    in_a_quiet_moment(100 * MILLI, || {
        let server = Server::start(|_| {
            std::thread::sleep(5 * MILLI);
            Answer::Whole(1)
        });
        let mut options = options(&server, single());
        options.users = Users::Closed {
            users: 2,
            start_interval: Duration::ZERO,
            steps: vec![(400 * MILLI, 8), (800 * MILLI, 1)],
        };
        options.threads = 2;
        options.interval = 100 * MILLI;
        options.limit = Limit::Time(1200 * MILLI);
        let result = carry_out(options);
        adds_up(&result);
        let at = |place: usize| result.timeline.get(place).map(|part| part.connections);
        match (at(2), at(6), at(10)) {
            (Some(2), Some(8), Some(1)) => Ok(()),
            found => Err(format!("{found:?}: {:?}", result.timeline)),
        }
    });
}

#[test]
fn a_server_that_never_answers_shows_time_outs() {
    let server = Server::start(|_| Answer::Silence);
    let mut options = options(&server, single());
    options.users = Users::closed(3);
    options.timeout = 200 * MILLI;
    options.limit = Limit::Exchanges(12);
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!(counts.completed, 0);
    assert_eq!(counts.failures, BTreeMap::from([(Failure::TimedOut, 12)]));
    // The timeout of the options applies, not the default.
    let waited = result.measured.latency.failed.max().unwrap();
    let others = Options::new(server.address, "localhost", single()).timeout;
    assert!(waited >= 200 * MILLI && waited < others, "{waited:?}");
    // At the end of the measured window, requests in flight are unfinished.
    let mut options = self::options(&server, single());
    options.users = Users::closed(3);
    options.limit = Limit::Time(500 * MILLI);
    options.drain = 20 * MILLI;
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!((counts.completed, counts.failed()), (0, 0), "{counts:?}");
    assert!((1..=3).contains(&counts.unfinished), "{counts:?}");
    // In an open loop, too, requests without a connection are unfinished, and their waiting time counts.
    let mut options = self::options(&server, single());
    options.users = Users::Open {
        arrivals: Arrivals::constant(Profile::constant(100.0).unwrap()),
        connections: 5,
    };
    options.timeout = 10_000 * MILLI;
    options.limit = Limit::Time(500 * MILLI);
    options.drain = 100 * MILLI;
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!((counts.planned, counts.unfinished), (50, 50));
    // A loop that gets no CPU time until the end opens no connection.
    assert!(counts.sent <= 5, "{counts:?}");
    let longest = result.measured.latency.corrected.max().unwrap();
    assert!(longest >= 600 * MILLI, "{longest:?}");
    assert!(result.drain.is_some());
}

#[test]
fn failures_are_told_apart() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort".to_vec();
    let huge = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100_000)).into_bytes();
    for (answer, failure) in [
        (Answer::Reset, Failure::Reset),
        (Answer::End, Failure::ClosedEarly),
        (Answer::Last(cut), Failure::Truncated),
        (
            Answer::Bytes(b"garbage\r\n\r\n".to_vec()),
            Failure::BadResponse,
        ),
        (Answer::Last(huge), Failure::TooLarge),
    ] {
        let copy = answer.clone();
        let server = Server::start(move |_| copy.clone());
        let mut options = options(&server, single());
        options.users = Users::closed(2);
        options.limit = Limit::Exchanges(20);
        let result = carry_out(options);
        adds_up(&result);
        let counts = &result.measured.counts;
        assert_eq!(
            counts.failures,
            BTreeMap::from([(failure, 20)]),
            "{answer:?}"
        );
        assert_eq!(counts.retried, 0, "{answer:?}");
        assert_eq!(counts.pages_failed, 20);
        // Failures of a server do not make a result INVALID; noise of the machine may.
        let reasons = &result.validity.reasons;
        let blamed = reasons.iter().find(|reason| reason.contains("failed"));
        assert_eq!(blamed, None, "{answer:?}");
    }
}

#[test]
fn refused_connections_are_counted_and_not_retried_at_once() {
    let closed_port = ClosedPort::new();
    let mut options = Options::new(closed_port.address, "localhost", single());
    options.users = Users::closed(4);
    options.limit = Limit::Time(1000 * MILLI);
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    let refused = counts.failures[&Failure::Refused];
    // An exchange counts in the window in which it was planned, a refused connection in the window in which it
    // occurred. The last attempt of each user may be refused after the window.
    let connects = counts.connect_failures[&Failure::Refused];
    assert!(
        connects <= refused && refused <= connects + 4,
        "{connects} {refused}"
    );
    // At most one attempt every 10 ms for each user.
    assert!((4..=4 * 101).contains(&refused), "{refused}");
    assert_eq!(counts.sent, 0);
}

#[test]
fn a_connection_that_the_server_closed_when_idle_costs_a_retry_and_no_failure() {
    // Every connection serves three requests and is closed at the fourth without a response.
    let server = Server::start(|seen| match seen.before {
        0..3 => Answer::Whole(100),
        _ => Answer::End,
    });
    let mut options = options(&server, single());
    options.users = Users::closed(2);
    options.limit = Limit::Exchanges(90);
    let rows = Rows::default();
    options.recorder = Some(Box::new(rows.clone()));
    let result = carry_out(options);
    adds_up(&result);
    let counts = &result.measured.counts;
    assert_eq!((counts.completed, counts.failed()), (90, 0));
    assert_eq!(counts.sent, 90);
    assert!((28..=30).contains(&counts.retried), "{}", counts.retried);
    assert_eq!(server.seen().len() as u64, 90 + counts.retried);
    let rows = rows.0.lock().unwrap();
    let retried = |row: &&ExchangeRow| matches!(row.outcome, Outcome::Retried(_));
    assert_eq!(rows.iter().filter(retried).count() as u64, counts.retried);
}

/// Returns the planned instants of an open loop, relative to the first instant, by arrival.
fn planned_by(threads: usize, arrivals: Arrivals) -> BTreeMap<u32, u64> {
    let server = Server::start(|_| Answer::Whole(100));
    let mut options = options(&server, single());
    options.users = Users::Open {
        arrivals,
        connections: 16,
    };
    options.threads = threads;
    options.limit = Limit::Time(500 * MILLI);
    let rows = Rows::default();
    options.recorder = Some(Box::new(rows.clone()));
    let result = carry_out(options);
    adds_up(&result);
    assert_eq!(
        result.measured.counts.planned,
        result.measured.counts.completed
    );
    assert_eq!(
        result
            .timeline
            .iter()
            .map(|interval| interval.planned)
            .sum::<u64>(),
        result.measured.counts.planned
    );
    let rows = rows.0.lock().unwrap();
    let start = rows.iter().find(|row| row.user == 0).unwrap().planned;
    rows.iter()
        .map(|row| (row.user, row.planned - start))
        .collect()
}

#[test]
fn the_plan_of_an_open_loop_does_not_depend_on_the_threads() {
    let profile = Profile::ramp(100.0, 900.0, 500 * MILLI).unwrap();
    for arrivals in [
        Arrivals::constant(profile.clone()),
        Arrivals::poisson(profile, Seed(4)),
    ] {
        let wanted: BTreeMap<u32, u64> = arrivals
            .schedule()
            .take_while(|(_, at)| *at < 500 * MILLI)
            .map(|(number, at)| (number as u32, at.as_nanos() as u64))
            .collect();
        let first = wanted[&0];
        for threads in [1, 3] {
            let planned = planned_by(threads, arrivals.clone());
            assert!(planned.len() >= 200);
            for (number, at) in &wanted {
                assert_eq!(planned[number], at - first, "{threads} threads, {number}");
            }
            assert_eq!(planned.len(), wanted.len());
        }
    }
}

#[test]
fn an_open_loop_plans_exactly_as_many_exchanges_as_asked() {
    let server = Server::start(|_| Answer::Whole(100));
    let mut options = options(&server, single());
    options.users = Users::Open {
        arrivals: Arrivals::poisson(Profile::constant(3000.0).unwrap(), Seed(2)),
        connections: 8,
    };
    options.threads = 2;
    options.limit = Limit::Exchanges(500);
    let result = carry_out(options);
    adds_up(&result);
    assert_eq!(result.measured.counts.completed, 500);
    assert_eq!(server.seen().len(), 500);
    assert!(server.accepted() <= 8);
}

#[test]
fn sessions_of_an_open_loop_share_connections() {
    // A session in progress at the end has its last pauses delayed by 0.1 s or more.
    in_a_quiet_moment(50 * MILLI, sessions_that_share_connections);
}

fn sessions_that_share_connections() -> Result<(), String> {
    let server = Server::start(|_| Answer::Whole(100));
    let plan = Plan {
        sessions: Sessions {
            pages: Some(Law::Fixed(4.0)),
            off: Some(Law::Fixed(0.03)),
        },
        ..Plan::clone(&single())
    };
    let mut options = options(&server, Arc::new(plan));
    options.users = Users::Open {
        arrivals: Arrivals::constant(Profile::constant(100.0).unwrap()),
        connections: 4,
    };
    options.warm_up = 200 * MILLI;
    options.limit = Limit::Time(600 * MILLI);
    let result = carry_out(options);
    adds_up(&result);
    let (warm, measured) = (result.warm_up.unwrap(), result.measured);
    assert_eq!(warm.duration, 200 * MILLI);
    assert!(server.accepted() <= 4, "{}", server.accepted());
    // 20 sessions in the warm-up and 60 after it, with four pages each.
    let planned = warm.counts.planned + measured.counts.planned;
    assert!(planned <= 320, "{planned}");
    if planned < 280 || measured.counts.sessions < 55 {
        return Err(format!("{planned}: {:?}", measured.counts));
    }
    Ok(())
}

#[test]
fn a_stall_shows_in_the_corrected_latency_and_not_in_the_uncorrected() {
    in_a_quiet_moment(28 * MILLI, stalled_once);
}

fn stalled_once() -> Result<(), String> {
    let stall = 1400 * MILLI;
    let stalled: Arc<Mutex<Option<Instant>>> = Arc::default();
    let until = Arc::clone(&stalled);
    let server = Server::start(move |seen| {
        if seen.number == 200 {
            *until.lock().unwrap() = Some(Instant::now() + stall);
        }
        let end = *until.lock().unwrap();
        if let Some(end) = end {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
        }
        Answer::Whole(100)
    });
    let (rate, seconds) = (200.0, 4.0);
    let mut options = options(&server, single());
    options.users = Users::Open {
        arrivals: Arrivals::constant(Profile::constant(rate).unwrap()),
        connections: 4,
    };
    options.limit = Limit::Time(Duration::from_secs_f64(seconds));
    let result = carry_out(options);
    adds_up(&result);
    let latency = &result.measured.latency;
    assert_eq!(latency.corrected.count(), 800);
    assert!(latency.uncorrected.max().unwrap() > 1300 * MILLI);
    if latency.queue.max().unwrap() <= 1300 * MILLI {
        return Err(format!("queue: {:?}", latency.queue.max()));
    }
    for quantile in [0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0] {
        // A request that is planned at time t after the start of the stall waits 1.4 s - t.
        let wanted = 1.4 - (1.0 - quantile) * seconds;
        let found = latency.corrected.quantile(quantile).unwrap().as_secs_f64();
        let what = format!("corrected {quantile}");
        near(&what, found, wanted, 0.02 * 1.4 / wanted)?;
    }
    // Only 4 of the 800 requests were in flight during the stall.
    for quantile in [0.5, 0.9, 0.99] {
        let found = latency.uncorrected.quantile(quantile).unwrap();
        below(&format!("uncorrected {quantile}"), found, 140 * MILLI)?;
    }
    // The server causes the delay, so the generator's send lag stays small.
    below(
        "send lag",
        latency.send_lag.quantile(0.9).unwrap(),
        20 * MILLI,
    )
}

#[test]
fn littles_law_holds_for_users_without_pauses() {
    for (policy, users, each) in [("h1.1", 12, 1), ("h1.1-pipeline4", 3, 4), ("h1.0", 6, 1)] {
        // 20 ms are 1 % of two seconds.
        in_a_quiet_moment(20 * MILLI, || {
            let server = Server::start(|_| {
                std::thread::sleep(4 * MILLI);
                Answer::Whole(100)
            });
            let mut options = options(&server, single());
            options.users = Users::closed(users);
            options.policy = policy.parse().unwrap();
            options.warm_up = 200 * MILLI;
            options.limit = Limit::Time(2000 * MILLI);
            let result = carry_out(options);
            adds_up(&result);
            let sum = result.measured.latency.corrected.sum().as_secs_f64();
            let load = sum / result.measured.duration.as_secs_f64();
            near(policy, load, f64::from(users * each), 0.01)
        });
    }
}

#[test]
fn progress_is_reported_and_the_callback_can_stop_the_test() {
    let server = Server::start(|_| Answer::Whole(100));
    let mut options = options(&server, single());
    options.users = Users::closed(2);
    options.threads = 2;
    options.warm_up = 200 * MILLI;
    options.interval = 50 * MILLI;
    // One hour: the run stops because the callback requests it.
    options.limit = Limit::Time(Duration::from_secs(3600));
    let intervals = AtomicU64::new(0);
    let mut phases = Vec::new();
    let mut completed = 0;
    let result = run(
        options,
        Clock::start(),
        &|| intervals.load(Ordering::SeqCst) >= 10,
        &mut |live: &Live| {
            intervals.fetch_add(1, Ordering::SeqCst);
            phases.push(live.phase);
            completed += live.last.completed;
            assert!(live.so_far.completed <= completed);
        },
    )
    .unwrap();
    assert_eq!(phases[0], Phase::WarmUp);
    assert!(phases.contains(&Phase::Measured));
    assert!(result.measured.duration < Duration::from_secs(3600));
    adds_up(&result);
    let all: u64 = result
        .timeline
        .iter()
        .map(|interval| interval.completed)
        .sum();
    let warm_up = result.warm_up.unwrap().counts.completed;
    assert_eq!(all, warm_up + result.measured.counts.completed);
}

#[test]
fn a_loop_with_a_count_of_arrivals_sleeps_until_its_last_responses() {
    let server = Server::start(|_| {
        std::thread::sleep(600 * MILLI);
        Answer::Whole(100)
    });
    let mut options = options(&server, single());
    options.users = Users::Open {
        arrivals: Arrivals::constant(Profile::constant(1000.0).unwrap()),
        connections: 4,
    };
    options.limit = Limit::Exchanges(4);
    let result = carry_out(options);
    assert_eq!(result.measured.counts.completed, 4);
    let used = result.generator.cpu_user + result.generator.cpu_system;
    assert!(used < 300 * MILLI, "{used:?}");
}
