//! The server's machine, probed during the load.

use super::support::{Origin, load};

#[test]
fn a_server_on_this_machine_is_probed_if_requested() {
    let origin = Origin::of("webstone", 1);
    let pid = origin.pid().to_string();
    let ended = load(
        &origin.url(),
        &[
            "--workload",
            "webstone",
            "-d",
            "3s",
            "-c",
            "4",
            "--probe",
            &pid,
            "--json",
        ],
    );
    let summary = ended.ended_with(0);
    let completed = summary.measured.counts.completed;
    assert!(completed > 0);
    let server = summary.server.expect("--probe is set");
    assert_eq!(server.failures, Vec::<String>::new());
    assert!(server.watched_s >= summary.measured.duration_s);
    let [program] = &server.programs[..] else {
        panic!("{:?}", server.programs);
    };
    assert!(program.name.ends_with(&format!(" (process {pid})")));
    assert_eq!(program.processes, 1);
    // A server that answers uses some CPU time, at most the time of all processors.
    let processors = server.machine.processors.unwrap() as f64;
    assert!(program.cpu_s > 0.0 && program.cpu_s <= processors * server.watched_s);
    assert!(program.busiest_thread_share.unwrap() > 0.0);
    assert!(program.resident_bytes > 0);
    let machine = &server.machine;
    let shares = [
        machine.user_share,
        machine.system_share,
        machine.irq_share,
        machine.softirq_share,
        machine.idle_share,
        machine.iowait_share,
        machine.steal_share,
    ];
    let all: f64 = shares.into_iter().flatten().sum();
    assert!((all - 1.0).abs() < 0.01, "{shares:?}");
    assert!(machine.context_switches.unwrap() > 0);
    let [network] = &server.networks[..] else {
        panic!("{:?}", server.networks);
    };
    // Both ends are on this machine, which sends and receives each request and each response.
    assert!(network.has_generator);
    assert!(network.segments_in.unwrap() >= 2 * completed);
    assert!(network.segments_out.unwrap() >= 2 * completed);
    // The first reading is before the load and the last after it. With very many sockets, or on a busy machine, there
    // may be no third reading during the test.
    assert!(server.cost.readings == 2 || network.states["established"] > 0.0);
    assert!(server.cost.readings >= 2 && server.cost.cpu_s > 0.0);
    origin.end();
}

#[test]
fn the_machine_alone_is_watched_and_the_screen_shows_it() {
    let origin = Origin::of("webstone", 1);
    let arguments = ["--workload", "webstone", "-n", "500", "--probe", "here"];
    let ended = load(&origin.url(), &arguments);
    for row in ["machine", "network", "  probes", "  pressure", "suspected"] {
        let has = ended.out.lines().any(|line| line.starts_with(row));
        assert!(has, "{row}: {}", ended.out);
    }
    assert!(!ended.out.contains("NaN") && !ended.out.contains("inf"));
    assert!(ended.out.lines().all(|line| line.chars().count() <= 100));
    origin.end();
}

#[test]
fn a_missing_process_is_reported_before_the_test() {
    let origin = Origin::of("webstone", 1);
    let ended = load(&origin.url(), &["--probe", "4194305"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("no process 4194305"), "{}", ended.err);
    let ended = load(&origin.url(), &["--probe", "nginx"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("pgrep"), "{}", ended.err);
    origin.end();
}
