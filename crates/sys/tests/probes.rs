//! Compares probes with known values: opened descriptors and sockets, written memory, and the CPU time that
//! `wait4` reports. Tests on namespaces need root or a user namespace. If neither is available, they print a message
//! and pass; with `FATHOMETER_REQUIRE_LAB=1` they fail.
//!
//! A separate test program, because it measures the memory of its own process, which other tests would change.

#![expect(
    unsafe_code,
    reason = "the tests call libc where this crate has no wrapper"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use fathometer_model::Bytes;
use fathometer_sys::Namespace;
use fathometer_sys::cgroup::BlockDevice;
use fathometer_sys::clock::Clock;
use fathometer_sys::probe::{Detail, Plan, ProcessTree, Sampler, SystemProbe, charging};

/// The tick of the clock in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// The time limit of a step, longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

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

/// Starts a shell that works, reports the end of its work, and exits when its input ends.
fn worker(script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, output)
}

/// Lets a worker exit, and returns the CPU time of the worker and all its descendants.
fn used(mut child: Child) -> Duration {
    drop(child.stdin.take());
    // SAFETY: plain data, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = child.id() as i32;
    // SAFETY: the test's own child, and a variable that outlives the call.
    let reaped = unsafe { libc::wait4(pid, std::ptr::null_mut(), 0, &raw mut usage) };
    assert_eq!(reaped, pid);
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[test]
fn processor_time_of_a_tree_agrees_with_wait4() {
    // The shell uses a little CPU time to exit, and more if the hypervisor takes its processor away meanwhile.
    let mut results = Vec::new();
    for _ in 0..5 {
        match compare_with_wait4() {
            Ok(()) => return,
            Err(difference) => results.push(difference),
        }
    }
    panic!("{results:#?}");
}

fn compare_with_wait4() -> Result<(), String> {
    // Two loops in children that have exited, one in the shell itself.
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let script = format!("({busy}); ({busy}) & wait; {busy}; echo ready; read line");
    let (child, _output) = worker(&script);
    let tree = ProcessTree::read(child.id(), Detail::default()).unwrap();
    let truth = used(child);
    assert!(tree.settled);
    assert_eq!(tree.processes, 1);
    assert!(truth > Duration::from_millis(30), "{truth:?}");
    // Exited children are counted in whole ticks, separately for user and system time.
    let split = tree.user + tree.system;
    for (read, ticks) in [(tree.cpu, 2), (split, 4)] {
        let slack = (ticks * TICK).max(truth * 3 / 100);
        if read.abs_diff(truth) > slack {
            return Err(format!("{tree:?} {truth:?}"));
        }
    }
    println!("{:?} read, {truth:?} used", tree.cpu);
    Ok(())
}

#[test]
fn a_tree_is_all_its_processes_threads_descriptors_and_memory() {
    let (child, _output) =
        worker("exec 7</dev/null 8</dev/null; sleep 1000 & echo ready; read x; kill $!");
    let detail = Detail {
        switches: true,
        proportional: true,
    };
    let read = || ProcessTree::read(child.id(), detail).unwrap();
    let shell = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    let in_shell = shell.count() as u64;
    // Waits until both processes only wait. The sleeper inherits all descriptors, and has one more while it loads its
    // library.
    let mut tree = read();
    let start = std::time::Instant::now();
    while tree.voluntary_switches < Some(2) || tree.descriptors != Some(2 * in_shell) {
        assert!(
            start.elapsed() < PATIENCE,
            "{tree:?}, {in_shell} in the shell"
        );
        tree = read();
    }
    used(child);
    assert!(in_shell >= 5);
    assert_eq!((tree.processes, tree.threads), (2, 2));
    let proportional = tree.proportional.unwrap();
    assert!(Bytes(0) < proportional && proportional <= tree.resident + Bytes(1 << 20));
    assert!(tree.involuntary_switches.is_some());
    assert!(tree.minor_faults > 0);
    assert!(tree.read.is_some() && tree.written.is_some());

    let here = std::process::id();
    let before = ProcessTree::read(here, detail).unwrap();
    let memory = vec![1u8; 64 << 20];
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    let after = ProcessTree::read(here, detail).unwrap();
    std::hint::black_box(&memory);
    drop(stop);
    thread.join().unwrap().unwrap_err();
    let step = after.since(&before);
    assert!(after.resident >= before.resident + Bytes(60 << 20));
    assert!(after.proportional.unwrap() >= before.proportional.unwrap() + Bytes(60 << 20));
    assert!(step.minor_faults > 0 && step.cpu > Duration::ZERO);
}

#[test]
fn disk_writes_are_attributed_to_their_program() {
    if let Err(error) = BlockDevice::of_path(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        return eprintln!("SKIPPED, no disk: {error}");
    }
    let file = format!(
        "{}/written-{}",
        env!("CARGO_TARGET_TMPDIR"),
        std::process::id()
    );
    let script = format!("dd if=/dev/zero of='{file}' bs=4096 count=256 2>&-; echo ready; read x");
    let (child, _output) = worker(&script);
    let tree = ProcessTree::read(child.id(), Detail::default()).unwrap();
    used(child);
    std::fs::remove_file(&file).unwrap();
    // dd has exited; its parent keeps its counters. The file system writes a little as well.
    let written = tree.written.unwrap();
    let wanted = Bytes(256 * 4096);
    assert!(wanted <= written && written < wanted + wanted, "{written}");
}

#[test]
fn received_packets_are_softirqs_of_the_machine() {
    let Some(namespace) = namespace() else {
        return;
    };
    let mut probe = SystemProbe::open().unwrap();
    let before = probe.read();
    namespace
        .run(|| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.connect(socket.local_addr().unwrap()).unwrap();
            for _ in 0..1000 {
                socket.send(b"x").unwrap();
                socket.recv(&mut [0]).unwrap();
            }
        })
        .unwrap();
    let step = probe.read().since(&before);
    // One softirq may process several packets, but here each packet was sent after the previous one was read.
    assert!(step.softirqs["NET_RX"] >= 1000, "{:?}", step.softirqs);
    assert!(step.backlog.unwrap().processed >= 1000, "{step:?}");
}

#[test]
fn a_sampler_costs_little_and_reports_its_cost() {
    let (child, _output) = worker("echo ready; read x");
    let plan = Plan {
        period: Duration::from_millis(20),
        dear_every: 1,
        trees: vec![("shell".to_owned(), child.id())],
        ..Plan::default()
    };
    let sampler = Sampler::start(Clock::start(), plan).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let samples = sampler.stop();
    used(child);
    let each = samples.cost.cpu / samples.cost.readings as u32;
    println!(
        "{:?}, {each:?} each; charging: {:?}",
        samples.cost,
        charging().unwrap()
    );
    // CPU time, not wall-clock time: other load can hardly increase it.
    assert!(each < Duration::from_millis(10), "{:?}", samples.cost);
}
