//! Tests of the times of responses, the time limits of the server, and the ends of connections.

use std::time::Duration;

use super::tests::{GET, Host, buffered};
use super::*;

#[test]
fn each_response_has_its_own_write() {
    let mut host = Host::new(buffered(Coalesce::EachResponse, 50));
    host.send(GET.repeat(3));
    assert_eq!(host.writes.len(), 3);
    assert!(
        host.writes
            .iter()
            .all(|write| write.starts_with(b"HTTP/1.1 200"))
    );
}

#[test]
fn responses_gather_until_the_input_would_block() {
    let mut host = Host::new(buffered(Coalesce::UntilInputWouldBlock, 100_000));
    host.send(GET.repeat(5) + "GET /a HT");
    assert_eq!(host.writes.len(), 1);
    assert_eq!(host.statuses().len(), 5);
}

#[test]
fn responses_gather_until_the_input_is_drained() {
    let mut host = Host::new(buffered(Coalesce::UntilInputDrained, 100_000));
    let (start, end) = GET.split_at(9);
    host.send(GET.repeat(5) + start);
    assert_eq!(host.writes.len(), 0);
    host.send(end);
    assert_eq!(host.writes.len(), 1);
    assert_eq!(host.statuses().len(), 6);
    // An explicit flush does not wait for further input.
    host.send(GET.to_owned() + start);
    assert_eq!(host.writes.len(), 1);
    host.connection.flush(host.now);
    host.write(usize::MAX);
    assert_eq!(host.statuses().len(), 7);
}

#[test]
fn only_full_buffers_are_released_early_and_each_alone() {
    for coalesce in [Coalesce::UntilInputDrained, Coalesce::UntilInputWouldBlock] {
        let mut host = Host::new(buffered(coalesce, 4096));
        host.send("GET /30000-0 HTTP/1.1\r\nHost: h\r\n\r\nGET");
        let total: usize = 30_000 + host_head(&host.output());
        let mut expected = vec![4096; total / 4096];
        if coalesce == Coalesce::UntilInputWouldBlock {
            expected.push(total % 4096);
        }
        let writes: Vec<usize> = host.writes.iter().map(Vec::len).collect();
        assert_eq!(writes, expected, "{coalesce:?}");
        // The next response shares a buffer with the end of the first response.
        host.send(" /big HTTP/1.1\r\nHost: h\r\n\r\n");
        let full = host.writes.iter().filter(|write| write.len() == 4096);
        assert!(full.count() > 79);
        assert_eq!(host.statuses(), [200, 200]);
    }
}

fn host_head(output: &str) -> usize {
    output.find("\r\n\r\n").unwrap() + 4
}

#[test]
fn a_partial_write_keeps_the_write_boundaries() {
    let mut host = Host::new(buffered(Coalesce::EachResponse, 0));
    host.push(GET.repeat(2));
    host.write(7);
    let first: usize = host.writes[0].len();
    assert_eq!(first, 7);
    let mut whole = Host::new(buffered(Coalesce::EachResponse, 0));
    whole.send(GET.repeat(2));
    assert_eq!(host.output(), whole.output());
    // No write spans two responses.
    let length = whole.writes[0].len();
    let mut position = 0;
    for write in &host.writes {
        assert_eq!(position / length, (position + write.len() - 1) / length);
        position += write.len();
    }
}

#[test]
fn nothing_is_held_past_the_idle_time_or_the_end_of_the_input() {
    let limits = Limits {
        idle: Duration::from_secs(5),
        header: Duration::from_secs(20),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        ..buffered(Coalesce::UntilInputDrained, 100_000)
    };
    let mut host = Host::new(config.clone());
    host.send(GET.to_owned() + "GET");
    assert_eq!(host.writes.len(), 0);
    assert_eq!(host.wait(), Duration::from_secs(5));
    assert_eq!(host.statuses(), [200]);
    assert!(host.actions.is_empty());
    assert_eq!(host.wait(), Duration::from_secs(15));
    assert_eq!(host.statuses(), [200, 408]);

    let mut host = Host::new(config);
    host.send(GET.to_owned() + "GET").eof();
    assert_eq!(host.statuses(), [200]);
    assert_eq!(host.actions, [Action::Close]);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ClientTruncated)
    );
}

