//! Servers of load studies, in a host with limits: their limits on connections and requests.

use std::io::ErrorKind;
use std::time::Duration;

use fathometer_lab::server::Throttle;
use fathometer_lab::server::definition::Definition;
use fathometer_sys::Clock;
use rustix::process::{Pid, Signal, kill_process};

use super::support::{self, Asking, Place};

/// Features of a server, beyond the common features, that a client can observe.
struct Can {
    /// Closes a connection after some requests.
    requests: bool,
    /// Leaves connections above a limit in the backlog.
    connections: bool,
    /// Resets connections above a limit.
    sheds: bool,
}

const ALL_BUT_SHEDDING: Can = Can {
    requests: true,
    connections: true,
    sheds: false,
};

#[test]
fn our_own_origin() {
    is_as_it_says(
        "embedded",
        &Can {
            sheds: true,
            ..ALL_BUT_SHEDDING
        },
    );
}

#[test]
fn httpd_event() {
    // Idle connections use no thread, so httpd accepts many more of them.
    is_as_it_says(
        "httpd",
        &Can {
            connections: false,
            ..ALL_BUT_SHEDDING
        },
    );
}

#[test]
fn httpd_prefork() {
    is_as_it_says("httpd-prefork", &ALL_BUT_SHEDDING);
}

#[test]
fn httpd_worker() {
    is_as_it_says("httpd-worker", &ALL_BUT_SHEDDING);
}

#[test]
fn nginx() {
    // At its connection limit, nginx closes idle connections, such as the connections of this test.
    is_as_it_says(
        "nginx",
        &Can {
            connections: false,
            ..ALL_BUT_SHEDDING
        },
    );
}

#[test]
fn lighttpd() {
    is_as_it_says("lighttpd", &ALL_BUT_SHEDDING);
}

#[test]
fn caddy() {
    is_as_it_says(
        "caddy",
        &Can {
            requests: false,
            connections: false,
            ..ALL_BUT_SHEDDING
        },
    );
}

#[test]
fn h2o() {
    is_as_it_says(
        "h2o",
        &Can {
            requests: false,
            ..ALL_BUT_SHEDDING
        },
    );
}

#[test]
fn haproxy_in_front_of_nginx() {
    is_as_it_says(
        "haproxy",
        &Can {
            requests: false,
            sheds: true,
            ..ALL_BUT_SHEDDING
        },
    );
}

fn is_as_it_says(name: &'static str, can: &Can) {
    let definition = Definition::load(name).unwrap();
    let requests = Throttle {
        keep_alive_requests: Some(5),
        ..Throttle::default()
    };
    assert_eq!(definition.refusal(&requests).is_none(), can.requests);
    let asked = Throttle {
        backlog: Some(3),
        keep_alive_requests: can.requests.then_some(5),
        keep_alive: Some(Duration::from_secs(1)),
        ..Throttle::default()
    };
    let Some(place) = Place::start(name, asked) else {
        return;
    };
    serves_files(&place, can.requests.then_some(5));
    closes_when_idle(&place);
    has_a_backlog_of_three(&place);
    place.end(false);

    let two = Throttle {
        connections: can.connections.then_some(2),
        ..Throttle::default()
    };
    let place = Place::start(name, two).unwrap();
    if can.connections {
        accepts_two(&place);
    }
    place.end(true);

    if can.sheds {
        let two = Throttle {
            shed_above: Some(2),
            ..Throttle::default()
        };
        let place = Place::start(name, two).unwrap();
        resets_the_third(&place);
        place.end(false);
    }
}

/// Sends ten requests on a connection; the server must answer `limit` of them.
fn serves_files(place: &Place, limit: Option<usize>) {
    let mut asking = Asking::new(place.connect());
    let mut answered = 0;
    for n in 0..10 {
        let file = &place.files.site.files[n % 3];
        let Some(answer) = asking.ask(&file.path, "") else {
            break;
        };
        answer.assert_is(file, place.name);
        answered += 1;
    }
    assert_eq!(answered, limit.unwrap_or(10), "{}", place.name);
}

/// Checks that the server closes an idle connection after the configured second, and not before.
fn closes_when_idle(place: &Place) {
    let path = &place.files.site.files[0].path;
    let mut asking = Asking::new(place.connect());
    let clock = Clock::start();
    // The time is measured from before the request, because a delayed client may read the response late.
    let from = clock.now();
    assert!(asking.ask(path, "").is_some());
    assert!(asking.answer().is_none(), "{}", place.name);
    let idle = clock.now().since(from);
    let expected = Duration::from_millis(900)..support::PATIENCE;
    assert!(expected.contains(&idle), "{}: {idle:?}", place.name);
}

