//! `fathometer capacity` on a server whose capacity is known, and its usage errors.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::programs::FATHOMETER;
use crate::support::scripted_server::{Answer, Server};
use crate::support::serving;

fn capacity(arguments: &[&str]) -> Output {
    let mut command = Command::new(FATHOMETER);
    command.args(["capacity", "--quiet"]).args(arguments);
    command.output().unwrap()
}

/// Starts a server that handles at most this many requests at a time, each in 20 ms, and refuses the others.
fn refuses_above(most: u32) -> Server {
    let served = AtomicU32::new(0);
    Server::start(move |_| {
        if served.fetch_add(1, Ordering::SeqCst) >= most {
            served.fetch_sub(1, Ordering::SeqCst);
            return Answer::Status(503);
        }
        std::thread::sleep(Duration::from_millis(20));
        served.fetch_sub(1, Ordering::SeqCst);
        Answer::Whole(100)
    })
}

#[test]
fn the_number_of_users_is_that_which_the_server_admits() {
    let server = refuses_above(8);
    let url = format!("http://{}/", server.address);
    let search = || {
        capacity(&[
            &url,
            "--users",
            "--slo",
            "errors<20%",
            "--final-trial",
            "2s",
            "--warmup",
            "200ms",
            "--no-calibration",
            "--gate",
            "capacity>=8users",
            "--json",
        ])
    };
    for _ in 0..SEARCHES {
        let output = search();
        let text = String::from_utf8_lossy(&output.stdout);
        let message = String::from_utf8_lossy(&output.stderr);
        let result: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {message}"));
        let found = &result["outcome"]["slos"][0];
        if found["answer"] == "interval" {
            assert_eq!(
                (&found["works"], &found["fails"]),
                (&8.0.into(), &9.0.into()),
                "{text}"
            );
            assert_eq!(output.status.code(), Some(0), "{message}");
            assert_eq!(result["outcome"]["recovers"], true);
            return;
        }
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(has_invalid_trial(&result), "no answer: {text}");
        thread::sleep(PAUSE);
    }
    panic!("{TOO_BUSY}");
}

/// The maximum number of searches of a test. A busy machine makes trials INVALID; such a search is repeated.
const SEARCHES: u32 = 6;
/// The pause after a search with INVALID trials: other programs may keep the machine busy for some time.
const PAUSE: Duration = Duration::from_secs(10);
const TOO_BUSY: &str =
    "each search had INVALID trials: repeat the test on a machine that is less busy";

fn has_invalid_trial(result: &serde_json::Value) -> bool {
    let trials = result["outcome"]["trials"].as_array().unwrap();
    trials
        .iter()
        .any(|trial| trial["invalid"] != serde_json::json!([]))
}

#[test]
fn the_limit_of_open_files_bounds_the_users() {
    let server = Server::start(move |_| {
        thread::sleep(Duration::from_millis(100));
        Answer::Whole(100)
    });
    let url = format!("http://{}/", server.address);
    for _ in 0..SEARCHES {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "ulimit -n 80 && exec \"$0\" capacity --quiet \"$@\"",
                FATHOMETER,
            ])
            .args([&url, "--users", "--slo", "errors<20%", "--json"])
            .args(["--final-trial", "2s", "--warmup", "200ms"])
            .args(["--no-calibration", "--", "--threads", "1"]);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{text}{message}");
        let result: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {message}"));
        let found = &result["outcome"]["slos"][0];
        let reason = found["reason"].as_str().unwrap();
        if reason.contains("the limit of open files") {
            assert_eq!(found["answer"], "invalid", "{text}");
            let most = found["valid_up_to"].as_f64().unwrap();
            assert!((16.0..80.0).contains(&most), "{text}");
            return;
        }
        assert!(has_invalid_trial(&result), "no bound: {text}");
        thread::sleep(PAUSE);
    }
    panic!("{TOO_BUSY}");
}

/// Starts a server that fails every `of`-th request, at any load.
fn fails_one_of(of: u32) -> Server {
    let answered = AtomicU32::new(0);
    Server::start(
        move |_| match answered.fetch_add(1, Ordering::SeqCst) % of {
            3 => Answer::Status(503),
            _ => Answer::Whole(100),
        },
    )
}