#[test]
fn time_outs_have_their_reasons() {
    let limits = Limits {
        keep_alive: Duration::from_secs(7),
        ..Limits::default()
    };
    let closed = |input: &str| {
        let mut host = Host::new(ServerConfig {
            limits,
            ..ServerConfig::default()
        });
        host.send(input);
        let waited = host.wait();
        (
            waited,
            host.statuses(),
            host.connection.close_reason().unwrap(),
        )
    };
    assert_eq!(closed(""), (limits.idle, vec![], CloseReason::IdleTimeout));
    assert_eq!(
        closed(GET),
        (limits.keep_alive, vec![200], CloseReason::IdleTimeout)
    );
    assert_eq!(
        closed(&(GET.to_owned() + "\r\n")),
        (limits.keep_alive, vec![200], CloseReason::IdleTimeout)
    );
    assert_eq!(
        closed("GET /a HTTP/1.1\r\n"),
        (
            limits.header,
            vec![408],
            CloseReason::Refused(Refusal::HeadTimeout)
        )
    );
    assert_eq!(
        closed("POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"),
        (
            // Three bytes at 500 bytes per second.
            limits.content.grace + Duration::from_millis(6),
            vec![408],
            CloseReason::Refused(Refusal::BodyTimeout)
        )
    );
}

#[test]
fn a_head_that_trickles_in_is_timed_from_its_first_byte() {
    let mut host = Host::new(ServerConfig::default());
    for byte in GET.bytes().take(15) {
        host.send([byte]);
        host.now += Duration::from_secs(1);
    }
    assert_eq!(host.wait(), Duration::from_secs(5));
    assert_eq!(host.statuses(), [408]);
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let mut host = Host::new(ServerConfig::default());
    host.push("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
    let at = host.connection.poll_timeout().unwrap();
    assert_eq!(at.since(host.now), Limits::default().send);
    // Progress restarts the time limit.
    host.now += Duration::from_secs(59);
    host.connection.transmitted(1, host.now);
    let at = host.connection.poll_timeout().unwrap();
    assert_eq!(at.since(host.now), Limits::default().send);
    host.connection.handle_timeout(at);
    assert_eq!(host.connection.poll_action(), Some(Action::Abort));
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::SendTimeout)
    );
    assert!(host.connection.is_finished());
    assert_eq!(host.connection.transmit(&mut [IoSlice::new(&[])]), 0);
}

#[test]
fn after_the_last_response_the_sending_side_is_closed_and_input_drained() {
    let config = ServerConfig {
        max_requests_per_connection: Some(5),
        ..ServerConfig::default()
    };
    let mut host = Host::new(config.clone());
    host.send(GET.repeat(15));
    assert_eq!(host.statuses(), [200; 5]);
    assert_eq!(host.output().matches("Connection: close\r\n").count(), 1);
    assert_eq!(host.actions, [Action::ShutdownWrite]);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::RequestLimit)
    );
    assert!(host.connection.wants_data() && !host.connection.is_finished());
    host.send(GET.repeat(15)).eof();
    assert_eq!(host.actions, [Action::ShutdownWrite, Action::Close]);
    assert!(host.connection.is_finished());
    assert_eq!(host.statuses(), [200; 5]);

    // The server does not wait for ever for a client that never closes its side.
    let mut host = Host::new(config.clone());
    host.send(GET.repeat(5));
    assert_eq!(host.wait(), Limits::default().linger);
    assert_eq!(host.actions, [Action::ShutdownWrite, Action::Close]);
    let mut host = Host::new(config);
    host.send(GET.repeat(5));
    let flood = vec![b'x'; Limits::default().linger_bytes.0 as usize + 1];
    host.send(flood);
    assert_eq!(host.actions, [Action::ShutdownWrite, Action::Close]);
}

#[test]
fn a_full_close_reads_no_more_input_and_closes_both_sides() {
    let config = ServerConfig {
        max_requests_per_connection: Some(5),
        close: CloseManner::Full,
        ..ServerConfig::default()
    };
    let mut host = Host::new(config);
    host.push(GET.repeat(15));
    assert!(!host.connection.wants_data());
    host.write(usize::MAX);
    assert_eq!(host.statuses(), [200; 5]);
    assert_eq!(host.actions, [Action::Close]);
    assert!(host.connection.is_finished());
}

#[test]
fn the_client_may_close_its_side_first() {
    let mut host = Host::new(ServerConfig::default());
    host.push(GET.repeat(3));
    host.eof();
    assert_eq!(host.statuses(), [200; 3]);
    assert_eq!(host.actions, [Action::Close]);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ClientFinished)
    );
}

#[test]
fn a_failed_transport_ends_everything() {
    let mut host = Host::new(ServerConfig::default());
    host.push(GET);
    host.connection.handle_failure();
    host.send(GET).eof();
    assert_eq!(host.writes.len(), 0);
    assert!(host.connection.is_finished());
    assert_eq!(host.connection.poll_timeout(), None);
}

