//! Client drivers against the origin, in virtual time: every policy retrieves complete pages, with the numbers of
//! requests and connections that the paper states.

mod bundled;
mod dynamic;
mod multiplexed;
mod world;

use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{
    CacheEntry, CloseManner, Dimensions, Revalidation, ValidatorCache, Visit,
};
use fathometer_http::h1::server;
use fathometer_http::origin::Origin;
use fathometer_model::{Bytes, CloseReason, ContentCoding, Failure, Outcome as Ended};
use world::{IMAGES, Network, Outcome, Setting, origin, retrieve, site};

const POLICIES: [&str; 9] = [
    "h1.0",
    "h1.0x4",
    "h1.0-keepalive",
    "h1.0-keepalivex4",
    "h1.1",
    "h1.1x4",
    "h1.1-pipeline",
    "h1.1x2-pipeline",
    "h1.1-pipeline-ranges",
];

/// Returns the cache after a first visit with a plain policy.
fn filled_cache(origin: &Arc<Origin>) -> ValidatorCache {
    let first = retrieve(
        origin,
        Setting::new("h1.1", Visit::First),
        ValidatorCache::new(),
    );
    first.retrieval.cache
}

fn content(outcome: &Outcome) -> u64 {
    let exchanges = outcome.retrieval.exchanges.iter();
    exchanges.map(|exchange| exchange.response_body.0).sum()
}

fn count(outcome: &Outcome, status: u16) -> usize {
    let exchanges = outcome.retrieval.exchanges.iter();
    exchanges.filter(|e| e.status == Some(status)).count()
}

/// Checks the invariants of every successful retrieval.
fn assert_sound(outcome: &Outcome, policy: &str) {
    let retrieval = &outcome.retrieval;
    assert_eq!(retrieval.failures, [], "{policy}");
    let milestones = retrieval.milestones;
    let order = [
        milestones.base_first_byte,
        milestones.base_complete,
        milestones.sizes_known,
        milestones.page_complete,
    ];
    assert!(order.iter().all(Option::is_some), "{policy}: {order:?}");
    assert!(order.is_sorted(), "{policy}: {order:?}");
    for exchange in &retrieval.exchanges {
        let times = [exchange.sent, exchange.first_byte, exchange.last_byte];
        assert!(times.iter().all(Option::is_some) && times.is_sorted());
        assert!(Some(exchange.planned) <= exchange.sent);
        assert_eq!(exchange.outcome, Ended::Complete);
    }
    let written: usize = outcome.writes.iter().sum();
    let recorded: u64 = retrieval.connections.iter().map(|c| c.sent.0).sum();
    assert_eq!(written as u64, recorded);
    let heads: u64 = retrieval.exchanges.iter().map(|e| e.request_head.0).sum();
    assert_eq!(heads, recorded);
    let received: u64 = retrieval.connections.iter().map(|c| c.received.0).sum();
    let read = retrieval.exchanges.iter();
    let read: u64 = read.map(|e| e.response_head.0 + e.response_body.0).sum();
    assert_eq!(received, read, "{policy}");
    assert_eq!(retrieval.cache.len(), IMAGES + 1);
    for n in 0..IMAGES {
        let entry = retrieval.cache.get(&format!("/img{n:02}.gif")).unwrap();
        let width = n as u32 + 1;
        assert_eq!(entry.dimensions, Some(Dimensions { width, height: 20 }));
    }
}

