//! Tests the path with hosts, devices, kernel sockets and real time against its profile. Every test prints the
//! allowed error and the measurement (`--nocapture` shows it).
//!
//! Needs TUN devices and the right to create network namespaces. Without them, each test prints a message and
//! passes, unless `FATHOMETER_REQUIRE_LAB=1` makes that a failure.
//!
//! Machines are noisy: assertions on real time use a median, never a single packet, and are repeated if the machine was
//! late. Assertions on schedules and on random decisions are exact.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fathometer_lab::hosts::{Lab, Side};
use fathometer_lab::wire::{Limits, Wire, WireOptions};
use fathometer_model::{Bytes, Seed};
use fathometer_path::{Direction, Framing, Profile, predict};
use fathometer_sys::cgroup::{Group, Limits as GroupLimits};
use fathometer_sys::era::TcpSettings;
use fathometer_sys::netlink::{Netlink, RouteMetrics};
use fathometer_sys::{Namespace, Tun};
use rustix::process::{Pid, Signal, kill_process};

use crate::ground;
use crate::support::quiet::{below, in_a_quiet_moment, near};

const PORT: u16 = 4000;

fn profile(text: &str) -> Profile {
    let text = format!("name = \"proof\"\nsource = \"a test\"\n[both]\n{text}");
    Profile::from_toml(&text, "test").unwrap()
}

fn lab(profile: &Profile, options: &WireOptions) -> Lab {
    Lab::start(profile, options, |_| TcpSettings::default()).unwrap()
}

fn captured(seed: u64, file: &Path) -> WireOptions {
    WireOptions {
        capture: Some(file.to_owned()),
        ..WireOptions::new(Seed(seed))
    }
}

/// Opens a UDP socket inside a host, bound to the host's address of one IP version.
fn udp(lab: &Lab, side: Side, version: u8) -> UdpSocket {
    let socket = lab
        .host(side)
        .namespace
        .run(|| UdpSocket::bind((address(side, version), PORT)).unwrap())
        .unwrap();
    socket
        .connect((address(side.other(), version), PORT))
        .unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    socket
}

