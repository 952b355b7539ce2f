//! The opening and closing of connections by either side, the lifetimes of connections, and their figures in the
//! result.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::time::Duration;

use fathometer_workload::distribution::Law;

use super::*;

/// Returns a plan with sessions of `pages` pages and a pause after each page.
fn session(pages: f64, pause: Duration) -> Arc<Plan> {
    Arc::new(Plan {
        sessions: Sessions {
            pages: Some(Law::Fixed(pages)),
            off: Some(Law::Fixed(pause.as_secs_f64())),
        },
        ..Plan::clone(&single())
    })
}

#[test]
fn a_connection_lives_through_its_session_and_is_idle_in_the_pauses() {
    let server = Server::start(|_| Answer::Whole(100));
    let pause = 20 * MILLI;
    let mut options = options(&server, session(3.0, pause));
    options.users = Users::closed(1);
    options.limit = Limit::Exchanges(12);
    let result = carry_out(options);
    adds_up(&result);
    let window = &result.measured;
    let connections = &window.connections;
    assert_eq!((window.ended.connected, connections.ended()), (4, 4));
    assert_eq!(connections.closed_by_client, 4);
    let exchanges = &connections.exchanges;
    assert_eq!((exchanges.min(), exchanges.max()), (Some(3), Some(3)));
    // A connection also lives through the pause after the last page of its session, except in the last session.
    assert_eq!(connections.life.count(), 4);
    assert!(connections.life.max().unwrap() >= 3 * pause);
    assert!(connections.life.min().unwrap() >= 2 * pause);
    assert!(connections.idle >= 11 * pause, "{connections:?}");
    assert_eq!(connections.open, connections.life.sum());
    // There is never more than one connection.
    assert!(connections.open <= window.duration);
    let busy = connections.open - connections.idle;
    assert!(busy >= window.latency.uncorrected.sum());
    let share = connections.idle_share().unwrap();
    assert!(share > 0.0 && share < 1.0, "{share}");
}

#[test]
fn connections_that_outlive_the_window_have_their_part_of_it() {
    let server = Server::start(|_| Answer::Whole(100));
    let mut options = options(&server, session(1e6, 5 * MILLI));
    options.users = Users::closed(3);
    // Connecting takes far less than the warm-up.
    options.warm_up = 1000 * MILLI;
    options.limit = Limit::Time(200 * MILLI);
    let result = carry_out(options);
    adds_up(&result);
    let (warm, measured) = (result.warm_up.unwrap(), result.measured);
    assert_eq!((warm.ended.connected, measured.ended.connected), (3, 0));
    // Neither side closes a connection before the end.
    assert_eq!(measured.connections.ended(), 0);
    assert_eq!(measured.connections.open, 3 * measured.duration);
    assert!(measured.connections.idle < measured.connections.open);
    assert!(measured.connections.idle > Duration::ZERO);
    assert!(warm.connections.open <= 3 * warm.duration);
}

#[test]
fn who_ended_a_connection_is_told() {
    let last = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec();
    let untold = b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec();
    for (answer, by_server, failed) in [
        (Answer::Last(last), 10, 0),
        (Answer::Last(untold), 10, 0),
        (Answer::End, 10, 0),
        (Answer::Reset, 0, 10),
    ] {
        let copy = answer.clone();
        let server = Server::start(move |_| copy.clone());
        let mut options = options(&server, single());
        options.users = Users::closed(1);
        options.limit = Limit::Exchanges(10);
        let result = carry_out(options);
        adds_up(&result);
        let connections = &result.measured.connections;
        assert_eq!(
            (
                connections.closed_by_client,
                connections.closed_by_server,
                connections.failed
            ),
            (0, by_server, failed),
            "{answer:?}"
        );
        let completed = result.measured.counts.completed;
        assert_eq!(connections.exchanges.mean(), Some(completed as f64 / 10.0));
    }
}

/// Returns the number of requests on each connection of a server.
fn requests_by_connection(server: &Server) -> Vec<u64> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for seen in server.seen() {
        *counts.entry(seen.connection).or_default() += 1;
    }
    counts.into_values().collect()
}

fn arrivals(rate: f64, connections: u32) -> Users {
    Users::Open {
        arrivals: Arrivals::constant(Profile::constant(rate).unwrap()),
        connections,
    }
}

#[test]
fn a_connection_is_closed_when_it_has_carried_as_many_requests_as_it_may() {
    for (policy, users, most) in [
        ("h1.1", Users::closed(1), 4),
        ("h1.1", Users::closed(3), 1),
        ("h1.1-pipeline4", Users::closed(1), 6),
        ("h1.1-pipeline4", Users::closed(2), 3),
        ("h1.1", arrivals(1000.0, 2), 5),
    ] {
        let server = Server::start(|_| Answer::Whole(100));
        let mut options = options(&server, single());
        options.users = users;
        options.policy = policy.parse().unwrap();
        options.max_requests = Some(most);
        options.limit = Limit::Exchanges(60);
        let result = carry_out(options);
        adds_up(&result);
        let counts = &result.measured.counts;
        assert_eq!((counts.completed, counts.retried), (60, 0), "{policy}");
        let requests = requests_by_connection(&server);
        assert!(requests.iter().all(|&requests| requests <= most.into()));
        let full = requests
            .iter()
            .filter(|&&requests| requests == u64::from(most));
        // Counts all connections except those that were open at the end.
        let full = full.count() as u64;
        assert!(full >= 60 / u64::from(most) - 2, "{policy} {requests:?}");
        let connections = &result.measured.connections;
        assert!(connections.closed_by_client >= full, "{connections:?}");
        assert_eq!(connections.exchanges.max(), Some(most.into()), "{policy}");
    }
}

