//! Fuzzing of a driver with arbitrary input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{CloseReason, Failure, Instant, Outcome};

use super::{
    Action, Bundle, BundleEntry, CacheEntry, CloseManner, ConnectionId, FileKind, Flush, Options,
    PageDriver, PageGraph, PageList, Policy, Priorities, Retrieval, Revalidation, ValidatorCache,
    Visit,
};
use fathometer_package as package;

/// An entry point for fuzzing: the first three bytes select the policy and the options, and the other bytes control the
/// network and the servers. Panics in these cases:
/// - actions contradict each other;
/// - bytes are offered for a connection that is not established;
/// - the driver does not finish after all servers have closed;
/// - its records are inconsistent.
pub fn fuzz(data: &[u8]) {
    let Some((&[policy, visit, manner], script)) = data.split_first_chunk::<3>() else {
        return;
    };
    let bundle = (policy & 16 != 0).then_some(match policy >> 5 {
        0 => Bundle::Package(package::Version::Two),
        1 => Bundle::Package(package::Version::One),
        2 => Bundle::PackageDelta,
        3 => Bundle::Tar,
        4 => Bundle::TarWhole,
        _ => Bundle::Zip,
    });
    let policies = [
        "h1.0",
        "h1.0x4",
        "h1.0-keepalivex2",
        "h1.1",
        "h1.1x3",
        "h1.1-pipeline",
        "h1.1x2-pipeline3",
        "h1.1-pipeline-ranges",
        "h2c",
        "h2c",
        "h2cx2",
        "h2c-push",
        "h2c-push",
        "h2c-sharded2",
        "h2c-streams1",
        "h1.1x2",
    ];
    let Ok(mut policy) = policies[usize::from(policy & 15)].parse::<Policy>() else {
        return;
    };
    policy.bundle = bundle.filter(|_| !policy.ranges && !policy.push);
    let options = Options {
        flush: match manner & 3 {
            0 => Flush::EXPLICIT,
            1 => Flush::BUFFER_ONLY,
            2 => Flush::timer(Duration::ZERO),
            _ => Flush::timer(Duration::from_millis(50)),
        },
        revalidation: match manner >> 2 & 3 {
            0 => Revalidation::Head,
            1 => Revalidation::Date,
            _ => Revalidation::EntityTag,
        },
        close: match manner & 16 {
            0 => CloseManner::Half,
            _ => CloseManner::Full,
        },
        idle_wait: Duration::from_millis(u64::from(manner >> 5)),
        priorities: match visit & 2 {
            0 => Priorities::None,
            _ => Priorities::Browser,
        },
        script_time: Duration::from_millis(u64::from(visit & 4)),
        graph: Arc::new(some_graph()),
        list: (visit & 8 != 0).then(|| Arc::new(some_list())),
        ..Options::default()
    };
    let (visit, cache) = match visit & 17 {
        0 | 16 => (Visit::First, ValidatorCache::new()),
        1 => (Visit::Revalidate, some_cache(bundle)),
        _ => (Visit::Session, some_cache(bundle)),
    };
    let start = Instant::ZERO;
    let driver = PageDriver::new(policy, options, visit, "/".to_owned(), cache, start);
    let mut host = Host {
        driver,
        policy,
        now: start,
        connections: BTreeMap::new(),
        sent: 0,
    };
    host.run(script);
    let sent = host.sent;
    check(&host.driver.finish(host.now), sent);
}

/// Creates the cache after a visit to a page with three images.
fn some_cache(bundle: Option<Bundle>) -> ValidatorCache {
    let mut cache = ValidatorCache::new();
    let entry = |html: &str| CacheEntry {
        etag: Some("\"a\"".to_owned()),
        last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
        status: 200,
        html: html.as_bytes().to_vec(),
        ..CacheEntry::default()
    };
    cache.insert("/".to_owned(), entry("<img src=a><img src=b><img src=c>"));
    cache.insert("/a".to_owned(), entry(""));
    cache.insert("/b".to_owned(), entry(""));
    if let Some(bundle) = bundle {
        let entry = BundleEntry {
            bundle,
            etag: Some("\"p\"".to_owned()),
            last_modified: None,
            page: None,
            members: ["/", "/a", "/b", "/c"].map(str::to_owned).to_vec(),
        };
        cache.insert_bundle("/".to_owned(), entry);
    }
    cache
}

fn some_list() -> PageList {
    PageList {
        folder: "/".to_owned(),
        files: ["/a", "/b", "/d", "/a"].map(str::to_owned).to_vec(),
    }
}

/// Creates a style sheet that names a font, and a script that names an image and the style sheet.
fn some_graph() -> PageGraph {
    let mut graph = PageGraph::default();
    graph.add("/a", "/b", FileKind::Font);
    graph.add("/s", "/d", FileKind::Image);
    graph.add("/s", "/a", FileKind::StyleSheet);
    graph
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Connecting,
    Established,
    Finishing,
}

