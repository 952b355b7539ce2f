use fathometer_model::{
    Bytes, CloseReason, ConnectionRecord, ExchangeRecord, Instant, Outcome, WindowWait,
};

use super::sender::{Sender, Sent, gaps};
use super::*;

fn ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// An exchange of 10 kB, with its times in milliseconds.
fn exchange(number: u32, connection: u32, times: [u64; 4]) -> ExchangeRecord {
    let [planned, sent, first, last] = times.map(ms);
    ExchangeRecord {
        exchange: number,
        connection,
        method: "GET".to_owned(),
        target: format!("/{number}"),
        planned,
        sent: Some(sent),
        first_byte: Some(first),
        last_byte: Some(last),
        request_head: Bytes(100),
        request_body: Bytes(0),
        response_head: Bytes(0),
        response_body: Bytes(10_000),
        status: Some(200),
        outcome: Outcome::Complete,
        request_fields: None,
        response_fields: None,
        named_by: None,
        pushed: false,
    }
}

fn connection(number: u32, opened: u64, established: u64) -> ConnectionRecord {
    ConnectionRecord {
        connection: number,
        opened: ms(opened),
        established: Some(ms(established)),
        closed: None,
        exchanges: 1,
        sent: Bytes(0),
        received: Bytes(0),
        close: CloseReason::Finished,
        host: None,
        protocol: None,
        tls: None,
        window_waits: Vec::new(),
    }
}

/// A round trip of 20 ms and 1 MB/s.
const PATH: Path = Path {
    round_trip_ns: Some(20_000_000),
    rate_down: Some(1e6),
    has_drops: false,
};

/// The segments, with times in milliseconds.
fn shown(segments: &[Segment]) -> Vec<(u64, u64, Cause)> {
    let millis = |at: Instant| at.as_nanos() / 1_000_000;
    segments
        .iter()
        .map(|s| (millis(s.from), millis(s.to), s.cause))
        .collect()
}

#[test]
fn a_first_exchange_waits_for_its_connection_and_the_server() {
    let bars = blame(
        &[exchange(0, 0, [0, 25, 60, 80])],
        &[connection(0, 5, 25)],
        &PATH,
        None,
    );
    assert_eq!(
        shown(&bars[0]),
        [
            (0, 5, Cause::Client),
            (5, 45, Cause::RoundTrip),
            (45, 60, Cause::Server),
            (60, 70, Cause::Transfer),
            (70, 80, Cause::Unknown),
        ]
    );
}

#[test]
fn waiting_behind_another_exchange_of_the_connection_is_a_cause() {
    // The second request leaves when the first response is complete (HTTP/1.1 without pipelining).
    let serial = [
        exchange(0, 0, [0, 0, 20, 30]),
        exchange(1, 0, [0, 30, 50, 60]),
    ];
    let bars = blame(&serial, &[connection(0, 0, 0)], &PATH, None);
    let expected = [
        (0, 30, Cause::HeadOfLine),
        (30, 50, Cause::RoundTrip),
        (50, 60, Cause::Transfer),
    ];
    assert_eq!(shown(&bars[1]), expected);
    // Both requests leave at the same time (pipelining), and the second response waits for the first.
    let pipelined = [
        exchange(0, 0, [0, 0, 20, 30]),
        exchange(1, 0, [0, 0, 30, 40]),
    ];
    let bars = blame(&pipelined, &[connection(0, 0, 0)], &PATH, None);
    let expected = [
        (0, 20, Cause::RoundTrip),
        (20, 30, Cause::HeadOfLine),
        (30, 40, Cause::Transfer),
    ];
    assert_eq!(shown(&bars[1]), expected);
}

#[test]
fn a_late_first_byte_is_unknown_where_the_path_may_be_the_cause() {
    let late = [exchange(0, 0, [0, 0, 50, 60])];
    let drops = Path {
        has_drops: true,
        ..PATH
    };
    let bars = blame(&late, &[connection(0, 0, 0)], &drops, None);
    assert_eq!(shown(&bars[0])[1], (20, 50, Cause::Unknown));
    // Another connection receives from 30 to 40 ms and may fill the path.
    let busy = [late[0].clone(), exchange(1, 1, [0, 0, 30, 40])];
    let bars = blame(
        &busy,
        &[connection(0, 0, 0), connection(1, 0, 0)],
        &PATH,
        None,
    );
    assert_eq!(
        shown(&bars[0])[1..4],
        [
            (20, 30, Cause::Server),
            (30, 40, Cause::Unknown),
            (40, 50, Cause::Server)
        ]
    );
    let nothing = Path {
        round_trip_ns: None,
        ..PATH
    };
    let bars = blame(&late, &[connection(0, 0, 0)], &nothing, None);
    assert_eq!(shown(&bars[0])[0], (0, 50, Cause::Unknown));
}

#[test]
fn segments_cover_an_exchange_without_overlap() {
    let exchanges = [
        exchange(0, 0, [0, 3, 40, 90]),
        exchange(1, 0, [10, 12, 95, 120]),
        exchange(2, 1, [10, 33, 70, 99]),
    ];
    let connections = [connection(0, 0, 2), connection(1, 11, 31)];
    for (bar, exchange) in blame(&exchanges, &connections, &PATH, None)
        .iter()
        .zip(&exchanges)
    {
        assert_eq!(bar[0].from, exchange.planned);
        assert_eq!(Some(bar[bar.len() - 1].to), exchange.last_byte);
        assert!(bar.windows(2).all(|pair| pair[0].to == pair[1].from));
    }
}

