use super::decide::{ALLOW_ANY, ALLOW_DISCARD, ALLOW_FILE};
use super::persona::Responses;
use super::*;
use fathometer_model::{ContentCoding, File, Page};

/// The time Sun, 06 Nov 1994 08:49:37 GMT, in seconds since the Unix epoch.
const MODIFIED: u64 = 784_111_777;

fn site() -> Arc<Site> {
    let file =
        |path: &str, content_type: &str, body: Vec<u8>, encoded: Vec<(ContentCoding, Body)>| File {
            path: path.to_owned(),
            content_type: content_type.to_owned().into(),
            body: body.into(),
            encoded,
            last_modified: MODIFIED,
        };
    let page = b"<html>".repeat(100);
    let encoded = vec![
        (ContentCoding::Deflate, b"deflated"[..].into()),
        (ContentCoding::Gzip, b"gzipped bytes"[..].into()),
    ];
    Arc::new(Site {
        name: "test".to_owned(),
        files: vec![
            file("/other.html", "text/html", b"other".to_vec(), Vec::new()),
            file("/page.html", "text/html", page, encoded),
            file(
                "/a%20b.gif",
                "image/gif",
                (0..=255).cycle().take(1000).collect(),
                Vec::new(),
            ),
            file("/empty.css", "text/css", Vec::new(), Vec::new()),
        ],
        pages: vec![Page {
            base: FileId(1),
            embedded: vec![FileId(2)],
            named_by: Vec::new(),
        }],
    })
}

fn origin() -> Origin {
    let config = OriginConfig {
        wall_clock: Duration::from_secs(MODIFIED + 60),
        discard: Some("/discard".to_owned()),
        ..OriginConfig::default()
    };
    Origin::new(site(), config).unwrap()
}

pub(super) struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub content: Vec<u8>,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(other, _)| other == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} twice");
        value
    }
}

impl FieldSink for Response {
    fn field(&mut self, name: &str, value: &[u8]) {
        let value = String::from_utf8(value.to_vec()).unwrap();
        self.fields.push((name.to_owned(), value));
    }

    fn hop(&mut self, _: HopField, _: &str) {}
}

pub(super) fn ask(origin: &Origin, request: &str, fields: &[(&str, &str)]) -> Response {
    let (method, target) = request.split_once(' ').unwrap();
    let method = Method::from_token(method.as_bytes());
    let mut request = Request {
        method,
        target: Target::parse(method, target.as_bytes()).unwrap(),
        preconditions: Preconditions::default(),
        range: Single::Absent,
        accept: Lines::default(),
        accept_encoding: Lines::default(),
        available_dictionary: Single::Absent,
        package_have: Single::Absent,
        no_transform: false,
    };
    for (name, value) in fields {
        let value = value.as_bytes();
        match *name {
            "If-Match" => assert!(request.preconditions.if_match.push(value)),
            "If-None-Match" => assert!(request.preconditions.if_none_match.push(value)),
            "If-Modified-Since" => request.preconditions.if_modified_since.push(value),
            "If-Range" => request.preconditions.if_range.push(value),
            "Range" => request.range.push(value),
            "Accept" => assert!(request.accept.push(value)),
            "Available-Dictionary" => request.available_dictionary.push(value),
            "Package-Have" => request.package_have.push(value),
            "Accept-Encoding" => assert!(request.accept_encoding.push(value)),
            "Cache-Control" => request.no_transform = value == b"no-transform",
            _ => unreachable!("{name}"),
        }
    }
    let mut answer = origin.decide(&request, Instant::ZERO, &mut Vec::new());
    origin.complete(&mut answer, Instant::ZERO);
    let mut response = Response {
        status: answer.status().code(),
        fields: Vec::new(),
        content: Vec::new(),
    };
    let second = origin.wall_clock(Instant::ZERO);
    origin.write_fields(&answer, second, &mut Dates::default(), &mut response);
    let content = &mut response.content;
    let mut take = |segment: Segment<'_>| match segment {
        Segment::Text(text) => content.extend_from_slice(text),
        Segment::Body(id, range) => {
            let bytes = range.first as usize..range.end as usize;
            let Located::Memory(body) = origin.content_of(id) else {
                panic!("the content is not in memory");
            };
            content.extend_from_slice(&body.bytes()[bytes]);
        }
    };
    origin.write_content(&answer, &mut take);
    if !answer.is_open()
        && let Some(mut flow) = origin.flow(&answer, Instant::ZERO)
    {
        let mut now = Instant::ZERO;
        while let dynamic::Flowed::Until(next) = flow.poll(origin, now, &mut take) {
            now = next;
        }
    }
    assert_eq!(response.content.len() as u64, answer.sent_length());
    if method != Method::Head && !answer.status().is_bodiless() && !answer.is_open() {
        let length = response.content.len().to_string();
        assert_eq!(response.field("Content-Length"), Some(length.as_str()));
    }
    response
}

