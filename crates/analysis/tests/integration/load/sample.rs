//! Synthetic results whose figures can be calculated by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_analysis::load::server::{
    MachineProbes, NetworkProbes, ProbeCost, ProgramProbes, ServerProbes,
};
use fathometer_analysis::load::{
    ByteCounts, Connections, Counts, Distribution, Ended, FrameCount, Frames, Generator,
    Handshakes, Interval, Latency, LoadResult, LoopKind, Numbers, Setup, TargetCount, Window,
    WorkerHealth,
};
use fathometer_model::{Bytes, Failure, Seed, Validity};

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn times(times: impl IntoIterator<Item = Duration>) -> Distribution {
    let mut distribution = Distribution::new();
    times.into_iter().for_each(|time| distribution.record(time));
    distribution
}

fn setup(kind: LoopKind) -> Setup {
    let machine = [("cores", "2"), ("kernel", "6.1.0"), ("cpu", "Example 9000")];
    Setup {
        url: "http://127.0.0.1:8080/".to_owned(),
        workload: "/file1k.html".to_owned(),
        policy: "h1.1".to_owned(),
        kind,
        threads: 2,
        warm_up: Duration::from_secs(2),
        duration: Some(Duration::from_secs(10)),
        exchanges: None,
        timeout: Duration::from_secs(20),
        wake_up_coalescing: Duration::from_millis(1),
        seed: Seed(7),
        defaults: [("warm-up", "2 s"), ("time-out", "20 s"), ("policy", "h1.1")]
            .map(|(setting, value)| (setting.to_owned(), value.to_owned()))
            .to_vec(),
        command: [
            "fathometer",
            "load",
            "http://127.0.0.1:8080/file1k.html",
            "-d",
            "10s",
        ]
        .map(str::to_owned)
        .to_vec(),
        version: "0.1.0".to_owned(),
        machine: machine
            .map(|(fact, value)| (fact.to_owned(), value.to_owned()))
            .into(),
        started: 1_795_289_940.25,
    }
}

/// Returns a test of ten seconds at 1000 requests/s, each on its own connection. The server responds in 1 ms and stalls
/// for one second. The 1000 requests planned during the stall wait 1000, 999 … 1 ms and fill the queue; the request in
/// flight also waits one second.
pub fn stalled() -> LoadResult {
    let mut latency = Latency::default();
    for n in 0..10_000_u64 {
        let stall = Duration::from_millis(if (4_000..5_000).contains(&n) {
            5_000 - n
        } else {
            0
        });
        let lag = micros(10 + n % 20);
        let service = match n {
            4_000 => stall + micros(1_000),
            n => micros(900 + n % 200),
        };
        let queue = if n == 4_000 { Duration::ZERO } else { stall };
        latency.queue.record(queue);
        latency.send_lag.record(lag);
        latency.uncorrected.record(service);
        latency.corrected.record(queue + lag + service);
        latency.first_byte.record(service - micros(100));
        latency.transfer.record(micros(100));
    }
    latency.connect = times((1..=64).map(|n| micros(40 + n)));
    let measured = Window {
        duration: Duration::from_secs(10),
        counts: Counts {
            planned: 10_000,
            sent: 10_000,
            completed: 10_000,
            statuses: BTreeMap::from([(200, 10_000)]),
            connects: 64,
            connected: 64,
            ..Counts::default()
        },
        bytes: ByteCounts {
            request_heads: Bytes(880_000),
            request_fields: Bytes(880_000),
            request_bodies: Bytes(0),
            response_heads: Bytes(2_300_000),
            response_fields: Bytes(2_300_000),
            response_bodies: Bytes(10_240_000),
            content: Bytes(10_240_000),
            failed_responses: Bytes(1_234),
        },
        latency,
        ended: Ended {
            completed: 10_000,
            received: Bytes(12_540_000),
            useful: Bytes(10_240_000),
            connected: 64,
            ..Ended::default()
        },
        // All connections are open from the start until after the end, and busy for 10.9951 s.
        connections: Connections {
            open: Duration::from_secs(640),
            idle: Duration::from_secs(640) - micros(10_995_100),
            ..Connections::default()
        },
        handshakes: Handshakes::default(),
        frames: Frames::default(),
        datagrams: fathometer_analysis::load::Datagrams::default(),
        paused: Duration::ZERO,
    };
    let interval = |second: u64| Interval {
        start: Duration::from_secs(second),
        length: Duration::from_secs(1),
        planned: 1_000,
        completed: match second {
            6 => 0,
            7 => 2_000,
            _ => 1_000,
        },
        errors: 0,
        received: Bytes(1_254_000),
        latency: match second {
            6 => [None; 4],
            7 => [500_000, 900_000, 990_000, 1_001_000].map(|n| Some(micros(n))),
            _ => [1_020, 1_100, 1_120, 1_130].map(|n| Some(micros(n))),
        },
        connections: 64,
        send_lag_p99: Some(micros(29)),
    };
    LoadResult {
        setup: setup(LoopKind::Open {
            arrivals: "constant 1000/s".to_owned(),
            rate: 1000.0,
            connections: 64,
            batch: None,
        }),
        measured,
        warm_up: Some(Window {
            duration: Duration::from_secs(2),
            counts: Counts {
                planned: 2_000,
                sent: 2_000,
                completed: 2_000,
                statuses: BTreeMap::from([(200, 2_000)]),
                connects: 64,
                connected: 64,
                ..Counts::default()
            },
            ended: Ended {
                completed: 2_000,
                ..Ended::default()
            },
            ..Window::default()
        }),
        drain: Some(Window {
            duration: micros(1_130),
            ..Window::default()
        }),
        timeline: (0..12).map(interval).collect(),
        targets: Vec::new(),
        skipped: BTreeMap::new(),
        sequence: None,
        user_time: None,
        generator: Generator {
            cpu_user: Duration::from_millis(60),
            cpu_system: Duration::from_millis(100),
            workers: [0.0081, 0.0079]
                .map(|busy| WorkerHealth {
                    busy,
                    longest_turn: micros(310),
                    rested: busy * 10.0,
                    rest_latency_ratio: Some(0.97),
                    busy_waited: Duration::from_millis(4),
                    wake_up_latency: Some(micros(14)),
                })
                .to_vec(),
            peak_memory: Bytes(9_400_000),
            descriptors: (71, 1_048_576),
            ports_exhausted: 0,
            steal: 0.0,
            repeated: 0,
        },
        ranks: Vec::new(),
        server: None,
        validity: Validity::default(),
    }
}