#[test]
fn every_policy_fetches_every_byte_on_the_first_visit() {
    let site = site();
    let total: u64 = site.files.iter().map(|file| file.body.len().0).sum();
    let html = site.files[0].body.bytes().into_owned();
    let long_images = site.files[1..]
        .iter()
        .filter(|f| f.body.len().0 > 512)
        .count();
    let origin = origin(site);
    for policy in POLICIES {
        let setting = Setting::new(policy, Visit::First);
        let outcome = retrieve(&origin, setting, ValidatorCache::new());
        assert_sound(&outcome, policy);
        assert_eq!(content(&outcome), total, "{policy}");
        let entry = outcome.retrieval.cache.get("/index.html").unwrap();
        assert_eq!(entry.html, html);
        assert_eq!(outcome.retrieval.counters.references_elsewhere, 1);
        let rests = match policy {
            "h1.1-pipeline-ranges" => long_images,
            _ => 0,
        };
        assert_eq!(outcome.retrieval.exchanges.len(), 43 + rests, "{policy}");
        let (connections, at_once) = match policy {
            "h1.0" => (43, 1),
            "h1.0x4" => (43, 4),
            "h1.0-keepalivex4" | "h1.1x4" => (4, 4),
            "h1.1x2-pipeline" => (2, 2),
            _ => (1, 1),
        };
        assert_eq!(outcome.retrieval.connections.len(), connections, "{policy}");
        assert_eq!(outcome.most_open, at_once, "{policy}");
    }
}

#[test]
fn every_policy_revalidates_with_43_requests_and_no_content() {
    let origin = origin(site());
    let cache = filled_cache(&origin);
    for policy in POLICIES {
        for revalidation in [Revalidation::EntityTag, Revalidation::Date] {
            let mut setting = Setting::new(policy, Visit::Revalidate);
            setting.options.revalidation = revalidation;
            let mut outcome = retrieve(&origin, setting, cache.clone());
            assert_sound(&outcome, policy);
            assert_eq!(outcome.retrieval.exchanges.len(), 43, "{policy}");
            assert_eq!(count(&outcome, 304), 43, "{policy}");
            assert_eq!(content(&outcome), 0);
            // Only the times at which the files were confirmed may differ.
            for (target, entry) in cache.iter() {
                let after = outcome.retrieval.cache.get_mut(target).unwrap();
                assert!(after.date.is_some(), "{policy} {target}");
                after.date.clone_from(&entry.date);
            }
            assert_eq!(outcome.retrieval.cache, cache);
            let field = match revalidation {
                Revalidation::Date => "\r\nIf-Modified-Since: ",
                _ => "\r\nIf-None-Match: ",
            };
            let conditional = outcome.requests.concat().matches(field).count();
            assert_eq!(conditional, 43);
            let connections = outcome.retrieval.connections.len();
            match policy {
                "h1.0" | "h1.0x4" => assert_eq!(connections, 43),
                _ => assert!(connections <= 4),
            }
        }
    }
}

#[test]
fn the_papers_http10_client_revalidates_by_one_get_and_42_heads() {
    let site = site();
    let html = site.files[0].body.len().0;
    let origin = origin(site);
    let mut setting = Setting::new("h1.0x4", Visit::Revalidate);
    setting.options.revalidation = Revalidation::Head;
    let outcome = retrieve(&origin, setting, filled_cache(&origin));
    assert_sound(&outcome, "h1.0x4");
    let exchanges = &outcome.retrieval.exchanges;
    let heads = exchanges.iter().filter(|e| e.method == "HEAD").count();
    assert_eq!((exchanges.len(), heads), (43, 42));
    assert_eq!(
        (exchanges[0].method.as_str(), content(&outcome)),
        ("GET", html)
    );
    assert_eq!(outcome.retrieval.connections.len(), 43);
}

