//! ALTSVC frames (RFC 7838 section 4).

use super::*;
use crate::h2::error::Fault;
use crate::h2::frame::{FrameType, HEADER_LENGTH};

const VALUE: &str = "h3=\":8443\"; ma=60";

fn say(bench: &mut Bench, stream: u32, origin: &str, value: &str) {
    write::alt_svc(&mut bench.wire, StreamId::new(stream), origin, value);
}

#[test]
fn valid_altsvc_frames_are_reported() {
    let mut bench = Bench::new(Config::default());
    bench.get("/");
    say(&mut bench, 0, "https://example.org", VALUE);
    assert_eq!(
        bench.deliver(),
        ["alternatives \"https://example.org\" h3=\":8443\"; ma=60"]
    );
    say(&mut bench, 1, "", "clear");
    assert_eq!(bench.deliver(), ["alternatives 0 \"\" clear"]);
    // Each announcement is reported with its own origin and value, also if several arrive together or within a
    // response.
    bench.headers(1, &[(":status", "200")], false);
    say(&mut bench, 1, "", "a");
    say(&mut bench, 0, "https://b", "b");
    bench.data(1, b"x", true);
    let all = [
        "begin 0",
        "head 0 200",
        "alternatives 0 \"\" a",
        "alternatives \"https://b\" b",
        "content 0 x",
        "end 0",
    ];
    assert_eq!(bench.deliver(), all);
    // ALTSVC frames are counted like all frames: a header of 9 bytes, 2 length bytes, the origin and the value.
    let received = bench.client.received();
    assert_eq!(received.frames(FrameType::ALTSVC), 4);
    let texts = 19 + VALUE.len() + 5 + 1 + 10;
    let bytes = (4 * (HEADER_LENGTH + 2) + texts) as u64;
    assert_eq!(received.bytes(FrameType::ALTSVC).0, bytes);
    assert_eq!(received.frames(FrameType(0xff)), 0);
}

#[test]
fn misplaced_or_malformed_altsvc_frames_are_ignored() {
    let mut bench = Bench::new(Config::default());
    bench.get("/");
    say(&mut bench, 0, "", VALUE);
    say(&mut bench, 1, "https://example.org", VALUE);
    // Streams that are not open: requested later, pushed, never used.
    for stream in [3, 2, 0x7fff_ffff] {
        say(&mut bench, stream, "", VALUE);
    }
    say(&mut bench, 0, "https://ex\u{e4}mple.org", VALUE);
    say(&mut bench, 1, "", "h3=\":8443\"; \u{e4}=1");
    for payload in [&b""[..], b"\0", b"\0\x02a", b"\xff\xffhttps://example.org"] {
        let header = frame::Header {
            length: payload.len() as u32,
            kind: FrameType::ALTSVC,
            flags: 0xff,
            stream: StreamId::CONNECTION,
        };
        write::header(&mut bench.wire, header);
        bench.wire.extend_from_slice(payload);
    }
    bench.headers(1, &[(":status", "204")], true);
    assert_eq!(bench.deliver(), ["begin 0", "head 0 204", "end 0"]);
    assert_eq!(bench.client.received().frames(FrameType::ALTSVC), 11);
    // The stream has already ended.
    say(&mut bench, 1, "", VALUE);
    assert!(bench.deliver().is_empty() && bench.client.error().is_none());
}

#[test]
fn a_flood_of_altsvc_frames_ends_the_connection() {
    let config = Config::default();
    let most = config.floods.idle;
    let mut bench = Bench::new(config);
    for _ in 0..=most {
        say(&mut bench, 0, "https://example.org", VALUE);
    }
    let log = bench.deliver();
    let told = log.iter().filter(|event| event.starts_with("alternatives"));
    assert_eq!(told.count(), most as usize);
    assert_eq!(
        bench.client.error().map(|error| error.why),
        Some(Fault::IdleFrames)
    );
}

#[test]
fn an_altsvc_frame_before_the_settings_is_a_fault() {
    let mut bench = Bench::silent(Config::default());
    say(&mut bench, 0, "https://example.org", VALUE);
    bench.deliver();
    assert_eq!(
        bench.client.error().map(|error| error.why),
        Some(Fault::NoSettings)
    );
}
