//! Studies that several machines share, run here one after another, and the merged run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::own::STUDY;
use super::place::{Ended, Place};
use crate::support::laboratory::possible;
use crate::support::waiting::AT_LAST;

/// A study of two cells, and the folder of its runs.
struct Shared {
    place: Place,
    study: PathBuf,
}

impl Shared {
    fn new() -> Shared {
        let place = Place::new();
        let study = place.path().join("study.toml");
        fs::write(&study, STUDY).unwrap();
        Shared { place, study }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn run(&self, name: &str, more: &[&str]) -> Ended {
        let output = self.path(name);
        let mut arguments = vec!["study", self.study.to_str().unwrap(), "--quiet"];
        arguments.extend(["--output", output.to_str().unwrap()]);
        arguments.extend(more);
        self.place.fathometer(&arguments).ended_within(AT_LAST)
    }

    fn rank(&self, rank: &str, ranks: &str) -> Ended {
        let more = ["--replicates", "3", "--rank", rank, "--ranks", ranks];
        self.run(&format!("rank-{rank}"), &more)
    }

    fn merge(&self, parts: &[&str], name: &str) -> Ended {
        let paths: Vec<PathBuf> = parts.iter().chain([&name]).map(|p| self.path(p)).collect();
        let mut paths: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
        let output = paths.pop().unwrap();
        let mut arguments = vec!["merge"];
        arguments.extend(paths);
        arguments.extend(["--output", output]);
        self.place.fathometer(&arguments).ended_within(AT_LAST)
    }

    fn text(&self, run: &str, file: &str) -> String {
        fs::read_to_string(self.path(run).join(file)).unwrap()
    }

    fn records(&self, run: &str) -> Vec<serde_json::Value> {
        let text = self.text(run, "replicates.ndjson");
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Returns the seed of each replicate, by cell and number.
    fn seeds(&self, run: &str) -> BTreeMap<String, u64> {
        let records = self.records(run).into_iter();
        records
            .map(|r| {
                (
                    format!("{} {}", r["cell"], r["replicate"]),
                    r["seed"].as_u64().unwrap(),
                )
            })
            .collect()
    }
}

/// Collects all files below a folder, with their bytes.
fn files(folder: &Path, below: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, below, found),
            false => {
                let name = path.strip_prefix(below).unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
}

#[test]
fn the_shares_of_a_study_merge_to_one_run_in_any_order() {
    if !possible("the_shares_of_a_study_merge_to_one_run_in_any_order") {
        return;
    }
    let shared = Shared::new();
    shared
        .run("whole", &["--replicates", "3"])
        .assert_measured();
    for rank in ["0", "1"] {
        let ended = shared.rank(rank, "2");
        ended.assert_measured();
        let expected = format!("rank {rank} of 2 machines (--rank and --ranks)");
        assert!(ended.err.contains(&expected), "{}", ended.err);
    }
    // The shares have whole replicates, with the numbers and seeds of a run on one machine.
    let numbers = |run: &str| -> Vec<u64> {
        let records = shared.records(run).into_iter();
        let mut all: Vec<u64> = records.map(|r| r["replicate"].as_u64().unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!(
        (numbers("rank-0"), numbers("rank-1")),
        (vec![0, 2], vec![1])
    );
    let mut seeds = shared.seeds("rank-0");
    seeds.extend(shared.seeds("rank-1"));
    assert_eq!(seeds, shared.seeds("whole"));

    shared
        .merge(&["rank-0", "rank-1"], "merged")
        .assert_measured();
    shared
        .merge(&["rank-1", "rank-0"], "reordered")
        .assert_measured();
    let all = |run: &str| {
        let mut found = BTreeMap::new();
        files(&shared.path(run), &shared.path(run), &mut found);
        found
    };
    let merged = all("merged");
    assert!(
        merged == all("reordered"),
        "the merged run depends on the order of the arguments"
    );
    for name in ["report.html", "summary.json", "run.json"] {
        assert!(merged.contains_key(Path::new(name)), "{name}");
    }
    // Every record has its files and names its machine.
    for record in shared.records("merged") {
        let machine = record["machine"].as_u64().unwrap_or(0);
        assert_eq!(machine, record["replicate"].as_u64().unwrap() % 2);
        let exchanges = format!("{}/exchanges.ndjson", record["folder"].as_str().unwrap());
        let of_its_rank = shared.path(&format!("rank-{machine}")).join(&exchanges);
        assert_eq!(
            merged[Path::new(&exchanges)],
            fs::read(of_its_rank).unwrap()
        );
    }
    let info: serde_json::Value = serde_json::from_str(&shared.text("merged", "run.json")).unwrap();
    assert_eq!(info["machines"].as_array().unwrap().len(), 2);
    assert!(info["finished"].is_f64() && info["share"].is_null());
    let page = shared.text("merged", "report.html");
    assert!(page.contains("Differences between the machines"));

    // Other commands read the merged run like any run.
    let merged = shared.path("merged");
    let merged = merged.to_str().unwrap();
    let whole = shared.path("whole");
    for arguments in [
        &["report", merged][..],
        &["report", "--verify", merged],
        &["compare", merged, merged],
        &["compare", whole.to_str().unwrap(), merged],
    ] {
        let ended = shared.place.fathometer(arguments).ended_within(AT_LAST);
        assert!(
            matches!(ended.code, Some(0 | 4)),
            "{arguments:?}: {}",
            ended.err
        );
    }
    // A merged run cannot be resumed.
    let ended = shared.run("merged", &["--replicates", "3", "--resume"]);
    ended.assert_failed(&["merged from the runs of several machines"]);
}

#[test]
fn parts_that_do_not_belong_together_are_refused_and_missing_ones_are_reported() {
    if !possible("parts_that_do_not_belong_together_are_refused_and_missing_ones_are_reported") {
        return;
    }
    let shared = Shared::new();
    for rank in ["0", "1"] {
        shared.rank(rank, "3").assert_measured();
    }
    let merged = shared.merge(&["rank-1", "rank-0"], "merged");
    assert_eq!(merged.code, Some(3), "{}", merged.err);
    assert!(
        merged.err.contains("the runs of rank 2 are missing"),
        "{}",
        merged.err
    );
    let expected = "Missing: the parts of 1 of 3 machines (rank 2)";
    assert!(merged.out.contains(expected), "{}", merged.out);
    let info: serde_json::Value = serde_json::from_str(&shared.text("merged", "run.json")).unwrap();
    assert_eq!(info["replicates_planned"], 6);

    shared.run("solo", &["--replicates", "1"]).assert_measured();
    let other = [
        "--replicates",
        "3",
        "--rank",
        "2",
        "--ranks",
        "3",
        "--seed",
        "5",
    ];
    shared.run("other", &other).assert_measured();
    let more = ["--replicates", "4", "--rank", "2", "--ranks", "3"];
    shared.run("more", &more).assert_measured();
    let refused = |parts: &[&str], expected: &[&str]| {
        shared.merge(parts, "refused").assert_failed(expected);
        assert!(!shared.path("refused").exists());
    };
    refused(&["rank-0", "rank-0"], &["are both of rank 0"]);
    refused(
        &["rank-0", "solo"],
        &["solo", "is not a run of one of several machines"],
    );
    refused(
        &["rank-0", "merged"],
        &["merged", "is not a run of one of several"],
    );
    refused(&["other", "rank-0"], &["seed is", "and 5"]);
    refused(&["rank-0", "more"], &["cells or replicates differ"]);
    // A run with a record of another share, as after an edit.
    let records = shared.path("rank-1").join("replicates.ndjson");
    let text = fs::read_to_string(&records).unwrap();
    fs::write(&records, text.replace("\"replicate\":1", "\"replicate\":2")).unwrap();
    refused(
        &["rank-0", "rank-1"],
        &["replicate 2", "does not belong to rank 1"],
    );
    // A folder with a run is not overwritten.
    let ended = shared.merge(&["rank-0", "other"], "solo");
    assert_eq!(ended.code, Some(1));
    assert!(shared.path("solo").join("run.json").is_file());

    // Each share needs at least one replicate. A stopping rule cannot be combined with shares.
    let ended = shared.run("few", &["--replicates", "2", "--rank", "0", "--ranks", "3"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(
        ended.err.contains("--replicates to at least 3"),
        "{}",
        ended.err
    );
    let ended = shared.run(
        "rule",
        &["--precision", "5%", "--rank", "0", "--ranks", "2"],
    );
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(!shared.path("few").exists() && !shared.path("rule").exists());
}
