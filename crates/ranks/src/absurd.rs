//! Tests for the figures of a rank with the right secret: possible figures are accepted, impossible figures are
//! refused.

use std::time::Duration;

use fathometer_analysis::load::{TargetCount, WorkerHealth, screen};
use fathometer_load::timeline::Part;
use fathometer_model::{Bytes, Failure, Seed};

use crate::record::{RankRecord, TestFacts};
use crate::reports::{FACTS, INTERVALS, json, part, record};
use crate::spool::{Spool, SpoolHeader, SpoolWriter, whole};
use crate::whole::{FiguresError, Whole, encode_part, encode_record};

/// A count above the limit of every rank of [`FACTS`].
const ABSURD: u64 = 1 << 59;

type ChangeOfRecord = fn(&mut RankRecord);

const RECORDS: [ChangeOfRecord; 15] = [
    |r| r.host = "node\u{1b}[31m".to_owned(),
    |r| r.start_late = Duration::MAX,
    |r| r.clock.before.uncertainty = Duration::MAX,
    |r| r.clock.drift = Duration::MAX,
    |r| r.traffic = (u64::MAX, u64::MAX),
    |r| r.result.measured.duration = Duration::MAX,
    |r| r.result.measured.paused = Duration::MAX,
    |r| r.result.measured.counts.planned = u64::MAX,
    |r| {
        r.result
            .measured
            .counts
            .statuses
            .extend((1..9).map(|n| (n, ABSURD / 4)));
    },
    |r| r.result.measured.bytes.content = Bytes(u64::MAX),
    |r| r.result.measured.ended.silent_from = Some(Duration::MAX),
    |r| r.result.setup.threads = u32::MAX,
    |r| r.result.generator.steal = f64::INFINITY,
    |r| {
        r.result.generator.workers = vec![WorkerHealth {
            busy: f64::NAN,
            ..Default::default()
        }];
    },
    |r| {
        let (target, failed) = (String::new(), u64::MAX);
        r.result.targets = vec![TargetCount {
            target,
            completed: 1,
            failed,
        }];
    },
];

#[test]
fn a_result_with_a_figure_that_no_test_has_is_refused_and_its_rank_can_be_given_up() {
    for (place, change) in RECORDS.iter().enumerate() {
        let mut absurd = record(1);
        change(&mut absurd);
        let mut whole = Whole::new(FACTS);
        let refused = whole.ended(1, &encode_record(&absurd));
        assert!(
            matches!(refused, Err(FiguresError::Absurd(_))),
            "{place}: {refused:?}"
        );
        let why = refused.unwrap_err().to_string();
        whole.lost(1, why.clone());
        for rank in [0, 2] {
            whole.ended(rank, &encode_record(&record(rank))).unwrap();
        }
        let result = whole.finish().unwrap();
        let reasons = &result.validity.reasons;
        assert!(
            reasons[0].starts_with(&format!("rank 1 was lost ({why})")),
            "{reasons:?}"
        );
    }
}

#[test]
fn intervals_with_absurd_figures_are_refused_one_by_one_and_in_sum() {
    let changes: [fn(&mut Part); 5] = [
        |part| part.planned = u64::MAX,
        |part| part.received = Bytes(u64::MAX),
        |part| part.connections = u64::MAX,
        |part| part.so_far.completed = u64::MAX,
        |part| part.so_far.failures = [(Failure::TimedOut, u64::MAX)].into(),
    ];
    for (place, change) in changes.iter().enumerate() {
        let mut absurd = part(1, 0);
        change(&mut absurd);
        let refused = Whole::new(FACTS).interval(1, encode_part(&absurd));
        assert!(
            matches!(refused, Err(FiguresError::Absurd(_))),
            "{place}: {refused:?}"
        );
    }
    // Each interval is within the limits, but the sum of all intervals exceeds them.
    let mut whole = Whole::new(FACTS);
    let taken = (0..INTERVALS).find(|&interval| {
        let mut large = part(1, interval);
        large.received = Bytes((1 << 60) / 7);
        whole.interval(1, encode_part(&large)).is_err()
    });
    assert_eq!(taken, Some(2));
}