#[test]
fn a_client_that_sends_and_never_reads_gets_back_pressure() {
    let limits = Limits {
        backlog: Bytes(1000),
        ..Limits::default()
    };
    let config = ServerConfig {
        limits,
        ..buffered(Coalesce::UntilInputDrained, 1_000_000)
    };
    let mut host = Host::new(config);
    host.push(GET.repeat(50) + "GET");
    assert!(!host.connection.wants_data());
    let answered = host.connection.requests();
    assert!((4..10).contains(&answered), "{answered}");
    // Output that waits for the transport must not also be held; otherwise both sides would wait for each other.
    host.write(100);
    assert!(host.connection.wants_data());
    host.connection.flush(host.now);
    host.write(usize::MAX);
    assert_eq!(host.statuses(), [200; 50]);
}

#[test]
fn work_is_done_for_one_request_at_a_time() {
    let mut host = Host::new(ServerConfig {
        service_time: Duration::from_millis(10),
        connection_time: Duration::from_millis(5),
        ..buffered(Coalesce::EachResponse, 0)
    });
    host.send(GET.repeat(3));
    for (answered, takes) in [15, 10, 10].into_iter().enumerate() {
        assert_eq!(host.statuses().len(), answered);
        assert_eq!(host.wait(), Duration::from_millis(takes));
        host.write(usize::MAX);
    }
    assert_eq!(host.statuses(), [200, 200, 200]);
}

#[test]
fn requests_that_wait_for_work_count_as_complete() {
    // Between the first and the last response the server never waits for input, so no bytes are sent.
    let mut host = Host::new(ServerConfig {
        service_time: Duration::from_millis(10),
        ..buffered(Coalesce::UntilInputWouldBlock, 100_000)
    });
    host.send(GET.repeat(3));
    host.wait();
    host.wait();
    host.write(usize::MAX);
    assert_eq!(host.writes.len(), 0);
    host.wait();
    host.write(usize::MAX);
    assert_eq!(host.writes.len(), 1);
    assert_eq!(host.statuses().len(), 3);
}

#[test]
fn a_half_closed_client_gets_the_response_in_progress() {
    let mut host = Host::new(ServerConfig {
        service_time: Duration::from_millis(10),
        ..buffered(Coalesce::EachResponse, 0)
    });
    host.send(GET.repeat(2));
    host.eof();
    while host.statuses().len() < 2 {
        host.wait();
        host.write(usize::MAX);
    }
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::ClientFinished)
    );
}

#[test]
fn only_the_last_write_announces_the_end() {
    let mut host = Host::new(buffered(Coalesce::UntilInputWouldBlock, 4096));
    host.push("GET /30000-0 HTTP/1.0\r\nHost: h\r\n\r\n");
    let mut announced = Vec::new();
    loop {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = host.connection.transmit(&mut slices);
        if count == 0 {
            break;
        }
        announced.push(host.connection.more_follows());
        let offered = slices[..count].iter().map(|slice| slice.len()).sum();
        host.connection.transmitted(offered, host.now);
    }
    let (last, others) = announced.split_last().unwrap();
    assert!(*last && others.iter().all(|ends| !ends) && others.len() > 5);
    assert_eq!(host.connection.poll_action(), Some(Action::ShutdownWrite));
}

#[test]
fn a_shutdown_answers_started_requests_and_closes_idle_connections() {
    let mut idle = Host::new(ServerConfig::default());
    idle.send(GET);
    idle.connection.end(idle.now);
    assert_eq!(idle.connection.poll_action(), Some(Action::Close));
    assert_eq!(
        idle.connection.close_reason(),
        Some(CloseReason::ServerEnds)
    );
    assert!(idle.connection.is_finished());

    let mut begun = Host::new(ServerConfig::default());
    let (start, rest) = GET.split_at(9);
    begun.send(start);
    begun.connection.end(begun.now);
    assert_eq!(begun.connection.close_reason(), None);
    begun.send(rest.to_owned() + GET);
    assert_eq!(begun.statuses().len(), 1);
    let output = begun.output();
    assert!(output.contains("\r\nConnection: close\r\n"), "{output}");
    assert_eq!(
        begun.connection.close_reason(),
        Some(CloseReason::ServerEnds)
    );
}

