//! Commands other than studies.

use std::net::TcpListener;

use super::place::Place;
use crate::support::closed_port::ClosedPort;

#[test]
fn other_commands_tell_what_is_in_the_way() {
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
