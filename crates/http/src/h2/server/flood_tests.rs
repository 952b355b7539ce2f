//! Tests of frames that arrive too often and input that arrives too slowly.

use std::time::Duration;

use super::tests::{Got, Host, data, origin, raw, reset, window};
use super::*;
use crate::h2::PREFACE;
use crate::h2::error::Fault;
use crate::h2::frame::{FrameType, flags};

const FEW: Allowance = Allowance {
    burst: 10,
    per_second: 1,
};

/// Sends rounds of frames until the server refuses the connection; returns the number of accepted rounds.
fn flood(host: &mut Host, mut make: impl FnMut(&mut Host, u32) -> Vec<u8>) -> u32 {
    for round in 0..100_000 {
        let bytes = make(host, round);
        host.send(&bytes);
        if host.connection.close_reason().is_some() {
            return round;
        }
    }
    panic!("endless");
}

fn limited(limit: impl FnOnce(&mut Limits)) -> Host {
    let mut config = ServerConfig::default();
    limit(&mut config.limits);
    Host::new(config)
}

#[test]
fn rapid_resets_are_bounded() {
    let mut host = limited(|limits| limits.resets = FEW);
    let rounds = flood(&mut host, |host, round| {
        let request = host.get(2 * round + 1, "/long");
        [request, reset(2 * round + 1, ErrorCode::CANCEL)].concat()
    });
    assert_eq!(rounds, 10);
    host.assert_refused(Fault::ResetFlood);
    assert_eq!(ErrorCode::ENHANCE_YOUR_CALM, Fault::ResetFlood.code());
    // A client that resets streams at a slow rate is never refused.
    let mut host = limited(|limits| limits.resets = FEW);
    for round in 0..100 {
        let request = host.post(2 * round + 1, &[]);
        host.send(&request)
            .send(reset(2 * round + 1, ErrorCode::CANCEL));
        host.wait(Duration::from_secs(1));
    }
    assert_eq!(host.connection.close_reason(), None);
}

#[test]
fn served_responses_offset_resets() {
    let mut host = limited(|limits| limits.resets = FEW);
    for round in 0..100 {
        let id = 4 * round + 1;
        let requests = [host.get(id, "/a"), host.post(id + 2, &[])].concat();
        host.send(&requests).send(reset(id + 2, ErrorCode::CANCEL));
    }
    assert_eq!(host.connection.close_reason(), None);
    assert_eq!(host.served.len(), 100);
}

#[test]
fn resets_provoked_from_the_server_are_bounded() {
    // CVE-2025-8671: after a reset that the client provoked, the server may continue to work on the request.
    for frame in [
        |id: u32| window(id, 0),
        |id| window(id, (1 << 31) - 1),
        |id| data(id, b"x", true),
        |id| raw(FrameType::PRIORITY, 0, id, &[0; 4]),
    ] {
        let mut host = limited(|limits| limits.provoked_resets = FEW);
        let rounds = flood(&mut host, |host, round| {
            let request = host.get(2 * round + 1, "/long");
            [request, frame(2 * round + 1)].concat()
        });
        assert_eq!(rounds, 10);
        host.assert_refused(Fault::ProvokedResets);
    }
}

#[test]
fn frames_that_require_an_answer_are_bounded() {
    for frame in [
        raw(FrameType::PING, 0, 0, &[0; 8]),
        raw(FrameType::SETTINGS, 0, 0, &[]),
        raw(FrameType::SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]),
    ] {
        let mut host = limited(|limits| limits.answers = FEW);
        // The client's first SETTINGS frame already counts: nine of ten frames remain.
        assert_eq!(flood(&mut host, |_, _| frame.clone()), 9);
        host.assert_refused(Fault::AnswerFlood);
    }
}

