//! The figures that a rank of a load test reports: true ones, as bytes.

use std::time::Duration;

use fathometer_analysis::load::{
    Generator, Latency, LoadResult, LoopKind, Setup, TargetCount, Window, WorkerHealth,
};
use fathometer_load::timeline::Part;
use fathometer_model::{Bytes, Failure, Seed, Validity};
use fathometer_ranks::clock_offset::ClockRecord;
use fathometer_ranks::record::{RankRecord, TestFacts};
use fathometer_ranks::whole::{encode_part, encode_record};

/// A test of two ranks.
pub const FACTS: TestFacts = TestFacts {
    ranks: 2,
    interval: Duration::from_secs(1),
    warm_up: Duration::ZERO,
    measured: Some(Duration::from_secs(2)),
};

/// The figures of an interval.
pub fn interval(number: u64) -> Vec<u8> {
    let mut part = Part::new(number);
    for nanos in [1_000, 1_100, 50_000] {
        part.latency.record_nanos(nanos);
        part.send_lag.record_nanos(nanos / 100);
        part.planned += 1;
        part.completed += 1;
    }
    part.received = Bytes(3000);
    part.connections = 2;
    part.so_far.planned = 3 * (number + 1);
    part.so_far.statuses.insert(200, 3 * (number + 1));
    part.so_far.failures.insert(Failure::Reset, 1);
    encode_part(&part)
}

/// The result of a rank.
pub fn result(rank: u32) -> Vec<u8> {
    let mut latency = Latency::default();
    for nanos in [1_000, 1_100, 50_000] {
        latency.corrected.record_nanos(nanos);
        latency.failed.record_nanos(2 * nanos);
    }
    let mut measured = Window {
        duration: Duration::from_secs(2),
        latency,
        ..Window::default()
    };
    measured.counts.planned = 6;
    measured.counts.completed = 6;
    measured.counts.statuses.insert(200, 6);
    measured.ended.completed = 6;
    measured.connections.life.record_nanos(1 << 30);
    measured.connections.exchanges.record(3);
    measured.handshakes.agreed.insert("TLS 1.3".to_owned(), 2);
    let result = LoadResult {
        setup: Setup {
            url: "http://server/".to_owned(),
            workload: "/".to_owned(),
            policy: "h1.1".to_owned(),
            kind: LoopKind::Open {
                arrivals: "constant 3/s".to_owned(),
                rate: 3.0,
                connections: 2,
                batch: None,
            },
            threads: 1,
            warm_up: FACTS.warm_up,
            duration: FACTS.measured,
            exchanges: None,
            timeout: Duration::from_secs(30),
            wake_up_coalescing: Duration::ZERO,
            seed: Seed(1),
            defaults: Vec::new(),
            command: vec!["fathometer".to_owned()],
            version: "1".to_owned(),
            machine: Default::default(),
            started: 1.5,
        },
        measured,
        warm_up: None,
        drain: Some(Window::default()),
        timeline: Vec::new(),
        targets: vec![TargetCount {
            target: "GET /".to_owned(),
            completed: 6,
            failed: 0,
        }],
        skipped: Default::default(),
        sequence: None,
        user_time: None,
        generator: Generator {
            workers: vec![WorkerHealth::default()],
            ..Generator::default()
        },
        ranks: Vec::new(),
        server: None,
        validity: Validity::default(),
    };
    encode_record(&RankRecord {
        rank,
        host: "node".to_owned(),
        result,
        clock: ClockRecord::SAME,
        start_late: Duration::ZERO,
        traffic: (4000, 400),
    })
}

/// Bytes with some replaced or inserted as a script says: a place (16 bits), what to do with how many, and these bytes.
pub fn altered(mut bytes: Vec<u8>, mut script: &[u8]) -> Vec<u8> {
    while let [low, high, how, rest @ ..] = script {
        let count = usize::from(how >> 1).min(rest.len()).min(16);
        let (new, rest) = rest.split_at(count);
        script = rest;
        let place = usize::from(u16::from_le_bytes([*low, *high])) % (bytes.len() + 1);
        let end = match how & 1 {
            0 => (place + count).min(bytes.len()),
            _ => place,
        };
        bytes.splice(place..end, new.iter().copied());
    }
    bytes
}
