//! Pages over HTTP/2 against the origin: streams, hosts, pushes, hints, graphs, and counters.

use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{FileKind, Options, PageGraph, Priorities, ValidatorCache, Visit};
use fathometer_model::{
    Bytes, CloseReason, ExchangeRecord, File, FileId, Outcome as Ended, Page, Site,
};
use proptest::prelude::*;

use super::world::{IMAGES, Network, Outcome, Setting, origin, origin_with, retrieve, site};

fn first(policy: &str) -> Setting {
    Setting::new(policy, Visit::First)
}

fn content(outcome: &Outcome) -> u64 {
    let files = outcome.retrieval.exchanges.iter();
    files.map(|exchange| exchange.response_body.0).sum()
}

/// Checks the invariants of every successful retrieval over HTTP/2.
fn assert_sound(outcome: &Outcome) {
    let retrieval = &outcome.retrieval;
    assert_eq!(retrieval.failures, []);
    let milestones = retrieval.milestones;
    let order = [
        milestones.base_first_byte,
        milestones.base_complete,
        milestones.page_complete,
    ];
    assert!(order.iter().all(Option::is_some) && order.is_sorted());
    assert!(milestones.critical_complete >= milestones.base_complete);
    let bytes = retrieval.bytes;
    let order = [
        bytes.base_first_byte,
        bytes.base_complete,
        bytes.page_complete,
    ];
    assert!(order.iter().all(Option::is_some) && order.is_sorted());
    for exchange in &retrieval.exchanges {
        let times = [exchange.sent, exchange.first_byte, exchange.last_byte];
        assert!(times.iter().all(Option::is_some) && times.is_sorted());
        assert_eq!(exchange.outcome, Ended::Complete);
        assert_eq!(exchange.request_fields.is_none(), exchange.pushed);
        assert!(exchange.response_fields > Some(Bytes(0)));
    }
    let written: usize = outcome.writes.iter().sum();
    let recorded: u64 = retrieval.connections.iter().map(|c| c.sent.0).sum();
    assert_eq!(written as u64, recorded);
    // Bytes outside requests and responses: preface, settings, window updates, acknowledgements, GOAWAY.
    let heads: u64 = retrieval.exchanges.iter().map(|e| e.request_head.0).sum();
    assert!(
        (heads..heads + 2000).contains(&recorded),
        "{heads} {recorded}"
    );
    for connection in &retrieval.connections {
        assert_eq!(connection.close, CloseReason::Finished);
    }
}

#[test]
fn every_file_is_complete_over_one_connection() {
    let site = site();
    let total: u64 = site.files.iter().map(|file| file.body.len().0).sum();
    let html = site.files[0].body.bytes().into_owned();
    let outcome = retrieve(&origin(site), first("h2c"), ValidatorCache::new());
    assert_sound(&outcome);
    let retrieval = &outcome.retrieval;
    assert_eq!(retrieval.connections.len(), 1);
    assert_eq!(retrieval.exchanges.len(), IMAGES + 1);
    // DATA frames have an overhead of nine bytes each.
    let extra = content(&outcome) - total;
    assert!(extra > 0 && extra.is_multiple_of(9), "{extra}");
    assert_eq!(retrieval.cache.get("/index.html").unwrap().html, html);
    assert_eq!(retrieval.cache.len(), IMAGES + 1);
    let named = |e: &ExchangeRecord| e.named_by.as_deref() == Some("/index.html");
    assert!(retrieval.exchanges[1..].iter().all(named));
    // The dynamic table compresses the fields that requests share.
    let later = &retrieval.exchanges[2..];
    let wire: u64 = later.iter().map(|e| e.request_head.0).sum();
    let plain: u64 = later
        .iter()
        .filter_map(|e| e.request_fields)
        .map(|o| o.0)
        .sum();
    assert!(wire * 5 < plain, "{wire} of {plain}");
}

