//! The user's own studies, servers and claims, given by path.

use std::fs;
use std::path::{Path, PathBuf};

use super::place::{Ended, Place};
use crate::support::laboratory::possible;
use crate::support::waiting::AT_LAST;

/// A study of a few cells. Its lateness limits are high, so that a busy machine passes.
pub(super) const STUDY: &str = r#"
name = "nielsen97"
title = "A study of the user's own"
workload = "microscape"
side_by_side = {}
limits = { open = { lateness_p99_us = 10000000, lateness_max_us = 10000000, deadline_s = 600 } }
client = { host = "www.own.test", fields = [["Accept", "*/*"]], first_range = 256 }
[defaults]
policy = "h2"
coding = "identity"
visit = "first"
path = "open"
era = "today"
server = "embedded"
rtt = "2"
rate = "100"
tls = "1.3"
congestion = "era"
[replicates.quick]
open = 1
[[block]]
name = "main"
purpose = "two policies"
[block.factors]
policy = ["h1.1", "h2"]
"#;

/// Writes the study, with `replaced` replaced by `by`.
fn study(place: &Place, replaced: &str, by: &str) -> PathBuf {
    assert!(STUDY.contains(replaced));
    let path = place.path().join("study.toml");
    fs::write(&path, STUDY.replace(replaced, by)).unwrap();
    path
}

fn run(place: &Place, study: &Path, more: &[&str]) -> Ended {
    let run = place.run();
    let mut arguments = vec!["study", study.to_str().unwrap(), "--quiet"];
    arguments.extend(["--output", run.to_str().unwrap()]);
    arguments.extend(more);
    place.fathometer(&arguments).ended_within(AT_LAST)
}

