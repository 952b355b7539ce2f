//! The study that `study --new` writes: it runs without changes, and a misspelt key or level is refused.

use std::fs;

use super::place::Place;
use crate::support::laboratory::possible;
use crate::support::waiting::AT_LAST;

fn new_study() -> Place {
    let place = Place::new();
    let written = place.fathometer(&["study", "--new", "mine"]).ended();
    assert_eq!(written.code, Some(0), "{}", written.err);
    let message = format!("{}{}", written.out, written.err);
    assert!(
        message.contains("run it with: fathometer study mine"),
        "{message}"
    );
    place
}

#[test]
fn a_new_study_runs_as_it_is_written() {
    if !possible("a_new_study_runs_as_it_is_written") {
        return;
    }
    let place = new_study();
    let arguments = ["study", "mine", "--quick", "--json", "--output", "run"];
    let ended = place.fathometer(&arguments).ended_within(AT_LAST);
    // Exit code 3: a replicate stayed INVALID on a busy machine, but the study ran.
    ended.assert_measured();
    let summary: serde_json::Value = serde_json::from_str(&ended.out).expect(&ended.out);
    assert_eq!(summary["study"], "mine");
    assert_eq!(summary["validity"]["cells"], 4);
    assert_eq!(summary["validity"]["replicates_planned"], 12);
    let kept = fs::read_to_string(place.run().join("summary.json")).unwrap();
    assert!(kept.contains("One pipelined HTTP/1.1 connection needs fewer packets"));
    place.assert_report();
}

#[test]
fn misspelt_keys_and_levels_are_refused_with_the_nearest_before_anything_is_measured() {
    if !possible(
        "misspelt_keys_and_levels_are_refused_with_the_nearest_before_anything_is_measured",
    ) {
        return;
    }
    let place = new_study();
    let file = place.path().join("mine/study.toml");
    let good = fs::read_to_string(&file).unwrap();
    for (right, wrong, nearest) in [
        ("workload =", "worklaod =", "`workload`"),
        ("factors = { policy", "factors = { polcy", "\"policy\""),
        (
            "\"h1.1-pipeline\"], path",
            "\"h1.1-pipelin\"], path",
            "\"h1.1-pipeline\"",
        ),
        (
            "[\"lan\", \"office\"]",
            "[\"lan\", \"ofice\"]",
            "\"office\"",
        ),
        ("visit = \"first\"", "visit = \"frist\"", "\"first\""),
        (
            "server = \"embedded\"",
            "server = \"embeded\"",
            "\"embedded\"",
        ),
    ] {
        assert!(good.contains(right), "{right}");
        fs::write(&file, good.replacen(right, wrong, 1)).unwrap();
        let refused = place.study("mine", &[], &place.run()).ended();
        refused.assert_failed(&[&format!("did you mean {nearest}?")]);
        assert!(!place.run().join("replicates.ndjson").exists(), "{wrong}");
    }
}
