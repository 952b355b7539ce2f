use fathometer_model::Seed;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::builder::UNKNOWN_SIZE;
use crate::plan::PageId;

fn entry(page: &str, started: &str, url: &str, size: i64, mime_type: &str) -> Value {
    json!({
        "pageref": page, "startedDateTime": started, "time": 100.0,
        "request": { "method": "GET", "url": url },
        "response": { "status": 200, "content": { "size": size, "mimeType": mime_type } },
    })
}

fn archive() -> Value {
    let mut script = entry(
        "p1",
        "2024-05-01T10:00:00.200Z",
        "https://a.example/app.js",
        900,
        "text/javascript",
    );
    script["_initiator"] = json!({ "type": "parser", "url": "https://a.example/" });
    let mut late = entry(
        "p1",
        "2024-05-01T10:00:00.500Z",
        "https://a.example/late.png?v=1",
        4000,
        "image/png",
    );
    late["_initiator"] = json!({
        "type": "script",
        "stack": { "callFrames": [], "parent": { "callFrames": [{ "url": "https://a.example/app.js" }] } },
    });
    let mut post = entry(
        "p2",
        "2024-05-01T12:00:02.100+02:00",
        "https://a.example/log",
        -1,
        "text/plain",
    );
    post["request"]["method"] = json!("POST");
    post["request"]["postData"] = json!({ "text": "x=1" });
    json!({ "log": {
        "version": "1.2",
        "pages": [
            { "id": "p1", "startedDateTime": "2024-05-01T10:00:00Z" },
            { "id": "p2", "startedDateTime": "2024-05-01T12:00:02+02:00" },
        ],
        "entries": [
            entry("p1", "2024-05-01T10:00:00.000Z", "https://a.example/", 5000, "text/html; charset=utf-8"),
            late,
            script,
            entry("p1", "2024-05-01T10:00:00.300Z", "https://cdn.example/x.js", 10, "text/javascript"),
            entry("p2", "2024-05-01T10:00:02.000Z", "https://a.example/two", -1, "text/html"),
            post,
            entry("p2", "2024-05-01T10:00:02.300Z", "data:image/gif;base64,R0", 10, "image/gif"),
        ],
    }})
}

fn read(archive: &Value) -> Result<Workload, String> {
    parse("test", &archive.to_string(), None).map_err(|fault| fault.to_string())
}

#[test]
fn an_archive_becomes_a_session_with_its_dependencies() {
    let workload = read(&archive()).unwrap();
    let plan = &workload.plan;
    let Choice::Scripts(scripts) = &plan.choice else {
        panic!("{:?}", plan.choice);
    };
    let steps = &scripts[0].steps;
    // The second page starts at 2 s; the last request of the first page ended at 0.6 s.
    assert_eq!(
        steps[..],
        [
            (PageId(0), Duration::from_millis(1400)),
            (PageId(1), Duration::ZERO)
        ]
    );
    let page = plan.pages.get(PageId(0));
    let paths: Vec<&str> = page
        .members
        .iter()
        .map(|id| plan.targets[id.0 as usize].path.as_str())
        .collect();
    assert_eq!(paths, ["/", "/app.js", "/late.png?v=1"]);
    assert_eq!(page.named_by, [0, 0, 1]);
    let post = &plan.targets[plan.pages.get(PageId(1)).members[1].0 as usize];
    assert_eq!(
        (&*post.method, post.content.as_deref()),
        ("POST", Some(&b"x=1"[..]))
    );
    let files: Vec<(&str, &str, u64)> = workload
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.content_type, file.size))
        .collect();
    assert_eq!(
        files,
        [
            ("/", "text/html", 5000),
            ("/app.js", "text/javascript", 900),
            ("/late.png", "image/png", 4000),
            ("/two", "text/html", UNKNOWN_SIZE),
        ]
    );
    assert_eq!(workload.notes[0], "entries are skipped: 1 with a data: URL");
    assert_eq!(
        workload.notes[1],
        "1 requests to hosts other than a.example are omitted"
    );
    let site = workload.site(0.3, Seed(1));
    assert_eq!(site.pages[0].named_by, [None, Some(0)]);
}

#[test]
fn another_host_can_be_selected() {
    let text = archive().to_string();
    let workload = parse("test", &text, Some("CDN.example")).unwrap();
    assert_eq!(workload.files[0].path, "/x.js");
    let fault = parse("test", &text, Some("nowhere")).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "log.entries: expected a request to the host nowhere, found 6 to others and 1 that cannot be replayed (1 \
         with a data: URL)"
    );
}