fn info(place: &Place) -> serde_json::Value {
    let text = fs::read_to_string(place.run().join("run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn records(place: &Place) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(place.run().join("replicates.ndjson")).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_study_by_path_has_a_report_and_is_not_judged_by_what_comes_with_the_program() {
    if !possible("a_study_by_path_has_a_report_and_is_not_judged_by_what_comes_with_the_program") {
        return;
    }
    let place = Place::new();
    let study = study(&place, "", "");
    let ended = run(&place, &study, &[]);
    ended.assert_measured();
    let page = place.run().join("report.html");
    let expected = format!("report: {}", page.display());
    assert!(ended.err.contains(&expected), "{}", ended.err);
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        text.contains("A study of the user&#39;s own")
            || text.contains("A study of the user's own")
    );
    // The study has the name of a paper, but the paper's claims do not apply to it.
    for shown in [&text, &ended.out] {
        assert!(!shown.contains("N01"), "{shown}");
    }
    assert!(place.run().join("summary.json").is_file());
    // The run records its inputs and keeps copies of them.
    let kept = fs::read_to_string(place.run().join("study/study.toml")).unwrap();
    assert_eq!(kept, STUDY);
    let info = info(&place);
    assert_eq!(info["build"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(
        info["study_files"]["study.toml"].as_str().unwrap().len(),
        64
    );
    assert!(info["data"]["path open"].is_string(), "{info}");
    // The report also works later, when the study file no longer exists.
    fs::remove_file(&study).unwrap();
    fs::remove_file(&page).unwrap();
    let report = place
        .fathometer(&["report", place.run().to_str().unwrap()])
        .ended();
    assert_eq!(report.code, Some(0), "{}", report.err);
    assert!(page.is_file());
}

#[test]
fn files_beside_a_study_that_cannot_be_used_end_it_before_anything_is_measured() {
    if !possible("files_beside_a_study_that_cannot_be_used_end_it_before_anything_is_measured") {
        return;
    }
    let place = Place::new();
    let study = study(&place, "", "");
    fs::write(place.path().join("claims.toml"), "[[claim]]\nid = ").unwrap();
    fs::write(place.path().join("figures.csv"), "no,figures\n").unwrap();
    let ended = run(&place, &study, &[]);
    ended.assert_failed(&["claims.toml and figures.csv", "tables.toml"]);
    assert!(!place.run().exists());
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/nielsen97/tables.toml");
    fs::copy(tables, place.path().join("tables.toml")).unwrap();
    let ended = run(&place, &study, &[]);
    ended.assert_failed(&["claims.toml", place.path().to_str().unwrap()]);
    assert!(!place.run().exists());
}

#[test]
fn a_cell_that_is_measured_twice_is_compared_with_itself() {
    if !possible("a_cell_that_is_measured_twice_is_compared_with_itself") {
        return;
    }
    let place = Place::new();
    let study = study(
        &place,
        "policy = [\"h1.1\", \"h2\"]",
        "policy = [\"h1.1\"]\ncopy = [\"a\", \"b\"]",
    );
    let text = fs::read_to_string(&study).unwrap();
    let text = text.replace("tls = \"1.3\"", "tls = \"1.3\"\ncopy = \"a\"");
    fs::write(&study, text).unwrap();
    let ended = run(&place, &study, &["--replicates", "2"]);
    ended.assert_measured();
    assert!(ended.out.contains("A/A: equal cells"), "{}", ended.out);
    let summary = fs::read_to_string(place.run().join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["validity"]["cells"], 2);
    let comparisons = summary["equal_cells"]["comparisons"].as_array().unwrap();
    let metrics = comparisons
        .iter()
        .map(|one| one["metric"].as_str().unwrap());
    let metrics: Vec<&str> = metrics.collect();
    for metric in ["elapsed_s", "packets", "ip_bytes"] {
        assert!(metrics.contains(&metric), "{metrics:?}");
    }
    for one in comparisons {
        assert_eq!(one["cell"]["policy"], "h1.1");
        assert!(one["cell"]["copy"].is_null() && one["ratio"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn an_edited_study_is_not_resumed() {
    if !possible("an_edited_study_is_not_resumed") {
        return;
    }
    let place = Place::new();
    let path = study(&place, "", "");
    run(&place, &path, &[]).assert_measured();
    let before = records(&place);
    study(&place, "rtt = \"2\"", "rtt = \"3\"");
    let ended = run(&place, &path, &["--resume"]);
    ended.assert_failed(&["cannot resume", "study.toml", "edited", "--output"]);
    assert_eq!(records(&place), before);
    study(&place, "", "");
    run(&place, &path, &["--resume"]).assert_measured();
}

#[test]
fn a_server_by_path_is_measured_and_what_is_left_out_is_listed_with_the_reason() {
    if !possible("a_server_by_path_is_measured_and_what_is_left_out_is_listed_with_the_reason") {
        return;
    }
    let place = Place::new();
    let server = |name: &str, text: &str| {
        let folder = place.path().join(name);
        fs::create_dir(&folder).unwrap();
        let path = folder.join("server.toml");
        let head = format!("name = {name:?}\ntitle = {name:?}\nsource = \"a test\"\n");
        fs::write(&path, head + text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let mine = server("mine", "based_on = \"embedded\"\n");
    let absent = server(
        "absent",
        "based_on = \"nginx\"\n[program]\ncommands = [\"/nowhere/server\"]\npackage = \"absent-server\"\n",
    );
    let study = study(
        &place,
        "policy = [\"h1.1\", \"h2\"]",
        &format!("policy = [\"h1.1\"]\nserver = [{mine:?}, {absent:?}]"),
    );
    let ended = run(&place, &study, &[]);
    ended.assert_measured();
    let records = records(&place);
    let servers: Vec<&str> = records
        .iter()
        .map(|record| record["cell"]["server"].as_str().unwrap())
        .collect();
    assert!(!servers.is_empty() && servers.iter().all(|server| *server == mine));
    assert!(
        records[0]["metrics"]["elapsed_s"].is_f64(),
        "{}",
        records[0]
    );
    let info = info(&place);
    let left_out = info["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 1, "{info}");
    assert_eq!(left_out[0]["cell"]["server"], absent.as_str());
    assert!(
        left_out[0]["reason"]
            .as_str()
            .unwrap()
            .contains("absent-server")
    );
    let page = fs::read_to_string(place.run().join("report.html")).unwrap();
    for shown in [&ended.out, &page] {
        assert!(shown.contains("Left out"), "{shown}");
        assert!(shown.contains("absent-server"), "{shown}");
    }
    // The start command of a server belongs to the recorded inputs of the run.
    let data = info["data"].as_object().unwrap();
    assert!(data.contains_key(&format!("server {mine}")), "{info}");
}

#[test]
fn pages_come_over_http3_from_a_program_that_speaks_it() {
    if !possible("pages_come_over_http3_from_a_program_that_speaks_it") {
        return;
    }
    let place = Place::new();
    let study = study(
        &place,
        "policy = [\"h1.1\", \"h2\"]",
        "policy = [\"h3\"]\nserver = [\"caddy\"]\ncongestion = [\"era\", \"bbr\"]",
    );
    let ended = run(&place, &study, &[]);
    if ended.code == Some(1) && ended.err.contains("caddy is not installed") {
        let required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!required, "caddy is not installed");
        return eprintln!("SKIPPED: caddy is not installed");
    }
    ended.assert_measured();
    let records = records(&place);
    let last = records.last().unwrap();
    assert_eq!(last["validity"]["reasons"], serde_json::json!([]), "{last}");
    assert_eq!(last["cell"]["congestion"], "era");
    assert!(last["metrics"]["elapsed_s"].as_f64().unwrap() > 0.0);
    let exchanges = place
        .run()
        .join(last["folder"].as_str().unwrap())
        .join("exchanges.ndjson");
    let exchanges = fs::read_to_string(exchanges).unwrap();
    assert_eq!(exchanges.lines().count(), 43, "the page and its images");
    // Caddy's QUIC has its own congestion control.
    let left_out = &info(&place)["left_out"];
    assert_eq!(left_out.as_array().unwrap().len(), 1, "{left_out}");
    assert!(ended.out.contains("congestion=bbr"), "{}", ended.out);
}

#[test]
fn numbers_of_a_study_outside_their_range_are_refused() {
    let place = Place::new();
    let study = study(&place, "deadline_s = 600", "deadline_s = 18446744073709551");
    let ended = run(&place, &study, &[]);
    ended.assert_failed(&["deadline_s", "30 days"]);
}