#[test]
fn known_files_are_requested_at_once_within_the_stream_limit() {
    let origin = origin(site());
    let elapsed = |policy: &str| {
        let outcome = retrieve(&origin, first(policy), ValidatorCache::new());
        assert_sound(&outcome);
        let retrieval = outcome.retrieval;
        let end = retrieval.milestones.page_complete.unwrap();
        end.since(retrieval.connections[0].opened)
    };
    let at_once = elapsed("h2c");
    let serial = elapsed("h2c-streams1");
    // A handshake, the HTML, the images: three round trips and the time of the segments.
    assert!(at_once < Duration::from_millis(500), "{at_once:?}");
    assert!(
        serial > Duration::from_millis(90 * IMAGES as u64),
        "{serial:?}"
    );
    assert!(elapsed("h2c-streams4") < serial / 2);
}

#[test]
fn files_are_spread_over_hosts_by_a_stable_rule() {
    let origin = origin(site());
    let outcome = retrieve(&origin, first("h2c-sharded"), ValidatorCache::new());
    assert_sound(&outcome);
    let retrieval = outcome.retrieval;
    assert_eq!(retrieval.connections.len(), 4);
    let hosts: Vec<&str> = retrieval
        .connections
        .iter()
        .filter_map(|c| c.host.as_deref())
        .collect();
    assert_eq!(hosts[0], "www.microscape.test");
    assert!(
        hosts[1..]
            .iter()
            .all(|host| host.ends_with(".www.microscape.test"))
    );
    let on = |connection: u32| {
        let exchanges = retrieval.exchanges.iter();
        exchanges.filter(|e| e.connection == connection).count()
    };
    let counts = [0, 1, 2, 3].map(on);
    assert!(counts.iter().all(|&count| count > 4), "{counts:?}");
    let again = retrieve(&origin, first("h2c-sharded"), ValidatorCache::new()).retrieval;
    let places = |exchanges: &[ExchangeRecord]| {
        let mut places: Vec<_> = exchanges
            .iter()
            .map(|e| (e.target.clone(), e.connection))
            .collect();
        places.sort();
        places
    };
    assert_eq!(places(&again.exchanges), places(&retrieval.exchanges));
}

#[test]
fn a_revisit_validates_everything_over_one_connection() {
    let origin = origin(site());
    let filled = retrieve(&origin, first("h2c"), ValidatorCache::new());
    let setting = Setting::new("h2c", Visit::Revalidate);
    let outcome = retrieve(&origin, setting, filled.retrieval.cache);
    assert_sound(&outcome);
    let exchanges = &outcome.retrieval.exchanges;
    assert!(exchanges.iter().all(|e| e.status == Some(304)));
    assert_eq!(exchanges.len(), IMAGES + 1);
    assert_eq!(content(&outcome), 0);
}

#[test]
fn pushes_are_matched_with_the_page_and_cancelled_if_cached() {
    let all: Vec<String> = (0..IMAGES).map(|n| format!("/img{n:02}.gif")).collect();
    let plan = format!("/index.html {} /nobody.gif\n", all.join(" "));
    let mut with_more = site();
    with_more.files.push(File {
        path: "/nobody.gif".to_owned(),
        ..with_more.files[1].clone()
    });
    let origin = origin_with(with_more, &plan, "");
    let plain = retrieve(&origin, first("h2c"), ValidatorCache::new());
    assert_eq!(plain.retrieval.counters.pushes_promised, 0);

    let outcome = retrieve(&origin, first("h2c-push"), ValidatorCache::new());
    assert_sound(&outcome);
    let counters = outcome.retrieval.counters;
    let promised = IMAGES as u32 + 1;
    assert_eq!(counters.pushes_promised, promised);
    assert_eq!(
        (counters.pushes_used, counters.pushes_unused),
        (promised - 1, 1)
    );
    let asked = outcome.retrieval.exchanges.iter().filter(|e| !e.pushed);
    assert_eq!(asked.count(), 1, "only the page itself is requested");
    assert_eq!(outcome.retrieval.cache.len(), IMAGES + 2);

    // All files except one are cached already.
    let mut cache = outcome.retrieval.cache;
    cache.remove("/img07.gif");
    let setting = Setting::new("h2c-push", Visit::Revalidate);
    let revisit = retrieve(&origin, setting, cache).retrieval;
    assert_eq!(revisit.failures, []);
    // No files are pushed with a page that is current.
    assert_eq!(revisit.counters.pushes_promised, 0);
}