/// Returns a closed loop of users that fetch pages of several files from a server that breaks down, on an overloaded
/// machine.
pub fn broken() -> LoadResult {
    let mut result = stalled();
    result.setup.kind = LoopKind::Closed { users: 1_200 };
    result.setup.workload = "webstone, \"heavy\"".to_owned();
    result.setup.policy = "h1.0x4".to_owned();
    result.setup.defaults.clear();
    let latency = &mut result.measured.latency;
    latency.page = times((1..=500).map(|n| Duration::from_millis(20 * n)));
    latency.failed = times([Duration::from_secs(20), Duration::from_millis(3)]);
    result.measured.counts = Counts {
        planned: 5_020,
        sent: 4_990,
        completed: 4_800,
        statuses: BTreeMap::from([(200, 4_500), (404, 100), (503, 200)]),
        failures: BTreeMap::from([
            (Failure::Refused, 10),
            (Failure::Reset, 60),
            (Failure::TimedOut, 80),
            (Failure::Truncated, 5),
            (Failure::LocalLimit, 45),
        ]),
        unfinished: 20,
        wrong_size: 3,
        retried: 12,
        connects: 5_100,
        connected: 5_045,
        connect_failures: BTreeMap::from([(Failure::Refused, 10), (Failure::LocalLimit, 45)]),
        pages: 450,
        page_connections: 0,
        pages_failed: 50,
        sessions: 9,
    };
    result.measured.ended = Ended {
        completed: 4_700,
        status_errors: 290,
        failed: 190,
        received: Bytes(94_000_000),
        useful: Bytes(92_000_000),
        connected: 5_000,
        silent_from: None,
    };
    result.measured.connections = Connections {
        closed_by_client: 10,
        closed_by_server: 4_800,
        failed: 190,
        open: Duration::from_secs(9_500),
        idle: Duration::from_secs(95),
        life: times((1..=5_000).map(|n| micros(760 * n))),
        exchanges: Numbers::new(),
    };
    for n in 0..5_000 {
        result
            .measured
            .connections
            .exchanges
            .record(u64::from(n % 16 != 0));
    }
    result.targets = (1..=12)
        .map(|n| TargetCount {
            target: format!("GET /files/{}/index.html", "x".repeat(n * n)),
            completed: 400 + n as u64 % 3,
            failed: n as u64,
        })
        .collect();
    result.generator.workers[0].busy = 0.997;
    result.generator.ports_exhausted = 45;
    result.generator.steal = 0.083;
    result.validity.invalidate(
        "45 connections found no local port free (limit 0): more addresses, or fewer connections \
         a second, would do; the figures are then of this machine and not of the server",
    );
    result
        .validity
        .invalidate("thread 0 was busy for 99.7 % of the time (limit 90 %)");
    result
}

/// Returns a test without exchanges.
pub fn nothing() -> LoadResult {
    let mut result = stalled();
    result.measured = Window::default();
    result.warm_up = None;
    result.drain = None;
    result.timeline.clear();
    result.generator = Generator::default();
    result
        .validity
        .invalidate("no exchange was planned in the measured window");
    result
}

