//! Commands other than studies.

use std::fs;
use std::net::TcpListener;

use super::place::Place;
use crate::support::closed_port::ClosedPort;

#[test]
fn other_commands_report_the_cause_of_a_failure() {
    let place = Place::new();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    place
        .fathometer(&["serve", "--site", "microscape", "--listen", &address])
        .ended()
        .assert_failed(&[&address, "already in use", "--listen"]);
    drop(busy);
    let closed_port = ClosedPort::new();
    place
        .fathometer(&["fetch", &format!("http://{}/", closed_port.address)])
        .ended()
        .assert_failed(&["failed to fetch", "no process listens"]);
    let folder = place.path().to_str().unwrap();
    place
        .fathometer(&["serve", "/no/such/folder"])
        .ended()
        .assert_failed(&["/no/such/folder"]);
    place
        .fathometer(&["report", folder])
        .ended()
        .assert_failed(&[folder, "the folder of a run"]);
    place
        .fathometer(&["trace", env!("CARGO_BIN_EXE_fathometer")])
        .ended()
        .assert_failed(&["not a capture", "pcapng"]);
    place
        .fathometer(&["trace", "/no/such/capture"])
        .ended()
        .assert_failed(&["/no/such/capture"]);
}

#[test]
fn unknown_names_are_usage_errors_and_wrong_files_are_failures() {
    let place = Place::new();
    for (command, expected) in [
        (&["path", "nowhere", "--", "true"][..], "nowhere"),
        (&["path", "ideal", "--era", "1850", "--", "true"], "1850"),
        (&["serve", "--site", "microscop"], "microscop"),
        (
            &["serve", "--site", "microscape", "--as", "jigsaw"],
            "jigsaw",
        ),
        (&["study", "--new", "nielsen97"], "nielsen97"),
        (&["study", "nielsen98"], "nielsen97"),
        (
            &["study", "nielsen97", "--only", "path=nowhere"],
            "path=nowhere",
        ),
        (&["study", "nielsen97", "--era", "1850"], "era=1850"),
        (
            &["study", "nielsen97", "--rank", "0", "--ranks", "900"],
            "--replicates",
        ),
        (&["fetch", "http://localhost/", "--insecure"], "https"),
        (&["fetch", "http://localhost/", "--policy", "h3"], "https"),
    ] {
        place
            .fathometer(command)
            .ended()
            .assert_refused(&[expected]);
    }
    let file = place.path().join("wrong.toml");
    fs::write(&file, "colour = 1\n").unwrap();
    let wrong = file.to_str().unwrap();
    let missing = "/no/such/file.toml";
    for (file, expected) in [(wrong, "colour"), (missing, missing)] {
        for command in [
            &["path", file, "--", "true"][..],
            &["path", "ideal", "--era", file, "--", "true"],
            &["serve", "--site", "microscape", "--as", file],
        ] {
            place.fathometer(command).ended().assert_failed(&[expected]);
        }
        let study = place.fathometer(&["study", file]).ended();
        study.assert_failed(&[expected]);
    }
}