#[test]
fn a_file_requested_before_its_promise_is_not_fetched_twice() {
    // The page is read in pieces, and its push promise comes with its second half.
    let origin = origin_with(site(), "/img00.gif /img01.gif /img41.gif\n", "");
    let outcome = retrieve(&origin, first("h2c-push"), ValidatorCache::new());
    let counters = outcome.retrieval.counters;
    assert_eq!(outcome.retrieval.failures, []);
    assert_eq!((counters.pushes_promised, counters.pushes_refused), (2, 2));
    assert_eq!(outcome.retrieval.exchanges.len(), IMAGES + 1);
}

/// Creates a site whose HTML refers to a style sheet and a script at its very end. The style sheet refers to a font;
/// the script refers to an image and to another script.
fn deep() -> Site {
    let file = |path: &str, content_type: &str, length: usize| File {
        path: path.to_owned(),
        content_type: content_type.to_owned().into(),
        body: vec![b' '; length].into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    };
    let mut html = vec![b' '; 30_000];
    html.extend_from_slice(b"<link rel=stylesheet href=/a.css><script src=/b.js></script>");
    let index = File {
        body: html.into(),
        ..file("/index.html", "text/html", 0)
    };
    let files = vec![
        index,
        file("/a.css", "text/css", 5000),
        file("/b.js", "text/javascript", 5000),
        file("/c.woff2", "font/woff2", 5000),
        file("/d.jpg", "image/jpeg", 5000),
        file("/e.js", "text/javascript", 5000),
    ];
    Site {
        name: "deep".to_owned(),
        pages: vec![Page {
            base: FileId(0),
            embedded: (1..6).map(FileId).collect(),
            named_by: vec![None, None, Some(0), Some(1), Some(1)],
        }],
        files,
    }
}

fn of(outcome: &Outcome, target: &str) -> ExchangeRecord {
    let mut exchanges = outcome.retrieval.exchanges.iter();
    exchanges.find(|e| e.target == target).unwrap().clone()
}

#[test]
fn a_file_is_requested_once_the_file_that_names_it_has_arrived() {
    let site = deep();
    let graph = Arc::new(PageGraph::of(&site, &site.pages[0]));
    let origin = origin(site);
    for policy in ["h2c", "h1.1x6", "h1.1-pipeline"] {
        let mut setting = first(policy);
        setting.options.graph = Arc::clone(&graph);
        let outcome = retrieve(&origin, setting, ValidatorCache::new());
        assert_eq!(outcome.retrieval.exchanges.len(), 6, "{policy}");
        for (target, by) in [
            ("/a.css", "/index.html"),
            ("/b.js", "/index.html"),
            ("/c.woff2", "/a.css"),
            ("/d.jpg", "/b.js"),
            ("/e.js", "/b.js"),
        ] {
            let (file, by) = (of(&outcome, target), of(&outcome, by));
            assert_eq!(file.named_by, Some(by.target));
            if by.named_by.is_some() {
                assert_eq!(Some(file.planned), by.last_byte, "{policy} {target}");
            }
        }
        let critical = outcome.retrieval.milestones.critical_complete;
        let last = ["/c.woff2", "/b.js"].map(|target| of(&outcome, target).last_byte);
        assert_eq!(critical, last.into_iter().max().unwrap(), "{policy}");
        assert!(
            critical < outcome.retrieval.milestones.page_complete,
            "{policy}"
        );
    }
}