#[test]
fn methods_and_targets() {
    let origin = origin();
    let table = [
        ("GET /", 200, 600),
        ("GET /page.html", 200, 600),
        ("GET /page.html?query=/other.html", 200, 600),
        ("GET http://anything:99/page.html", 200, 600),
        ("GET /x/%2e%2e/p%61ge.html", 200, 600),
        ("GET /../../page.html", 200, 600),
        ("GET /a%20b.gif", 200, 1000),
        ("GET /a%20%62.gif", 200, 1000),
        ("GET /empty.css", 200, 0),
        ("GET /x%2f..%2fpage.html", 404, 14),
        ("GET /page.html/", 404, 14),
        ("GET /PAGE.html", 404, 14),
        ("GET //page.html", 404, 14),
        ("GET /%00", 400, 16),
        ("GET /%zz", 400, 16),
        ("HEAD /page.html", 200, 0),
        ("HEAD /none", 404, 0),
        ("OPTIONS *", 200, 0),
        ("OPTIONS /page.html", 200, 0),
        ("OPTIONS /none", 404, 14),
        ("POST /page.html", 405, 23),
        ("DELETE /page.html", 405, 23),
        ("TRACE /page.html", 405, 23),
        ("CONNECT a:80", 405, 23),
        ("BREW /page.html", 501, 20),
        ("POST /discard", 204, 0),
        ("PUT /discard", 204, 0),
        ("GET /discard", 405, 23),
    ];
    for (request, status, length) in table {
        let response = ask(&origin, request, &[]);
        assert_eq!(
            (response.status, response.content.len()),
            (status, length),
            "{request}"
        );
        let allow = response.field("Allow");
        let expected = match request {
            "OPTIONS *" => Some(ALLOW_ANY),
            "GET /discard" => Some(ALLOW_DISCARD),
            _ if status == 405 || request == "OPTIONS /page.html" => Some(ALLOW_FILE),
            _ => None,
        };
        assert_eq!(allow, expected, "{request}");
    }
}

#[test]
fn the_whole_server_allows_what_its_resources_do() {
    let origin = Origin::new(site(), OriginConfig::default()).unwrap();
    let response = ask(&origin, "OPTIONS *", &[]);
    assert_eq!(response.field("Allow"), Some(ALLOW_FILE));
    assert_eq!(ask(&origin, "POST /page.html", &[]).status, 405);
}

#[test]
fn dates_follow_the_wall_clock_when_it_is_stepped() {
    let origin = origin();
    let date = |origin: &Origin| {
        let response = ask(origin, "GET /page.html", &[]);
        response.field("Date").unwrap().to_owned()
    };
    assert_eq!(date(&origin), "Sun, 06 Nov 1994 08:50:37 GMT");
    origin.set_wall_clock(Duration::from_secs(MODIFIED + 2 * 3600));
    assert_eq!(date(&origin), "Sun, 06 Nov 1994 10:49:37 GMT");
    origin.set_wall_clock(Duration::from_secs(MODIFIED));
    assert_eq!(date(&origin), "Sun, 06 Nov 1994 08:49:37 GMT");
}

#[test]
fn a_file_from_the_future_was_modified_when_its_response_is_sent() {
    let origin = origin();
    let page = |since: &str| ask(&origin, "GET /page.html", &[("If-Modified-Since", since)]);
    let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
    origin.set_wall_clock(Duration::from_secs(MODIFIED - 3600));
    let early = page("Sat, 05 Nov 1994 00:00:00 GMT");
    let sent = early.field("Last-Modified").unwrap();
    assert_eq!(sent, "Sun, 06 Nov 1994 07:49:37 GMT");
    assert_eq!(early.field("Date"), Some(sent));
    assert_eq!(early.status, 200);
    // The file may change after the response was sent.
    origin.set_wall_clock(Duration::from_secs(MODIFIED));
    let later = page(sent);
    assert_eq!(later.status, 200);
    assert_eq!(later.field("Last-Modified"), Some(modified));
    assert_eq!(page(modified).status, 304);
}

#[test]
fn accept_ranges_is_sent_where_a_representation_exists() {
    let config = OriginConfig {
        persona: Persona::verbose(),
        discard: Some("/discard".to_owned()),
        ..OriginConfig::default()
    };
    let origin = Origin::new(site(), config).unwrap();
    for (request, fields, expected) in [
        ("GET /page.html", &[][..], Some("bytes")),
        ("HEAD /page.html", &[], Some("bytes")),
        ("GET /page.html", &[("Range", "bytes=0-1")], Some("bytes")),
        ("OPTIONS *", &[], None),
        ("POST /discard", &[], None),
        ("GET /none", &[], None),
    ] {
        let response = ask(&origin, request, fields);
        assert_eq!(response.field("Accept-Ranges"), expected, "{request}");
    }
}