#[test]
fn a_connection_that_was_idle_for_too_long_is_closed_before_it_is_used_again() {
    let pause = 60 * MILLI;
    for (users, keep_alive, connections) in [
        (Users::closed(1), 20 * MILLI, 6),
        (Users::closed(1), Duration::from_secs(100), 1),
        // One arrival every 50 ms.
        (arrivals(20.0, 4), 10 * MILLI, 6),
        (arrivals(20.0, 4), Duration::from_secs(100), 1),
    ] {
        // On a busy machine delayed arrivals come together and use other connections than expected.
        in_a_quiet_moment(40 * MILLI, || {
            let server = Server::start(|_| Answer::Whole(100));
            let plan = match users {
                Users::Closed { .. } => session(1e6, pause),
                Users::Open { .. } => single(),
            };
            let mut options = options(&server, plan);
            options.users = users.clone();
            options.keep_alive = Some(keep_alive);
            options.limit = Limit::Exchanges(6);
            let result = carry_out(options);
            adds_up(&result);
            let counts = &result.measured.counts;
            assert_eq!((counts.completed, counts.retried), (6, 0));
            assert_eq!(counts.connects, server.accepted());
            if matches!(users, Users::Open { .. }) && counts.connects != connections {
                return Err(format!("{} connections", counts.connects));
            }
            assert_eq!(counts.connects, connections);
            let found = &result.measured.connections;
            if connections > 1 {
                assert!(found.closed_by_client >= connections - 1, "{found:?}");
                assert!(found.idle >= 5 * keep_alive, "{found:?}");
                assert!(found.life.max().unwrap() >= keep_alive);
            }
            // The time to connect is part of the queue time that the user waits.
            let queue = &result.measured.latency.queue;
            let queued = queue.quantile(1.0).unwrap();
            assert!(queued >= result.measured.latency.connect.min().unwrap());
            Ok(())
        });
    }
}

#[test]
fn early_close_ends_connections_in_order_with_every_page() {
    for (policy, users) in [
        ("h1.1-early-close", Users::closed(1)),
        ("h1.1-pipeline-early-close", Users::closed(1)),
        ("h1.1x2-early-close", Users::closed(1)),
        ("h1.1-early-close", arrivals(200.0, 8)),
        ("h1.1-pipeline-early-close", arrivals(200.0, 8)),
    ] {
        let server = Server::start(|_| Answer::Whole(5000));
        let mut plan = Plan::single(Target::get("/base", None));
        for name in ["/1", "/2", "/3"] {
            plan.targets.push(Target::get(name, None));
        }
        plan.pages = Pages::new();
        plan.pages.push(&[0, 1, 2, 3].map(TargetId));
        let mut options = options(&server, Arc::new(plan));
        let is_open = matches!(users, Users::Open { .. });
        options.users = users;
        options.policy = policy.parse().unwrap();
        options.limit = Limit::Exchanges(40);
        let result = carry_out(options);
        adds_up(&result);
        let found = &result.measured.connections;
        let accepted = server.accepted();
        let each = if policy.contains("x2") { 2 } else { 1 };
        match is_open {
            // Pages of several arrivals may share a connection, and one page may use several connections.
            true => assert!(accepted >= 2, "{policy}"),
            false => assert_eq!(accepted, 10 * each, "{policy}"),
        }
        assert_eq!((found.closed_by_server, found.failed), (0, 0), "{policy}");
        assert_eq!(found.closed_by_client, accepted, "{policy}");
        // Connections were closed without a reset.
        let until = Instant::now() + Duration::from_secs(20);
        while server.ended_by_client().0 < accepted {
            assert!(Instant::now() < until, "{:?}", server.ended_by_client());
            std::thread::sleep(MILLI);
        }
        assert_eq!(server.ended_by_client(), (accepted, 0), "{policy}");
    }
}

#[test]
fn a_user_keeps_all_its_connections_through_its_pauses_and_uses_all_of_them() {
    let server = Server::start(|_| Answer::Whole(100));
    let mut plan = Plan::clone(&session(1e6, 10 * MILLI));
    for name in ["/1", "/2", "/3", "/4"] {
        plan.targets.push(Target::get(name, None));
    }
    plan.pages = Pages::new();
    plan.pages.push(&[0, 1, 2, 3, 4].map(TargetId));
    let mut options = options(&server, Arc::new(plan));
    options.users = Users::closed(1);
    options.policy = "h1.1x2".parse().unwrap();
    options.limit = Limit::Exchanges(50);
    let result = carry_out(options);
    adds_up(&result);
    assert_eq!(server.accepted(), 2);
    let seen = server.seen();
    for page in seen.chunks(5) {
        let used = page.iter().map(|seen| seen.connection);
        assert_eq!(used.collect::<std::collections::BTreeSet<_>>().len(), 2);
    }
    let connections = &result.measured.connections;
    assert!(connections.idle >= 9 * 2 * 10 * MILLI, "{connections:?}");
}
