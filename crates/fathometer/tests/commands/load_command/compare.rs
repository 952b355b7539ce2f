//! `fathometer compare` on results of real loads.

use std::process::Command;

use fathometer_analysis::compare::{Comparison, Verdict};

use super::support::{Ended, Origin, fathometer, load, valid_if_possible};
use crate::support::programs::FATHOMETER;

fn compare(arguments: &[&str]) -> Ended {
    let mut command = Command::new(FATHOMETER);
    command.arg("compare").args(arguments);
    fathometer(&command)
}

/// A server that needs this many milliseconds for `/page`.
fn server(folder: &str, pause: &str) -> Origin {
    let dynamic = format!("/page,parts=2,size=1k,every={pause}ms");
    Origin::with(&[folder, "--dynamic", &dynamic])
}

#[test]
fn a_slower_server_breaks_the_gate_and_the_same_server_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let (fast, slow) = (server(place, "20"), server(place, "80"));
    let saved = |origin: &Origin, name: &str, more: &[&str]| -> String {
        let path = folder.path().join(name).display().to_string();
        let url = format!("{}page", origin.url());
        let arguments = ["-c", "2", "--save", &path];
        valid_if_possible(|| load(&url, &[&arguments[..], more].concat()));
        path
    };
    let before = saved(&fast, "before.json", &["-d", "5s"]);
    let same = saved(&fast, "same.json", &["-d", "5s"]);
    let after = saved(&slow, "after.json", &["-d", "5s"]);
    let gate = ["--gate", "p50<+100%,errors<=+0"];
    let kept = compare(&[&[&*before, &*same], &gate[..]].concat());
    assert_eq!(kept.code, Some(0), "{} {}", kept.out, kept.err);
    assert!(kept.out.contains("gate p50<+100% kept"), "{}", kept.out);
    let broken = compare(&[&[&*before, &*after], &gate[..], &["--json"]].concat());
    assert_eq!(broken.code, Some(4), "{} {}", broken.out, broken.err);
    let comparison: Comparison = serde_json::from_str(&broken.out).unwrap();
    let p50 = comparison
        .changes
        .iter()
        .find(|c| c.metric == "p50")
        .unwrap();
    assert_eq!(p50.verdict, Verdict::Worse);
    // 80 ms against 20 ms, and what both need besides on a busy machine.
    assert!((1.0..3.2).contains(&p50.change), "{p50:?}");

    let other = saved(&fast, "other.json", &["-d", "1s", "--policy", "h1.0"]);
    let refused = compare(&[&before, &other]);
    assert_eq!(refused.code, Some(2), "{}", refused.out);
    assert!(
        refused.err.contains("policy h1.1 against h1.0"),
        "{}",
        refused.err
    );
    let allowed = compare(&[&before, &other, "--allow-different"]);
    assert!(matches!(allowed.code, Some(0 | 3)), "{}", allowed.err);
    assert!(allowed.out.contains("policy: h1.1 → h1.0 (not comparable)"));

    let missing = compare(&[&before, "nothing.json"]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.err.contains("cannot read nothing.json"),
        "{}",
        missing.err
    );
}

#[test]
fn published_runs_are_compared_cell_by_cell() {
    let run = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../runs/published/2026-11-22-2-core-vm-leucht15"
    );
    let same = compare(&[run, run, "--json"]);
    assert_eq!(same.code, Some(0), "{}", same.err);
    let comparison: Comparison = serde_json::from_str(&same.out).unwrap();
    assert!(comparison.changes.len() > 20 && comparison.differences.is_empty());
    let decided = [Verdict::Better, Verdict::Worse, Verdict::Different];
    assert!(
        comparison
            .changes
            .iter()
            .all(|change| !decided.contains(&change.verdict))
    );
}