#[test]
fn scripts_that_take_time_are_executed_one_after_another() {
    let site = deep();
    let graph = Arc::new(PageGraph::of(&site, &site.pages[0]));
    let origin = origin(site);
    let mut setting = first("h2c");
    setting.options.graph = graph;
    setting.options.script_time = Duration::from_millis(500);
    let outcome = retrieve(&origin, setting, ValidatorCache::new());
    let arrived = of(&outcome, "/b.js").last_byte.unwrap();
    let executed = arrived + Duration::from_millis(500);
    assert_eq!(of(&outcome, "/d.jpg").planned, executed);
    assert_eq!(of(&outcome, "/e.js").planned, executed);
    let second = of(&outcome, "/e.js").last_byte.unwrap();
    let end = outcome.retrieval.milestones.page_complete.unwrap();
    assert_eq!(end, second + Duration::from_millis(500));
}

#[test]
fn early_hints_name_files_before_the_page_arrives() {
    let site = deep();
    let graph = Arc::new(PageGraph::of(&site, &site.pages[0]));
    let hints = "/index.html /a.css /b.js /c.woff2\n";
    let origin = origin_with(site, "", hints);
    for policy in ["h2c", "h1.1x6"] {
        let mut planned = Vec::new();
        for preloads in [true, false] {
            let mut setting = first(policy);
            // The service time delays every response, but not its hints.
            setting.server.service_time = Duration::from_millis(200);
            setting.http2.service_time = Duration::from_millis(200);
            setting.options.graph = Arc::clone(&graph);
            setting.options.preloads = preloads;
            let outcome = retrieve(&origin, setting, ValidatorCache::new());
            assert_eq!(outcome.retrieval.failures, []);
            let expected = if preloads { 3 } else { 0 };
            assert_eq!(outcome.retrieval.counters.preloads, expected, "{policy}");
            assert_eq!(outcome.retrieval.exchanges.len(), 6);
            planned.push(of(&outcome, "/c.woff2").planned);
        }
        assert!(
            planned[0] + Duration::from_millis(200) < planned[1],
            "{policy}"
        );
    }
}

#[test]
fn more_urgent_responses_are_first() {
    let site = deep();
    let mut graph = PageGraph::default();
    // The HTML refers to six images, and last to a font.
    for n in 0..6 {
        graph.add("/index.html", &format!("/a.css?{n}"), FileKind::Image);
    }
    graph.add("/index.html", "/c.woff2", FileKind::Font);
    let origin = origin(site);
    let order = |policy: &str, priorities| {
        let mut setting = first(policy);
        setting.options = Options {
            graph: Arc::new(graph.clone()),
            priorities,
            ..setting.options
        };
        let outcome = retrieve(&origin, setting, ValidatorCache::new());
        assert_eq!(outcome.retrieval.failures, []);
        let font = of(&outcome, "/c.woff2").last_byte;
        let before = outcome.retrieval.exchanges.iter();
        before.filter(|e| e.last_byte < font).count()
    };
    // Images and a font are outstanding when the HTML is complete.
    for policy in ["h1.1", "h2c"] {
        let plain = order(policy, Priorities::None);
        let browser = order(policy, Priorities::Browser);
        assert!(
            browser < plain,
            "{policy}: {browser} files before the font with priorities, {plain} without"
        );
    }
}