/// Reports the largest accepted figures from each of many ranks: no sum overflows, and every figure is printed.
#[test]
fn the_largest_figures_of_all_ranks_can_be_summed_and_printed() {
    let facts = TestFacts { ranks: 64, ..FACTS };
    let most = (1u64 << 60) / 64;
    let mut large = record(0);
    let window = &mut large.result.measured;
    window.counts.planned = most;
    window.counts.completed = most;
    window.counts.statuses = [(200, most - 1), (500, 1)].into();
    window.counts.failures = [(Failure::TimedOut, most)].into();
    window.bytes.content = Bytes(most);
    window.ended.completed = most;
    window.ended.received = Bytes(most);
    window.paused = Duration::from_secs(most);
    window.connections.open = Duration::from_secs(most);
    large.result.generator.cpu_user = Duration::from_secs(most);
    let mut whole = Whole::new(facts);
    for rank in 0..facts.ranks {
        large.rank = rank;
        whole.ended(rank, &encode_record(&large)).unwrap();
    }
    let result = whole.finish().unwrap();
    assert_eq!(result.measured.counts.completed, 1 << 60);
    assert!(screen::details(&result, &[]).contains("64"));
    assert!(json(&result).contains(&(1u64 << 60).to_string()));
}

#[test]
fn a_spool_with_absurd_figures_is_refused_with_its_rank() {
    let spool_of = |facts: TestFacts, change: ChangeOfRecord| {
        let header = SpoolHeader {
            test: 9,
            rank: 2,
            facts,
        };
        let mut bytes = Vec::new();
        let mut spool = SpoolWriter::begin(&mut bytes, &header).unwrap();
        let mut record = record(2);
        change(&mut record);
        spool.ended(&encode_record(&record)).unwrap();
        Spool::read(&bytes).map(|spool| ("rank-0002.spool".to_owned(), spool))
    };
    let spool = spool_of(FACTS, |r| r.result.measured.duration = Duration::MAX).unwrap();
    let (name, error) = whole(vec![spool]).unwrap_err();
    assert_eq!(name, "rank-0002.spool");
    assert!(
        error
            .to_string()
            .starts_with("the figures of rank 2: invalid duration"),
        "{error}"
    );
    let times = [
        ("interval", Duration::MAX),
        ("warm-up", Duration::MAX),
        ("interval", Duration::ZERO),
    ];
    for (what, time) in times {
        let mut facts = FACTS;
        match what {
            "interval" => facts.interval = time,
            _ => facts.warm_up = time,
        }
        assert!(spool_of(facts, |_| ()).is_err(), "{what} {time:?}");
    }
}

/// Changes bytes of valid figures: the result is an error, or figures that can be merged and printed.
#[test]
fn figures_with_altered_bytes_never_end_the_merge() {
    let seed = Seed(11);
    let (interval, result) = (encode_part(&part(1, 0)), encode_record(&record(1)));
    let mut accepted = 0;
    for n in 0..400 {
        let draws = seed.child(n);
        let altered = |bytes: &[u8], of: u64| {
            let mut bytes = bytes.to_vec();
            for change in 0..=draws.draw(10 * of) % 3 {
                let place = draws.draw(10 * of + 2 * change + 1) as usize % bytes.len();
                bytes[place] = draws.draw(10 * of + 2 * change + 2) as u8;
            }
            bytes
        };
        let mut whole = Whole::new(FACTS);
        let _ = whole.interval(1, altered(&interval, 0));
        accepted += u32::from(whole.ended(1, &altered(&result, 1)).is_ok());
        for rank in [0, 2] {
            whole.interval(rank, encode_part(&part(rank, 0))).unwrap();
            whole.ended(rank, &encode_record(&record(rank))).unwrap();
        }
        while whole.close_next().is_some() {}
        let result = whole.finish().unwrap();
        assert!(!json(&result).is_empty() && !screen::details(&result, &[]).is_empty());
    }
    assert!((40..360).contains(&accepted), "{accepted}");
}