#[test]
fn what_is_no_request_to_the_server_is_skipped_by_reason() {
    let mut archive = archive();
    let at = |url: &str| entry("p1", "2024-05-01T10:00:00.400Z", url, 10, "text/plain");
    let mut cached = at("https://a.example/cached.js");
    cached["_fromCache"] = json!("disk");
    let mut aborted = at("https://a.example/aborted");
    aborted["response"]["status"] = json!(0);
    let mut not_modified = at("https://a.example/same.css");
    not_modified["response"]["status"] = json!(304);
    let entries = archive["log"]["entries"].as_array_mut().unwrap();
    entries.extend([
        cached,
        aborted,
        not_modified,
        at("blob:https://a.example/1"),
        at("wss://a.example/socket"),
        at("chrome-extension://x/y"),
    ]);
    let workload = read(&archive).unwrap();
    let skipped: Vec<(&str, u64)> = workload
        .skipped
        .iter()
        .map(|(what, &n)| (what.as_str(), n))
        .collect();
    assert_eq!(
        skipped,
        [
            ("a URL of another host", 1),
            ("a URL whose scheme is neither http nor https", 1),
            ("a blob: URL", 1),
            ("a data: URL", 1),
            ("a response from the browser's cache", 1),
            ("a ws: or wss: URL (WebSocket)", 1),
            ("no response (aborted)", 1),
        ]
    );
    let has = |path: &str| {
        workload
            .plan
            .targets
            .iter()
            .any(|target| target.path == path)
    };
    assert!(has("/same.css") && !has("/cached.js") && !has("/aborted"));
    assert!(
        workload
            .notes
            .iter()
            .any(|note| note.starts_with("1 requests were answered 304"))
    );
}

#[test]
fn forms_and_the_type_of_a_content_are_kept() {
    let mut archive = archive();
    let posted = &mut archive["log"]["entries"][5]["request"]["postData"];
    *posted = json!({
        "mimeType": "application/x-www-form-urlencoded",
        "params": [{ "name": "user", "value": "a b" }, { "name": "q", "value": "x&y" }, { "name": "z" }],
    });
    let workload = read(&archive).unwrap();
    let post = workload
        .plan
        .targets
        .iter()
        .find(|target| target.method == "POST")
        .unwrap();
    assert_eq!(post.content.as_deref(), Some(&b"user=a+b&q=x%26y&z"[..]));
    assert_eq!(
        post.content_type.as_deref(),
        Some("application/x-www-form-urlencoded")
    );
}

#[test]
fn faults_name_their_place() {
    let mut broken = archive();
    broken["log"]["entries"][1]["request"]["url"] = json!(7);
    assert_eq!(
        read(&broken).unwrap_err(),
        "log.entries[1].request.url: expected a string, found the number 7"
    );
    let mut broken = archive();
    broken["log"]["entries"][2]["startedDateTime"] = json!("noon");
    assert_eq!(
        read(&broken).unwrap_err(),
        "log.entries[2].startedDateTime: expected a time like 2024-05-01T10:20:30.125Z, \
         found \"noon\""
    );
    let mut broken = archive();
    broken["log"]["entries"] = json!([]);
    assert_eq!(
        read(&broken).unwrap_err(),
        "log.entries: expected at least one request"
    );
    assert_eq!(
        read(&json!({})).unwrap_err(),
        "log: expected a value, found none"
    );
    assert_eq!(
        read(&json!([])).unwrap_err(),
        "expected an object with \"log\", found an array"
    );
    let whole = archive().to_string();
    let truncated = parse("test", &whole[..whole.len() / 2], None).unwrap_err();
    assert!(
        truncated.to_string().starts_with("line 1, column "),
        "{truncated}"
    );
}

#[test]
fn faults_within_an_entry_name_their_line() {
    let text = archive()
        .to_string()
        .replace("\"entries\":", "\n\"entries\":");
    let half_a_pair = text.replacen("/late.png", "/\\ud800", 1);
    let fault = parse("test", &half_a_pair, None).unwrap_err().to_string();
    assert!(fault.starts_with("line 2, column "), "{fault}");
    let mut broken = archive();
    broken["log"]["entries"] = json!({ "0": 1 });
    assert_eq!(
        read(&broken).unwrap_err(),
        "log.entries: expected an array, found an object"
    );
    broken["log"] = json!("x");
    assert_eq!(
        read(&broken).unwrap_err(),
        "log: expected an object, found a string"
    );
}