#[test]
fn the_client_reconnects_after_goaway() {
    let origin = origin(site());
    let mut setting = first("h2c");
    setting.http2.max_requests_per_connection = Some(10);
    let outcome = retrieve(&origin, setting, ValidatorCache::new());
    let retrieval = outcome.retrieval;
    assert_eq!(retrieval.failures, []);
    assert_eq!(retrieval.cache.len(), IMAGES + 1);
    assert!(
        retrieval.connections.len() >= 4,
        "{}",
        retrieval.connections.len()
    );
    assert!(retrieval.counters.requests_retried > 0);
    assert!(retrieval.milestones.page_complete.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn segmentation_of_responses_changes_only_times(
        // With small segments the page takes longer than the server's time limit.
        segment in 30usize..3000,
        distance in 0u64..2000,
        policy in prop::sample::select(vec!["h2c", "h2cx2", "h2c-sharded", "h2c-streams3", "h2c-push"]),
    ) {
        let site = site();
        let bodies: Vec<(String, u64)> =
            site.files.iter().map(|f| (f.path.clone(), f.body.len().0)).collect();
        let origin = origin_with(site, "/index.html /img03.gif /img40.gif\n", "");
        let mut setting = first(policy);
        setting.network = Network {
            segment,
            distance: Duration::from_micros(distance),
            ..Network::default()
        };
        let outcome = retrieve(&origin, setting, ValidatorCache::new());
        assert_sound(&outcome);
        for (path, length) in bodies {
            let body = of(&outcome, &path).response_body.0;
            let frames = (body - length) / 9;
            prop_assert_eq!(body, length + 9 * frames, "{}", path);
        }
    }
}

#[test]
fn a_small_window_delays_a_large_file() {
    let origin = origin(site());
    let elapsed = |window: u32| {
        let mut setting = first("h2c");
        setting.options.http2.stream_window = window;
        let outcome = retrieve(&origin, setting, ValidatorCache::new());
        assert_sound(&outcome);
        let retrieval = outcome.retrieval;
        let end = retrieval.milestones.page_complete.unwrap();
        end.since(retrieval.connections[0].opened)
    };
    let narrow = elapsed(4096);
    // The largest image is ten windows long. Each window takes a round trip, because an update is sent when half of the
    // window was read.
    assert!(
        narrow > elapsed(1 << 20) + Duration::from_millis(500),
        "{narrow:?}"
    );
}

#[test]
fn waits_of_the_server_for_a_window_are_recorded_with_their_grants() {
    let origin = origin(site());
    let round_trip = Network::default().delay * 2;
    let waits = |window: u32| {
        let mut setting = first("h2");
        setting.options.http2.stream_window = window;
        let outcome = retrieve(&origin, setting, ValidatorCache::new());
        assert_sound(&outcome);
        outcome.retrieval
    };
    // Windows as large as the windows of browsers never stop the server on this page.
    let free = waits(6 << 20);
    assert_eq!(free.connections[0].window_waits, []);
    let limited = waits(1_500);
    let base = &limited.exchanges[0];
    let of_base = limited.connections[0].window_waits.iter();
    let of_base: Vec<_> = of_base.filter(|wait| wait.exchange == Some(0)).collect();
    let bytes = free.exchanges[0].response_body.0;
    // Each round trip brings one window at most.
    assert!(
        of_base.len() as u64 >= bytes / 1_500 - 1,
        "{}",
        of_base.len()
    );
    for wait in &of_base {
        // The server resumes when it reads the grant: the next byte is read one round trip after the grant, and
        // some segments of other streams later.
        let after = wait.to.since(wait.granted);
        assert!(after >= round_trip, "{wait:?}");
        assert!(after < round_trip + Duration::from_millis(40), "{wait:?}");
        assert!(wait.from < wait.to && wait.to <= base.last_byte.unwrap());
    }
    // The waits explain the additional time with the small window.
    let waited: Duration = of_base.iter().map(|wait| wait.to.since(wait.from)).sum();
    let time = |exchange: &ExchangeRecord| {
        let (first, last) = (exchange.first_byte.unwrap(), exchange.last_byte.unwrap());
        last.since(first)
    };
    let cost = time(base) - time(&free.exchanges[0]);
    assert!(
        waited.abs_diff(cost) < Duration::from_millis(50),
        "{waited:?} {cost:?}"
    );
}
