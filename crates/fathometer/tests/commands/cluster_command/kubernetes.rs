//! `fathometer cluster kubernetes`: manifests checked against the published schemas, and an Indexed Job run as
//! processes.

use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fathometer_analysis::load::Summary;
use serde_json::{Value, json};

use super::slurm_cluster::text;
use crate::support::ports::free_address;
use crate::support::programs::{FATHOMETER, run, run_well, tool};
use crate::support::serving;

const FOLDER: &str = "tests/commands/cluster_command";

/// The newest versions whose schemas are in the folder.
pub(super) const VERSIONS: [&str; 3] = ["1.35", "1.36", "1.37"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(FOLDER)
        .join(name)
}

pub(super) fn manifest(arguments: &[&str]) -> String {
    let mut command = Command::new(FATHOMETER);
    command.args([
        "cluster",
        "kubernetes",
        "--image",
        "registry.example/fathometer",
    ]);
    String::from_utf8(run_well(command.args(arguments))).unwrap()
}

/// A manifest as parsed by an independent YAML library.
pub(super) struct Checked {
    pub(super) documents: Vec<Value>,
    /// The violations of the schemas, by Kubernetes version.
    pub(super) errors: [Vec<String>; 3],
}

/// Reads and validates manifests; `None` without Python or its modules.
pub(super) fn checked(manifests: &[&str]) -> Option<Vec<Checked>> {
    let mut python = Command::new(tool("python3")?)
        .arg(file("kubernetes_check.py"))
        .args(VERSIONS.map(|version| file(&format!("kubernetes_schemas/v{version}.json"))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = serde_json::to_vec(manifests).unwrap();
    python.stdin.take().unwrap().write_all(&input).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    if found.is_null() {
        let required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!required, "this test needs Python with yaml and jsonschema");
        eprintln!("SKIPPED: Python has no yaml or jsonschema");
        return None;
    }
    let manifests = found.as_array().unwrap().iter();
    let checked = manifests.map(|manifest| Checked {
        documents: manifest["documents"].as_array().unwrap().clone(),
        errors: serde_json::from_value(manifest["errors"].clone()).unwrap(),
    });
    Some(checked.collect())
}

const UNUSUAL: &str = "- it's: \"x\" #é\u{85}\u{2028}\n$(HOME) $$ \\ ~";

#[test]
fn manifests_are_valid_by_the_schemas_of_the_three_newest_versions() {
    let plain = manifest(&["--ranks", "1", "--", "load", "http://shop/"]);
    let full = manifest(&[
        "--ranks",
        "16",
        "--name",
        "checkout",
        "--namespace",
        "tests",
        "--cpu",
        "500m",
        "--memory",
        "1Gi",
        "--time",
        "10m",
        "--port",
        "9000",
        "--with-secret",
        "--",
        "load",
        "http://shop/",
        "-H",
        UNUSUAL,
        "",
        "1e3",
        "yes",
    ]);
    // The schemas are strict: a key that does not exist and a value of another type are errors.
    let wrong = [
        ("subdomain:", "subDomain:"),
        ("completions: 16", "completions: \"16\""),
        ("clusterIP: None", "clusterIP: 1"),
    ]
    .map(|(right, wrong)| full.replacen(right, wrong, 1));
    let mut manifests = vec![plain.as_str(), full.as_str()];
    manifests.extend(wrong.iter().map(String::as_str));
    let Some(checked) = checked(&manifests) else {
        return;
    };
    for (manifest, kinds) in checked
        .iter()
        .zip([&["Service", "Job"][..], &["Secret", "Service", "Job"]])
    {
        for (errors, version) in manifest.errors.iter().zip(VERSIONS) {
            assert!(errors.is_empty(), "{version}: {errors:?}");
        }
        let found: Vec<&str> = manifest
            .documents
            .iter()
            .filter_map(|each| each["kind"].as_str())
            .collect();
        assert_eq!(found, kinds);
    }
    for (manifest, text) in checked[2..].iter().zip(&wrong) {
        assert_ne!(*text, full);
        for errors in &manifest.errors {
            assert_eq!(errors.len(), 1, "{errors:?}");
        }
    }
    let documents = &checked[1].documents;
    let arguments = &documents[2]["spec"]["template"]["spec"]["containers"][0]["args"];
    let escaped = UNUSUAL.replace('$', "$$");
    assert_eq!(
        *arguments,
        json!(["load", "http://shop/", "-H", escaped, "", "1e3", "yes"])
    );
    let secret = documents[0]["stringData"]["secret"].as_str().unwrap();
    assert!(secret.len() == 64 && full.matches(secret).count() == 1);
    assert!(
        !plain.contains("stringData")
            && plain.contains("kubectl create secret generic fathometer-secret")
    );
}

/// Imitates the Job controller: one process for each index, with the environment of its pod.
#[test]
fn an_indexed_job_runs_as_processes_with_its_environment() {
    let mut server = Command::new(FATHOMETER);
    server.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--threads",
        "1",
        "--site",
        "microscape",
    ]);
    let mut server = Running(
        server
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let url = format!(
        "http://{}/",
        serving::address(&mut BufReader::new(server.0.stdout.take().unwrap()))
    );
    let manifest = manifest(&[
        "--ranks",
        "2",
        "--with-secret",
        "--",
        "load",
        "--json",
        "--quiet",
        "--repeats",
        "0",
        "-c",
        "2",
        "-n",
        "100",
        &url,
    ]);
    let Some(checked) = checked(&[&manifest]) else {
        return;
    };
    let documents = &checked[0].documents;
    let secret = &documents[0]["stringData"]["secret"];
    let pod = &documents[2]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    // Rank 0 has the name of its pod, below the name of the headless service.
    let name = documents[1]["metadata"]["name"].as_str().unwrap();
    assert_eq!(pod["subdomain"], name);
    let port = &documents[1]["spec"]["ports"][0]["port"];
    let here = free_address().to_string();
    let variables: Vec<(&str, &str)> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| {
            let name_and_value = (
                variable["name"].as_str().unwrap(),
                variable["value"].as_str(),
            );
            match name_and_value {
                ("FATHOMETER_RENDEZVOUS", Some(value)) => {
                    assert_eq!(value, format!("{name}-0.{name}:{port}"));
                    // This machine cannot resolve that name.
                    ("FATHOMETER_RENDEZVOUS", here.as_str())
                }
                (name, Some(value)) => (name, value),
                (name, None) => {
                    let reference = &variable["valueFrom"]["secretKeyRef"];
                    assert_eq!(reference["name"], documents[0]["metadata"]["name"]);
                    assert_eq!(reference["key"], "secret");
                    (name, secret.as_str().unwrap())
                }
            }
        })
        .collect();
    let arguments: Vec<String> = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|argument| argument.as_str().unwrap().replace("$$", "$"))
        .collect();
    let ranks = documents[2]["spec"]["completions"].as_u64().unwrap();
    let outputs = std::thread::scope(|scope| {
        let pods: Vec<_> = (0..ranks)
            .map(|index| {
                let mut pod = Command::new(FATHOMETER);
                pod.args(&arguments).envs(variables.iter().copied());
                pod.env("JOB_COMPLETION_INDEX", index.to_string());
                scope.spawn(move || run(&pod))
            })
            .collect();
        pods.into_iter()
            .map(|pod| pod.join().unwrap())
            .collect::<Vec<_>>()
    });
    // Rank 0 has the result; a busy machine may make it INVALID.
    let (out, err) = text(&outputs[0]);
    let summary: Summary =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let expected = if summary.validity.valid { 0 } else { 3 };
    assert_eq!(outputs[0].status.code(), Some(expected), "{err}");
}

