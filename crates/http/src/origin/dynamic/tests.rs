use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Body, File, Instant, Site};

use super::*;
use crate::origin::conditions::{Lines, Preconditions, Single};
use crate::origin::target::Target;
use crate::origin::tests::{Response, ask};
use crate::origin::{Answer, Located, Method, Origin, OriginConfig, Request, Segment};

/// Creates an origin with generated text at `/text`, and a dynamic resource whose content is the file
/// `/dir/index.html`.
fn origin() -> Origin {
    let file = |path: &str, body: Body| File {
        path: path.to_owned(),
        content_type: "text/html".into(),
        body,
        encoded: Vec::new(),
        last_modified: 784_111_777,
    };
    let site = Site {
        name: "test".to_owned(),
        files: vec![
            file("/dir/index.html", b"0123456789"[..].into()),
            file("/plain", b"plain"[..].into()),
        ],
        pages: Vec::new(),
    };
    let text = Dynamic {
        path: "/text".to_owned(),
        content_type: None,
        parts: 3,
        part: Some(100),
        first: Duration::from_millis(50),
        every: Duration::from_millis(200),
    };
    let of_file = Dynamic {
        path: "/dir/index.html".to_owned(),
        part: None,
        parts: 4,
        ..text.clone()
    };
    let config = OriginConfig {
        dynamic: vec![text, of_file],
        ..OriginConfig::default()
    };
    Origin::new(Arc::new(site), config).unwrap()
}

fn decide(origin: &Origin, path: &str) -> Answer {
    let request = Request {
        method: Method::Get,
        target: Target::parse(Method::Get, path.as_bytes()).unwrap(),
        preconditions: Preconditions::default(),
        range: Single::Absent,
        accept: Lines::default(),
        accept_encoding: Lines::default(),
        available_dictionary: Single::Absent,
        package_have: Single::Absent,
        no_transform: false,
    };
    origin.decide(&request, Instant::ZERO, &mut Vec::new())
}

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

/// Polls the flow at `now`; returns the content and the result.
fn poll(origin: &Origin, flow: &mut Flow, now: u64) -> (Vec<u8>, Flowed) {
    let mut got = Vec::new();
    let flowed = flow.poll(origin, at(now), |segment| match segment {
        Segment::Text(text) => got.extend_from_slice(text),
        Segment::Body(selected, range) => {
            let Located::Memory(body) = origin.content_of(selected) else {
                panic!("the content is not in memory");
            };
            let bytes = range.first as usize..range.end as usize;
            got.extend_from_slice(&body.bytes()[bytes]);
        }
    });
    (got, flowed)
}

#[test]
fn parts_are_ready_at_their_times() {
    let origin = origin();
    let answer = decide(&origin, "/text");
    assert!(answer.is_open() && answer.sent_length() == 0);
    let mut flow = origin.flow(&answer, at(1000)).unwrap();
    assert_eq!(
        poll(&origin, &mut flow, 1000),
        (Vec::new(), Flowed::Until(at(1050)))
    );
    let (first, then) = poll(&origin, &mut flow, 1050);
    assert_eq!((first.len(), then), (100, Flowed::Until(at(1250))));
    assert!(first.starts_with(b"part 1 of 3\n0123") && first.ends_with(b"\n"));
    // A late caller gets one part per call. The result states that more content is ready.
    let (second, then) = poll(&origin, &mut flow, 9000);
    assert!(second.starts_with(b"part 2 of 3\n"));
    assert_eq!(then, Flowed::Until(at(1450)));
    let (third, then) = poll(&origin, &mut flow, 9000);
    assert_eq!((third.len(), then), (100, Flowed::Whole));
}

#[test]
fn a_file_is_sent_in_parts() {
    let origin = origin();
    let answer = decide(&origin, "/dir/index.html");
    let mut flow = origin.flow(&answer, at(0)).unwrap();
    let mut parts = Vec::new();
    for now in [50, 250, 450, 650] {
        let (part, then) = poll(&origin, &mut flow, now);
        assert_eq!(then == Flowed::Whole, now == 650, "{now}");
        parts.push(String::from_utf8(part).unwrap());
    }
    assert_eq!(parts, ["01", "234", "56", "789"]);
    let mut flow = origin.flow(&answer, at(0)).unwrap();
    let all = poll(&origin, &mut flow, 5000);
    assert_eq!(all, (b"0123456789".to_vec(), Flowed::Whole));
}

#[test]
fn responses_omit_fields_that_are_unknown() {
    let origin = origin();
    let names = |response: &Response| -> Vec<String> {
        let fields = response.fields.iter();
        fields.map(|(name, _)| name.to_ascii_lowercase()).collect()
    };
    for method in ["GET", "HEAD"] {
        let response = ask(
            &origin,
            &format!("{method} /text"),
            &[("Range", "bytes=0-9"), ("If-None-Match", "\"x\", W/\"y\"")],
        );
        assert_eq!(response.status, 200);
        for absent in [
            "content-length",
            "etag",
            "last-modified",
            "content-range",
            "accept-ranges",
        ] {
            assert!(!names(&response).contains(&absent.to_owned()), "{absent}");
        }
        assert!(names(&response).contains(&"content-type".to_owned()));
    }
    assert_eq!(
        ask(&origin, "GET /text", &[("If-Match", "\"x\"")]).status,
        412
    );
    assert_eq!(ask(&origin, "PUT /text", &[]).status, 405);
    assert!(ask(&origin, "GET /plain", &[]).content == b"plain");
}

#[test]
fn invalid_dynamic_resources_are_refused() {
    let good = Dynamic {
        path: "/a.txt".to_owned(),
        content_type: Some("text/html; charset=utf-8".to_owned()),
        parts: 1,
        part: Some(LARGEST_PART),
        first: Duration::ZERO,
        every: Duration::ZERO,
    };
    assert_eq!(good.check(), Ok(()));
    let bad = |change: &dyn Fn(&mut Dynamic)| {
        let mut dynamic = good.clone();
        change(&mut dynamic);
        assert!(dynamic.check().is_err(), "{dynamic:?}");
    };
    for path in ["", "a", "/", "/a/", "/a/../b", "/a%20b"] {
        bad(&|dynamic| path.clone_into(&mut dynamic.path));
    }
    bad(&|dynamic| dynamic.parts = 0);
    bad(&|dynamic| dynamic.part = Some(0));
    bad(&|dynamic| dynamic.part = Some(LARGEST_PART + 1));
    bad(&|dynamic| dynamic.content_type = Some("text/html\r\nX: y".to_owned()));
}