#[test]
fn empty_frames_are_bounded() {
    for frame in [
        data(1, b"", false),
        raw(FrameType::DATA, flags::PADDED, 1, &[0]),
        raw(FrameType::PRIORITY, 0, 1, &[0, 0, 0, 0, 1]),
        raw(FrameType::PRIORITY, 0, 99, &[0, 0, 0, 0, 1]),
        raw(FrameType::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"),
        raw(FrameType::PRIORITY_UPDATE, 0, 0, b"\0\0\x01\x01u=1"),
        raw(FrameType::PING, flags::ACK, 0, &[0; 8]),
        raw(FrameType::GOAWAY, 0, 0, &[0; 8]),
        raw(FrameType(0xbe), 0, 0, b"grease"),
        window(0, 1),
        window(1, 1),
    ] {
        let mut host = limited(|limits| limits.idle_frames = FEW);
        let request = host.post(1, &[]);
        host.send(&request);
        let rounds = flood(&mut host, |_, _| frame.clone());
        assert!(rounds <= 10, "{rounds} {frame:?}");
        host.assert_refused(Fault::IdleFrames);
    }
}

#[test]
fn frames_of_padding_alone_count_as_empty() {
    let mut host = limited(|limits| limits.idle_frames = FEW);
    let request = host.post(1, &[]);
    host.send(&request);
    let padding = [&[9][..], &[0; 9]].concat();
    let rounds = flood(&mut host, |_, _| {
        raw(FrameType::DATA, flags::PADDED, 1, &padding)
    });
    assert_eq!(rounds, 10);
    host.assert_refused(Fault::IdleFrames);
}

#[test]
fn header_blocks_are_bounded() {
    let mut host = Host::new(ServerConfig::default());
    let rounds = flood(&mut host, |_, round| match round {
        0 => raw(FrameType::HEADERS, 0, 1, b""),
        _ => raw(FrameType::CONTINUATION, 0, 1, b""),
    });
    assert_eq!(rounds, 17);
    host.assert_refused(Fault::BlockTooLong);
    let mut host = Host::new(ServerConfig::default());
    let rounds = flood(&mut host, |_, round| match round {
        0 => raw(FrameType::HEADERS, 0, 1, &[0; 16_384]),
        _ => raw(FrameType::CONTINUATION, 0, 1, &[0; 16_384]),
    });
    assert_eq!(rounds, 2);
    host.assert_refused(Fault::BlockTooLong);
}

#[test]
fn a_small_block_of_many_fields_is_too_large() {
    // One long field in the table and a thousand references to it: 4 kB on the wire, 4 MB after decoding.
    let mut host = Host::new(ServerConfig::default());
    let long = "x".repeat(3900);
    let first = host.get_with(1, "/a", &[("x", &long)]);
    host.send(&first);
    let mut bomb = host.get(3, "/a");
    let reference = vec![0x80 | 62; 4000];
    bomb.extend(reference);
    let length = (bomb.len() - 9) as u32;
    bomb[..3].copy_from_slice(&length.to_be_bytes()[1..]);
    host.send(&bomb);
    assert_eq!(host.statuses()[1], (3, "431".to_owned()));
    let request = host.get(5, "/a");
    host.send(&request);
    assert_eq!(
        host.statuses()[2],
        (5, "200".to_owned()),
        "the connection continues"
    );
}

#[test]
fn unread_output_stops_reading() {
    let mut host = Host::new(ServerConfig::default());
    let mut pings = 0;
    while host.connection.wants_data() {
        host.push(raw(FrameType::PING, 0, 0, &[0; 8]).repeat(100));
        host.now += Duration::from_secs(1);
        pings += 100;
        assert!(pings < 20_000);
    }
    assert_eq!(host.connection.close_reason(), None);
    host.write(usize::MAX);
    assert!(host.connection.wants_data());
    assert_eq!(host.take().len(), pings);
}

#[test]
fn windows_that_stay_closed_end_the_connection() {
    for trickle in [false, true] {
        let mut host = Host::new(ServerConfig::default());
        let request = host.get(1, "/long");
        host.send(&request);
        for _ in 0..59 {
            host.wait(Duration::from_secs(1));
            if trickle {
                host.send([window(0, 1), window(1, 1)].concat());
            }
            assert_eq!(host.connection.close_reason(), None);
        }
        host.wait(Duration::from_secs(2));
        assert_eq!(
            host.connection.close_reason(),
            Some(CloseReason::WindowStall)
        );
        assert_eq!(
            host.got.last(),
            Some(&Got::GoAway(1, ErrorCode::ENHANCE_YOUR_CALM))
        );
    }
    // Slow content, but above the minimum rate.
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/long");
    host.send(&request);
    for _ in 0..5 {
        host.wait(Duration::from_secs(50));
        host.send([window(0, 2000), window(1, 2000)].concat());
    }
    assert_eq!(host.connection.close_reason(), None);
}

#[test]
fn a_transport_that_takes_nothing_is_aborted() {
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/long");
    host.push(&request);
    let at = host.connection.poll_timeout().unwrap();
    assert_eq!(at, host.now + Duration::from_secs(60));
    host.connection.handle_timeout(at);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::SendTimeout)
    );
    assert_eq!(host.connection.poll_action(), Some(Action::Abort));
    assert!(host.connection.is_finished());
}