fn address(side: Side, version: u8) -> IpAddr {
    match version {
        4 => side.ipv4().into(),
        _ => side.ipv6().into(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty());
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn an_idle_path_delays_by_its_propagation() {
    let Some(_ground) = ground("an_idle_path_delays_by_its_propagation") else {
        return;
    };
    for version in [4, 6] {
        in_a_quiet_moment(Duration::from_millis(1), || idle_path(version));
    }
}

fn idle_path(version: u8) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idle.pcapng");
    let lab = lab(&profile("propagation = \"15ms\""), &captured(1, &file));
    let (client, server) = (
        udp(&lab, Side::Client, version),
        udp(&lab, Side::Server, version),
    );
    let echo = std::thread::spawn(move || {
        let mut packet = [0; 64];
        while server.recv(&mut packet).is_ok_and(|_| packet[0] == 1) {
            server.send(&packet).unwrap();
        }
    });
    let mut round_trips = Vec::new();
    for _ in 0..40 {
        let start = Instant::now();
        client.send(&[1; 64]).unwrap();
        client.recv(&mut [0; 64]).unwrap();
        round_trips.push(start.elapsed().as_secs_f64() * 1e3);
    }
    client.send(&[0; 64]).unwrap();
    echo.join().unwrap();
    lab.settle(Duration::from_millis(20), Duration::from_secs(1));
    let (certificate, validity) = lab.stop();

    let packets = read_capture(&file);
    let delays = |from: &str, to: &str| -> Vec<f64> {
        let sent: Vec<&Seen> = packets.iter().filter(|p| p.tap == from).collect();
        let got = packets.iter().filter(|p| p.tap == to);
        got.map(|p| (p.time - sent[p.number as usize].time) as f64 / 1e6)
            .collect()
    };
    let up = median(delays("client.tx", "server.rx"));
    let down = median(delays("server.tx", "client.rx"));
    let round_trip = median(round_trips);
    println!(
        "IPv{version}: one way 15 ms within 0.1 ms: up {up:.4} ms, down {down:.4} ms; round \
             trip of a program, which waits for a processor too, at least 30 ms: {round_trip:.4} ms; \
             {certificate:?} {validity:?}"
    );
    // The delay may exceed the profile by the lateness in the certificate, which includes the lateness of a busy
    // machine.
    let late = |direction: &fathometer_model::DirectionCertificate| {
        0.1 + direction.lateness_p50_ns as f64 / 1e6
    };
    assert_eq!(
        certificate.up.unasked_drops + certificate.down.unasked_drops,
        0
    );
    assert_eq!(
        (certificate.up.packets_in, certificate.down.packets_in),
        (41, 40)
    );
    assert!(up >= 15.0 && down >= 15.0 && round_trip >= 30.0);
    for (delay, late) in [(up, late(&certificate.up)), (down, late(&certificate.down))] {
        below("one way", delay, 15.0 + late)?;
    }
    below("round trip", round_trip, 40.0)
}

#[test]
fn packets_are_clocked_out_at_the_rate() {
    let Some(_ground) = ground("packets_are_clocked_out_at_the_rate") else {
        return;
    };
    for link in [
        (28_800u64, Framing::Ppp, "ppp", 400u32, 12u64),
        (10_000_000, Framing::Ethernet, "ethernet", 1500, 100),
        (100_000_000, Framing::Ethernet, "ethernet", 1500, 400),
    ] {
        // The certificate reports the path's lateness more exactly than a sleeping thread does.
        in_a_quiet_moment(Duration::ZERO, || clocked_out(link));
    }
}

/// Measures the spacing of packets on the link. The tuple: rate in bit/s, framing, name of the framing, bytes per
/// packet, number of packets.
fn clocked_out(
    (rate, framing, name, length, count): (u64, Framing, &str, u32, u64),
) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rate.pcapng");
    let text = format!("rate = \"{rate}bit/s\"\nframing = \"{name}\"\npropagation = \"5ms\"");
    let lab = lab(&profile(&text), &captured(1, &file));
    let client = udp(&lab, Side::Client, 4);
    let server = udp(&lab, Side::Server, 4);
    // IPv4 and UDP headers have 28 bytes.
    let mut payload = vec![0; length as usize - 28];
    for _ in 0..count {
        client.send(&payload).unwrap();
    }
    // Waits for the first packet: before that, the path would look idle.
    server.recv(&mut payload).unwrap();
    lab.settle(Duration::from_millis(200), Duration::from_secs(30));
    let (certificate, _) = lab.stop();
    let (received, sent): (Vec<Seen>, Vec<Seen>) = read_capture(&file)
        .into_iter()
        .filter(|packet| ["server.rx", "client.tx"].contains(&packet.tap.as_str()))
        .partition(|packet| packet.tap == "server.rx");
    assert_eq!(received.len() as u64, count);

    let exact = framing.on_link(length) as f64 * 8e9 / rate as f64;
    let propagation = 5_000_000;
    let mut spacings = Vec::new();
    for pair in received.windows(2) {
        let [before, packet] = pair else {
            unreachable!("windows of two");
        };
        let arrival = sent[packet.number as usize].time;
        let free = before.time - before.late - propagation;
        let scheduled = packet.time - packet.late;
        // The transmission starts when the packet has arrived and the link is free; 1 ns of tolerance for rounding at
        // both ends.
        let took = (scheduled - propagation - arrival.max(free)) as f64;
        assert!(
            (took - exact).abs() <= 1.0,
            "{took} ns on the link, {exact} ns expected"
        );
        // A sender that had to wait for a processor left the link idle.
        if arrival <= free {
            spacings.push((packet.time - before.time) as f64);
        }
    }
    if 2 * spacings.len() as u64 <= count {
        return Err(format!(
            "only {} of {count} packets found the link busy",
            spacings.len()
        ));
    }
    let measured = median(spacings);
    println!(
        "{rate} bit/s, {length} bytes and {name} framing: {:.3} ms apart within 0.1 ms and 5 %: \
             {:.3} ms; schedules exact; lateness p50 {} ns p99 {} ns",
        exact / 1e6,
        measured / 1e6,
        certificate.up.lateness_p50_ns,
        certificate.up.lateness_p99_ns,
    );
    // Schedules are exact, so a difference is caused by lateness or by an error.
    let share = (100_000.0 / exact).min(0.05);
    let spaced = near("ns apart", measured, exact, share);
    let late = certificate.up.lateness_p99_ns as f64;
    assert!(
        spaced.is_ok() || late > share * exact / 2.0,
        "{spaced:?}, {late} ns late"
    );
    spaced
}

