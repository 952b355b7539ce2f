//! Tests of workers, a full backlog and handshakes against closed forms and manual calculations.

use super::tests::{agrees, exponential, simulation, station, users};
use super::*;
use crate::closed::{Network, Station};
use crate::erlang;
use crate::limited::{LimitedNetwork, WORKERS};

fn constant(seconds: f64) -> Distribution {
    Distribution::Deterministic(Seconds(seconds))
}

fn admission(before: usize, workers: u32, backlog: u32, overflow: Overflow) -> Option<Admission> {
    Some(Admission {
        before,
        workers,
        backlog,
        overflow,
        handshake: None,
    })
}

const RETRY: Overflow = Overflow::Retry(Retries::LINUX);

#[test]
fn workers_without_a_limit_of_the_backlog_are_servers() {
    // W workers with a delay of 10 ms each are M/M/W//20; one worker is a single server.
    for workers in [1, 3] {
        let mut limited = simulation(
            users(20, 0.05),
            vec![station("work", exponential(0.01), Discipline::Delay)],
        );
        limited.admission = admission(0, workers, 100, RETRY);
        let network = Network {
            think: Seconds(0.05),
            stations: vec![Station::queue("work", Seconds(0.01), workers)],
        };
        let exact = network.solve(20).unwrap();
        let result = limited.run().unwrap();
        agrees(result.throughput, exact.throughput.0);
        agrees(result.response, exact.response.0);
        let solved = &exact.stations[0];
        assert!((result.workers - solved.utilisation).abs() < 0.02);
        let waiting = solved.customers - f64::from(workers) * solved.utilisation;
        assert!((result.waiting / waiting - 1.0).abs() < 0.05, "{result:?}");
        assert_eq!((result.overflows, result.failed.mean), (0.0, 0.0));
    }
}

#[test]
fn as_many_workers_as_users_change_nothing() {
    let mut free = simulation(
        users(12, 0.02),
        vec![
            station("path", exponential(0.004), Discipline::Delay),
            station("cpu", exponential(0.01), Discipline::InOrder(2)),
        ],
    );
    free.measured = 5_000;
    let mut limited = free.clone();
    limited.admission = admission(1, 12, 0, Overflow::Refuse);
    let (free, limited) = (free.run().unwrap(), limited.run().unwrap());
    assert_eq!(limited.throughput, free.throughput);
    assert_eq!(limited.response, free.response);
    assert!(limited.workers > 0.0 && limited.waiting == 0.0);
    assert_eq!((free.workers, free.waiting), (0.0, 0.0));
}

#[test]
fn arrivals_that_find_m_m_w_k_full_are_those_of_erlang() {
    // Three erlangs and four workers.
    for places in [2, 0, 3] {
        let mut limited = simulation(
            Source::Arrivals(PerSecond(300.0)),
            vec![station("work", exponential(0.01), Discipline::Delay)],
        );
        limited.admission = admission(0, 4, places, Overflow::Refuse);
        limited.measured = 120_000;
        let full = erlang::full(3.0, 4, places);
        let result = limited.run().unwrap();
        agrees(result.failed, full);
        agrees(result.throughput, 300.0 * (1.0 - full));
        let busy = 0.75 * (1.0 - full);
        assert!((result.workers - busy).abs() < 0.01, "{result:?}");
        assert_eq!(result.refused, result.failed.mean);
        assert!((result.overflows - result.refused).abs() < 1e-3);
        // By Little's law: the waiting connections divided by the admitted connections per second.
        let wait = result.waiting / (300.0 * (1.0 - full));
        agrees(result.completed, 0.01 + wait);
    }
}

#[test]
fn a_full_backlog_refuses_and_a_timeout_ends_the_wait() {
    let mut limited = simulation(
        users(40, 0.01),
        vec![station("work", exponential(0.02), Discipline::InOrder(4))],
    );
    limited.admission = admission(0, 4, 8, RETRY);
    let patient = limited.run().unwrap();
    assert!(patient.overflows > 0.0);
    assert_eq!(patient.timed_out, 0.0);
    // A dropped connection waits for the retry; the others wait for at most twelve connections.
    assert!(patient.quantile(1.0).0 >= 1.0);
    limited.timeout = Some(Seconds(0.5));
    let result = limited.run().unwrap();
    assert!(result.timed_out > 0.0 && result.timed_out < 1.0);
    assert_eq!(result.failed.mean, result.timed_out);
    assert!((result.quantile(1.0).0 - 0.5).abs() < 1e-9);
    assert!(result.completed_quantile(1.0).0 < 0.5);
    // The server stays busy: the exchanges that timed out were waiting for a retry, not in service.
    assert!(result.throughput.mean > 150.0 && result.throughput.mean <= 203.0);
}

#[test]
fn a_connection_is_attempted_so_often_and_then_fails() {
    // One worker serves 300 ms, and its user sends the next request after 10 ms. The other user finds the worker busy after
    // 0.01 s and, at the first retry, after 1.01 s. After 3.01 s, when the second retry would be due, its exchange fails, and
    // the user begins again.
    let mut limited = simulation(
        Source::Users {
            count: 2,
            think: constant(0.0),
        },
        vec![
            station("path", constant(0.01), Discipline::Delay),
            station("work", constant(0.3), Discipline::Delay),
        ],
    );
    let retries = Retries {
        first: Seconds(1.0),
        even: 1,
        most: 1,
    };
    limited.admission = admission(1, 1, 0, Overflow::Retry(retries));
    (limited.warm_up, limited.measured) = (0, 20);
    let result = limited.run().unwrap();
    // Nineteen exchanges of the first user end within 5.89 s.
    assert_eq!((result.refused, result.timed_out), (0.05, 0.0));
    assert_eq!(result.overflows, 0.2);
    assert!((result.quantile(1.0).0 - 3.01).abs() < 1e-9, "{result:?}");
    assert!((result.completed_quantile(1.0).0 - 0.31).abs() < 1e-9);
    assert!((result.throughput.mean * 5.89 - 19.0).abs() < 1e-6);
}