#[test]
fn events_have_the_text_of_their_requests_even_if_truncated() {
    let mut host = Host::new(ServerConfig {
        request_text: true,
        ..ServerConfig::default()
    });
    let connection = &mut host.connection;
    let requests = "GET /none HTTP/1.1\r\nHost: h\r\nReferer: r\r\nUser-Agent: u\r\n\r\n\
                    GET /30000-0 HTTP/1.1\r\nHost: h\r\n\r\nBAD\r\n\r\n";
    connection.handle_data(requests.as_bytes(), Instant::ZERO);
    let mut sent = 0;
    while sent < 10_000 {
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = connection.transmit(&mut slices);
        let offered: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
        let taken = offered.min(10_000 - sent);
        connection.transmitted(taken, Instant::ZERO);
        sent += taken;
    }
    let (served, text) = connection.poll_event_with_text().unwrap();
    assert_eq!(served.status, 404);
    assert_eq!(text.line, b"GET /none HTTP/1.1");
    assert_eq!((text.referer, text.user_agent), (&b"r"[..], &b"u"[..]));
    let first = served.head.0 + served.body.0;
    assert!(connection.poll_event_with_text().is_none());
    connection.handle_failure();
    let (served, text) = connection.cut_short(Instant::ZERO).unwrap();
    assert_eq!(text.line, b"GET /30000-0 HTTP/1.1");
    assert_eq!(first + served.head.0 + served.body.0, 10_000);
    assert!(connection.cut_short(Instant::ZERO).is_none());
}

#[test]
fn slow_content_is_abandoned_and_decided_requests_are_answered() {
    let second = Duration::from_secs(1);
    // The client sends a byte every five seconds, for ever.
    let post = |path: &str| {
        let mut host = Host::new(ServerConfig::default());
        let length = 60_000;
        host.send(format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"
        ));
        let begun = host.now;
        for _ in 0..length {
            let due = host.connection.poll_timeout().expect("a time-out");
            if due <= host.now + 5 * second {
                host.now = due;
                host.connection.handle_timeout(due);
                host.write(usize::MAX);
            } else {
                host.now += 5 * second;
                host.send("x");
            }
            if host.connection.is_finished() {
                break;
            }
        }
        let took = host.now.since(begun);
        (
            took,
            host.statuses(),
            host.connection.close_reason().unwrap(),
        )
    };
    let linger = Limits::default().linger;
    let (took, statuses, reason) = post("/discard");
    assert!(took <= 21 * second + linger, "{took:?}");
    assert_eq!(statuses, [408]);
    assert_eq!(reason, CloseReason::Refused(Refusal::BodyTimeout));
    for (path, status) in [("/nowhere", 404), ("/a", 405)] {
        let (took, statuses, reason) = post(path);
        assert!(took <= second + linger, "{path} {took:?}");
        assert_eq!(statuses, [status]);
        assert_eq!(reason, CloseReason::ContentUnwanted);
    }
}

#[test]
fn unwanted_content_that_arrives_at_once_keeps_the_connection_open() {
    let mut host = Host::new(ServerConfig::default());
    host.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    host.send(GET);
    assert_eq!(host.statuses(), [405, 200]);
    assert_eq!(host.connection.close_reason(), None);
}

#[test]
fn the_slowest_client_has_waited_longest() {
    let second = Duration::from_secs(1);
    let since = |host: &Host| host.connection.waits_since().unwrap();
    let mut slow = Host::new(ServerConfig::default());
    slow.send("POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n");
    let mut fast = Host::new(ServerConfig::default());
    fast.send("POST /discard HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n");
    let mut idle = Host::new(ServerConfig::default());
    for _ in 0..3 {
        for (host, bytes) in [(&mut slow, 1), (&mut fast, 10_000)] {
            host.now += 5 * second;
            host.send(vec![b'x'; bytes]);
        }
    }
    idle.now += 10 * second;
    idle.send(GET);
    assert!(since(&slow) < Instant::ZERO + second);
    assert_eq!(since(&idle), Instant::ZERO + 10 * second);
    assert!(since(&fast) > since(&idle));
}

#[test]
fn empty_lines_do_not_keep_a_connection_alive() {
    let mut host = Host::new(ServerConfig::default());
    host.send("\r\n".repeat(4) + GET);
    assert_eq!(host.statuses(), [200]);
    let mut host = Host::new(ServerConfig::default());
    for _ in 0..100 {
        host.now += Duration::from_secs(5);
        host.send("\r\n");
    }
    assert!(host.connection.close_reason().is_some());
}

#[test]
fn requests_behind_long_texts_are_answered_after_those_were_logged() {
    let limits = Limits {
        backlog: Bytes(1000),
        ..Limits::default()
    };
    let mut host = Host::new(ServerConfig {
        limits,
        request_text: true,
        ..buffered(Coalesce::EachResponse, 0)
    });
    let request = format!("GET /none?{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(700));
    host.push(request.repeat(6));
    assert_eq!(host.connection.requests(), 2);
    // The transport takes one response, which is logged, and no further bytes.
    let first = host.connection.outstanding[0].end as usize;
    host.connection.transmitted(first, host.now);
    host.served.extend(host.connection.poll_event());
    host.write(usize::MAX);
    assert_eq!(host.statuses(), [404; 6]);
}