#[test]
fn a_file_at_the_root_takes_precedence_over_the_first_page() {
    let mut files = site().files.clone();
    files[0].path = "/".to_owned();
    let site = Site {
        files,
        ..Site::clone(&site())
    };
    let origin = Origin::new(Arc::new(site), OriginConfig::default()).unwrap();
    assert_eq!(ask(&origin, "GET /", &[]).content, b"other");
}

#[test]
fn head_has_the_fields_of_get() {
    let origin = origin();
    for request in ["/page.html", "/empty.css"] {
        let get = ask(&origin, &format!("GET {request}"), &[]);
        let head = ask(&origin, &format!("HEAD {request}"), &[]);
        assert_eq!(get.fields, head.fields);
        assert_eq!(head.content, b"");
    }
}

#[test]
fn each_representation_has_its_own_validator() {
    let origin = origin();
    let get = |accept: &str| ask(&origin, "GET /page.html", &[("Accept-Encoding", accept)]);
    let (plain, deflate, gzip) = (get("identity"), get("deflate"), get("gzip"));
    assert_eq!(plain.field("Content-Encoding"), None);
    assert_eq!(deflate.field("Content-Encoding"), Some("deflate"));
    assert_eq!(gzip.field("Content-Encoding"), Some("gzip"));
    assert_eq!(deflate.content, b"deflated");
    assert_eq!(gzip.content, b"gzipped bytes");
    let etags = [&plain, &deflate, &gzip].map(|response| response.field("ETag").unwrap());
    assert!(etags[0] != etags[1] && etags[1] != etags[2] && etags[0] != etags[2]);
    for response in [&plain, &deflate, &gzip] {
        assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
    }
    assert_eq!(ask(&origin, "GET /other.html", &[]).field("Vary"), None);

    // The tag of one representation does not match other representations.
    for (accept, etag, status) in [
        ("deflate", etags[1], 304),
        ("deflate", etags[0], 200),
        ("identity", etags[0], 304),
        ("identity", etags[1], 200),
    ] {
        let fields = [("Accept-Encoding", accept), ("If-None-Match", etag)];
        let response = ask(&origin, "GET /page.html", &fields);
        assert_eq!(response.status, status, "{accept} {etag}");
        if status == 304 {
            assert_eq!(response.field("ETag"), Some(etag));
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
            assert_eq!(response.field("Content-Encoding"), None);
            assert_eq!(response.field("Content-Length"), None);
        }
    }
}

#[test]
fn preconditions_apply_only_to_existing_files() {
    let origin = origin();
    let since = [("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")];
    assert_eq!(ask(&origin, "GET /page.html", &since).status, 304);
    assert_eq!(ask(&origin, "HEAD /page.html", &since).status, 304);
    assert_eq!(ask(&origin, "GET /none", &since).status, 404);
    let failing = [("If-Match", "\"x\"")];
    assert_eq!(ask(&origin, "GET /page.html", &failing).status, 412);
    assert_eq!(ask(&origin, "GET /none", &failing).status, 404);
    assert_eq!(ask(&origin, "POST /page.html", &failing).status, 405);
}

#[test]
fn single_ranges() {
    let origin = origin();
    let whole = ask(&origin, "GET /a%20b.gif", &[]).content;
    let part = ask(&origin, "GET /a%20b.gif", &[("Range", "bytes=-100")]);
    assert_eq!(part.status, 206);
    assert_eq!(part.field("Content-Range"), Some("bytes 900-999/1000"));
    assert_eq!(part.field("Content-Type"), Some("image/gif"));
    assert_eq!(part.content, whole[900..]);
    let outside = ask(&origin, "GET /a%20b.gif", &[("Range", "bytes=1000-")]);
    assert_eq!(outside.status, 416);
    assert_eq!(outside.field("Content-Range"), Some("bytes */1000"));
    let head = ask(&origin, "HEAD /a%20b.gif", &[("Range", "bytes=0-9")]);
    assert_eq!(
        (head.status, head.field("Content-Length")),
        (200, Some("1000"))
    );
}

#[test]
fn ranges_are_of_the_coded_representation() {
    let origin = origin();
    let fields = [("Accept-Encoding", "gzip"), ("Range", "bytes=0-3")];
    let part = ask(&origin, "GET /page.html", &fields);
    assert_eq!(part.content, b"gzip");
    assert_eq!(part.field("Content-Range"), Some("bytes 0-3/13"));
    assert_eq!(part.field("Content-Encoding"), Some("gzip"));
}

