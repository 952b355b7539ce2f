//! Compares the sockets of a host with known values: the opened sockets, the list of `ss`, and the kernel's state of a
//! connection as its owner reads it. The tests need root or a user namespace. If neither is available, they print a
//! message and pass; with `FATHOMETER_REQUIRE_LAB=1` they fail.
//!
//! A separate test program: between fork and exec, a child of another test would hold copies of all sockets, so a
//! socket closed here would stay open.

#![expect(
    unsafe_code,
    reason = "the tests call libc where this crate has no wrapper"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fathometer_model::Bytes;
use fathometer_sys::cgroup::{Group, Limits};
use fathometer_sys::clock::Clock;
use fathometer_sys::error::Error;
use fathometer_sys::probe::{
    Connection, NetworkProbe, Plan, Sample, Sampler, SocketTable, TcpState, Windows,
};
use fathometer_sys::{Namespace, TcpInfo, tcp_info};

/// The time limit of a step, longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn namespace() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(error) => {
            let required = std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1");
            assert!(!required, "the lab is required: {error}");
            eprintln!("SKIPPED, no lab on this machine: {error}");
            None
        }
    }
}

/// A listener inside a namespace, and both ends of connections to it: the client's and the server's.
struct Pairs {
    listener: TcpListener,
    ends: Vec<(TcpStream, TcpStream)>,
}

impl Pairs {
    fn open(namespace: &Namespace, address: &str, count: usize) -> Pairs {
        let open = || {
            let listener = TcpListener::bind(address).unwrap();
            let address = listener.local_addr().unwrap();
            let pair = |_| {
                let client = TcpStream::connect(address).unwrap();
                (client, listener.accept().unwrap().0)
            };
            let ends = (0..count).map(pair).collect();
            Pairs { listener, ends }
        };
        namespace.run(open).unwrap()
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Sends this many bytes from the server of one pair to its client, and waits until the client has
    /// received and acknowledged them.
    fn transfer(&mut self, pair: usize, bytes: usize) {
        let (client, server) = &mut self.ends[pair];
        std::thread::scope(|scope| {
            scope.spawn(|| server.write_all(&vec![7; bytes]).unwrap());
            client.read_exact(&mut vec![0; bytes]).unwrap();
        });
        until(|| tcp_info(&*server).unwrap().bytes_acknowledged == Some(Bytes(bytes as u64)));
    }
}

/// Waits until a condition is true.
fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads both values; repeats the readings until `truth` is the same before and after `read`.
fn undisturbed<T: PartialEq, U>(
    mut truth: impl FnMut() -> T,
    mut read: impl FnMut() -> U,
) -> (T, U) {
    let start = Instant::now();
    loop {
        let (before, read, after) = (truth(), read(), truth());
        if before == after {
            return (before, read);
        }
        assert!(start.elapsed() < PATIENCE, "the values change all the time");
    }
}

/// Returns the number of sockets in each state, with the state names of `ss`.
fn listed_by_ss(namespace: &Namespace) -> Option<BTreeMap<String, u64>> {
    let ran = namespace.run(|| Command::new("ss").arg("-Htan").output());
    let output = match ran.unwrap() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED, ss (of iproute2) does not run here: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut states = BTreeMap::new();
    for line in text.lines() {
        let state = line.split_whitespace().next().unwrap();
        *states.entry(state.to_owned()).or_default() += 1;
    }
    Some(states)
}

#[test]
fn numbers_by_state_are_those_of_ss() {
    let Some(namespace) = namespace() else {
        return;
    };
    let mut probe = NetworkProbe::open(&namespace).unwrap();
    let mut four = Pairs::open(&namespace, "127.0.0.1:0", 12);
    let six = Pairs::open(&namespace, "[::1]:0", 3);
    // Five pairs are closed first by the client and then by the server, which leaves TIME_WAIT; two more pairs are
    // closed only by the client.
    for (client, server) in &mut four.ends[..7] {
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
    }
    four.ends.drain(..5).for_each(|(mut client, server)| {
        drop(server);
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    });
    if listed_by_ss(&namespace).is_none() {
        return;
    }
    let (listed, table) = undisturbed(
        || listed_by_ss(&namespace).unwrap(),
        || probe.table().unwrap(),
    );
    let counted = [
        ("ESTAB", table.established),
        ("SYN-SENT", table.syn_sent),
        ("SYN-RECV", table.syn_received),
        ("FIN-WAIT-1", table.fin_wait_1),
        ("FIN-WAIT-2", table.fin_wait_2),
        ("TIME-WAIT", table.time_wait),
        ("UNCONN", table.closed),
        ("CLOSE-WAIT", table.close_wait),
        ("LAST-ACK", table.last_ack),
        ("LISTEN", table.listening),
        ("CLOSING", table.closing),
    ];
    let counted: BTreeMap<String, u64> = counted
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| (state.to_owned(), count))
        .collect();
    assert_eq!(counted, listed);
    // Five IPv4 pairs are open, and three IPv6 pairs.
    let wanted = [
        ("CLOSE-WAIT", 2),
        ("ESTAB", 16),
        ("LISTEN", 2),
        ("TIME-WAIT", 5),
    ];
    for (state, count) in wanted {
        assert_eq!(listed.get(state), Some(&count), "{listed:?}");
    }
    drop(six);
}