#[test]
fn only_changed_files_are_fetched() {
    let old = origin(site());
    let cache = filled_cache(&old);
    let mut changed = site();
    changed.files[10].body = b"GIF89a\x09\0\x09\0 and more of it"[..].into();
    changed.files[10].last_modified += 10;
    changed.files[42].last_modified += 10;
    let mut other = changed.files[42].body.bytes().into_owned();
    other[100] ^= 1;
    changed.files[42].body = other.into();
    let sizes = [10, 42].map(|file| changed.files[file].body.len().0);
    let new = origin(changed);
    for policy in POLICIES {
        for revalidation in [
            Revalidation::EntityTag,
            Revalidation::Date,
            Revalidation::Head,
        ] {
            let mut setting = Setting::new(policy, Visit::Revalidate);
            setting.options.revalidation = revalidation;
            let outcome = retrieve(&new, setting, cache.clone());
            assert_eq!(outcome.retrieval.failures, [], "{policy}");
            let images = outcome.retrieval.exchanges.iter();
            let images = images.filter(|e| e.target != "/index.html");
            let fetched: u64 = images.map(|e| e.response_body.0).sum();
            assert_eq!(
                fetched,
                sizes.iter().sum::<u64>(),
                "{policy} {revalidation:?}"
            );
            let entry = outcome.retrieval.cache.get("/img09.gif").unwrap();
            let nine = Dimensions {
                width: 9,
                height: 9,
            };
            assert_eq!(entry.dimensions, Some(nine));
            let again = retrieve(
                &new,
                Setting::new("h1.1-pipeline", Visit::Revalidate),
                outcome.retrieval.cache,
            );
            assert_eq!(count(&again, 304), 43, "{policy}");
        }
    }
}

#[test]
fn ranges_bring_every_size_before_the_rest_of_any_image() {
    let origin = origin(site());
    let fetch = |policy| {
        let setting = Setting::new(policy, Visit::First);
        retrieve(&origin, setting, ValidatorCache::new())
    };
    let parted = fetch("h1.1-pipeline-ranges");
    let whole = fetch("h1.1-pipeline");
    let exchanges = &parted.retrieval.exchanges;
    let is_rest = |e: &&fathometer_model::ExchangeRecord| e.exchange > IMAGES as u32;
    let first_rest = exchanges.iter().filter(is_rest).map(|e| e.first_byte).min();
    let sizes_known = parted.retrieval.milestones.sizes_known;
    assert!(sizes_known <= first_rest.flatten());
    assert!(sizes_known < whole.retrieval.milestones.sizes_known);
    assert_eq!(count(&parted, 200), 1);
    let text = parted.requests.concat();
    assert_eq!(text.matches("\r\nRange: bytes=0-511\r\n").count(), IMAGES);
    let rests = text.matches("\r\nRange: bytes=512-\r\n").count();
    assert_eq!(text.matches("\r\nIf-Range: \"").count(), rests);
    assert_eq!(exchanges.len(), 43 + rests);
}

#[test]
fn a_revisit_with_ranges_fetches_a_changed_image_in_parts_or_whole() {
    let cache = filled_cache(&origin(site()));
    let mut changed = site();
    let mut body = changed.files[42].body.bytes().into_owned();
    body[5000] ^= 1;
    changed.files[42].body = body.into();
    changed.files[42].last_modified += 10;
    let new = origin(changed);
    for (if_range, statuses) in [(false, vec![206, 206]), (true, vec![200])] {
        let mut setting = Setting::new("h1.1-pipeline-ranges", Visit::Revalidate);
        setting.options.if_range_on_revisit = if_range;
        let outcome = retrieve(&new, setting, cache.clone());
        assert_eq!(count(&outcome, 304), 42);
        let exchanges = outcome.retrieval.exchanges.iter();
        let of_it = exchanges.filter(|e| e.target == "/img41.gif");
        let found: Vec<u16> = of_it.filter_map(|e| e.status).collect();
        assert_eq!(found, statuses);
        let text = outcome.requests.concat();
        let with_tag = text.matches("\r\nIf-Range: ").count();
        assert_eq!(with_tag, if if_range { IMAGES } else { 1 });
    }
}