#[test]
fn a_page_of_too_many_requests_is_refused_at_the_first_too_many() {
    let asked = |n: u32| {
        let url = format!("https://a.example/{n}");
        entry("p1", "2024-05-01T10:00:00Z", &url, 1, "text/plain")
    };
    let mut archive = archive();
    let mut entries: Vec<Value> = (0..65_535).map(asked).collect();
    archive["log"]["entries"] = entries.clone().into();
    assert_eq!(read(&archive).unwrap().plan.targets.len(), 65_535);
    // The next entry is not parsed.
    entries.extend([asked(65_535), json!("no entry")]);
    archive["log"]["entries"] = entries.into();
    assert_eq!(
        read(&archive).unwrap_err(),
        "log.entries: expected at most 65535 requests in the page \"p1\""
    );
}

/// Returns the session of the archive: the paths of each page, and the pause after the page in milliseconds.
fn session(archive: &Value) -> Vec<(Vec<String>, u128)> {
    let plan = read(archive).unwrap().plan;
    let Choice::Scripts(scripts) = &plan.choice else {
        panic!("{:?}", plan.choice);
    };
    let path = |id: &TargetId| plan.targets[id.0 as usize].path.clone();
    scripts[0]
        .steps
        .iter()
        .map(|(page, pause)| {
            let members = plan.pages.get(*page).members;
            (members.iter().map(path).collect(), pause.as_millis())
        })
        .collect()
}

#[test]
fn a_request_without_a_page_is_a_page_and_keeps_its_time() {
    let mut archive = archive();
    let entries = archive["log"]["entries"].as_array_mut().unwrap();
    for (second, path) in [(1, "early"), (9, "late")] {
        let started = format!("2024-05-01T10:00:0{second}Z");
        let url = format!("https://a.example/{path}");
        let mut alone = entry("", &started, &url, 1, "text/plain");
        if path == "late" {
            alone.as_object_mut().unwrap().remove("pageref");
        }
        entries.push(alone);
    }
    let found = session(&archive);
    let found: Vec<_> = found
        .iter()
        .map(|(paths, pause)| (paths[0].as_str(), paths.len(), *pause))
        .collect();
    let expected = [
        ("/", 3, 400),
        ("/early", 1, 900),
        ("/two", 2, 6800),
        ("/late", 1, 0),
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_archive_without_pages_is_one_page() {
    let mut archive = archive();
    archive["log"].as_object_mut().unwrap().remove("pages");
    for entry in archive["log"]["entries"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("pageref");
    }
    let found = session(&archive);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0.len(), 5);
    archive["log"]["pages"] = json!([]);
    assert_eq!(session(&archive), found);
}

#[test]
fn a_first_entry_that_is_no_request_names_no_host() {
    let mut archive = archive();
    let inline = entry(
        "p1",
        "2024-05-01T10:00:00Z",
        "data:image/gif;base64,R0",
        1,
        "image/gif",
    );
    let entries = archive["log"]["entries"].as_array_mut().unwrap();
    entries.insert(0, inline.clone());
    assert_eq!(read(&archive).unwrap().skipped["a data: URL"], 2);
    archive["log"]["entries"] = json!([inline]);
    assert_eq!(
        read(&archive).unwrap_err(),
        "log.entries: expected a request over http or https, found 0 to others and 1 that cannot be replayed (1 \
         with a data: URL)"
    );
}

/// Generates any JSON value of limited depth.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "\\PC{0,120}") {
        let _ = parse("test", &text, None);
    }

    #[test]
    fn no_value_in_an_archive_causes_a_panic(
        entry in 0usize..7,
        pointer in proptest::sample::select(vec![
            "", "/pageref", "/startedDateTime", "/time", "/request", "/request/url",
            "/request/method", "/response", "/response/status", "/response/content",
            "/response/content/size", "/_initiator", "/_initiator/stack",
        ]),
        value in any_json(),
    ) {
        let mut archive = archive();
        if let Some(place) = archive["log"]["entries"][entry].pointer_mut(pointer) {
            *place = value;
        }
        if let Ok(workload) = read(&archive) {
            workload.statistics();
        }
    }
}