/// A caller that carries out the actions and checks that they are consistent.
struct Host {
    driver: PageDriver,
    policy: Policy,
    now: Instant,
    connections: BTreeMap<u32, Transport>,
    sent: u64,
}

impl Host {
    fn run(&mut self, script: &[u8]) {
        let mut rest = script;
        self.obey();
        while let Some((&operation, after)) = rest.split_first() {
            rest = after;
            let number = u32::from(operation >> 3);
            let conn = ConnectionId(number);
            let there = self.connections.contains_key(&number);
            match operation & 7 {
                0 | 1 => {
                    let wanted = usize::from(rest.first().copied().unwrap_or(0));
                    let (bytes, after) = rest.split_at((wanted + 1).min(rest.len()));
                    rest = after;
                    if self.connections.get(&number) != Some(&Transport::Connecting) {
                        let bytes = bytes.get(1..).unwrap_or_default();
                        self.driver.handle_data(conn, bytes, self.now);
                    }
                }
                2 => self.driver.handle_eof(conn, self.now),
                3 => self.driver.handle_failure(conn, Failure::Reset, self.now),
                4 if self.driver.poll_timeout().is_some() => {
                    self.now = self.driver.poll_timeout().unwrap_or(self.now).max(self.now);
                    self.driver.handle_timeout(self.now);
                }
                5 => self.now += Duration::from_millis(u64::from(number)),
                _ if there => {
                    if let Some(transport @ Transport::Connecting) =
                        self.connections.get_mut(&number)
                    {
                        *transport = Transport::Established;
                        self.driver.handle_connected(conn, self.now);
                    }
                    let offered = self.driver.transmit(conn).len();
                    let taken = offered.min(1 + usize::from(operation) * 8);
                    self.driver.transmitted(conn, taken, self.now);
                    self.sent += taken as u64;
                }
                _ => {}
            }
            self.obey();
        }
        // All servers stay closed.
        for _ in 0..10_000 {
            let Some(&number) = self.connections.keys().next() else {
                break;
            };
            let conn = ConnectionId(number);
            self.driver.handle_failure(conn, Failure::Refused, self.now);
            self.obey();
        }
        assert!(self.driver.is_finished(), "the driver does not finish");
        assert!(self.driver.poll_timeout().is_none());
    }

    fn obey(&mut self) {
        while let Some(action) = self.driver.poll_action() {
            match action {
                Action::Connect(conn) => {
                    assert!(!self.connections.contains_key(&conn.0));
                    self.connections.insert(conn.0, Transport::Connecting);
                }
                Action::ShutdownWrite(conn) => {
                    let before = self.connections.insert(conn.0, Transport::Finishing);
                    assert_eq!(before, Some(Transport::Established));
                }
                Action::Close(conn) | Action::Abort(conn) => {
                    assert!(self.connections.remove(&conn.0).is_some());
                }
            }
            // A server that sends GOAWAY may keep its connection for the remaining responses.
            if !self.policy.protocol.multiplexes() {
                assert!(self.connections.len() <= usize::from(self.policy.connections));
            }
        }
        for (&number, &transport) in &self.connections {
            let offered = self.driver.transmit(ConnectionId(number));
            assert!(transport == Transport::Established || offered.is_empty());
        }
    }
}

fn check(retrieval: &Retrieval, sent: u64) {
    let recorded: u64 = retrieval.connections.iter().map(|c| c.sent.0).sum();
    assert_eq!(recorded, sent);
    for connection in &retrieval.connections {
        assert!(connection.closed.is_some() && connection.close != CloseReason::Open);
        let completed = |outcome| matches!(outcome, Outcome::Complete);
        let on_it = retrieval.exchanges.iter();
        let on_it = on_it.filter(|e| e.connection == connection.connection && completed(e.outcome));
        // If the content is wrong but the HTTP message is valid, the exchange fails although HTTP completed it.
        assert!(on_it.count() <= connection.exchanges as usize);
    }
    let retried = retrieval.exchanges.iter();
    let retried = retried.filter(|e| matches!(e.outcome, Outcome::Retried(_)));
    assert!(retried.count() <= retrieval.counters.requests_retried as usize);
    for (place, exchange) in retrieval.exchanges.iter().enumerate() {
        assert_eq!(exchange.exchange as usize, place);
        let begun = exchange.first_byte.is_some();
        assert!(!begun || exchange.sent.is_some() && exchange.sent <= exchange.first_byte);
        assert!(exchange.outcome != Outcome::Complete || exchange.last_byte.is_some());
    }
    let whole = retrieval.failures.is_empty() && retrieval.counters.references_left_out == 0;
    assert_eq!(whole, retrieval.milestones.page_complete.is_some());
    assert!(retrieval.files.is_sorted_by_key(|file| file.usable));
    let mut usable = BTreeSet::new();
    for file in &retrieval.files {
        assert!(file.started <= file.usable);
        assert!(usable.insert(&file.target), "{} arrived twice", file.target);
        let failed = |(target, _): &(String, Failure)| *target == file.target;
        assert!(!retrieval.failures.iter().any(failed));
    }
}
