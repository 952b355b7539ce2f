//! Content and flow-control windows, in both directions.

use super::*;
use crate::h2::flow::UpdateAt;
use crate::h2::settings::{Settings, id};

fn windows(stream: u32, update_at: UpdateAt) -> Config {
    Config {
        settings: Settings {
            initial_window_size: stream,
            ..Settings::default()
        },
        update_at,
        ..Config::default()
    }
}

#[test]
fn windows_are_updated_as_configured() {
    for (update_at, expected) in [
        (
            UpdateAt::Once,
            vec![
                "window 0 400",
                "window 1 400",
                "window 0 400",
                "window 1 400",
            ],
        ),
        (UpdateAt::Percent(50), vec!["window 1 800"]),
        (UpdateAt::Never, vec![]),
    ] {
        let mut bench = Bench::new(windows(1000, update_at));
        bench.get("/a");
        bench.headers(1, &[(":status", "200")], false);
        for _ in 0..2 {
            bench.data(1, &[b'x'; 400], false);
            bench.deliver();
        }
        assert_eq!(bench.written(), expected, "{update_at:?}");
    }
}

#[test]
fn completed_streams_get_no_window_update() {
    let mut bench = Bench::new(windows(1000, UpdateAt::Once));
    bench.get("/a");
    bench.get("/b");
    bench.headers(1, &[(":status", "200")], false);
    bench.data(1, b"abc", true);
    bench.headers(3, &[(":status", "200"), ("content-length", "3")], false);
    bench.data(3, b"abc", false);
    bench.deliver();
    assert_eq!(bench.written(), ["window 0 3", "window 0 3"]);
}

#[test]
fn a_server_that_exceeds_its_windows_is_a_fault() {
    let mut bench = Bench::new(windows(1000, UpdateAt::Never));
    bench.get("/a");
    bench.get("/b");
    bench.headers(1, &[(":status", "200")], false);
    bench.data(1, &[0; 1001], false);
    let log = bench.deliver();
    assert_eq!(log.last().unwrap(), "failed 0 bad-response");
    assert_eq!(bench.written(), ["reset 1 FLOW_CONTROL_ERROR"]);
    let mut bench = Bench::new(windows(1 << 20, UpdateAt::Never));
    bench.get("/a");
    bench.headers(1, &[(":status", "200")], false);
    for _ in 0..4 {
        bench.data(1, &[0; 16_384], false);
    }
    let log = bench.deliver();
    assert_eq!(log.last().unwrap(), "closed Failed(BadResponse)");
    assert_eq!(bench.written(), ["goaway 0 FLOW_CONTROL_ERROR"]);
}

#[test]
fn content_of_requests_follows_the_windows() {
    let mut bench = Bench::silent(Config::default());
    bench.settings(&[(id::INITIAL_WINDOW_SIZE, 10)]);
    bench.deliver();
    bench.written();
    let request = bench.post(Content::Sized(25));
    bench.client.send_content(request, &[1; 5]).unwrap();
    bench.client.send_content(request, &[2; 20]).unwrap();
    assert_eq!(bench.client.backlog(request), 15);
    let over = bench.client.send_content(request, &[3]);
    assert_eq!(over, Err(SendError::BadContent));
    assert!(
        bench.client.transmit().is_empty(),
        "nothing is sent before the flush"
    );
    bench.client.flush();
    let written = bench.written();
    assert!(written[0].ends_with("content-length=25"), "{written:?}");
    assert_eq!(written[1..], ["data 1 5", "data 1 5"]);
    write::window_update(&mut bench.wire, StreamId::new(1), 3);
    bench.deliver();
    assert_eq!(bench.written(), ["data 1 3"]);
    // The initial window changes from 10 to 0, so the stream's window changes from 0 to −10.
    bench.settings(&[(id::INITIAL_WINDOW_SIZE, 0)]);
    write::window_update(&mut bench.wire, StreamId::new(1), 9);
    bench.deliver();
    assert_eq!(bench.written(), ["settings ack"]);
    write::window_update(&mut bench.wire, StreamId::new(1), 3);
    bench.deliver();
    assert_eq!(bench.written(), ["data 1 2"]);
    bench.settings(&[(id::INITIAL_WINDOW_SIZE, 100)]);
    bench.deliver();
    assert_eq!(bench.written(), ["settings ack", "data 1 10 end"]);
    bench.headers(1, &[(":status", "200")], true);
    assert_eq!(
        bench.deliver(),
        ["settings", "begin 0", "head 0 200", "end 0"][1..]
    );
    assert!(bench.written().is_empty());
}

