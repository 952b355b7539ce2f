//! Who opens and closes connections, how long they live, and what that is said to be.

use std::time::Duration;

use fathometer_workload::distribution::Law;

use super::*;

/// One user who asks for sessions of `pages` pages and pauses after each.
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
    // The pause after the last page of a session belongs to it; the last one had no pause any more.
    assert_eq!(connections.life.count(), 4);
    assert!(connections.life.max().unwrap() >= 3 * pause);
    assert!(connections.life.min().unwrap() >= 2 * pause);
    assert!(connections.idle >= 11 * pause, "{connections:?}");
    assert_eq!(connections.open, connections.life.sum());
    // There is never more than one.
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
    options.warm_up = 300 * MILLI;
    options.limit = Limit::Time(200 * MILLI);
    let result = carry_out(options);
    adds_up(&result);
    let (warm, measured) = (result.warm_up.unwrap(), result.measured);
    assert_eq!((warm.ended.connected, measured.ended.connected), (3, 0));
    // Nobody closes them before the time is over.
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
        let told = answer.clone();
        let server = Server::start(move |_| told.clone());
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
