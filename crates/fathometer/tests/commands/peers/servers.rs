//! Our client drivers fetch the site from Apache httpd and nginx.

use std::collections::BTreeMap;
use std::process::Command;

use fathometer_lab::server::{self, definition::Definition};
use serde_json::Value;

use super::support::{IMAGES, PAGE, SITE_BYTES, Server, SiteFolder};
use crate::support::programs::{FATHOMETER, run_well, tool};

/// Every policy, with the maximum number of its connections.
const POLICIES: [(&str, usize); 7] = [
    ("h1.0", 43),
    ("h1.0x4", 43),
    ("h1.0-keepalive", 1),
    ("h1.1", 1),
    ("h1.1x4", 4),
    ("h1.1-pipeline", 1),
    ("h1.1-pipeline-ranges", 1),
];

/// The output of `fathometer fetch --json`.
struct Fetch(Value);

impl Fetch {
    fn new(server: &Server, policy: &str, arguments: &[&str]) -> Fetch {
        let printed = run_well(
            Command::new(FATHOMETER)
                .arg("fetch")
                .arg(server.url(PAGE))
                .args(["--policy", policy, "--json"])
                .args(arguments),
        );
        let fetch = Fetch(serde_json::from_slice(&printed).unwrap());
        assert_eq!(
            fetch.0["complete"], true,
            "{policy} {arguments:?}: {}",
            fetch.0
        );
        fetch
    }

    fn exchanges(&self) -> &[Value] {
        self.0["exchanges"].as_array().unwrap()
    }

    fn connections(&self) -> usize {
        self.0["connections"].as_array().unwrap().len()
    }

    /// Returns the bytes of content by target, for responses with a status that includes content.
    fn content(&self) -> BTreeMap<&str, u64> {
        let mut content = BTreeMap::new();
        for exchange in self.exchanges() {
            let status = exchange["status"].as_u64();
            if matches!(status, Some(200 | 206)) && exchange["method"] == "GET" {
                *content
                    .entry(exchange["target"].as_str().unwrap())
                    .or_default() += exchange["response_body"].as_u64().unwrap();
            }
        }
        content
    }

    fn count(&self, method: &str, status: u64) -> usize {
        self.exchanges()
            .iter()
            .filter(|exchange| exchange["method"] == method && exchange["status"] == status)
            .count()
    }
}

#[test]
fn our_clients_fetch_the_page_from_apache() {
    fetch_all_from("httpd", &["apache2", "httpd"]);
}

#[test]
fn our_clients_fetch_the_page_from_nginx() {
    fetch_all_from("nginx", &["nginx"]);
}

/// Fetches the page from our own origin, to show that differences in the other tests are caused by the server.
#[test]
fn our_clients_fetch_the_page_from_our_origin() {
    let site = SiteFolder::new();
    let server = Server::origin(site.path(), &[]);
    fetch_all(&server, &site);
    // A coded page references the same files, and is smaller.
    for policy in ["h1.1", "h1.1-pipeline"] {
        let coded = Fetch::new(&server, policy, &["--compressed"]);
        assert_eq!(coded.exchanges().len(), IMAGES + 1, "{policy}");
        let page = coded.content()[format!("/{PAGE}").as_str()];
        assert!((11_000..11_600).contains(&page), "{policy}: {page} B");
    }
}

/// A server that closes after a few requests makes the clients retry, and has no other effect.
#[test]
fn our_clients_reconnect_at_a_limit_on_requests() {
    let site = SiteFolder::new();
    for (arguments, connections) in [
        (&["--max-requests", "5"][..], 9),
        (&["--max-requests", "15"][..], 3),
    ] {
        let server = Server::origin(site.path(), arguments);
        for policy in ["h1.1", "h1.1-pipeline"] {
            let fetch = Fetch::new(&server, policy, &[]);
            whole_site(&fetch, &site, policy);
            assert!(fetch.connections() >= connections, "{policy} {arguments:?}");
        }
    }
}

/// Fetches everything from a defined third-party server on loopback, whose program is one of `programs`.
fn fetch_all_from(name: &str, programs: &[&str]) {
    let definition = Definition::load(name).unwrap();
    let program = definition.program.as_ref().unwrap();
    let Some(installed) = server::find(program) else {
        // `tool` prints a message, or fails if tools are required.
        for program in programs {
            tool(program);
        }
        return;
    };
    let site = SiteFolder::new();
    let server = Server::foreign(name, |address, folder| {
        let (root, none) = (site.path(), None);
        server::command(
            &definition,
            program,
            &installed,
            address,
            root,
            folder,
            none,
        )
        .unwrap()
    });
    fetch_all(&server, &site);
}

fn fetch_all(server: &Server, site: &SiteFolder) {
    for (policy, connections) in POLICIES {
        let first = Fetch::new(server, policy, &[]);
        whole_site(&first, site, policy);
        let taken = first.connections();
        assert!(
            (1..=connections).contains(&taken),
            "{policy}: {taken} connections"
        );

        let again = Fetch::new(server, policy, &["--visit", "revalidate"]);
        if policy.ends_with("ranges") {
            let stale = again.count("GET", 200);
            assert_eq!(stale, 0, "{policy}: fetched again: {}", again.0);
        } else {
            assert_eq!(again.count("GET", 304), IMAGES + 1, "{policy}: {}", again.0);
            assert!(again.content().is_empty(), "{policy}");
        }
        let by_date = Fetch::new(
            server,
            policy,
            &["--visit", "revalidate", "--revalidation", "date"],
        );
        assert_eq!(by_date.count("GET", 200), 0, "{policy}: {}", by_date.0);
    }
    // The HTTP/1.0 validation of the paper: one GET and 42 HEADs.
    let heads = Fetch::new(
        server,
        "h1.0x4",
        &["--visit", "revalidate", "--revalidation", "head"],
    );
    assert_eq!(heads.count("HEAD", 200), IMAGES, "{}", heads.0);
    assert_eq!(heads.exchanges().len(), IMAGES + 1);
}

/// Asserts that all files arrived complete, without any other content.
fn whole_site(fetch: &Fetch, site: &SiteFolder, policy: &str) {
    let content = fetch.content();
    for file in site.images().iter().map(String::as_str).chain([PAGE]) {
        let target = format!("/{file}");
        let size = site.read(file).len() as u64;
        let got = content.get(target.as_str()).copied();
        // Ranges of one file may arrive as several parts with part headers.
        let enough = got.is_some_and(|got| got == size || policy.ends_with("ranges") && got > size);
        assert!(enough, "{policy}: {target} is {size} B, got {got:?}");
    }
    assert_eq!(content.len(), IMAGES + 1, "{policy}");
    if !policy.ends_with("ranges") {
        assert_eq!(content.values().sum::<u64>(), SITE_BYTES, "{policy}");
    }
}
