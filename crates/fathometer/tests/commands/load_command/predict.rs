//! `fathometer predict`, from results of load tests and from a run.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Command;

use fathometer_analysis::load::Summary;
use fathometer_analysis::load::summary::LoopSummary;
use serde_json::Value;

use super::support::{Ended, Origin, fathometer, load};
use crate::support::programs::FATHOMETER;

fn predict(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(FATHOMETER);
    command.arg("predict").arg(folder).args(arguments);
    fathometer(&command)
}

/// Returns the result of a simulated server with two processors. Each exchange takes 1 ms of CPU time and 9 ms
/// elsewhere; with one or two users, no exchange waits.
fn as_if(result: &Summary, users: u32) -> Summary {
    let mut result = result.clone();
    result.validity.valid = true;
    result.validity.reasons.clear();
    result.setup.kind = LoopSummary::Closed { users };
    let rate = f64::from(users) * 100.0;
    result.measured.rates.achieved_per_s = Some(rate);
    let phase = result.measured.phases.corrected.as_mut().unwrap();
    (phase.mean_ms, phase.p50_ms, phase.p99_ms) = (10.0, 9.5, 20.0);
    let server = result.server.as_mut().unwrap();
    server.machine.processors = Some(2);
    server.programs[0].cpu_s = 1e-3 * rate * server.watched_s;
    result
}

/// Copies a published run of `fathometer bottleneck` in which the CPU is the limit. Adds the number of users, which
/// only later versions record.
fn bottleneck_run(folder: &Path, users: Option<u32>) {
    let published = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../runs/published/2026-11-25-2-core-vm-bottleneck-self-test/cpu-quota"
    ));
    let lines = "observations.ndjson";
    fs::copy(published.join(lines), folder.join(lines)).unwrap();
    let setup = fs::read(published.join("setup.json")).unwrap();
    let mut setup: Value = serde_json::from_slice(&setup).unwrap();
    setup["users"] = users.into();
    fs::write(folder.join("setup.json"), setup.to_string()).unwrap();
}

