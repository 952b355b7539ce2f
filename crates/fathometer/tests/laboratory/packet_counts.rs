//! The path's own packet counts, compared with the accounting of a capture of the same traffic.
//!
//! Needs TUN devices and the right to create network namespaces. Without them, the test prints a message and
//! passes, unless `FATHOMETER_REQUIRE_LAB=1` makes that a failure.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::Duration;

use fathometer_lab::hosts::{Lab, Side};
use fathometer_lab::wire::WireOptions;
use fathometer_lab::wire::counts::Course;
use fathometer_model::{Bytes, Seed};
use fathometer_packets::{Accounting, Class, Options, TapChoice, account};
use fathometer_path::Profile;
use fathometer_sys::era::TcpSettings;

use crate::support::laboratory::possible;

const PORT: u16 = 4000;

/// A profile with loss, which causes retransmissions, duplicate ACKs and resets.
const PROFILE: &str = r#"
name = "proof"
source = "a test"
[both]
rate = "50Mbit/s"
propagation = "2ms"
loss = { independent = 0.01 }
queue = { packets = 50 }
"#;

/// Sends data in both directions; every fifth of 20 connections is reset.
fn traffic(lab: &Lab) {
    let address = (IpAddr::V4(Side::Server.ipv4()), PORT);
    let listener = lab
        .server
        .namespace
        .run(|| TcpListener::bind(address).unwrap())
        .unwrap();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(20) {
            let mut stream = stream.unwrap();
            let mut asked = [0; 700];
            if stream.read_exact(&mut asked).is_ok() {
                let _ = stream.write_all(&vec![7; 60_000]);
            }
        }
    });
    for n in 0..20 {
        let mut stream = lab
            .client
            .namespace
            .run(|| TcpStream::connect(address).unwrap())
            .unwrap();
        stream.write_all(&[1; 700]).unwrap();
        if n % 5 == 4 {
            // Closing with unread data sends a reset.
            stream.read_exact(&mut [0; 100]).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        } else {
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
    }
    server.join().unwrap();
}

fn agree(course: &Course, captured: &Accounting, payload: Bytes, what: &str) {
    for class in Class::ALL {
        let counted = course.of(class).packets;
        assert_eq!(counted, captured.classes.of(class), "{what}: {class}");
    }
    let total = course.total();
    assert_eq!(total.bytes, captured.ip_bytes(), "{what}: bytes");
    assert_eq!(total.payload, payload, "{what}: payload");
}

#[test]
fn counts_are_those_of_a_capture() {
    if !possible("counts_are_those_of_a_capture") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    let options = WireOptions {
        capture: Some(file.clone()),
        count_packets: true,
        server_receives: true,
        ..WireOptions::new(Seed(5))
    };
    fathometer_lab::program::is_at(env!("CARGO_BIN_EXE_fathometer").into());
    let profile = Profile::from_toml(PROFILE, "test").unwrap();
    let lab = Lab::start(&profile, &options, |_| TcpSettings::default()).unwrap();
    traffic(&lab);
    lab.settle(Duration::from_millis(200), Duration::from_secs(10));
    let carried = lab.end();
    let packets = carried.packets.expect("packet counting is enabled");
    assert_eq!(
        packets.up.total().packets,
        carried.certificate.up.packets_out
    );
    assert_eq!(
        packets.down.total().bytes,
        carried.certificate.down.bytes_out
    );
    assert!(packets.of(Class::Rst).packets > 0);
    for (course, tap) in [(&packets.up, "server.rx"), (&packets.down, "client.rx")] {
        let options = Options {
            taps: TapChoice::Interface(tap.to_owned()),
            ..Options::default()
        };
        let captured = account(File::open(&file).unwrap(), &options).unwrap();
        agree(course, &captured, captured.payload_bytes(), tap);
    }
}
