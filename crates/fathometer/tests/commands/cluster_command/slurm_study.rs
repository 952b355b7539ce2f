//! `fathometer cluster slurm -- study` with a real Slurm: a job array whose runs are merged.

use std::fs;

use super::slurm_cluster::{Cluster, text};
use crate::support::laboratory::possible;
use crate::support::programs::run;

/// Two cells on a fast path. The lateness limits are high, so that a busy machine passes.
pub(super) const STUDY: &str = r#"
name = "shared"
title = "A study of two machines"
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

#[test]
fn a_study_of_two_ranks_runs_as_a_job_array_and_becomes_one_run() {
    if !possible("a_study_of_two_ranks_runs_as_a_job_array_and_becomes_one_run") {
        return;
    }
    let Some(cluster) = Cluster::start_with_tun(2) else {
        return;
    };
    let folder = cluster.path();
    fs::write(folder.join("study.toml"), STUDY).unwrap();
    let study = ["study", "./study.toml", "--replicates", "3", "--quiet"];
    let submitted = |name: &str, more: &[&str]| {
        let output = run(cluster
            .submitter()
            .args(["--ranks", "2", "--folder", name])
            .args(more)
            .arg("--")
            .args(study));
        let (out, err) = text(&output);
        (output.status.code(), out, err)
    };
    let (code, out, err) = submitted("job", &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains("main") && err.contains("all 2 tasks have measured"),
        "{out}{err}"
    );
    let json = |path: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(folder.join(path)).unwrap()).unwrap()
    };
    let ranks: Vec<_> = [0, 1]
        .map(|rank| json(&format!("job/run-{rank}/run.json")))
        .into();
    for (rank, info) in ranks.iter().enumerate() {
        assert_eq!(
            (&info["share"]["rank"], &info["share"]["ranks"]),
            (&rank.into(), &2.into())
        );
    }
    let whole = json("job/run/run.json");
    assert_eq!(whole["machines"].as_array().unwrap().len(), 2);
    assert_eq!(whole["replicates_planned"], 6);
    assert!(folder.join("job/run/report.html").is_file());
    // The messages of a task name the array as the source of its rank.
    let said = fs::read_to_string(folder.join("job/rank-1.err")).unwrap();
    assert!(
        said.contains("rank 1 of 2 machines (the Slurm array)"),
        "{said}"
    );

    // A task that fails: its share is missing, and the exit code reports the failure.
    let program = cluster.program();
    let program = program
        .get_args()
        .last()
        .map_or(program.get_program(), |last| last);
    let script = format!(
        "[ $SLURM_ARRAY_TASK_ID = 0 ] || exit 7\nexec '{}' \"$@\"",
        program.to_str().unwrap()
    );
    let script = cluster.script("fails.sh", &script);
    let (code, _, err) = submitted("part", &["--program", script.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{err}");
    for told in [
        "rank 1 exited with code 7",
        "the runs of rank 1 are missing",
    ] {
        assert!(err.contains(told), "{told}: {err}");
    }

    let output = run(cluster
        .submitter()
        .args(["--ranks", "2", "--"])
        .args(study)
        .args(["--rank", "1"]));
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains("--rank of a study cannot be set here"),
        "{err}"
    );
}