#[test]
fn the_flow_equivalent_server_is_within_three_percent_of_the_simulated_workers() {
    let mut worst: f64 = 0.0;
    for (workers, count, backend) in [
        (1, 6, 0.01),
        (2, 30, 0.01),
        (4, 30, 0.03),
        (8, 12, 0.03),
        (8, 60, 0.03),
    ] {
        let network = LimitedNetwork {
            think: Seconds(0.1),
            before: Seconds(0.01),
            stations: vec![
                Station::delay("backend", Seconds(backend)),
                Station::queue("processor", Seconds(0.005), 1),
            ],
            workers,
        };
        let found = network.solve(count).unwrap();
        let mut limited = simulation(
            users(count, 0.1),
            vec![
                station("path", constant(0.01), Discipline::Delay),
                station("backend", exponential(backend), Discipline::Delay),
                station("processor", exponential(0.005), Discipline::InOrder(1)),
            ],
        );
        limited.admission = admission(1, workers, 100, RETRY);
        let result = limited.run().unwrap();
        let deviation = found.throughput.0 / result.throughput.mean - 1.0;
        worst = worst.max(deviation.abs());
        let busy = found.stations.last().unwrap();
        assert_eq!(busy.name, WORKERS);
        assert!((busy.utilisation - result.workers).abs() < 0.03);
    }
    assert!(worst < 0.03, "{worst}");
}

#[test]
fn a_way_before_the_rounds_is_taken_once() {
    let mut once = simulation(
        users(1, 0.01),
        vec![
            station("path", constant(0.01), Discipline::Delay),
            station("work", constant(0.002), Discipline::InOrder(1)),
        ],
    );
    (once.rounds, once.rounds_from) = (vec![0.0, 0.0, 1.0], 1);
    once.measured = 100;
    let result = once.run().unwrap();
    assert!((result.response.mean - 0.016).abs() < 1e-9);
    once.rounds_from = 2;
    assert!(once.run().is_err());
}

#[test]
fn limits_out_of_range_are_errors() {
    let mut limited = simulation(
        users(1, 0.0),
        vec![station("work", exponential(0.01), Discipline::Delay)],
    );
    for impossible in [
        admission(0, 0, 1, RETRY),
        admission(2, 1, 1, RETRY),
        // The refused user would repeat its attempt at the same instant.
        admission(0, 1, 0, Overflow::Refuse),
    ] {
        limited.admission = impossible;
        assert!(limited.run().is_err(), "{impossible:?}");
    }
}

#[test]
fn a_request_that_finds_no_place_after_its_handshake_is_repeated() {
    // One worker and no backlog. Both SYNs find room at 10 ms, and the ACK of the first takes the worker at 20 ms for
    // 300 ms, repeatedly. The other client has a connection, and its request finds the worker busy at 20, 230, 440 and
    // 860 ms, 1.70 and 3.38 s. Twenty exchanges of the first user end at 6.4 s.
    let mut limited = simulation(
        Source::Users {
            count: 2,
            think: constant(0.0),
        },
        vec![
            station("path", constant(0.01), Discipline::Delay),
            station("work", constant(0.3), Discipline::Delay),
        ],
    );
    limited.admission = admission(1, 1, 0, RETRY);
    let mut of = |handshake: Option<Handshake>| {
        let limits = limited.admission.as_mut().unwrap();
        limits.handshake = handshake;
        (limited.warm_up, limited.measured) = (0, 20);
        limited.run().unwrap()
    };
    let round_trip = Seconds(0.01);
    let found = of(Some(Handshake::linux(round_trip)));
    // 10 ms on the path, 10 ms for the handshake and 300 ms of work.
    assert!((found.quantile(0.5).0 - 0.32).abs() < 1e-9, "{found:?}");
    assert_eq!(found.refused, 0.0);
    // A SYN that takes a slot at once needs no round trip.
    let at_once = of(None);
    assert!((at_once.quantile(0.5).0 - 0.31).abs() < 1e-9);
    assert!((found.overflows - 0.3).abs() < 1e-9, "{found:?}");
}

#[test]
fn a_handshake_without_a_limit_is_a_round_trip_of_delay() {
    let stations = |path| {
        vec![
            station("path", constant(path), Discipline::Delay),
            station("work", exponential(0.01), Discipline::InOrder(1)),
        ]
    };
    let mut with = simulation(users(8, 0.02), stations(0.004));
    with.admission = admission(1, 8, 0, RETRY);
    with.measured = 5_000;
    let mut without = with.clone();
    without.stations = stations(0.01);
    with.admission.as_mut().unwrap().handshake = Some(Handshake::linux(Seconds(0.006)));
    let (with, without) = (with.run().unwrap(), without.run().unwrap());
    assert!((with.throughput.mean / without.throughput.mean - 1.0).abs() < 1e-6);
    assert_eq!(with.overflows, 0.0);
}
