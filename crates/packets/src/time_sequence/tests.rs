use std::time::Duration;

use super::*;

fn at(microseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(microseconds)
}

/// Builds a direction with `count` segments of 1000 bytes, 10 µs apart, each acknowledged at once.
fn bulk(count: u64) -> TimeSequence {
    let mut down = DirectionSequence::default();
    for n in 0..count {
        down.segments.push(SequenceSegment {
            at: at(10 * n),
            start: 1_000 * n,
            end: 1_000 * (n + 1),
            kind: SegmentKind::New,
        });
        down.acknowledgements.push((at(10 * n + 1), 1_000 * n));
        down.window_edges.push((at(10 * n + 1), 1_000 * n + 65_535));
    }
    TimeSequence {
        connection: 0,
        client: "10.0.0.1:1025".parse().unwrap(),
        server: "10.0.0.2:80".parse().unwrap(),
        up: DirectionSequence::default(),
        down,
        causes: vec!["loss".to_owned(), "queue-full".to_owned()],
    }
}

#[test]
fn few_points_are_as_recorded() {
    let sequence = bulk(100);
    assert_eq!(sequence.clone().merged_to(100), sequence);
    assert_eq!(sequence.merged(), None);
}

#[test]
fn merged_points_cover_every_byte_and_the_whole_time() {
    let merged = bulk(10_000).merged_to(1_000);
    let down = &merged.down;
    let bin = merged.merged().unwrap();
    assert!(down.segments.len() <= 1_000, "{}", down.segments.len());
    assert!(down.segments.len() > 100, "{}", down.segments.len());
    // Adjacent bars touch: no byte is missing.
    assert_eq!(down.segments[0].start, 0);
    for pair in down.segments.windows(2) {
        assert_eq!(pair[0].end, pair[1].start);
    }
    assert_eq!(down.end(), 10_000_000);
    let last = down.segments.last().unwrap().at;
    assert!(at(99_990).since(last) < bin, "{bin:?}");
    // A line includes its last point.
    assert!(down.acknowledgements.len() <= 1_000);
    assert_eq!(down.acknowledgements.last(), Some(&(at(99_991), 9_999_000)));
}

#[test]
fn rare_events_survive_among_many_points() {
    let mut sequence = bulk(10_000);
    for n in 0..5_000 {
        sequence.down.drops.push(SequenceDrop {
            at: at(20 * n),
            start: 1_000 * n,
            end: 1_000 * (n + 1),
            cause: u16::from(n == 2_500),
        });
    }
    sequence.down.segments[7_000].kind = SegmentKind::Repeated;
    let merged = sequence.merged_to(256).down;
    assert!(merged.drops.len() <= 256);
    assert_eq!(merged.drops.iter().filter(|d| d.cause == 1).count(), 1);
    let repeated = |s: &&SequenceSegment| s.kind == SegmentKind::Repeated;
    let found: Vec<_> = merged.segments.iter().filter(repeated).collect();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].at, found[0].start), (at(70_000), 7_000_000));
}

#[test]
fn times_that_jump_back_and_forth_come_to_an_end() {
    let mut sequence = bulk(1_000);
    for (n, segment) in sequence.down.segments.iter_mut().enumerate() {
        segment.at = Instant::from_nanos(if n % 2 == 0 { 0 } else { u64::MAX / 2 });
    }
    let merged = sequence.merged_to(64);
    assert!(merged.down.segments.len() <= 64);
}
