//! Our origin must pass every case of h2spec, in cleartext and over TLS.
//!
//! h2spec is a conformance test of HTTP/2 servers (<https://github.com/summerwind/h2spec>), written in Go.
//! `./test` installs it to `target/tools`; otherwise the test searches the PATH. If it is not found, the test
//! prints a message to stderr and passes, unless `FATHOMETER_REQUIRE_H2SPEC` is 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peers::support::Server;

/// Minimum number of cases, so that an empty report does not pass.
const CASES: usize = 140;

fn h2spec() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(tools)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("h2spec"))
        .find(|program| program.is_file());
    if found.is_none() {
        let required = std::env::var_os("FATHOMETER_REQUIRE_H2SPEC").is_some_and(|v| v == "1");
        assert!(!required, "h2spec is required and not installed");
        eprintln!(
            "SKIPPED: h2spec is not installed: run ./test, or \
             `go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible`"
        );
    }
    found
}

/// A case of the report.
#[derive(Debug)]
struct Case {
    name: String,
    failure: Option<String>,
}

/// Reads the cases of a report in JUnit format.
fn cases(report: &str) -> Vec<Case> {
    report
        .split("<testcase ")
        .skip(1)
        .map(|case| {
            let end = case.find("</testcase>").unwrap_or(case.len());
            let case = &case[..end];
            let attribute = |name: &str| {
                let rest = case.split_once(&format!("{name}=\""))?.1;
                rest.split_once('"').map(|(value, _)| value.to_owned())
            };
            let names = ["package", "classname"].map(|name| attribute(name).unwrap_or_default());
            let wrong = ["<failure", "<error"].iter().find_map(|tag| case.find(tag));
            Case {
                name: names.join(" "),
                failure: wrong.map(|at| case[at..].to_owned()),
            }
        })
        .collect()
}

fn passes(server_arguments: &[&str], arguments: &[&str]) {
    let Some(h2spec) = h2spec() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), vec![b'x'; 20_000]).unwrap();
    let report = folder.path().join("report.xml");
    let server = Server::origin(
        folder.path(),
        &[&["--threads", "1"], server_arguments].concat(),
    );
    let output = Command::new("timeout")
        .args(["--kill-after=5", "300"])
        .arg(h2spec)
        .args(["--host", "127.0.0.1", "--timeout", "10"])
        .args([
            "--port",
            &server.address.port().to_string(),
            "--junit-report",
        ])
        .arg(&report)
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let cases = cases(&fs::read_to_string(&report).unwrap_or_default());
    assert!(cases.len() >= CASES, "{} cases\n{said}", cases.len());
    let failed: Vec<&Case> = cases.iter().filter(|case| case.failure.is_some()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(output.status.success(), "{}\n{said}", output.status);
    eprintln!("{} cases of h2spec passed", cases.len());
}

#[test]
fn every_case_passes_in_the_clear() {
    passes(&[], &["--strict"]);
}

#[test]
fn every_case_passes_where_http2_is_all_there_is() {
    passes(&["--protocols", "h2"], &["--strict"]);
}

#[test]
fn every_case_passes_over_tls() {
    passes(&["--tls"], &["--strict", "--tls", "--insecure"]);
}

#[test]
fn failures_are_found_in_a_report() {
    let report = r#"<testsuites><testsuite name="a" tests="2">
        <testcase package="http2/3.5" classname="Sends x" time="0.1"></testcase>
        <testcase package="http2/4.1" classname="Sends y" time="0.1"><failure>no</failure></testcase>
        </testsuite></testsuites>"#;
    let cases = cases(report);
    assert_eq!(cases.len(), 2);
    assert!(cases[0].failure.is_none());
    assert_eq!(cases[1].name, "http2/4.1 Sends y");
    assert!(cases[1].failure.as_ref().unwrap().contains("no"));
}