/// Stops all server processes. Then four connections are established and the fifth is not: the kernel's backlog has
/// room for one connection more than its setting.
fn has_a_backlog_of_three(place: &Place) {
    let signal = |signal| {
        for process in place.processes() {
            // A worker in the list may have exited.
            let _ = kill_process(Pid::from_raw(process as i32).unwrap(), signal);
        }
    };
    // Repeats until all processes are stopped, including new ones.
    let clock = Clock::start();
    let begun = clock.now();
    while !place.processes().into_iter().all(support::is_stopped) {
        signal(Signal::STOP);
        assert!(clock.now().since(begun) < support::PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    let waiting: Vec<Asking> = (0..4)
        .map(|_| {
            let mut asking = Asking::new(place.connect());
            // For some servers, the kernel does not add a connection to this backlog before its request arrives.
            asking.request("/", "");
            asking
        })
        .collect();
    let fifth = place.connect_within(Duration::from_millis(500));
    assert_eq!(
        fifth.map_err(|error| error.kind()).map(drop),
        Err(ErrorKind::TimedOut),
        "{}",
        place.name
    );
    drop(waiting);
    signal(Signal::CONT);
}

/// Keeps two connections open; the server must answer a third after one of the two has closed.
fn accepts_two(place: &Place) {
    let path = &place.files.site.files[0].path;
    let mut held: Vec<Asking> = (0..2).map(|_| Asking::new(place.connect())).collect();
    for asking in &mut held {
        assert!(asking.ask(path, "").is_some(), "{}", place.name);
    }
    let mut third = Asking::new(place.connect());
    third.request(path, "");
    let mut byte = [0];
    let stream = third.stream();
    stream
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let early = stream.peek(&mut byte).map_err(|error| error.kind());
    assert_eq!(early, Err(ErrorKind::WouldBlock), "{}", place.name);
    stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
    held.pop();
    assert!(third.answer().is_some(), "{}", place.name);
}

/// Keeps two connections open; the server must close a third without a response.
fn resets_the_third(place: &Place) {
    let path = &place.files.site.files[0].path;
    let mut held: Vec<Asking> = (0..2).map(|_| Asking::new(place.connect())).collect();
    for asking in &mut held {
        assert!(asking.ask(path, "").is_some(), "{}", place.name);
    }
    // The server may reset the third connection while it is being established.
    if let Ok(third) = place.connect_within(support::PATIENCE) {
        assert!(Asking::new(third).ask(path, "").is_none(), "{}", place.name);
    }
}

/// Exit code 127 means that the program does not support the cell, whatever the definition states.
#[test]
fn exit_code_127_of_a_program_means_that_it_does_not_support_the_cell() {
    if !support::possible("exit_code_127_of_a_program_means_that_it_does_not_support_the_cell") {
        return;
    }
    let refused = support::refusal(
        &shell("echo this kernel has none of that >&2; exit 127"),
        Throttle::default(),
    );
    assert!(refused.is_inability(), "{refused}");
    assert_eq!(
        refused.to_string(),
        "nginx does not support a requested setting: this kernel has none of that"
    );
    let failed = support::refusal(&shell("echo no >&2; exit 1"), Throttle::default());
    assert!(!failed.is_inability(), "{failed}");
    assert!(
        failed.to_string().contains("exit status: 1; no"),
        "{failed}"
    );
}

#[test]
fn a_missing_program_is_reported_with_what_to_install() {
    if !support::possible("a_missing_program_is_reported_with_what_to_install") {
        return;
    }
    let mut definition = Definition::load("haproxy").unwrap();
    definition.program.as_mut().unwrap().commands = vec!["no-such-program".to_owned()];
    let missing = support::refusal(&definition, Throttle::default());
    assert!(!missing.is_inability());
    assert_eq!(
        missing.to_string(),
        "haproxy is not installed: install the package haproxy nginx"
    );
}

#[test]
fn versions_are_read() {
    for (name, part) in [
        ("httpd", "Apache/2"),
        ("nginx", "nginx/1"),
        ("lighttpd", "lighttpd/1"),
        ("caddy", "2."),
        ("h2o", "h2o version 2"),
        ("haproxy", "before nginx/1"),
    ] {
        let definition = Definition::load(name).unwrap();
        let Some(Some(installed)) = support::installed(&definition) else {
            continue;
        };
        assert!(installed.version.contains(part), "{}", installed.version);
    }
}

/// Returns a definition whose program is a shell command.
fn shell(line: &str) -> Definition {
    let mut definition = Definition::load("nginx").unwrap();
    let program = definition.program.as_mut().unwrap();
    program.commands = vec!["/bin/sh".to_owned()];
    program.arguments = vec!["-c".to_owned(), line.to_owned()];
    program.version = vec!["-c".to_owned(), "echo 1".to_owned()];
    definition
}