#[test]
fn a_server_that_fails_at_any_load_has_an_upper_bound_and_a_reason() {
    let server = fails_one_of(10);
    let url = format!("http://{}/", server.address);
    let search = || {
        capacity(&[
            &url,
            "--slo",
            "errors<1%",
            "--start",
            "400",
            "--final-trial",
            "2s",
            "--warmup",
            "200ms",
            "--no-calibration",
            "--json",
        ])
    };
    for _ in 0..SEARCHES {
        let output = search();
        let text = String::from_utf8_lossy(&output.stdout);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{text}{message}");
        let result: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {message}"));
        let found = &result["outcome"]["slos"][0];
        assert_ne!(found["answer"], "interval", "{text}");
        let reason = found["reason"].as_str().unwrap();
        if reason.contains("does not fall with the load") {
            assert!(found["works"].is_null(), "{text}");
            assert!(found["fails"].as_f64().unwrap() <= 400.0, "{text}");
            return;
        }
        assert!(has_invalid_trial(&result), "no bound: {text}");
        thread::sleep(PAUSE);
    }
    panic!("{TOO_BUSY}");
}

/// Starts a server that answers this many requests of one connection, then stops listening.
fn answers_only(most: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut answered = 0;
        while answered < most {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            while answered < most && connection.read(&mut request).is_ok_and(|length| length > 0) {
                connection
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                    .unwrap();
                answered += 1;
            }
        }
    });
    address
}

#[test]
fn a_server_that_is_gone_is_an_error_and_not_a_search() {
    // Four answers are enough for the first test of the server, before the search.
    let url = format!("http://{}/", answers_only(4));
    let output = capacity(&[&url, "--slo", "errors<1%", "--warmup", "100ms"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("the server stopped answering"),
        "{message}"
    );
}

#[test]
fn the_limit_of_the_generator_is_that_of_the_same_protocol() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), [b'x'; 321]).unwrap();
    let mut server = Command::new(FATHOMETER)
        .args(["serve", "--tls", "--listen", "127.0.0.1:0"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = serving::address(&mut BufReader::new(server.stdout.take().unwrap()));
    let url = format!("https://{address}/index.html");
    let output = capacity(&[
        &url,
        "--slo",
        "p99<1s",
        "--budget",
        "1ms",
        "--json",
        "--",
        "--policy",
        "h2",
        "--insecure",
    ]);
    server.kill().unwrap();
    server.wait().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&message);
    assert_eq!(output.status.code(), Some(3), "{message}");
    let answer = &result["outcome"]["slos"][0];
    assert_eq!(answer["reason"], "the budget of 0.001 s is spent");
    // On a busy machine the generator may be late at every rate.
    let generator = &result["generator"];
    if !generator.is_null() {
        assert!(
            generator["limit_per_s"].as_f64().unwrap() > 10.0,
            "{result}"
        );
        assert_eq!(generator["policy"], "h2");
        assert_eq!(generator["response_bytes"], 321);
    }
}

#[test]
fn what_cannot_be_searched_is_a_usage_error() {
    for (arguments, reason) in [
        (&["http://127.0.0.1:9/", "--slo", "mean<1s"][..], "mean<1s"),
        (&["http://127.0.0.1:9/"], "--slo"),
        (
            &[
                "http://127.0.0.1:9/",
                "--slo",
                "p99<1s",
                "--gate",
                "capacity>=5users",
            ],
            "unit",
        ),
        (
            &[
                "http://127.0.0.1:9/",
                "--slo",
                "p99<1s",
                "--",
                "--duration",
                "5s",
            ],
            "--duration",
        ),
        (
            &["http://127.0.0.1:9/", "--slo", "p99<1s", "--", "-c", "5"],
            "--connections",
        ),
        (
            &[
                "http://127.0.0.1:9/",
                "--users",
                "--slo",
                "p99<1s",
                "--",
                "--rate",
                "100",
            ],
            "--rate",
        ),
        (
            &[
                "http://127.0.0.1:9/",
                "--slo",
                "p99<1s",
                "--",
                "--drain",
                "60s",
            ],
            "--drain",
        ),
        (
            &[
                "http://127.0.0.1:9/",
                "--slo",
                "p99<1s",
                "--",
                "--arrivals",
                "poisson",
            ],
            "--arrivals",
        ),
        (
            &[
                "http://127.0.0.1:9/",
                "--slo",
                "p99<1s",
                "--",
                "--batch",
                "4",
            ],
            "--batch",
        ),
        (
            &[
                "http://127.0.0.1:9/",
                "--slo",
                "p99<5s",
                "--longest-trial",
                "12s",
            ],
            "--longest-trial 12s is too short",
        ),
        (
            &[
                "http://127.0.0.1:9/",
                "--slo",
                "errors<1%",
                "--timeout",
                "150s",
            ],
            "--final-trial (10s)",
        ),
        (
            &[
                "http://127.0.0.1:9/",
                "--slo",
                "p99<1s",
                "--arrivals",
                "recorded",
            ],
            "constant or poisson",
        ),
    ] {
        let output = capacity(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(reason), "{arguments:?}: {message}");
    }
}
