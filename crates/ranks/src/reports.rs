//! Tests of a whole test of synthetic shares, reported directly and read from spools.

use std::time::Duration;

use fathometer_analysis::load::{Generator, Latency, LoadResult, LoopKind, Setup, Summary, Window};
use fathometer_load::timeline::Part;
use fathometer_model::{Bytes, Seed, Validity};

use crate::clock_offset::{ClockOffset, ClockRecord};
use crate::merge::Merged;
use crate::record::{RankRecord, TestFacts};
use crate::spool::{Spool, SpoolError, SpoolHeader, SpoolWriter, whole};
use crate::whole::{FiguresError, Whole, encode_part, encode_record};

const RANKS: u32 = 3;
pub(crate) const INTERVALS: u64 = 4;

pub(crate) const FACTS: TestFacts = TestFacts {
    ranks: RANKS,
    interval: Duration::from_secs(1),
    warm_up: Duration::from_secs(1),
    measured: Some(Duration::from_secs(3)),
};

/// Returns latencies of a rank in an interval, in nanoseconds.
fn latencies(rank: u32, interval: u64) -> impl Iterator<Item = u64> {
    let seed = Seed(rank.into()).child(interval);
    (0..50 + u64::from(rank)).map(move |n| 100_000 + seed.draw(n) % 3_000_000)
}

pub(crate) fn part(rank: u32, interval: u64) -> Part {
    let mut part = Part::new(interval);
    for nanos in latencies(rank, interval) {
        part.latency.record_nanos(nanos);
        part.send_lag.record_nanos(nanos / 100);
        part.planned += 1;
        part.completed += 1;
        part.received = Bytes(part.received.0 + 1000);
    }
    // The counts of the measured window (from interval 1) up to this interval.
    let so_far: u64 = (1..=interval)
        .map(|n| latencies(rank, n).count() as u64)
        .sum();
    part.so_far.planned = so_far;
    part.so_far.completed = so_far;
    part.so_far.statuses.insert(200, so_far);
    part
}