/// Returns a server that accepts connections and never responds: ten requests timed out, five were unfinished.
pub fn silent() -> LoadResult {
    let mut result = stalled();
    result.setup.kind = LoopKind::Closed { users: 15 };
    result.measured.latency = Latency {
        corrected: times([Duration::from_secs(20); 10]),
        uncorrected: times([Duration::from_secs(20); 10]),
        failed: times([Duration::from_secs(20); 10]),
        ..Latency::default()
    };
    result.measured.counts = Counts {
        planned: 15,
        sent: 15,
        failures: BTreeMap::from([(Failure::TimedOut, 10)]),
        unfinished: 5,
        connects: 15,
        connected: 15,
        ..Counts::default()
    };
    result.measured.bytes = ByteCounts::default();
    result.measured.ended = Ended {
        failed: 10,
        ..Ended::default()
    };
    result
}

/// Returns the stalled server, with probes, on a machine whose processors are exhausted and whose kernel does not
/// report everything.
pub fn watched() -> LoadResult {
    let mut result = stalled();
    result.server = Some(ServerProbes {
        watched_s: 10.0,
        programs: vec![ProgramProbes {
            name: "httpd (process 4711)".to_owned(),
            processes: 6,
            threads: 106,
            cpu_s: 8.0,
            cpu_user_s: 3.0,
            cpu_system_s: 5.0,
            busiest_thread_share: Some(0.125),
            resident_bytes: 96_000_000,
            proportional_bytes: None,
            major_faults: 3,
            minor_faults: 1_200,
            voluntary_switches: Some(20_000),
            involuntary_switches: Some(500),
            read_bytes: Some(4_096_000),
            written_bytes: Some(0),
            descriptors: Some(171),
        }],
        machine: MachineProbes {
            processors: Some(2),
            user_share: Some(0.40),
            system_share: Some(0.35),
            irq_share: Some(0.0),
            softirq_share: Some(0.22),
            idle_share: Some(0.03),
            iowait_share: Some(0.0),
            page_cache_bytes: Some(1_500_000_000),
            paged_in_bytes: Some(4_096_000),
            paged_out_bytes: Some(0),
            major_faults: Some(3),
            context_switches: Some(45_000),
            interrupts: Some(30_000),
            ..MachineProbes::default()
        },
        groups: Vec::new(),
        networks: vec![NetworkProbes {
            name: "this network namespace".to_owned(),
            has_generator: true,
            segments_in: Some(40_100),
            segments_out: Some(40_000),
            retransmitted: Some(0),
            listen_overflows: Some(0),
            listen_drops: None,
            states: BTreeMap::from([("established".to_owned(), 128.0)]),
            to_be_accepted: Some(0.0),
        }],
        cost: ProbeCost {
            period_s: 0.22,
            readings: 56,
            cpu_s: 0.1,
            longest_s: 0.0031,
            from_first_to_last_s: 12.1,
        },
        failures: vec!["sockets of this network namespace: not permitted".to_owned()],
    });
    result
}

/// Returns the stalled server over TLS with HTTP/2: 48 full handshakes and 16 resumed handshakes.
pub fn multiplexed() -> LoadResult {
    let mut result = stalled();
    result.setup.url = "https://127.0.0.1:8443/".to_owned();
    result.setup.policy = "h2-streams16".to_owned();
    let measured = &mut result.measured;
    measured.latency.tls = times((1..=64).map(|n| micros(900 + 10 * n)));
    measured.bytes = ByteCounts {
        request_heads: Bytes(190_000),
        request_fields: Bytes(800_000),
        request_bodies: Bytes(0),
        response_heads: Bytes(460_000),
        response_fields: Bytes(1_840_000),
        response_bodies: Bytes(10_330_000),
        content: Bytes(10_240_000),
        failed_responses: Bytes(0),
    };
    let agreed = "TLS 1.3, AES-128-GCM, X25519, h2";
    measured.handshakes = Handshakes {
        full: 48,
        resumed: 16,
        early: 12,
        early_refused: 4,
        sent: Bytes(64 * 500),
        received: Bytes(48 * 1_200 + 16 * 300),
        certificates: Bytes(48 * 700),
        cpu: micros(64 * 250),
        agreed: BTreeMap::from([(agreed.to_owned(), 64)]),
    };
    let frames = |kinds: &[(&str, u64, u64)]| {
        let counts = kinds.iter().map(|&(kind, frames, bytes)| {
            let bytes = Bytes(bytes);
            (kind.to_owned(), FrameCount { frames, bytes })
        });
        counts.collect()
    };
    measured.frames = Frames {
        sent: frames(&[
            ("headers", 10_000, 190_000),
            ("settings", 128, 2_304),
            ("window-update", 400, 5_200),
        ]),
        received: frames(&[
            ("data", 10_000, 10_330_000),
            ("headers", 10_000, 460_000),
            ("settings", 128, 2_304),
        ]),
        most_streams: 16,
        allowed_streams: Some(100),
    };
    result
}

/// Returns all results by name.
pub fn all() -> [(&'static str, LoadResult); 6] {
    [
        ("multiplexed", multiplexed()),
        ("watched", watched()),
        ("stalled", stalled()),
        ("broken", broken()),
        ("nothing", nothing()),
        ("silent", silent()),
    ]
}