#[test]
fn compressed_html_is_read_as_it_arrives() {
    let origin = origin(site());
    let mut setting = Setting::new("h1.1-pipeline", Visit::First);
    setting.options.accept_encoding = vec![ContentCoding::Deflate];
    let outcome = retrieve(&origin, setting, ValidatorCache::new());
    assert_sound(&outcome, "h1.1-pipeline");
    let plain = retrieve(
        &origin,
        Setting::new("h1.1-pipeline", Visit::First),
        ValidatorCache::new(),
    );
    assert!(content(&outcome) + 20_000 < content(&plain));
    let entry = |outcome: &Outcome| outcome.retrieval.cache.get("/index.html").cloned().unwrap();
    assert_eq!(entry(&outcome).html, entry(&plain).html);
    assert_eq!(entry(&outcome).coding, Some(ContentCoding::Deflate));
    assert_eq!(
        outcome
            .requests
            .concat()
            .matches("Accept-Encoding: deflate")
            .count(),
        1
    );
    // Compressed, the first segments contain more references, so the second batch is sent earlier.
    let milestones = outcome.retrieval.milestones;
    assert!(milestones.second_batch_sent < plain.retrieval.milestones.second_batch_sent);
    assert!(milestones.first_image_request_sent < milestones.base_complete);
}

#[test]
fn requests_have_the_papers_size_of_190_bytes() {
    let origin = origin(site());
    let mean = |visit, cache| {
        let outcome = retrieve(&origin, Setting::new("h1.1-pipeline", visit), cache);
        let heads = outcome.retrieval.exchanges.iter().map(|e| e.request_head.0);
        heads.sum::<u64>() as f64 / 43.0
    };
    let first = mean(Visit::First, ValidatorCache::new());
    let revisit = mean(Visit::Revalidate, filled_cache(&origin));
    assert!((165.0..180.0).contains(&first), "{first}");
    assert!(
        (180.0..200.0).contains(&((first + revisit) / 2.0)),
        "{revisit}"
    );
}

fn flushed(flush: &str, visit: Visit, cache: ValidatorCache) -> Outcome {
    let mut setting = Setting::new("h1.1-pipeline", visit);
    setting.options.flush = flush.parse().unwrap();
    let outcome = retrieve(&origin(site()), setting, cache);
    assert_sound(&outcome, flush);
    let counters = outcome.retrieval.counters;
    assert_eq!(
        outcome.writes.len(),
        counters.flushes() as usize,
        "one write per flush"
    );
    outcome
}

#[test]
fn an_explicit_client_flushes_once_all_references_are_known() {
    let outcome = flushed("explicit", Visit::Revalidate, filled_cache(&origin(site())));
    let counters = outcome.retrieval.counters;
    // Flushes: after the base file's request, when buffers are full, and once all references are known.
    assert_eq!((counters.flushes_explicit, counters.flushes_end), (1, 1));
    assert_eq!(counters.flushes_timer, 0);
    let images: usize = outcome.writes[1..].iter().sum();
    assert_eq!(counters.flushes_full as usize, images / 1024);
    assert!(
        outcome.writes[1..outcome.writes.len() - 1]
            .iter()
            .all(|&write| write == 1024)
    );
    let exchanges = &outcome.retrieval.exchanges;
    let end = exchanges[0].last_byte.unwrap();
    assert_eq!(
        exchanges[0].sent,
        outcome.retrieval.connections[0].established
    );
    assert!(exchanges[1..].iter().all(|e| e.sent == Some(end)));

    let first = flushed("explicit", Visit::First, ValidatorCache::new());
    assert_eq!(first.retrieval.counters.flushes_explicit, 1);
}

#[test]
fn a_timer_holds_even_the_first_request() {
    for millis in [0, 50, 1000] {
        let flush = format!("timer-{millis}ms");
        let outcome = flushed(&flush, Visit::First, ValidatorCache::new());
        let counters = outcome.retrieval.counters;
        assert_eq!((counters.flushes_explicit, counters.flushes_end), (0, 0));
        assert!(counters.flushes_timer >= 1 && counters.flushes_timer + counters.flushes_full >= 2);
        let start = outcome.retrieval.connections[0].opened;
        let established = Duration::from_millis(90);
        let held = Duration::from_millis(millis).max(established);
        assert_eq!(outcome.retrieval.exchanges[0].sent, Some(start + held));
    }
    let elapsed = |flush| {
        let outcome = flushed(flush, Visit::Revalidate, filled_cache(&origin(site())));
        outcome.retrieval.milestones.page_complete.unwrap()
    };
    assert!(elapsed("explicit") < elapsed("timer-50ms"));
    assert!(elapsed("timer-50ms") < elapsed("timer-1000ms"));
}

