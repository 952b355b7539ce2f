//! Tests on real namespaces, devices and processes. They need root or a user namespace. If neither is available, they
//! print a message and pass; with `FATHOMETER_REQUIRE_LAB=1` they fail.
//!
//! Three other test programs are not part of this one: `connections` needs sockets that close at once, `limits`
//! moves processes between control groups, and `probes` measures its own process.

mod eras;
mod pair;
mod privileges;
mod processes;
#[expect(dead_code, reason = "other test programs use the other items")]
#[path = "../../../fathometer/tests/support/quiet.rs"]
mod quiet;
mod segments;
mod udp_offloads;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use fathometer_sys::{Namespace, TcpSettings};

use pair::{Pair, Wire};

/// Whether namespaces can be created here. Prints the reason when not.
fn lab() -> bool {
    match Namespace::new() {
        Ok(_) => true,
        Err(error) => {
            let required = std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1");
            assert!(!required, "the lab is required: {error}");
            eprintln!("SKIPPED, no lab on this machine: {error}");
            false
        }
    }
}

#[test]
fn a_tun_pair_carries_tcp_of_both_families_without_losing_a_packet() {
    if !lab() {
        return;
    }
    let pair = Pair::new(Wire::default(), &TcpSettings::default());
    for address in [pair::SERVER4, pair::SERVER6] {
        let listener = pair
            .server
            .run(|| TcpListener::bind((address, 80)).unwrap())
            .unwrap();
        let server = pair
            .server
            .spawn("server", move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&vec![7; 300_000]).unwrap();
            })
            .unwrap();
        let mut stream = pair
            .client
            .run(|| TcpStream::connect((address, 80)).unwrap())
            .unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        server.join().unwrap();
        assert_eq!(received, vec![7; 300_000]);
    }
    let end = pair.stop();
    let dropped = (end.client.dropped().unwrap(), end.server.dropped().unwrap());
    assert_eq!(dropped, (0, 0));
    let counters = end.server.counters().unwrap();
    // 300 000 bytes in segments of at most 1460: no offload reduced the number of packets.
    assert!(counters.tx_packets >= 2 * 206, "{counters:?}");
}

#[test]
fn a_namespace_is_another_network_and_ends_with_its_last_holder() {
    if !lab() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let devices = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let inside = namespace.run(devices).unwrap();
    assert_eq!(inside.lines().count(), 3, "loopback alone: {inside}");
    // The namespace's loopback is up, and is separate from the test's own: the same port is free in both.
    let inner = namespace
        .run(|| TcpListener::bind("127.0.0.1:0").unwrap())
        .unwrap();
    let _outer = TcpListener::bind(inner.local_addr().unwrap()).unwrap();
    let thread = namespace.spawn("worker", || {
        std::thread::current().name().map(str::to_owned)
    });
    assert_eq!(thread.unwrap().join().unwrap().as_deref(), Some("worker"));
}
