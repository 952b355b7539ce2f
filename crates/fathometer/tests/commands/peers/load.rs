//! Load generators against our origin, with a fixed count: every response must be correct, and none may be
//! lost.

use std::process::Command;

use super::support::{PAGE, Server, SiteFolder};
use crate::support::programs::{run_well, tool};

#[test]
fn every_request_of_ab_succeeds() {
    let Some(ab) = tool("ab") else { return };
    let site = SiteFolder::new();
    let server = Server::origin(site.path(), &[]);
    for (arguments, kept) in [(&[][..], false), (&["-k"][..], true)] {
        let report = run_well(
            Command::new(&ab)
                .args(["-q", "-n", "300", "-c", "4"])
                .args(arguments)
                .arg(server.url(PAGE)),
        );
        let report = String::from_utf8_lossy(&report);
        let figure = |name: &str| -> Option<u64> {
            let line = report.lines().find(|line| line.starts_with(name))?;
            line[name.len()..].split_whitespace().next()?.parse().ok()
        };
        assert_eq!(figure("Complete requests:"), Some(300), "{report}");
        assert_eq!(figure("Failed requests:"), Some(0), "{report}");
        assert_eq!(figure("Non-2xx responses:"), None, "{report}");
        assert_eq!(figure("Document Length:"), Some(43_008), "{report}");
        assert_eq!(figure("HTML transferred:"), Some(300 * 43_008), "{report}");
        // ab sends HTTP/1.0 requests with Keep-Alive.
        assert_eq!(
            figure("Keep-Alive requests:"),
            kept.then_some(300),
            "{report}"
        );
    }
}

#[test]
fn wrk_sees_no_error() {
    let Some(wrk) = tool("wrk") else { return };
    let site = SiteFolder::new();
    let server = Server::origin(site.path(), &[]);
    for file in [PAGE, "images/img00.gif"] {
        let report = run_well(
            Command::new(&wrk)
                .args(["--threads", "1", "--connections", "8", "--duration", "1s"])
                .arg(server.url(file)),
        );
        let report = String::from_utf8_lossy(&report);
        assert!(!report.contains("Socket errors"), "{report}");
        assert!(!report.contains("Non-2xx"), "{report}");
        let requests: u64 = report
            .lines()
            .find_map(|line| line.trim().split_once(" requests in "))
            .and_then(|(count, _)| count.parse().ok())
            .unwrap_or_else(|| panic!("{report}"));
        assert!(requests > 0, "{report}");
    }
}