pub(crate) fn record(rank: u32) -> RankRecord {
    let mut latency = Latency::default();
    for nanos in (1..INTERVALS).flat_map(|interval| latencies(rank, interval)) {
        latency.corrected.record_nanos(nanos);
        latency.send_lag.record_nanos(nanos / 100);
        latency.first_byte.record_nanos(nanos / 2);
    }
    let count = latency.corrected.count();
    let mut measured = Window {
        duration: Duration::from_secs(3),
        latency,
        ..Window::default()
    };
    measured.counts.planned = count;
    measured.counts.completed = count;
    measured.counts.statuses.insert(200, count);
    measured.ended.completed = count;
    RankRecord {
        rank,
        host: format!("node{rank}"),
        result: LoadResult {
            setup: Setup {
                url: "http://server/".to_owned(),
                workload: "/".to_owned(),
                policy: "h1.1".to_owned(),
                kind: LoopKind::Closed { users: 9 },
                threads: 2,
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
            warm_up: Some(Window {
                duration: FACTS.warm_up,
                ..Window::default()
            }),
            drain: None,
            timeline: Vec::new(),
            targets: Vec::new(),
            skipped: Default::default(),
            sequence: None,
            user_time: None,
            generator: Generator::default(),
            ranks: Vec::new(),
            server: None,
            validity: Validity::default(),
        },
        clock: ClockRecord {
            before: ClockOffset {
                offset: -7,
                uncertainty: Duration::from_micros(20 + u64::from(rank)),
            },
            after: None,
            drift: Duration::ZERO,
            round_trips: 1,
        },
        start_late: Duration::ZERO,
        traffic: (4000, 400),
    }
}

/// Returns the bytes of a rank's spool with these intervals, and with the rank's result if `ended`.
fn spooled(rank: u32, intervals: u64, ended: bool) -> Vec<u8> {
    let header = SpoolHeader {
        test: 9,
        rank,
        facts: FACTS,
    };
    let mut bytes = Vec::new();
    let mut spool = SpoolWriter::begin(&mut bytes, &header).unwrap();
    for interval in 0..intervals {
        spool.interval(&encode_part(&part(rank, interval))).unwrap();
    }
    if ended {
        spool.ended(&encode_record(&record(rank))).unwrap();
    }
    bytes
}

pub(crate) fn read(spools: &[Vec<u8>]) -> Vec<(String, Spool)> {
    let read = |bytes: &Vec<u8>| ("a".to_owned(), Spool::read(bytes).unwrap());
    spools.iter().map(read).collect()
}

pub(crate) fn json(result: &Merged) -> String {
    Summary::of(result).to_json()
}

#[test]
fn the_whole_is_the_same_in_whatever_order_figures_arrive_and_as_it_was_spooled() {
    let orders: [[u32; 3]; 3] = [[0, 1, 2], [2, 1, 0], [1, 2, 0]];
    let mut results = Vec::new();
    for order in orders {
        let mut whole = Whole::new(FACTS);
        for interval in 0..INTERVALS {
            for rank in order {
                assert!(whole.close_next().is_none());
                let bytes = encode_part(&part(rank, interval));
                whole.interval(rank, bytes).unwrap();
            }
            let closed = whole.close_next().unwrap();
            assert_eq!(closed.interval.start, FACTS.interval * interval as u32);
            assert_eq!(closed.interval.completed, 50 + 51 + 52);
        }
        for rank in order {
            whole.ended(rank, &encode_record(&record(rank))).unwrap();
        }
        results.push(json(&whole.finish().unwrap()));
    }
    let spools = [1, 0, 2].map(|rank| spooled(rank, INTERVALS, true));
    let offline = whole(read(&spools)).unwrap().finish().unwrap();
    results.push(json(&offline));
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    // The percentiles must equal the percentiles of one process with the same exchanges.
    let mut one = Latency::default();
    for rank in 0..RANKS {
        for nanos in (1..INTERVALS).flat_map(|interval| latencies(rank, interval)) {
            one.corrected.record_nanos(nanos);
        }
    }
    let merged = &offline.measured.latency.corrected;
    assert!(merged.recorded().eq(one.corrected.recorded()));
    assert_eq!(
        (merged.sum(), merged.min()),
        (one.corrected.sum(), one.corrected.min())
    );
    assert!(offline.validity.is_valid(), "{:?}", offline.validity);
    assert_eq!(offline.setup.threads, 6);
    let skews: Vec<Option<f64>> = offline
        .ranks
        .iter()
        .map(|rank| rank.start_skew_ms)
        .collect();
    assert_eq!(skews, [Some(0.02), Some(0.021), Some(0.022)]);
    // 4400 bytes were sent in 4 s.
    assert_eq!(offline.ranks[0].control_bytes_per_s, Some(1100.0));
}

#[test]
fn what_a_lost_rank_reported_counts_and_the_result_is_invalid() {
    // The spool of rank 1 contains its first three intervals, of which one is in the warm-up. Rank 2 has no spool.
    let spools = [spooled(0, INTERVALS, true), spooled(1, 3, false)];
    let result = whole(read(&spools)).unwrap().finish().unwrap();
    let expected = 3 * 50 + 2 * 51;
    assert_eq!(result.measured.counts.completed, expected);
    assert_eq!(result.measured.latency.corrected.count(), expected);
    assert_eq!(result.measured.ended.completed, expected);
    assert_eq!(result.measured.ended.received, Bytes(2 * 51 * 1000));
    let reasons = &result.validity.reasons;
    assert_eq!(reasons.len(), 2);
    assert!(reasons[0].starts_with("rank 1 was lost") && reasons[0].contains("first 3.0 s"));
    assert!(reasons[1].starts_with("rank 2 was lost") && reasons[1].contains("first 0.0 s"));
    assert_eq!(result.timeline.len(), INTERVALS as usize);
    assert_eq!(result.timeline[3].completed, 50);
    let none = whole(read(&[spooled(0, 2, false)])).unwrap().finish();
    assert!(none.is_err());
}

#[test]
fn a_late_start_a_drifting_clock_and_a_short_share_invalidate_the_result() {
    type Change = fn(&mut RankRecord);
    let changes: [(Change, &str); 4] = [
        (
            |r| r.start_late = Duration::from_millis(5),
            "rank 1 (node1): it may have started 5.0ms",
        ),
        (
            |r| r.clock.drift = Duration::from_millis(6),
            "drifted by at least 6.0ms",
        ),
        (
            |r| r.result.measured.duration = Duration::from_secs(2),
            "ended after 2.0 s of 3.0 s",
        ),
        (
            |r| r.result.validity.invalidate("reason"),
            "rank 1 (node1): reason",
        ),
    ];
    for (change, why) in changes {
        let mut whole = Whole::new(FACTS);
        for rank in 0..RANKS {
            let mut record = record(rank);
            if rank == 1 {
                change(&mut record);
            }
            whole.ended(rank, &encode_record(&record)).unwrap();
        }
        let reasons = whole.finish().unwrap().validity.reasons;
        assert!(
            reasons.len() == 1 && reasons[0].contains(why),
            "{why}: {reasons:?}"
        );
    }
}

#[test]
fn figures_out_of_turn_are_refused() {
    let mut whole = Whole::new(FACTS);
    let of = |rank, interval| encode_part(&part(rank, interval));
    let order = |found, expected| Err(FiguresError::Order { found, expected });
    assert_eq!(whole.interval(1, of(1, 1)), order(1, 0));
    assert_eq!(whole.interval(1, of(1, 0)), Ok(()));
    assert_eq!(whole.interval(1, of(1, 0)), order(0, 1));
    assert_eq!(whole.interval(3, of(1, 0)), Err(FiguresError::Rank));
    let malformed = whole.interval(1, vec![1; 10]);
    assert!(matches!(malformed, Err(FiguresError::Malformed(_))));
    // Rank 1 reports the result of another rank.
    assert_eq!(
        whole.ended(1, &encode_record(&record(2))),
        Err(FiguresError::Rank)
    );
    whole.ended(1, &encode_record(&record(1))).unwrap();
    assert_eq!(whole.interval(1, of(1, 1)), Err(FiguresError::Rank));
}

#[test]
fn a_spool_that_was_cut_off_or_damaged_keeps_all_whole_entries() {
    let bytes = spooled(1, 3, true);
    let whole_spool = spooled(1, 3, false).len();
    for cut in [whole_spool, whole_spool + 7, bytes.len() - 1] {
        let cut = Spool::read(&bytes[..cut]).unwrap();
        assert_eq!(
            format!("{cut:?}"),
            format!("{:?}", Spool::read(&bytes[..whole_spool]).unwrap())
        );
    }
    let mut damaged = bytes.clone();
    damaged[whole_spool + 20] ^= 1;
    assert!(format!("{:?}", Spool::read(&damaged).unwrap()).contains("ended: None"));
    assert!(matches!(Spool::read(b"something"), Err(SpoolError::Magic)));
    assert!(matches!(Spool::read(&bytes[..25]), Err(SpoolError::Empty)));
}

#[test]
fn spools_of_different_tests_or_of_one_rank_twice_are_not_merged() {
    let twice = [spooled(1, 1, true), spooled(1, 2, true)];
    let (_, error) = whole(read(&twice)).unwrap_err();
    assert!(matches!(error, SpoolError::Twice(1)));
    let header = SpoolHeader {
        test: 10,
        rank: 2,
        facts: FACTS,
    };
    let mut other = Vec::new();
    SpoolWriter::begin(&mut other, &header).unwrap();
    let (_, error) = whole(read(&[spooled(1, 1, true), other])).unwrap_err();
    assert!(matches!(error, SpoolError::OtherTest));
}

/// Returns the figures of an interval with the latencies of docs/scale.md: log-normal, with a median of 1 ms and a 99th
/// percentile of 5 ms; one exchange in a thousand is 100 times slower.
fn busy_part(exchanges: u64) -> Part {
    let seed = Seed(5);
    let mut part = Part::new(7);
    for n in 0..exchanges {
        // The Box-Muller transform (1958) yields normally distributed numbers.
        let radius = (-2.0 * (1.0 - seed.uniform(3 * n)).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * seed.uniform(3 * n + 1)).cos();
        let slow = match seed.draw(3 * n + 2).is_multiple_of(1000) {
            true => 100.0,
            false => 1.0,
        };
        let nanos = 1e6 * slow * (0.69 * normal).exp();
        part.latency.record_nanos(nanos as u64);
        part.send_lag.record_nanos((nanos / 50.0) as u64);
    }
    part
}

#[test]
fn the_figures_of_an_interval_take_less_than_20_kb_up_to_a_million_exchanges() {
    for (exchanges, most) in [
        (100, 400),
        (1_000, 1_500),
        (10_000, 5_000),
        (100_000, 10_000),
        (1_000_000, 20_000),
    ] {
        let part = busy_part(exchanges);
        let bytes = encode_part(&part);
        println!("{exchanges} exchanges: {} bytes", bytes.len());
        assert!(bytes.len() < most, "{exchanges}: {}", bytes.len());
        let mut whole = Whole::new(TestFacts { ranks: 1, ..FACTS });
        let mut first = part;
        first.interval = 0;
        whole.interval(0, encode_part(&first)).unwrap();
        whole.close_next().unwrap();
        assert!(whole.corrected().recorded().eq(first.latency.recorded()));
    }
}