#[test]
fn if_range_protects_from_mixed_versions() {
    let origin = origin();
    let etag = ask(&origin, "GET /a%20b.gif", &[]);
    let etag = etag.field("ETag").unwrap();
    for (condition, status) in [
        (etag, 206),
        ("\"x\"", 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 206),
        ("Sun, 06 Nov 1994 08:49:36 GMT", 200),
    ] {
        let fields = [("Range", "bytes=0-9"), ("If-Range", condition)];
        assert_eq!(
            ask(&origin, "GET /a%20b.gif", &fields).status,
            status,
            "{condition}"
        );
    }
    // A matching If-None-Match takes precedence over the range.
    let fields = [
        ("Range", "bytes=0-9"),
        ("If-Range", etag),
        ("If-None-Match", etag),
    ];
    assert_eq!(ask(&origin, "GET /a%20b.gif", &fields).status, 304);
}

#[test]
fn several_ranges_make_a_multipart() {
    let origin = origin();
    let whole = ask(&origin, "GET /a%20b.gif", &[]).content;
    let parts = ask(
        &origin,
        "GET /a%20b.gif",
        &[("Range", "bytes=500-509,0-4,-1")],
    );
    assert_eq!(parts.status, 206);
    assert_eq!(parts.field("Content-Range"), None);
    let boundary = parts
        .field("Content-Type")
        .and_then(|value| value.strip_prefix("multipart/byteranges; boundary="))
        .unwrap();
    let mut expected = Vec::new();
    for (first, last) in [(500, 509), (0, 4), (999, 999)] {
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: image/gif\r\nContent-Range: bytes {first}-{last}/1000\r\n\r\n"
        );
        expected.extend_from_slice(head.as_bytes());
        expected.extend_from_slice(&whole[first..=last]);
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(parts.content, expected);
}

#[test]
fn a_persona_changes_only_optional_fields() {
    let field = |name: &str, value, on| PersonaField {
        name: name.to_owned(),
        value,
        on,
    };
    let nowhere = Responses {
        ok: false,
        ..Responses::NOT_MODIFIED
    };
    let config = OriginConfig {
        persona: Persona {
            name: "test".to_owned(),
            fields: vec![
                field(
                    "content-length",
                    persona::FieldValue::ContentLength,
                    nowhere,
                ),
                field(
                    "X",
                    persona::FieldValue::Static("y".to_owned()),
                    Responses::CONTENT,
                ),
                field("etag", persona::FieldValue::ETag, Responses::NOT_MODIFIED),
            ],
        },
        ..OriginConfig::default()
    };
    let origin = Origin::new(site(), config).unwrap();
    let names = |fields: &[(&str, &str)]| -> Vec<String> {
        let response = ask_raw(&origin, fields);
        response.fields.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&[]), ["content-length", "X", "Content-Type"]);
    assert_eq!(names(&[("If-None-Match", "*")]), ["etag"]);
}

/// Requests a file without variants. Does not check alternative spellings as [`ask`] does.
fn ask_raw(origin: &Origin, fields: &[(&str, &str)]) -> Response {
    let fields: Vec<(&str, &str)> = fields.to_vec();
    let mut request = Request {
        method: Method::Get,
        target: Target::Path(b"/other.html"),
        preconditions: Preconditions::default(),
        range: Single::Absent,
        accept: Lines::default(),
        accept_encoding: Lines::default(),
        available_dictionary: Single::Absent,
        package_have: Single::Absent,
        no_transform: false,
    };
    for (_, value) in &fields {
        assert!(request.preconditions.if_none_match.push(value.as_bytes()));
    }
    let answer = origin.decide(&request, Instant::ZERO, &mut Vec::new());
    let mut response = Response {
        status: answer.status().code(),
        fields: Vec::new(),
        content: Vec::new(),
    };
    origin.write_fields(&answer, 0, &mut Dates::default(), &mut response);
    response
}

#[test]
fn sites_with_unrequestable_files_are_refused() {
    let with = |path: &str, content_type: &str| {
        let mut files = site().files.clone();
        files[0].path = path.to_owned();
        files[0].content_type = content_type.to_owned().into();
        let site = Site {
            files,
            ..Site::clone(&site())
        };
        Origin::new(Arc::new(site), OriginConfig::default()).map(|_| ())
    };
    assert_eq!(with("/fine", "text/html"), Ok(()));
    for path in ["", "relative", "/a b", "/a?b", "/a%2Fb", "/%00", "/\u{e4}"] {
        let path = path.to_owned();
        assert_eq!(
            with(&path, "text/html"),
            Err(SiteError::BadPath { path }.into())
        );
    }
    let path = "/p%61ge.html".to_owned();
    assert!(matches!(
        with(&path, "text/html"),
        Err(OriginError::Site(SiteError::RepeatedPath { .. }))
    ));
    assert!(matches!(
        with("/fine", "text/html\r\nX: y"),
        Err(OriginError::Site(SiteError::BadContentType { .. }))
    ));
}