#[test]
fn a_buffer_alone_still_flushes_at_the_end() {
    let outcome = flushed("buffer", Visit::First, ValidatorCache::new());
    let counters = outcome.retrieval.counters;
    assert_eq!((counters.flushes_explicit, counters.flushes_timer), (0, 0));
    assert_eq!(counters.flushes_end, 2);
}

#[test]
fn a_limit_of_five_requests_a_connection_makes_the_client_reconnect() {
    let origin = origin(site());
    for close in [
        server::CloseManner::HalfThenDrain,
        server::CloseManner::Full,
    ] {
        for policy in POLICIES {
            let mut setting = Setting::new(policy, Visit::First);
            setting.server.max_requests_per_connection = Some(5);
            setting.server.close = close;
            let outcome = retrieve(&origin, setting, ValidatorCache::new());
            let retrieval = &outcome.retrieval;
            assert_eq!(retrieval.failures, [], "{policy}");
            assert!(retrieval.milestones.page_complete.is_some());
            let done = |e: &&fathometer_model::ExchangeRecord| e.outcome == Ended::Complete;
            let done = retrieval.exchanges.iter().filter(done).count();
            let retried =
                |e: &&fathometer_model::ExchangeRecord| matches!(e.outcome, Ended::Retried(_));
            let retried = retrieval.exchanges.iter().filter(retried).count();
            assert_eq!(done + retried, retrieval.exchanges.len(), "{policy}");
            assert_eq!(retried, retrieval.counters.requests_retried as usize);
            if policy == "h1.1-pipeline" {
                assert!(retried > 0);
                assert_eq!(done, 43);
                assert_eq!(retrieval.connections.len(), 9);
                let early = retrieval.connections.iter();
                let early = early.filter(|c| c.close == CloseReason::ServerEarly);
                assert_eq!(early.count(), 8);
            } else if !policy.contains("pipeline") {
                assert_eq!(retried, 0, "{policy}");
            }
        }
    }
}

#[test]
fn after_a_reset_the_next_connection_is_not_pipelined_on_before_its_first_answer() {
    let origin = origin(site());
    let mut setting = Setting::new("h1.1-pipeline", Visit::Revalidate);
    setting.server.max_requests_per_connection = Some(5);
    setting.server.close = server::CloseManner::Full;
    setting.network = Network {
        distance: Duration::from_millis(10),
        resets_overtake: true,
        ..Network::default()
    };
    let outcome = retrieve(&origin, setting, filled_cache(&origin));
    let retrieval = &outcome.retrieval;
    assert_eq!(retrieval.failures, []);
    assert!(retrieval.counters.responses_lost > 0);
    let reset =
        |c: &&fathometer_model::ConnectionRecord| c.close == CloseReason::Failed(Failure::Reset);
    let reset = retrieval.connections.iter().find(reset).unwrap().connection;
    let next = retrieval
        .exchanges
        .iter()
        .filter(|e| e.connection == reset + 1);
    let next: Vec<_> = next.collect();
    let answered = next[0].last_byte.unwrap();
    assert!(next[1..].iter().all(|e| e.sent >= Some(answered)));
}