#[test]
fn two_light_results_predict_the_saturated_server_and_a_larger_one() {
    let origin = Origin::of("webstone", 1);
    let pid = origin.pid().to_string();
    let arguments = [
        "--workload",
        "webstone",
        "-c",
        "1",
        "-d",
        "1s",
        "--probe",
        &pid,
        "--json",
    ];
    let result = load(&origin.url(), &arguments).summary();
    origin.end();
    let folder = tempfile::tempdir().unwrap();
    for (name, users) in [("1", 1), ("2", 2), ("2again", 2)] {
        let text = serde_json::to_string(&as_if(&result, users)).unwrap();
        fs::write(folder.path().join(format!("{name}.json")), text).unwrap();
    }
    let quick = ["--draws", "20", "--exchanges", "1000", "--json"];
    let of = |more: &[&str]| -> Value {
        let ended = predict(folder.path(), &[&quick[..], more].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        serde_json::from_str(&ended.out).unwrap()
    };
    let number = |value: &Value| value.as_f64().unwrap();
    let output = of(&["--users", "1,400"]);
    let prediction = &output["predictions"][0];
    assert_eq!(prediction["law"]["law"], "constant");
    assert!(
        (number(&prediction["delay_ms"]) - 9.0).abs() < 0.01,
        "{prediction}"
    );
    let last = &prediction["rows"][1];
    // The maximum of two processors with 1 ms per exchange is 2000 per second.
    assert!(
        (number(&last["throughput_per_s"]["value"]) - 2000.0).abs() < 1.0,
        "{last}"
    );
    assert!(
        (number(&last["mean_ms"]["value"]) - 200.0).abs() < 1.0,
        "{last}"
    );
    assert_eq!(last["bottleneck"], "processor");
    assert_eq!(
        (&last["saturated"], &last["extrapolated"]),
        (&true.into(), &true.into())
    );
    let first = &prediction["rows"][0];
    assert!(number(&first["throughput_compared"]["error_share"]).abs() < 0.01);
    // Batches at a light load, with the same CPU time per exchange.
    let mut batches = as_if(&result, 2);
    batches.setup.kind = LoopSummary::Open {
        arrivals: "constant 200/s in batches of 64".to_owned(),
        arrivals_per_s: 200.0,
        connections: 64,
        batch: NonZeroU32::new(64),
    };
    let file = folder.path().join("batches.json");
    fs::write(&file, serde_json::to_string(&batches).unwrap()).unwrap();
    let output = of(&["--users", "400"]);
    let prediction = &output["predictions"][0];
    assert_eq!(prediction["batch_sizes"], serde_json::json!([64]));
    let rate = number(&prediction["rows"][0]["throughput_per_s"]["value"]);
    assert!((rate - 2000.0).abs() < 1.0, "{prediction}");
    fs::remove_file(&file).unwrap();
    let output = of(&["--users", "400", "--what-if", "cpu=4"]);
    let larger = &output["predictions"][0]["rows"][0];
    assert!(
        (number(&larger["throughput_per_s"]["value"]) - 4000.0).abs() < 2.0,
        "{larger}"
    );
    // A server with one thread.
    let output = of(&["--users", "400", "--cores", "1"]);
    let single = &output["predictions"][0]["rows"][0];
    assert!(
        (number(&single["throughput_per_s"]["value"]) - 1000.0).abs() < 1.0,
        "{single}"
    );
    // A pool of two threads; each exchange uses one thread for 10 ms.
    let pool = ["--users", "400", "--workers", "2"];
    let output = of(&pool);
    let (prediction, row) = (
        &output["predictions"][0],
        &output["predictions"][0]["rows"][0],
    );
    assert_eq!(prediction["workers"]["count"], 2);
    let rate = number(&row["throughput_per_s"]["value"]);
    assert!((rate / 200.0 - 1.0).abs() < 0.1, "{row}");
    assert_eq!(
        (&row["bottleneck"], &row["saturated"]),
        (&"workers".into(), &true.into())
    );
    assert_eq!(row["workers"]["errors_share"], 0.0);
    let output = of(&[&pool[..], &["--what-if", "workers=2x"]].concat());
    let row = &output["predictions"][0]["rows"][0];
    let rate = number(&row["throughput_per_s"]["value"]);
    assert!((rate / 400.0 - 1.0).abs() < 0.1, "{row}");
    let full = ["--backlog", "8", "--timeout", "500ms"];
    let output = of(&[&pool[..], &full].concat());
    let workers = &output["predictions"][0]["rows"][0]["workers"];
    // The pool and the backlog accept eleven of the 400 users. The others fail after half a second: 778 failures per
    // second.
    let errors = number(&workers["errors_share"]);
    assert!((errors / (778.0 / 978.0) - 1.0).abs() < 0.1, "{workers}");
    // Results of load --save do not record the memory of the server.
    let ended = predict(folder.path(), &["--what-if", "memory=64M"]);
    assert_eq!(ended.code, Some(3));
    assert!(
        ended.err.contains("predict a study's run instead"),
        "{}",
        ended.err
    );
    // The command prints the elasticities of a search next to the elasticities of the model.
    let search = tempfile::tempdir().unwrap();
    let option = ["--bottleneck", search.path().to_str().unwrap()];
    bottleneck_run(search.path(), None);
    let ended = predict(folder.path(), &option);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.err.contains("has no number of users"),
        "{}",
        ended.err
    );
    bottleneck_run(search.path(), Some(400));
    let output = of(&option);
    let steps = output["elasticities"][0]["steps"].as_array().unwrap();
    let of_processor = steps.iter().find(|step| step["resource"] == "cpu");
    let of_processor = of_processor.unwrap();
    // 400 users saturate both processors.
    let predicted = number(&of_processor["throughput"]["value"]);
    assert!((predicted - 1.0).abs() < 0.05, "{of_processor}");
    let measured = number(&of_processor["throughput_measured"]["value"]);
    assert!((0.5..1.5).contains(&measured), "{of_processor}");
    let ended = predict(folder.path(), &option);
    assert!(
        ended.out.contains("elasticities at 400 users"),
        "{}",
        ended.out
    );
    // An INVALID measurement is refused.
    let lines = search.path().join("observations.ndjson");
    let valid = r#""validity":{"reasons":[]}"#;
    let text = fs::read_to_string(&lines).unwrap();
    assert!(text.contains(valid));
    let text = text.replace(
        valid,
        r#""validity":{"reasons":["the generator was late"]}"#,
    );
    fs::write(&lines, text).unwrap();
    let ended = predict(folder.path(), &option);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(
        ended.err.contains("INVALID") && ended.err.contains("the generator was late"),
        "{}",
        ended.err
    );
    // The screen begins with the same result.
    let ended = predict(
        folder.path(),
        &["--draws", "20", "--exchanges", "1000", "--users", "400"],
    );
    let answer = ended.out.lines().nth(1).unwrap();
    assert!(
        answer.starts_with("highest throughput 2000 ("),
        "{}",
        ended.out
    );
    assert!(
        answer.contains("at 400 users: the processor is saturated"),
        "{answer}"
    );
}