#[test]
fn bulk_tcp_fills_the_link_and_no_more() {
    let Some(_ground) = ground("bulk_tcp_fills_the_link_and_no_more") else {
        return;
    };
    // 18 ms are 1 % of the measured time.
    in_a_quiet_moment(Duration::from_millis(18), bulk_tcp);
}

fn bulk_tcp() -> Result<(), String> {
    const BYTES: usize = 3_000_000;
    let profile = profile(
        "rate = \"10Mbit/s\"\npropagation = \"10ms\"\nframing = \"ethernet\"\n\
         queue = { packets = 1000 }",
    );
    let settings = TcpSettings {
        // A window larger than the path's 17 packets and smaller than its queue: no loss, and the link is never
        // idle.
        sysctl: [("net.ipv4.tcp_rmem", "4096 131072 300000")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        route: RouteMetrics {
            congestion_control: Some("reno".to_owned()),
            ..RouteMetrics::default()
        },
        ..TcpSettings::default()
    };
    let lab = Lab::start(&profile, &WireOptions::new(Seed(1)), |_| settings.clone()).unwrap();
    let refused: Vec<_> = lab.server.applied.impossible().collect();
    assert!(refused.is_empty(), "{refused:?}");
    let there = SocketAddr::from((Side::Server.ipv4(), PORT));
    let listener = lab
        .server
        .namespace
        .run(|| TcpListener::bind(there).unwrap())
        .unwrap();
    let sender = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&vec![7; BYTES]).unwrap();
    });
    let mut stream = lab
        .client
        .namespace
        .run(|| TcpStream::connect(there).unwrap())
        .unwrap();
    // (bytes so far, time): after a quarter of the bytes, the window is open.
    let mut marks = Vec::new();
    let mut total = 0;
    let mut buffer = vec![0; 100_000];
    loop {
        let length = stream.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        total += length;
        if total > BYTES / 4 {
            marks.push((total as f64, Instant::now()));
        }
    }
    sender.join().unwrap();
    assert_eq!(total, BYTES);
    lab.settle(Duration::from_millis(50), Duration::from_secs(1));
    let (certificate, validity) = lab.stop();

    let (first, last) = (marks[0], marks[marks.len() - 1]);
    let goodput = (last.0 - first.0) * 8.0 / (last.1 - first.1).as_secs_f64();
    // 1448 bytes are 1500 less the IPv4 and TCP headers and the time stamp option; 1538 bytes are on the wire.
    let analytic = 10e6 * 1448.0 / 1538.0;
    println!(
        "bulk TCP, reno: {:.4} Mbit/s within 1 %: {:.4} Mbit/s; drops {:?}, unrequested {}; {validity:?}",
        analytic / 1e6,
        goodput / 1e6,
        certificate.down.drops,
        certificate.down.unasked_drops
    );
    assert!(certificate.down.drops.is_empty());
    assert_eq!(certificate.down.unasked_drops, 0);
    near("goodput", goodput, analytic, 0.01)
}