#[test]
fn input_that_is_too_slow_ends_the_connection() {
    let second = Duration::from_secs(1);
    // A missing preface.
    let mut host = Host::fresh(ServerConfig::default(), origin());
    host.write(usize::MAX).wait(19 * second).send(b"PRI");
    assert_eq!(host.connection.close_reason(), None);
    host.wait(2 * second);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::HeaderTimeout)
    );
    // A frame that arrives byte by byte.
    let mut host = Host::new(ServerConfig::default());
    let request = host.get(1, "/a");
    for byte in request.chunks(1).take(20) {
        host.wait(second);
        host.send(byte);
    }
    host.wait(second);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::HeaderTimeout)
    );
    // Settings that the client does not acknowledge.
    let mut host = Host::fresh(ServerConfig::default(), origin());
    host.send([&PREFACE[..], &raw(FrameType::SETTINGS, 0, 0, &[])].concat());
    host.wait(21 * second)
        .assert_refused(Fault::SettingsTimeout);
    // Content that stops arriving.
    let mut host = Host::new(ServerConfig::default());
    let request = host.post(1, &[]);
    host.send(&request)
        .wait(10 * second)
        .send(data(1, &[7; 5_000], false));
    host.wait(19 * second).take();
    host.wait(2 * second);
    assert_eq!(host.statuses(), [(1, "408".to_owned())]);
    assert_eq!(host.got.last(), Some(&Got::Reset(1, ErrorCode::NO_ERROR)));
    // No further input.
    host.wait(61 * second);
    assert_eq!(
        host.connection.close_reason(),
        Some(CloseReason::IdleTimeout)
    );
    assert_eq!(host.got.last(), Some(&Got::GoAway(1, ErrorCode::NO_ERROR)));
    host.wait(11 * second);
    assert_eq!(host.actions, [Action::ShutdownWrite, Action::Close]);
    assert!(host.connection.is_finished());
}

#[test]
fn slow_content_is_abandoned_and_decided_requests_are_answered() {
    let second = Duration::from_secs(1);
    // Every five seconds, one byte on each of ten streams, and a PING.
    let mut host = Host::new(ServerConfig::default());
    let begun = host.now;
    for stream in (1..20).step_by(2) {
        let request = host.post(stream, &[]);
        host.send(&request);
    }
    let nowhere = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "example.org"),
        (":path", "/nowhere"),
    ];
    let request = host.headers(21, &nowhere, false);
    host.send(&request);
    let mut answered = Vec::new();
    while answered.len() < 11 && host.now.since(begun) < 100 * second {
        host.wait(5 * second);
        for stream in (1..22).step_by(2) {
            let answers = host.statuses();
            if answers.iter().all(|&(other, _)| other != stream) {
                host.send(data(stream, b"x", false));
            }
        }
        host.send(raw(FrameType::PING, 0, 0, &[0; 8]));
        let now = host.now.since(begun);
        answered.extend(
            host.statuses()
                .into_iter()
                .skip(answered.len())
                .map(|(stream, status)| (stream, status, now)),
        );
    }
    assert_eq!(answered[0], (21, "404".to_owned(), 5 * second));
    assert!(
        answered[1..]
            .iter()
            .all(|(_, status, at)| status == "408" && *at <= 25 * second),
        "{answered:?}"
    );
    assert_eq!(answered.len(), 11);
    assert_eq!(host.connection.close_reason(), None);
}