#[test]
fn uploads_share_the_connections_window() {
    let mut bench = Bench::silent(Config::default());
    bench.settings(&[(id::INITIAL_WINDOW_SIZE, 1 << 20)]);
    bench.deliver();
    for _ in 0..3 {
        let request = bench.post(Content::Sized(50_000));
        bench.client.send_content(request, &[0; 50_000]).unwrap();
    }
    bench.client.flush();
    bench.written();
    write::window_update(&mut bench.wire, StreamId::CONNECTION, 4 * 16_384);
    bench.deliver();
    // The first upload was sent completely, and 15 535 bytes of the second upload.
    let turns = [
        "data 3 16384",
        "data 5 16384",
        "data 3 16384",
        "data 5 16384",
    ];
    assert_eq!(bench.written(), turns);
    write::window_update(&mut bench.wire, StreamId::CONNECTION, 1 << 20);
    bench.deliver();
    assert_eq!(
        bench.written(),
        ["data 3 1697 end", "data 5 16384", "data 5 848 end"]
    );
}

#[test]
fn a_window_update_does_not_send_unreleased_content() {
    let mut bench = Bench::silent(Config::default());
    bench.settings(&[(id::INITIAL_WINDOW_SIZE, 4)]);
    bench.deliver();
    bench.written();
    let request = bench.post(Content::Chunked);
    bench.client.send_content(request, b"123456").unwrap();
    bench.client.flush();
    bench.written();
    bench.client.send_content(request, b"789").unwrap();
    write::window_update(&mut bench.wire, StreamId::new(1), 100);
    bench.deliver();
    assert_eq!(bench.written(), ["data 1 2"]);
    bench.client.finish_content(request).unwrap();
    assert!(bench.client.transmit().is_empty());
    bench.client.flush();
    assert_eq!(bench.written(), ["data 1 3 end"]);
    assert_eq!(
        bench.client.finish_content(request),
        Err(SendError::BadContent)
    );
}

#[test]
fn content_of_unknown_length_ends_with_an_empty_frame() {
    let mut bench = Bench::new(Config::default());
    let request = bench.post(Content::Chunked);
    bench.client.send_content(request, b"abc").unwrap();
    bench.client.finish_content(request).unwrap();
    bench.client.flush();
    let written = bench.written();
    assert!(!written[0].contains("content-length") && !written[0].ends_with("end"));
    assert_eq!(written[1..], ["data 1 3", "data 1 0 end"]);
}

#[test]
fn content_waits_for_100_continue_with_a_timeout() {
    let mut bench = Bench::new(Config::default());
    for _ in 0..2 {
        let request = bench.client.request(line("POST", "/form")).unwrap();
        request.send_with(Content::Sized(3), true).unwrap();
    }
    bench.client.flush();
    let early = bench.client.send_content(RequestId(0), b"abc");
    assert_eq!(early, Err(SendError::BadContent));
    let written = bench.written();
    assert!(
        written[0].ends_with("content-length=3 expect=100-continue"),
        "{written:?}"
    );
    bench.headers(1, &[(":status", "100")], false);
    assert_eq!(bench.deliver(), ["begin 0", "go ahead 0"]);
    let patience = bench.client.config().timeouts.expect_continue;
    assert_eq!(bench.client.poll_timeout(), Some(bench.now + patience));
    bench.now += patience;
    bench.client.handle_timeout(bench.now);
    assert_eq!(bench.deliver(), ["go ahead 1"]);
    for request in [RequestId(0), RequestId(1)] {
        bench.client.send_content(request, b"abc").unwrap();
    }
    bench.client.flush();
    assert_eq!(bench.written(), ["data 1 3 end", "data 3 3 end"]);
}

#[test]
fn an_early_response_ends_the_upload() {
    let mut bench = Bench::new(Config::default());
    let request = bench.post(Content::Sized(100));
    bench.client.send_content(request, b"abc").unwrap();
    bench.client.flush();
    bench.written();
    bench.headers(1, &[(":status", "413")], true);
    assert_eq!(bench.deliver(), ["begin 0", "head 0 413", "end 0"]);
    assert_eq!(bench.written(), ["reset 1 CANCEL"]);
    assert_eq!(
        bench.client.send_content(request, b"d"),
        Err(SendError::Closed)
    );
}
