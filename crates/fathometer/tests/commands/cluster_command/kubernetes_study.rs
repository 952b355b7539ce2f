//! `fathometer cluster kubernetes -- study`: manifests checked against the published schemas, and both Jobs run as
//! processes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use super::kubernetes::{Checked, VERSIONS, checked, manifest};
use super::slurm_cluster::text;
use super::slurm_study::STUDY;
use crate::support::laboratory::possible;
use crate::support::programs::{FATHOMETER, run};

/// Prints the manifests of the shares and of the merge.
fn manifests(command: &[&str]) -> [String; 2] {
    let job = ["--ranks", "2", "--name", "night", "--claim", "runs"];
    let of = |more: &[&str]| manifest(&[&job[..], more, &["--"], command].concat());
    [of(&[]), of(&["--merge"])]
}

fn container(checked: &Checked) -> &Value {
    &checked.documents[0]["spec"]["template"]["spec"]["containers"][0]
}

fn texts(values: &Value) -> Vec<&str> {
    let values = values.as_array().unwrap().iter();
    values.map(|value| value.as_str().unwrap()).collect()
}

#[test]
fn manifests_of_a_study_are_valid_by_the_schemas_of_the_three_newest_versions() {
    let [shares, merge] = manifests(&["study", "$(x) $$", "--strict"]);
    // The schemas also reject errors in the fields that only studies have.
    let wrong = [
        ("claimName:", "claim:"),
        ("privileged: true", "privileged: 1"),
        ("topologyKey:", "topology:"),
    ]
    .map(|(right, wrong)| shares.replacen(right, wrong, 1));
    let mut all = vec![shares.as_str(), merge.as_str()];
    all.extend(wrong.iter().map(String::as_str));
    let Some(checked) = checked(&all) else {
        return;
    };
    for manifest in &checked[..2] {
        for (errors, version) in manifest.errors.iter().zip(VERSIONS) {
            assert!(errors.is_empty(), "{version}: {errors:?}");
        }
        assert_eq!(manifest.documents.len(), 1);
        assert_eq!(manifest.documents[0]["kind"], "Job");
    }
    for (manifest, text) in checked[2..].iter().zip(&wrong) {
        assert_ne!(*text, shares);
        assert!(manifest.errors.iter().all(|errors| !errors.is_empty()));
    }
    let output = "/runs/night-$(JOB_COMPLETION_INDEX)";
    assert_eq!(
        texts(&container(&checked[0])["args"]),
        ["study", "$$(x) $$$$", "--strict", "--output", output]
    );
    assert_eq!(
        texts(&container(&checked[1])["args"]),
        [
            "merge",
            "/runs/night-0",
            "/runs/night-1",
            "--output",
            "/runs/night",
            "--strict"
        ]
    );
}

/// Runs a pod of a Job as a process. Expands its arguments as the kubelet does, and replaces the volume of the claim by
/// a folder.
fn pod(checked: &Checked, index: Option<u64>, runs: &Path) -> Output {
    let container = container(checked);
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["name"] == "runs").unwrap();
    let mounted = format!("{}/", mount["mountPath"].as_str().unwrap());
    let number = index.map(|index| index.to_string()).unwrap_or_default();
    let mut pod = Command::new(FATHOMETER);
    pod.args(texts(&container["args"]).into_iter().map(|argument| {
        let expanded = argument.replace("$(JOB_COMPLETION_INDEX)", &number);
        assert!(!expanded.contains('$'), "{expanded}");
        match expanded.strip_prefix(&mounted) {
            Some(name) => runs.join(name).into_os_string(),
            None => expanded.into(),
        }
    }));
    for variable in container["env"].as_array().into_iter().flatten() {
        let text = |key: &str| variable[key].as_str().unwrap();
        pod.env(text("name"), text("value"));
    }
    if index.is_some() {
        pod.env("JOB_COMPLETION_INDEX", number);
    }
    run(&pod)
}

#[test]
fn a_study_runs_as_an_indexed_job_and_its_runs_are_merged() {
    if !possible("a_study_runs_as_an_indexed_job_and_its_runs_are_merged") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("study.toml");
    fs::write(&study, STUDY).unwrap();
    let study = study.to_str().unwrap();
    let manifests = manifests(&["study", study, "--replicates", "2", "--quiet"]);
    let [shares, merge] = manifests.each_ref().map(String::as_str);
    let Some(checked) = checked(&[shares, merge]) else {
        return;
    };
    let runs = folder.path().join("volume");
    fs::create_dir(&runs).unwrap();
    let json = |path: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(runs.join(path)).unwrap()).unwrap()
    };
    let completions = checked[0].documents[0]["spec"]["completions"].as_u64();
    assert_eq!(completions, Some(2));
    // Runs the pods one after another, because a machine runs one pod at a time.
    for index in 0..2 {
        let (_, err) = text(&pod(&checked[0], Some(index), &runs));
        let expected = format!("rank {index} of 2 machines (the Indexed Job)");
        assert!(err.contains(&expected), "{err}");
        let info = json(&format!("night-{index}/run.json"));
        assert_eq!(info["share"]["rank"], index, "{err}");
    }
    let merged = pod(&checked[1], None, &runs);
    let (out, err) = text(&merged);
    // A busy machine may make a cell INVALID.
    assert!(matches!(merged.status.code(), Some(0 | 3)), "{out}{err}");
    let whole = json("night/run.json");
    assert_eq!(whole["machines"].as_array().unwrap().len(), 2);
    assert_eq!(whole["replicates_planned"], 4);
    assert!(runs.join("night/report.html").is_file());
}