#[test]
fn the_page_time_is_the_time_in_progress() {
    let pipelined = [
        exchange(0, 0, [0, 0, 20, 30]),
        exchange(1, 0, [0, 0, 30, 45]),
    ];
    let bars = blame(&pipelined, &[connection(0, 0, 0)], &PATH, None);
    let page = page_time(&bars);
    let millis = |wanted: Cause| {
        page.iter()
            .find(|(cause, _)| *cause == wanted)
            .map(|(_, t)| t / 1_000_000)
    };
    assert_eq!(millis(Cause::RoundTrip), Some(20));
    assert_eq!(millis(Cause::Transfer), Some(20));
    assert_eq!(millis(Cause::Unknown), Some(5));
    assert_eq!(page.iter().map(|(_, nanos)| nanos).sum::<u64>(), 45_000_000);
}

/// A sender with full-size segments that end at these sequence numbers.
fn sender(segments: &[(u64, u64, bool)], acknowledgements: &[(u64, u64)], edge: u64) -> Sender {
    Sender {
        segments: segments
            .iter()
            .map(|&(at, end, repeats)| Sent {
                at: ms(at),
                end,
                repeats,
            })
            .collect(),
        acknowledgements: acknowledgements
            .iter()
            .map(|&(at, number)| (ms(at), number))
            .collect(),
        window_edges: vec![(ms(0), edge)],
    }
}

#[test]
fn a_gap_of_the_sender_has_one_cause() {
    let cause = |sender: &Sender| {
        let found = gaps(sender, 20_000_000);
        assert_eq!(found.len(), 1);
        found[0].cause
    };
    let two = [(0, 1461, false), (1, 2921, false), (21, 4381, false)];
    // The acknowledgement at 20 ms releases the third segment. The receiver's window has room, so the cause is the
    // congestion window.
    assert_eq!(
        cause(&sender(&two, &[(20, 1461)], 60_000)),
        Cause::CongestionWindow
    );
    // The receiver has room for two segments only.
    assert_eq!(
        cause(&sender(&two, &[(20, 1461)], 2921)),
        Cause::FlowControl
    );
    // All bytes were acknowledged ten milliseconds before the third segment.
    assert_eq!(cause(&sender(&two, &[(11, 2921)], 60_000)), Cause::Server);
    // No acknowledgement released the segment, and the receiver's window was not full.
    assert_eq!(cause(&sender(&two, &[(5, 1461)], 60_000)), Cause::Server);
    let repeated = [(0, 1461, false), (1, 2921, false), (221, 1461, true)];
    assert_eq!(cause(&sender(&repeated, &[(20, 1)], 60_000)), Cause::Loss);
    assert_eq!(cause(&sender(&two, &[], 60_000)), Cause::Unknown);
    // A pause shorter than half a round trip is not a gap.
    let steady = [(0, 1461, false), (8, 2921, false)];
    assert!(gaps(&sender(&steady, &[(7, 1461)], 60_000), 20_000_000).is_empty());
}

#[test]
fn gaps_of_the_sender_split_the_receive_phase() {
    let gaps = SenderGaps::from([(
        0,
        vec![Segment {
            from: ms(30),
            to: ms(45),
            cause: Cause::CongestionWindow,
        }],
    )]);
    let exchanges = [exchange(0, 0, [0, 0, 20, 50])];
    let bars = blame(&exchanges, &[connection(0, 0, 0)], &PATH, Some(&gaps));
    assert_eq!(
        shown(&bars[0])[1..],
        [
            (20, 30, Cause::Transfer),
            (30, 45, Cause::CongestionWindow),
            (45, 50, Cause::Transfer),
        ]
    );
}

#[test]
fn a_window_of_http2_explains_a_wait_until_a_round_trip_after_the_grant() {
    let mut connection = connection(0, 0, 20);
    let wait = |exchange, from, granted, to| WindowWait {
        exchange,
        from: ms(from),
        granted: ms(granted),
        to: ms(to),
    };
    connection.window_waits = vec![
        // The grant at 45 ms came before the last byte. It explains the wait until 65 ms, but not the time until 90 ms.
        wait(Some(0), 50, 45, 90),
        // The window of another stream does not block this stream.
        wait(Some(1), 92, 92, 95),
        wait(None, 100, 101, 110),
        // This grant reached the server long before the wait ended.
        wait(Some(0), 120, 60, 130),
    ];
    let exchange = exchange(0, 0, [20, 20, 40, 140]);
    // The capture shows a pause of the sender, and a loss within the window of the connection.
    let gap = |from, to, cause| Segment {
        from: ms(from),
        to: ms(to),
        cause,
    };
    let gaps = SenderGaps::from([(
        0,
        vec![
            gap(50, 90, Cause::CongestionWindow),
            gap(105, 110, Cause::Loss),
        ],
    )]);
    let bars = blame(
        std::slice::from_ref(&exchange),
        &[connection.clone()],
        &PATH,
        Some(&gaps),
    );
    let content: Vec<_> = shown(&bars[0]).into_iter().filter(|s| s.0 >= 40).collect();
    assert_eq!(
        content,
        [
            (40, 50, Cause::Transfer),
            (50, 65, Cause::FlowControl),
            (65, 90, Cause::CongestionWindow),
            (90, 100, Cause::Transfer),
            (100, 105, Cause::FlowControl),
            (105, 110, Cause::Loss),
            (110, 140, Cause::Transfer),
        ]
    );
    // If the round trip is unknown, a wait counts only if its grant came after the last byte.
    let unknown = Path {
        round_trip_ns: None,
        ..PATH
    };
    let bars = blame(&[exchange], &[connection], &unknown, Some(&gaps));
    let flow: Vec<_> = shown(&bars[0])
        .into_iter()
        .filter(|s| s.2 == Cause::FlowControl)
        .collect();
    assert_eq!(flow, [(100, 105, Cause::FlowControl)]);
}