/// Returns the kernel's state of a connection, without the times since events, which change continuously.
fn at_rest(socket: &TcpStream) -> TcpInfo {
    without_times_since(&tcp_info(socket).unwrap())
}

fn without_times_since(tcp: &TcpInfo) -> TcpInfo {
    TcpInfo {
        since_data_sent: Duration::ZERO,
        since_data_received: Duration::ZERO,
        ..tcp.clone()
    }
}

#[test]
fn a_connection_has_the_figures_that_its_owner_reads() {
    let Some(namespace) = namespace() else {
        return;
    };
    let mut probe = NetworkProbe::open(&namespace).unwrap();
    // A dual-stack listener, whose connections are IPv4.
    let mut pairs = Pairs::open(&namespace, "[::]:0", 0);
    let port = pairs.address().port();
    namespace
        .run(|| {
            for _ in 0..4 {
                let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
                pairs
                    .ends
                    .push((client, pairs.listener.accept().unwrap().0));
            }
        })
        .unwrap();
    for (pair, bytes) in [(0, 10), (1, 300_000), (2, 3_000_000)] {
        pairs.transfer(pair, bytes);
    }
    let sockets: Vec<&TcpStream> = pairs.ends.iter().flat_map(|(a, b)| [a, b]).collect();
    let (truth, found) = undisturbed(
        || sockets.iter().map(|s| at_rest(s)).collect::<Vec<_>>(),
        || {
            let mut found: Vec<Connection> = Vec::new();
            let mut keep = |connection: &Connection| found.push(connection.clone());
            probe.connections(&mut keep).unwrap();
            found
        },
    );
    assert_eq!(found.len(), 9, "eight ends and the listener");
    for (socket, truth) in sockets.iter().zip(&truth) {
        let local = canonical(socket.local_addr().unwrap());
        let remote = canonical(socket.peer_addr().unwrap());
        let connection = found
            .iter()
            .find(|c| (c.local, c.remote) == (local, remote))
            .unwrap();
        let tcp = without_times_since(connection.tcp.as_ref().unwrap());
        assert_eq!(tcp, *truth);
        assert_eq!(connection.state, TcpState::Established);
        let window = truth.congestion_window_segments;
        assert_eq!(connection.congestion_window(), Some(window));
        assert_eq!(connection.unread, Some(Bytes(0)));
        assert!(connection.memory.is_some());
    }
    let server = |pair: usize| &truth[2 * pair + 1];
    assert_eq!(server(1).bytes_acknowledged, Some(Bytes(300_000)));
    // On a machine that is busy for long enough, TCP retransmits data that were not lost.
    let again = server(2).bytes_retransmitted.unwrap();
    assert_eq!(server(2).bytes_sent, Some(Bytes(3_000_000) + again));
    assert_eq!(truth[4].bytes_received, Some(Bytes(3_000_000)));
    if again == Bytes(0) {
        assert!(server(2).congestion_window_segments > server(3).congestion_window_segments);
    }
    assert!(server(2).round_trip > Duration::ZERO && server(2).minimum_round_trip.is_some());
    let listener = found.iter().find(|c| c.state == TcpState::Listening);
    let listener = listener.unwrap();
    assert_eq!(listener.local.port(), port);
    assert_eq!(listener.tcp, None);

    // Reads only the windows of the server's ends.
    let mut windows = Windows::default();
    probe.windows(port, &mut windows).unwrap();
    let of_server = truth.iter().skip(1).step_by(2);
    let mut wanted: Vec<u32> = of_server.map(|t| t.congestion_window_segments).collect();
    wanted.sort_unstable();
    assert_eq!((windows.readings, windows.established), (1, 4));
    assert_eq!(
        windows.segments,
        wanted.iter().map(|w| u64::from(*w)).sum::<u64>()
    );
    assert_eq!(windows.greatest(), wanted.last().copied());
    assert_eq!(windows.quantile(0.5), Some(wanted[1]));
    println!("{wanted:?} {windows:?}");
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[test]
fn what_waits_in_a_connection_is_in_its_queues() {
    let Some(namespace) = namespace() else {
        return;
    };
    let mut probe = NetworkProbe::open(&namespace).unwrap();
    let mut pairs = Pairs::open(&namespace, "127.0.0.1:0", 1);
    let (client, server) = &mut pairs.ends[0];
    server.set_nonblocking(true).unwrap();
    // Writes until the buffers of both ends are full.
    let mut written = 0;
    while let Ok(more) = server.write(&[7; 100_000]) {
        written += more as u64;
    }
    let (client, server) = (&*client, &*server);
    let ends = [client, server].map(|end| end.local_addr().unwrap());
    let (truth, [at_client, at_server]) = undisturbed(
        || [client, server].map(at_rest),
        || {
            let mut found = [None, None];
            let mut keep = |c: &Connection| {
                let end = ends.iter().position(|end| c.local == *end);
                if let (Some(end), true) = (end, c.tcp.is_some()) {
                    found[end] = Some(c.clone());
                }
            };
            probe.connections(&mut keep).unwrap();
            found.map(Option::unwrap)
        },
    );
    // Segments that have arrived at the client and are not acknowledged yet are in both queues.
    let (unread, waiting) = (at_client.unread.unwrap(), at_server.unacknowledged.unwrap());
    assert_eq!(Some(unread), truth[0].bytes_received);
    let acknowledged = truth[1].bytes_acknowledged.unwrap();
    assert_eq!(acknowledged + waiting, Bytes(written));
    assert!(unread > Bytes(0) && waiting > Bytes(0));
    assert!(at_client.memory.unwrap().receive >= unread);
    assert!(at_server.memory.unwrap().send >= waiting);
    assert!(at_server.memory.unwrap().total() >= waiting);
}

#[test]
fn a_sampler_has_the_windows_within_any_two_readings() {
    let Some(namespace) = namespace() else {
        return;
    };
    let pairs = Pairs::open(&namespace, "127.0.0.1:0", 5);
    let plan = Plan {
        period: Duration::from_millis(5),
        system: false,
        networks: vec![("server".to_owned(), namespace)],
        windows: Some(pairs.address().port()),
        ..Plan::default()
    };
    let sampler = Sampler::start(Clock::start(), plan).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let samples = sampler.stop();
    let taken = samples.readings.len() as u64;
    assert!(taken >= 2);
    let window = tcp_info(&pairs.ends[0].1)
        .unwrap()
        .congestion_window_segments;
    let windows = |change: &Sample| {
        let network = change.networks[0].as_ref().unwrap();
        network.windows.clone().unwrap()
    };
    let whole = windows(&samples.whole().unwrap().change);
    // On a busy machine some answers are late, but no answer is counted twice.
    assert!(whole.readings < taken, "{whole:?}");
    assert_eq!(whole.established, 5 * whole.readings);
    if samples.cost.late == 0 {
        assert_eq!(whole.readings, taken - 1);
        assert_eq!(whole.mean(), Some(f64::from(window)));
    }
    let steps: Vec<Windows> = samples.steps().map(|step| windows(&step.change)).collect();
    for step in &steps {
        assert!(step.readings <= 1, "{step:?}");
        assert_eq!(step.established, 5 * step.readings);
    }
    let sum: u64 = steps.iter().map(|step| step.readings).sum();
    assert_eq!(sum, whole.readings);
    // No connection was opened or closed, so the connection seconds follow from the number of connections.
    let (first, last) = (samples.readings[0].at, samples.readings.last().unwrap().at);
    let seconds = samples.integral(first, last, |reading| {
        let network = reading.networks[0].as_ref()?;
        Some(network.tcp.established? as f64)
    });
    let wanted = 10.0 * last.since(first).as_secs_f64();
    let seconds = seconds.unwrap();
    assert!((seconds - wanted).abs() < 1e-9, "{seconds} {wanted}");
    println!("{:?} for {taken} readings", samples.cost);
}

/// Whether this process is the child of [`a_group_has_the_memory_of_its_sockets`].
const HOLDS_SOCKETS: &str = "FATHOMETER_TEST_HOLDS_SOCKETS";

/// Holds 200 000 bytes in the buffers of sockets until its input is closed.
#[test]
fn child_that_holds_full_sockets() {
    if std::env::var_os(HOLDS_SOCKETS).is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _server = listener.accept().unwrap();
    client.write_all(&[7; 200_000]).unwrap();
    println!("the buffers are full");
    let _ = std::io::stdin().read_to_string(&mut String::new());
}

#[test]
fn a_group_has_the_memory_of_its_sockets() {
    let group = match Group::create("sockets", &Limits::default()) {
        Ok(group) => group,
        Err(error) => return eprintln!("SKIPPED, no groups on this machine: {error}"),
    };
    let before = group.memory_usage();
    let Some(nothing) = before.sockets else {
        return eprintln!("SKIPPED, memory of sockets is not accounted for here: {before:?}");
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child_that_holds_full_sockets", "--nocapture"])
        .env(HOLDS_SOCKETS, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    group.place(&mut command).unwrap();
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the buffers are full")));
    // Version 2 updates its figures every two seconds.
    until(|| group.memory_usage().sockets.unwrap() >= nothing + Bytes(200_000));
    let sockets = group.memory_usage().sockets.unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    println!("{nothing} before, {sockets} with 200 000 bytes in buffers");
}

/// Fills the queue of a listener with `N` connections, and attempts one more, which is not answered.
fn fill_queue<const N: usize>(
    namespace: &Namespace,
    probe: &mut NetworkProbe,
    address: SocketAddr,
) -> [TcpStream; N] {
    let connect = |patience| TcpStream::connect_timeout(&address, patience);
    let waiting = namespace.run(|| [(); N].map(|()| connect(PATIENCE).unwrap()));
    // A connection is in the queue when its last packet has arrived.
    until(|| probe.table().unwrap().to_be_accepted == N as u64);
    let refused = namespace.run(|| connect(Duration::from_millis(50)));
    refused.unwrap().unwrap_err();
    waiting.unwrap()
}

#[test]
fn a_listener_has_the_queue_that_its_host_allows() {
    let Some(namespace) = namespace() else {
        return;
    };
    let applied = match namespace.set_listen_backlog(3) {
        Ok(applied) => applied,
        Err(error) => return eprintln!("SKIPPED, no such setting here: {error}"),
    };
    assert!(applied.iter().all(|limit| limit.holds), "{applied:?}");
    let names: Vec<&str> = applied.iter().map(|limit| limit.what.as_str()).collect();
    assert_eq!(
        names,
        ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"]
    );
    let mut probe = NetworkProbe::open(&namespace).unwrap();
    // The backlog of the standard library is more than a hundred.
    let pairs = Pairs::open(&namespace, "127.0.0.1:0", 0);
    let address = pairs.address();
    let waiting = fill_queue::<4>(&namespace, &mut probe, address);
    assert_eq!(probe.table().unwrap().to_be_accepted, 4);
    until(|| probe.read().tcp.listen_overflows.unwrap() >= 1);
    drop(waiting);

    // The machine's own namespace is not changed.
    let own = Namespace::current().unwrap().set_listen_backlog(3);
    assert!(matches!(own, Err(Error::OwnNamespace)), "{own:?}");
}

#[test]
fn sockets_are_counted_by_state_and_namespace() {
    let Some(namespace) = namespace() else {
        return;
    };
    let mut probe = NetworkProbe::open(&namespace).unwrap();
    let before = probe.read();
    assert_eq!(probe.table().unwrap(), SocketTable::default());
    let (listener, mut pairs) = namespace
        .run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let pair = |_| {
                let client = TcpStream::connect(address).unwrap();
                (client, listener.accept().unwrap().0)
            };
            let pairs: Vec<(TcpStream, TcpStream)> = (0..8).map(pair).collect();
            (listener, pairs)
        })
        .unwrap();
    let table = probe.table().unwrap();
    assert_eq!((table.established, table.listening), (16, 1));
    assert_eq!((table.time_wait, table.unread), (0, Bytes(0)));
    let step = probe.read().since(&before);
    assert_eq!(
        (step.tcp.active_opens, step.tcp.passive_opens),
        (Some(8), Some(8))
    );
    assert_eq!(step.tcp.established, Some(16));
    // SYN, SYN-ACK and ACK of each connection.
    assert_eq!(
        (step.tcp.segments_in, step.tcp.segments_out),
        (Some(24), Some(24))
    );
    assert_eq!(
        (step.tcp.retransmitted, step.tcp.listen_drops),
        (Some(0), Some(0))
    );
    assert_eq!(step.sockets.tcp_in_use, Some(17));

    // The data is not read, so it remains in the kernel.
    pairs[0].0.write_all(&[7; 10_000]).unwrap();
    pairs[0].1.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut seen = [0; 10_000];
    // The data may arrive in a later softirq.
    while pairs[0].1.peek(&mut seen).unwrap() < seen.len() {
        std::thread::yield_now();
    }
    let table = probe.table().unwrap();
    assert_eq!(table.unread, Bytes(10_000));
    assert!(table.receive_memory > Bytes(10_000), "{table:?}");
    // All other memory is overhead.
    assert!(table.receive_memory < Bytes(100_000), "{table:?}");

    // Four connections are closed first by the client, and one of them also by the server.
    for (client, server) in &mut pairs[4..] {
        client.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
    }
    pairs.pop();
    // The last packets of these connections may be handled in a later softirq.
    until(|| {
        let table = probe.table().unwrap();
        table.time_wait == 1 && table.last_ack == 0
    });
    let table = probe.table().unwrap();
    // The time of the server's acknowledgement of the FIN depends on the server's timers.
    let half_closed = table.fin_wait_1 + table.fin_wait_2;
    assert_eq!((half_closed, table.close_wait), (3, 3), "{table:?}");
    assert_eq!((table.time_wait, table.established), (1, 8), "{table:?}");
    assert_eq!(probe.read().sockets.time_wait, Some(1));

    // Connections that are never accepted.
    let address = listener.local_addr().unwrap();
    let waiting = namespace.run(|| [(); 3].map(|()| TcpStream::connect(address).unwrap()));
    until(|| probe.table().unwrap().to_be_accepted == 3);
    drop(waiting);
}

#[test]
fn connections_that_a_listener_turned_away_are_counted() {
    let Some(namespace) = namespace() else {
        return;
    };
    let mut probe = NetworkProbe::open(&namespace).unwrap();
    let before = probe.read();
    let listener = namespace
        .run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // SAFETY: a call on an open socket.
            let done = unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 1) };
            assert_eq!(done, 0);
            listener
        })
        .unwrap();
    // A queue with limit 1 has room for 2 connections. The third connection is not answered.
    let held = fill_queue::<2>(&namespace, &mut probe, listener.local_addr().unwrap());
    until(|| {
        let step = probe.read().since(&before).tcp;
        step.listen_overflows.unwrap() >= 1 && step.listen_drops.unwrap() >= 1
    });
    assert_eq!(probe.table().unwrap().to_be_accepted, 2);
    drop(held);
}
