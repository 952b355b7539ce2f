//! Limits that were built in are named: `fathometer bottleneck`, as its users run it.
//!
//! Needs the right to make network namespaces, TUN devices and control groups; without, each test says
//! so and passes, unless `FATHOMETER_REQUIRE_LAB=1`.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const FATHOMETER: &str = env!("CARGO_BIN_EXE_fathometer");

/// The plants in the order in which they are tried: first one for each kind of limit, of the host, of the
/// path, of the server's own making.
const FIRST: [&str; 3] = ["cpu-quota", "link-rate", "sleep"];

/// After so long no further plant is begun, and what was not tried is printed. All of them may take longer
/// even on a quiet machine (`fathometer bottleneck --self-test` tries them all); one that others keep busy
/// makes invalid trials again and again, and would be at it for most of an hour.
const ENOUGH: Duration = Duration::from_secs(300);

/// How often a plant is tried that is named wrongly: intervals of three repetitions miss by chance once
/// in a while.
const CHANCES: u32 = 2;

/// One at a time: what is measured is processor time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn possible(test: &str) -> bool {
    let required = std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|value| value == "1");
    let able = fathometer_sys::cgroup::available()
        .into_iter()
        .chain(fathometer_sys::privilege::probe())
        .filter(|ability| ability.required || ability.name == "cpu limit");
    let missing: Vec<String> = able
        .filter_map(|ability| Some(format!("{}: {}", ability.name, ability.state.err()?)))
        .collect();
    assert!(!required || missing.is_empty(), "{missing:?}");
    if !missing.is_empty() {
        eprintln!("{test} is not possible here: {}", missing.join("; "));
    }
    missing.is_empty()
}

fn bottleneck(arguments: &[&str]) -> Output {
    Command::new(FATHOMETER)
        .arg("bottleneck")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

#[test]
fn what_was_built_in_is_named() {
    if !possible("what_was_built_in_is_named") {
        return;
    }
    let _alone = alone();
    let mut plants: Vec<&str> = fathometer::bottleneck::plants::PLANTS
        .iter()
        .map(|plant| plant.name)
        .collect();
    plants.sort_by_key(|plant| {
        FIRST
            .iter()
            .position(|first| first == plant)
            .unwrap_or(FIRST.len())
    });
    let mut wrong = Vec::new();
    let mut named = 0;
    let begun = Instant::now();
    for (place, plant) in plants.iter().enumerate() {
        if begun.elapsed() > ENOUGH {
            println!(
                "{} plants were not tried: time was up",
                plants.len() - place
            );
            break;
        }
        let mut tried = Value::Null;
        for _ in 0..CHANCES {
            let output = bottleneck(&["--self-test", "--plant", plant, "--json", "--quiet"]);
            tried = json(&output)[0].clone();
            if tried["outcome"] != "wrong" {
                break;
            }
            println!("{plant}: {}", tried["verdict"]);
        }
        println!("{plant:16} {}", tried["named"]);
        match tried["outcome"].as_str() {
            Some("right") => named += 1,
            Some("wrong") => wrong.push(format!("{plant}: {}", tried["verdict"])),
            // A machine that others keep busy leaves a plant undecided, and says why.
            _ => {
                println!("  {}: {}", tried["outcome"], tried["verdict"]);
                assert_eq!(tried["outcome"], "invalid", "{tried}");
                assert!(!tried["verdict"].as_str().unwrap().is_empty(), "{tried}");
            }
        }
    }
    println!("{named} of {} named rightly", plants.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_server_of_ones_own_is_judged_and_its_observations_are_judged_alike_again() {
    if !possible("a_server_of_ones_own_is_judged") {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site");
    std::fs::create_dir(&site).unwrap();
    std::fs::write(site.join("a.html"), "<p>a small file").unwrap();
    let kept = place.path().join("kept");
    let kept = kept.to_str().unwrap();
    let mut arguments = vec!["--site", site.to_str().unwrap(), "-c", "16", "--cpu", "0.2"];
    arguments.extend([
        "-d",
        "500ms",
        "--replicates",
        "2",
        "--only",
        "cpu",
        "--only",
        "memory",
    ]);
    arguments.extend([
        "--json", "--quiet", "-o", kept, "--", FATHOMETER, "serve", "{root}",
    ]);
    arguments.extend(["--listen", "{address}:{port}", "--threads", "1"]);
    let first = json(&bottleneck(&arguments));
    assert_eq!(first["not_varied"][0]["resource"], "memory");
    let reason = first["not_varied"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("not limited"), "{reason}");
    let lines = std::fs::read_to_string(Path::new(kept).join("observations.ndjson")).unwrap();
    assert!(lines.lines().count() >= 4, "{lines}");
    let again = json(&bottleneck(&["--judge", kept, "--json"]));
    assert_eq!(first["verdict"], again["verdict"]);
    assert_eq!(first["setup"], again["setup"]);
}

#[test]
fn what_is_interrupted_leaves_nothing() {
    if !possible("what_is_interrupted_leaves_nothing") {
        return;
    }
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let mut running = Command::new(FATHOMETER)
        .args(["bottleneck", "-c", "4", "--quiet"])
        .env("TMPDIR", place.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mark = format!("-{}-", running.id());
    let groups = || {
        let roots = [
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/cpu",
            "/sys/fs/cgroup/unified",
        ];
        let all = roots.iter().filter_map(|root| std::fs::read_dir(root).ok());
        all.flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().contains(mark.as_str()))
            .count()
    };
    // Until a server runs.
    for _ in 0..600 {
        if std::fs::read_dir(place.path()).unwrap().count() >= 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = Pid::from_raw(running.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let status = running.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    assert_eq!(groups(), 0);
}

#[test]
fn what_cannot_be_done_is_said() {
    for (arguments, said) in [
        (vec!["no-such-server"], "no-such-server"),
        (vec!["--only", "disk"], "disk-operations"),
        (vec!["--disk", "200"], "200ops"),
        (vec!["--step", "0.5"], "above 1"),
        (vec!["--replicates", "1"], "2..=1000"),
        (vec!["--judge", "/no/such/folder"], "/no/such/folder"),
        (
            vec!["--self-test", "--plant", "weed"],
            "there is no plant weed",
        ),
    ] {
        let output = bottleneck(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}
