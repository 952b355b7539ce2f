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

/// Starts a server that takes this many milliseconds for `/page`.
fn server(folder: &str, pause: &str) -> Origin {
    let dynamic = format!("/page,parts=2,size=1k,every={pause}ms");
    Origin::with(&[folder, "--dynamic", &dynamic])
}

/// Writes a copy of a saved result that is valid and has this median in each second, within 1 %. The gate then does not
/// depend on the load of this machine.
fn with_median(saved: &str, name: &str, millis: f64) -> String {
    let text = std::fs::read_to_string(saved).unwrap();
    let mut result: serde_json::Value = serde_json::from_str(&text).unwrap();
    result["validity"] = serde_json::json!({"valid": true, "reasons": []});
    for (place, second) in result["timeline"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .enumerate()
    {
        let noise = [-1.0, 0.0, 1.0, -0.5, 0.5][place % 5];
        second["p50_ms"] = serde_json::json!(millis * (1.0 + 0.01 * noise));
        second["errors"] = serde_json::json!(0);
    }
    let path = format!("{saved}.{name}.json");
    std::fs::write(&path, result.to_string()).unwrap();
    path
}

#[test]
fn a_slower_server_breaks_the_gate_and_the_same_server_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let origin = server(folder.path().to_str().unwrap(), "20");
    let saved = |name: &str, more: &[&str]| -> String {
        let path = folder.path().join(name).display().to_string();
        let url = format!("{}page", origin.url());
        let arguments = ["-c", "2", "--save", &path];
        valid_if_possible(|| load(&url, &[&arguments[..], more].concat()));
        path
    };
    let before = saved("before.json", &["-d", "5s"]);
    let (fast, slow) = (
        with_median(&before, "fast", 20.0),
        with_median(&before, "slow", 30.0),
    );
    let gate = ["--gate", "p50<+20%,errors<=+0"];
    let kept = compare(&[&[&*fast, &*fast], &gate[..]].concat());
    assert_eq!(kept.code, Some(0), "{} {}", kept.out, kept.err);
    assert!(kept.out.contains("gate p50<+20% kept"), "{}", kept.out);
    let broken = compare(&[&[&*fast, &*slow], &gate[..], &["--json"]].concat());
    assert_eq!(broken.code, Some(4), "{} {}", broken.out, broken.err);
    let comparison: Comparison = serde_json::from_str(&broken.out).unwrap();
    let p50 = comparison
        .changes
        .iter()
        .find(|change| change.metric == "p50")
        .unwrap();
    assert_eq!(p50.verdict, Verdict::Worse);
    assert!((p50.change - 0.5).abs() < 1e-9, "{p50:?}");

    let other = saved("other.json", &["-d", "1s", "--policy", "h1.0"]);
    let refused = compare(&[&before, &other]);
    assert_eq!(refused.code, Some(2), "{}", refused.out);
    assert!(
        refused.err.contains("policy differs (h1.1 and h1.0)"),
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

#[test]
fn a_slower_server_is_found_by_alternation_and_its_cpu_time_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let (fast, slow) = (server(folder, "4"), server(folder, "8"));
    let url = |origin: &Origin| format!("{}page", origin.url());
    let pids = [&fast, &slow].map(|origin| origin.pid().to_string());
    let ended = load(
        &url(&slow),
        &[
            "--against",
            &url(&fast),
            "-c",
            "4",
            "-d",
            "4s",
            "--slice",
            "40ms",
            "--json",
        ]
        .into_iter()
        .chain(pids.iter().flat_map(|pid| ["--probe", pid]))
        .collect::<Vec<_>>(),
    );
    // On a busy machine the test may be INVALID; it then has no verdict.
    assert!(
        matches!(ended.code, Some(0 | 3)),
        "{} {}",
        ended.out,
        ended.err
    );
    let comparison: Comparison = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        comparison.invalid.is_empty(),
        ended.code == Some(0),
        "{comparison:?}"
    );
    let change = |name: &str| {
        let mut changes = comparison.changes.iter();
        changes.find(|change| change.metric == name).unwrap()
    };
    let (p50, cpu) = (change("p50"), change("server-cpu"));
    assert!(p50.before >= 4.0 && p50.after >= 8.0, "{p50:?}");
    assert!(cpu.before > 1.0 && cpu.after > 1.0, "{cpu:?}");
    assert!(p50.samples_before >= 4, "{p50:?}");
    if ended.code == Some(0) {
        assert_eq!(p50.verdict, Verdict::Worse, "{p50:?}");
    }
    let refused = load(&url(&slow), &["--slice", "40ms"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
}