#[test]
fn results_without_a_probe_predict_throughput_by_the_scalability_law() {
    let origin = Origin::of("webstone", 1);
    let arguments = ["--workload", "webstone", "-c", "1", "-d", "1s", "--json"];
    let result = load(&origin.url(), &arguments).summary();
    origin.end();
    let folder = tempfile::tempdir().unwrap();
    // Contention of 10 %.
    for users in [1, 2, 4, 8] {
        let mut result = result.clone();
        result.validity.valid = true;
        result.validity.reasons.clear();
        result.setup.kind = LoopSummary::Closed { users };
        let users = f64::from(users);
        let rate = 100.0 * users / (1.0 + 0.1 * (users - 1.0));
        result.measured.rates.achieved_per_s = Some(rate);
        let phase = result.measured.phases.corrected.as_mut().unwrap();
        phase.mean_ms = 1e3 * users / rate;
        let text = serde_json::to_string(&result).unwrap();
        fs::write(folder.path().join(format!("{users}.json")), text).unwrap();
    }
    let ended = predict(folder.path(), &["--users", "32", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let output: Value = serde_json::from_str(&ended.out).unwrap();
    let row = &output["scalability"][0]["rows"][0];
    let rate = row["throughput_per_s"]["value"].as_f64().unwrap();
    assert!((rate / (3200.0 / 4.1) - 1.0).abs() < 0.01, "{row}");
    let ended = predict(folder.path(), &[]);
    assert!(
        ended.out.contains("Universal Scalability Law"),
        "{}",
        ended.out
    );
    let ended = predict(folder.path(), &["--what-if", "cpu=2x"]);
    assert_eq!(ended.code, Some(3));
    assert!(
        ended.err.contains("measure with --probe PID"),
        "{}",
        ended.err
    );
}

#[test]
fn what_cannot_be_predicted_from_is_an_error_that_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let ended = predict(folder.path(), &[]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended
            .err
            .contains("measure a few light loads with load -c N --probe PID"),
        "{}",
        ended.err
    );
    let ended = predict(folder.path(), &["--what-if", "disk=2x"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended
            .err
            .contains("only users, cpu (cores), link (rate), memory, workers and backlog can"),
        "{}",
        ended.err
    );
    let ended = predict(folder.path(), &["--what-if", "memory=+64MB"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("memory=64M"), "{}", ended.err);
    fs::write(folder.path().join("other.json"), "{}").unwrap();
    let ended = predict(folder.path(), &[]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("is not a result of a load test"),
        "{}",
        ended.err
    );
    // A run of page retrievals has no load.
    let pages = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../runs/published/2026-11-22-2-core-vm-fujinoki03"
    ));
    let ended = predict(pages, &[]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("predictions take a run of a load study"),
        "{}",
        ended.err
    );
}
