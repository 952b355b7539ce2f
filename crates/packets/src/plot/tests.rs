use std::time::Duration;

use super::super::time_sequence::{SequenceDrop, SequenceMark, SequenceSegment};
use super::*;

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

/// Builds a connection whose server sends `count` segments of 1000 bytes, 10 ms apart.
fn sequence(begin: u64, count: u64) -> TimeSequence {
    let segment = |n: u64| SequenceSegment {
        at: at(begin + 10 * n),
        start: 1_000 * n,
        end: 1_000 * (n + 1),
        kind: SegmentKind::New,
    };
    let mut down = DirectionSequence {
        segments: (0..count).map(segment).collect(),
        acknowledgements: (0..count)
            .map(|n| (at(begin + 10 * n + 1), 1_000 * n))
            .collect(),
        window_edges: (0..count)
            .map(|n| (at(begin + 10 * n + 1), 1_000 * n + 8_760))
            .collect(),
        ..DirectionSequence::default()
    };
    down.marks.push(SequenceMark {
        at: at(begin),
        sequence: 0,
        kind: MarkKind::Syn,
    });
    TimeSequence {
        connection: 0,
        client: "10.0.0.1:1025".parse().unwrap(),
        server: "10.0.0.2:80".parse().unwrap(),
        up: DirectionSequence::default(),
        down,
        causes: vec!["queue-full".to_owned()],
    }
}

/// Asserts that every element is closed in order, and that every attribute is quoted.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{text:?}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag:?}");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, true) => {}
            (false, false) => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} is open");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn a_capture_without_segments_has_no_graph() {
    assert_eq!(time_sequences(&[], "empty"), None);
    let mut silent = sequence(0, 0);
    silent.down.marks.clear();
    assert_eq!(time_sequences(&[silent], "silent"), None);
}

#[test]
fn titles_are_escaped() {
    let svg = time_sequences(&[sequence(0, 3)], "a < b & \"c\"\u{7}").unwrap();
    assert_well_formed(&svg);
    assert!(svg.contains("a &lt; b &amp; &quot;c&quot; <"));
}

#[test]
fn a_single_packet_is_a_graph_too() {
    let mut single = sequence(5, 1);
    single.down.acknowledgements.clear();
    single.down.window_edges.clear();
    assert_well_formed(&time_sequences(&[single], "one").unwrap());
}

#[test]
fn repetitions_are_ringed_and_explained() {
    let mut repeated = sequence(0, 5);
    let plain = time_sequences(std::slice::from_ref(&repeated), "page").unwrap();
    assert!(!plain.contains("<circle") && !plain.contains("repeated"));
    let again = SequenceSegment {
        at: at(200),
        kind: SegmentKind::Repeated,
        ..repeated.down.segments[2]
    };
    repeated.down.segments.push(again);
    let svg = time_sequences(&[repeated], "page").unwrap();
    assert_well_formed(&svg);
    // One circle in the graph, one circle in the legend.
    assert_eq!(svg.matches("<circle").count(), 2);
    assert!(svg.contains(">repeated<"));
}

#[test]
fn drops_are_marked_counted_and_explained() {
    let mut dropped = sequence(0, 5);
    let drop = SequenceDrop {
        at: at(50),
        start: 5_000,
        end: 6_000,
        cause: 0,
    };
    dropped.down.drops.push(drop);
    dropped.down.drop_counts.insert(0, 1);
    let svg = time_sequences(std::slice::from_ref(&dropped), "page").unwrap();
    assert_well_formed(&svg);
    assert!(svg.contains("<title>dropped: queue-full</title>"), "{svg}");
    assert!(svg.contains("; dropped by the path: 1 down (queue-full)"));
    assert!(svg.contains(">dropped by the path<"));
    let [down, up] = data::panels(&[dropped]).unwrap();
    let connection = &down.connections[0];
    assert_eq!(
        connection.drops,
        [(50_000, 5_000, 6_000, "queue-full".to_owned())]
    );
    // The panel includes bytes that never arrived.
    assert_eq!((down.bytes, down.end_us), (6_000, 50_000));
    assert_eq!(up.bytes, 0);
}

#[test]
fn an_aggregated_graph_covers_the_whole_time_and_says_so() {
    let long = sequence(0, 50_000).merged_to(1_000);
    let bin = long.merged().unwrap();
    let [down, _] = data::panels(std::slice::from_ref(&long)).unwrap();
    assert_eq!(u128::from(down.merged_ns), bin.as_nanos());
    assert!(down.connections[0].segments.len() <= 1_000);
    assert_eq!(down.bytes, 50_000_000);
    let svg = time_sequences(&[long], "long").unwrap();
    assert!(
        svg.contains("B down, 0 B up, 499.991 s; aggregated: points within "),
        "{svg}"
    );
}

#[test]
fn connections_are_stacked_in_the_order_of_their_opening() {
    let svg = time_sequences(&[sequence(500, 4), sequence(0, 6)], "two").unwrap();
    assert_well_formed(&svg);
    assert!(svg.contains("2 connections to 10.0.0.2:80: 9998 B down, 0 B up, 0.531 s"));
    // Not drawn: the windows of several connections would hide each other's segments.
    assert!(!svg.contains(">window<"));
}

#[test]
fn a_graph_of_many_segments_stays_small() {
    let svg = time_sequences(&[sequence(0, 50_000)], "long").unwrap();
    assert_well_formed(&svg);
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
}

#[test]
fn the_graph_of_a_small_page() {
    insta::assert_snapshot!(time_sequences(&[sequence(0, 4)], "page").unwrap());
}