/// Sends numbered datagrams, `burst` at a time. Returns the number of arrivals of each datagram, and the datagrams that
/// the capture reports as dropped.
fn numbered(profile: &Profile, seed: u64, count: u32, burst: u32) -> (Vec<u32>, BTreeSet<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chance.pcapng");
    let lab = lab(profile, &captured(seed, &file));
    let client = udp(&lab, Side::Client, 4);
    let server = udp(&lab, Side::Server, 4);
    let newest = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&newest);
    let receiver = std::thread::spawn(move || {
        let mut times = vec![0; count as usize];
        let mut packet = [0; 4];
        loop {
            server.recv(&mut packet).unwrap();
            match u32::from_be_bytes(packet) {
                u32::MAX => return times,
                number => times[number as usize] += 1,
            }
            seen.fetch_max(u32::from_be_bytes(packet), Ordering::Relaxed);
        }
    });
    for number in 0..count {
        client.send(&number.to_be_bytes()).unwrap();
        if number % burst == burst - 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The receiver's socket buffer has room for some hundreds of datagrams, and must not drop any. At most 100
        // datagrams are in flight, and the path never loses 100 in a row.
        let begun = Instant::now();
        while number > newest.load(Ordering::Relaxed) + 100 {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing comes");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    lab.settle(Duration::from_millis(200), Duration::from_secs(10));
    // The first of these datagrams that arrives stops the receiver; the kernel refuses the others.
    for _ in 0..100 {
        let _ = client.send(&u32::MAX.to_be_bytes());
    }
    let times = receiver.join().unwrap();
    lab.settle(Duration::from_millis(20), Duration::from_secs(1));
    let (certificate, validity) = lab.stop();
    assert_eq!(certificate.up.unasked_drops, 0, "{validity:?}");
    let dropped = read_capture(&file)
        .into_iter()
        .filter(|packet| packet.dropped && packet.number < u64::from(count))
        .map(|packet| packet.number)
        .collect();
    (times, dropped)
}

const CHANCE: &str = "propagation = \"2ms\"\nloss = { independent = 0.03 }\n\
                      drop-list = [0, 7, \"100-119\"]\nduplicate = 0.01";

#[test]
fn exactly_the_predicted_packets_are_lost_and_doubled() {
    let Some(_ground) = ground("exactly_the_predicted_packets_are_lost_and_doubled") else {
        return;
    };
    const COUNT: u32 = 3000;
    let bursts = "propagation = \"2ms\"\nloss = { gilbert-elliott = { p = 0.01, r = 0.3 } }";
    for (name, text) in [
        ("independent loss and a drop list", CHANCE),
        ("burst loss", bursts),
    ] {
        let profile = profile(text);
        let (times, dropped) = numbered(&profile, 1997, COUNT, 20);
        let fates = predict(&profile.up, Direction::Up, Seed(1997), COUNT.into());
        let expected: Vec<u32> = fates
            .iter()
            .map(|fate| match (fate.lost, fate.duplicated) {
                (Some(_), _) => 0,
                (None, false) => 1,
                (None, true) => 2,
            })
            .collect();
        let lost: BTreeSet<u64> = (0..)
            .zip(&fates)
            .filter(|(_, fate)| fate.lost.is_some())
            .map(|(number, _)| number)
            .collect();
        println!(
            "{name}: {COUNT} datagrams; {} losses predicted, {} observed; {} duplicates observed, {} predicted",
            lost.len(),
            dropped.len(),
            times.iter().filter(|&&n| n == 2).count(),
            expected.iter().filter(|&&n| n == 2).count(),
        );
        assert_eq!(dropped, lost);
        assert_eq!(times, expected);
    }
}

#[test]
fn the_same_seed_decides_the_same_whatever_the_timing() {
    let Some(_ground) = ground("the_same_seed_decides_the_same_whatever_the_timing") else {
        return;
    };
    let profile = profile(CHANCE);
    let first = numbered(&profile, 11, 1000, 20);
    let again = numbered(&profile, 11, 1000, 3);
    let other = numbered(&profile, 12, 1000, 20);
    println!(
        "seed 11: {} and {} packets lost; seed 12: {}",
        first.1.len(),
        again.1.len(),
        other.1.len()
    );
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn nothing_is_sent_that_the_experiment_did_not_cause() {
    let Some(_ground) = ground("nothing_is_sent_that_the_experiment_did_not_cause") else {
        return;
    };
    let lab = lab(&profile(""), &WireOptions::new(Seed(1)));
    std::thread::sleep(Duration::from_millis(1500));
    let (certificate, validity) = lab.stop();
    println!(
        "packets of an idle lab in 1.5 s: {} and {}",
        certificate.up.packets_in, certificate.down.packets_in
    );
    assert_eq!(
        (certificate.up.packets_in, certificate.down.packets_in),
        (0, 0)
    );
    assert!(validity.is_valid(), "{validity:?}");
}

#[test]
fn unrequested_losses_invalidate() {
    let Some(_ground) = ground("unrequested_losses_invalidate") else {
        return;
    };
    // The device's queue has room for one packet. TCP sends its first window as one large packet. The kernel splits it
    // into segments on the way into this queue, faster than the path can read them.
    let host = |address: IpAddr| {
        let namespace = Namespace::new().unwrap();
        let device = namespace
            .run(|| {
                let device = Tun::create("small0", 1500, 1).unwrap();
                let mut netlink = Netlink::open().unwrap();
                netlink.add_address(device.index(), address, 24).unwrap();
                device
            })
            .unwrap();
        (namespace, Arc::new(device))
    };
    let (namespace, client) = host(Side::Client.ipv4().into());
    let (other, server) = host(Side::Server.ipv4().into());
    let wire = Wire::start(&profile(""), &client, &server, &WireOptions::new(Seed(1))).unwrap();
    let there = SocketAddr::from((Side::Server.ipv4(), PORT));
    let _listener = other.run(|| TcpListener::bind(there).unwrap()).unwrap();
    for _ in 0..20 {
        let connected = namespace.run(|| TcpStream::connect(there)).unwrap();
        connected.unwrap().write_all(&[0; 14_000]).unwrap();
        if client.dropped().unwrap() > 0 {
            break;
        }
    }
    let (certificate, validity) = wire.stop();
    println!(
        "unasked drops {}: {:?}",
        certificate.up.unasked_drops, validity.reasons
    );
    assert!(certificate.up.unasked_drops > 0);
    assert!(
        validity
            .reasons
            .iter()
            .any(|reason| reason.contains("ring"))
    );
}

#[test]
fn lateness_beyond_the_limits_invalidates() {
    let Some(_ground) = ground("lateness_beyond_the_limits_invalidates") else {
        return;
    };
    let options = WireOptions {
        limits: Some(Limits {
            p99: Duration::ZERO,
            maximum: Duration::from_secs(1),
        }),
        ..WireOptions::new(Seed(1))
    };
    let lab = lab(&profile("propagation = \"2ms\""), &options);
    let client = udp(&lab, Side::Client, 4);
    let server = udp(&lab, Side::Server, 4);
    client.send(&[0; 10]).unwrap();
    server.recv(&mut [0; 10]).unwrap();
    let (_, validity) = lab.stop();
    println!("{:?}", validity.reasons);
    assert_eq!(validity.reasons.len(), 1);
    assert!(
        validity.reasons[0].starts_with("up: lateness p99"),
        "{validity:?}"
    );
}

fn receiving() -> WireOptions {
    fathometer_lab::program::is_at(env!("CARGO_BIN_EXE_fathometer").into());
    WireOptions {
        server_receives: true,
        ..WireOptions::new(Seed(1))
    }
}

/// Sends datagrams to the server, each after the previous one has arrived.
fn one_after_the_other(lab: &Lab, count: u32) {
    let client = udp(lab, Side::Client, 4);
    let server = udp(lab, Side::Server, 4);
    for n in 0..count {
        client.send(&n.to_be_bytes()).unwrap();
        let mut number = [0; 4];
        assert_eq!(server.recv(&mut number).unwrap(), 4);
        assert_eq!(u32::from_be_bytes(number), n);
    }
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_host_can_receive_in_a_process_of_its_own() {
    let Some(_ground) = ground("a_host_can_receive_in_a_process_of_its_own") else {
        return;
    };
    let lab = lab(&profile("propagation = \"2ms\""), &receiving());
    let process = lab
        .server_receiver()
        .expect("a separate receiver was requested");
    assert_ne!(process, std::process::id());
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
    assert_eq!(name.trim(), "host-receive");
    one_after_the_other(&lab, 300);
    let (certificate, validity) = lab.stop();
    assert_eq!(certificate.up.packets_out, 300);
    assert!(certificate.up.drops.is_empty());
    println!(
        "late {} ns at p99; {:?}",
        certificate.up.lateness_p99_ns, validity.reasons
    );
    let about_receiving = |reason: &String| reason.contains("receiving");
    assert!(!validity.reasons.iter().any(about_receiving));
    assert!(!is_there(process), "the receiver outlived its laboratory");
}

/// Memory and disk limits, and control groups v2, apply only to whole processes.
#[test]
fn the_process_that_receives_can_be_put_into_the_hosts_group() {
    let Some(_ground) = ground("the_process_that_receives_can_be_put_into_the_hosts_group") else {
        return;
    };
    let limits = GroupLimits {
        memory: Some(Bytes(64 << 20)),
        ..GroupLimits::default()
    };
    let group = match Group::create("receives", &limits) {
        Ok(group) => group,
        Err(error) => return eprintln!("SKIPPED, no memory limit here: {error}"),
    };
    let lab = lab(&profile("propagation = \"1ms\""), &receiving());
    one_after_the_other(&lab, 10);
    group.add_process(lab.server_receiver().unwrap()).unwrap();
    let before = group.cpu_usage().unwrap().total;
    let memory = group.memory_usage().current;
    one_after_the_other(&lab, 300);
    assert!(group.cpu_usage().unwrap().total > before);
    // Memory that the process allocated before it joined the group is not charged to the host.
    assert!(
        memory.is_none_or(|held| held < Bytes(1 << 20)),
        "{memory:?}"
    );
    drop(lab);
}

#[test]
fn a_receiver_that_dies_makes_the_measurement_invalid() {
    let Some(_ground) = ground("a_receiver_that_dies_makes_the_measurement_invalid") else {
        return;
    };
    let lab = lab(&profile("propagation = \"1ms\""), &receiving());
    one_after_the_other(&lab, 3);
    let process = Pid::from_raw(lab.server_receiver().unwrap() as i32).unwrap();
    kill_process(process, Signal::TERM).unwrap();
    one_after_the_other(&lab, 3);
    kill_process(process, Signal::KILL).unwrap();
    let client = udp(&lab, Side::Client, 4);
    let deadline = Instant::now() + Duration::from_secs(60);
    // The process is a zombie: its parent, the laboratory, has not waited for it yet.
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    while !state().unwrap().contains(") Z ") {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    client.send(b"lost").unwrap();
    let (_, validity) = lab.stop();
    assert!(
        validity
            .reasons
            .iter()
            .any(|reason| reason.contains("the server's host stopped receiving packets: signal: 9")),
        "{:?}",
        validity.reasons
    );
}

/// The name of the next test, which another test runs in a separate process.
const OWNER: &str = "path_proof::owner_of_a_receiver_that_will_be_killed";

/// Not a test by itself: a program with a laboratory, which the test below kills.
#[test]
fn owner_of_a_receiver_that_will_be_killed() {
    if std::env::var_os("FATHOMETER_TEST_OWNER").is_none() {
        return;
    }
    let lab = lab(&profile("propagation = \"1ms\""), &receiving());
    println!("\nreceiver {}", lab.server_receiver().unwrap());
    std::thread::park();
}

#[test]
fn a_receiver_ends_with_the_program_that_is_killed() {
    let Some(_ground) = ground("a_receiver_ends_with_the_program_that_is_killed") else {
        return;
    };
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", OWNER])
        .arg("--nocapture")
        .env("FATHOMETER_TEST_OWNER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let receiver: u32 = lines
        .find_map(|line| line.unwrap().strip_prefix("receiver ")?.parse().ok())
        .unwrap();
    assert!(is_there(receiver));
    owner.kill().unwrap();
    owner.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while is_there(receiver) {
        assert!(
            Instant::now() < deadline,
            "the receiver outlived its program"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_capture_that_cannot_be_written_is_an_error_before_anything_starts() {
    let Some(_ground) = ground("a_capture_that_cannot_be_written") else {
        return;
    };
    let result = Lab::start(&profile(""), &captured(1, Path::new("/dev/full")), |_| {
        TcpSettings::default()
    });
    let error = result.expect_err("the disk is full").to_string();
    assert!(error.contains("no space left"), "{error}");
}

/// A packet as a tap recorded it.
struct Seen {
    tap: String,
    /// Nanoseconds since the Unix epoch.
    time: u64,
    number: u64,
    late: u64,
    dropped: bool,
}

/// Parses only the pcapng blocks that this program's captures contain.
fn read_capture(file: &Path) -> Vec<Seen> {
    let bytes = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let option = |mut at: usize, wanted: u32| loop {
        let (code, length) = (word(at) & 0xffff, (word(at) >> 16) as usize);
        if code == wanted || code == 0 {
            return String::from_utf8(bytes[at + 4..at + 4 + length].to_vec()).unwrap();
        }
        at += 4 + length.next_multiple_of(4);
    };
    let (mut taps, mut seen, mut at) = (Vec::new(), Vec::new(), 0);
    while at < bytes.len() {
        match word(at) {
            1 => taps.push(option(at + 16, 2)),
            6 => {
                let comment = option(at + 28 + word(at + 20).next_multiple_of(4) as usize, 1);
                let value = |key: &str| -> Option<&str> {
                    comment
                        .split(' ')
                        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
                };
                seen.push(Seen {
                    tap: taps[word(at + 8) as usize].clone(),
                    time: u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)),
                    number: value("packet").unwrap().parse().unwrap(),
                    late: value("late_ns").map_or(0, |late| late.parse().unwrap()),
                    dropped: value("drop").is_some(),
                });
            }
            _ => {}
        }
        at += word(at + 4) as usize;
    }
    seen
}