#[test]
fn manifests_that_kubernetes_would_refuse_are_not_printed() {
    let long = "a".repeat(61);
    // With the suffix -merge, this name is too long.
    let study = "a".repeat(58);
    for bad in [
        &["--image", "i", "--", "load"][..],
        &["--ranks", "2", "--", "load"],
        &["--ranks", "0", "--image", "i", "--", "load"],
        &["--ranks", "10001", "--image", "i", "--", "load"],
        &["--ranks", "2", "--image", "i j", "--", "load"],
        &["--ranks", "2", "--image", "i", "--name", "A", "--", "load"],
        &[
            "--ranks", "11", "--image", "i", "--name", &long, "--", "load",
        ],
        &[
            "--ranks", "2", "--image", "i", "--memory", "1GB", "--", "load",
        ],
        &["--ranks", "2", "--image", "i", "--", "sh"],
        // Without --claim, the runs would be lost with the pods.
        &["--ranks", "2", "--image", "i", "--", "study", "nielsen97"],
        &["--ranks", "2", "--image", "i", "--claim", "c", "--", "load"],
        &[
            "--ranks", "2", "--image", "i", "--merge", "--", "study", "n",
        ],
        &[
            "--ranks",
            "2",
            "--image",
            "i",
            "--claim",
            "c",
            "--with-secret",
            "--",
            "study",
            "n",
        ],
        &[
            "--ranks", "2", "--image", "i", "--claim", "c", "--", "study", "n", "--rank=1",
        ],
        &[
            "--ranks", "2", "--image", "i", "--claim", "c", "--name", &study, "--", "study", "n",
        ],
        &["--ranks", "2", "--image", "i"],
    ] {
        let output = run(Command::new(FATHOMETER)
            .args(["cluster", "kubernetes"])
            .args(bad));
        assert_eq!(output.status.code(), Some(2), "{bad:?}: {output:?}");
        assert!(output.stdout.is_empty());
    }
}

/// A program that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