#[test]
fn a_careful_client_ends_its_side_first() {
    let origin = origin(site());
    for (close, half_closed) in [(CloseManner::Half, 1), (CloseManner::Full, 0)] {
        let mut setting = Setting::new("h1.1", Visit::First);
        setting.options.close = close;
        let outcome = retrieve(&origin, setting, ValidatorCache::new());
        assert_eq!(outcome.half_closed, half_closed);
        let connection = &outcome.retrieval.connections[0];
        assert_eq!(connection.close, CloseReason::Finished);
        let complete = outcome.retrieval.milestones.page_complete;
        let wait = Duration::from_millis(90 * half_closed as u64);
        assert_eq!(connection.closed, complete.map(|at| at + wait));
    }
    // HTTP/1.0: the server closes each connection, and the client waits for the close.
    let outcome = retrieve(
        &origin,
        Setting::new("h1.0", Visit::First),
        ValidatorCache::new(),
    );
    assert_eq!(outcome.half_closed, 0);
    let asked = |c: &fathometer_model::ConnectionRecord| c.close == CloseReason::ServerAsked;
    assert!(outcome.retrieval.connections.iter().all(asked));
}

#[test]
fn idle_connections_are_kept_as_configured() {
    let mut setting = Setting::new("h1.1x2", Visit::First);
    setting.options.idle_wait = Duration::from_secs(7);
    let outcome = retrieve(&origin(site()), setting, ValidatorCache::new());
    let complete = outcome.retrieval.milestones.page_complete.unwrap();
    for connection in &outcome.retrieval.connections {
        assert_eq!(connection.close, CloseReason::Finished);
        assert_eq!(
            connection.closed,
            Some(complete + Duration::from_millis(7090))
        );
    }
}

#[test]
fn pipelining_is_faster_than_four_connections_and_these_than_one() {
    let origin = origin(site());
    let elapsed = |policy| {
        let outcome = retrieve(
            &origin,
            Setting::new(policy, Visit::First),
            ValidatorCache::new(),
        );
        let complete = outcome.retrieval.milestones.page_complete.unwrap();
        complete - outcome.retrieval.connections[0].opened
    };
    let [serial10, parallel10, serial11, pipelined] =
        ["h1.0", "h1.0x4", "h1.1", "h1.1-pipeline"].map(elapsed);
    assert!(pipelined < parallel10 && parallel10 < serial11 && serial11 < serial10);
}

/// Returns all data of a retrieval except the times.
fn summary(outcome: &Outcome) -> Vec<(String, u32, Option<u16>, u64, u64, Bytes)> {
    let exchanges = outcome.retrieval.exchanges.iter();
    let line = |e: &fathometer_model::ExchangeRecord| {
        let (head, body) = (e.response_head.0, e.response_body.0);
        (
            e.target.clone(),
            e.connection,
            e.status,
            head,
            body,
            e.request_head,
        )
    };
    exchanges.map(line).collect()
}

#[test]
fn segmentation_of_responses_changes_only_times() {
    let origin = origin(site());
    let cut = |policy, segment, accept_encoding| {
        let mut setting = Setting::new(policy, Visit::First);
        setting.network.segment = segment;
        setting.network.distance = Duration::ZERO;
        setting.options.accept_encoding = accept_encoding;
        let outcome = retrieve(&origin, setting, ValidatorCache::new());
        assert_sound(&outcome, policy);
        (summary(&outcome), outcome.retrieval.cache)
    };
    for policy in ["h1.0", "h1.1", "h1.1-pipeline"] {
        for codings in [vec![], vec![ContentCoding::Deflate]] {
            let whole = cut(policy, usize::MAX, codings.clone());
            for segment in [1, 7, 536, 1460] {
                assert!(
                    cut(policy, segment, codings.clone()) == whole,
                    "{policy} {segment}"
                );
            }
        }
    }
}

#[test]
fn a_cache_can_be_stored_and_loaded() {
    let origin = origin(site());
    let cache = filled_cache(&origin);
    let stored: Vec<(String, CacheEntry)> = cache
        .iter()
        .map(|(target, entry)| (target.to_owned(), entry.clone()))
        .collect();
    let mut loaded = ValidatorCache::new();
    for (target, entry) in stored {
        loaded.insert(target, entry);
    }
    assert_eq!(loaded, cache);
    let entry = loaded.get("/img00.gif").unwrap();
    assert!(entry.etag.is_some() && entry.last_modified.is_some() && entry.status == 200);
}
