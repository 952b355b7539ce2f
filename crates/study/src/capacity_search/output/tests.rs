//! Tests of the output of a search.

use super::*;
use fathometer_capacity::trial::SloResult;
use fathometer_capacity::{Purpose, TrialRecord};

fn trial(load: f64, p99: f64, bad_share: f64) -> TrialRecord {
    TrialRecord {
        load,
        purpose: Purpose::Locate,
        at_s: 0.0,
        measured_s: 2.0,
        achieved_per_s: Some(load),
        latency_ms: Some([1.0, p99]),
        invalid: Vec::new(),
        slos: vec![SloResult {
            exchanges: 100,
            bad_share,
            dispersion: 1.0,
            warm_up_s: 0.0,
            rising: false,
        }],
    }
}

fn outcome(answer: Answer) -> Outcome {
    Outcome {
        slos: vec![SloOutcome {
            slo: "p99<100ms".to_owned(),
            answer,
            estimate: None,
            attempts: 1,
            failing_below: Vec::new(),
        }],
        recovers: Some(true),
        seconds: 60.0,
        trials: vec![
            trial(1224.0, 200.0, 0.3),
            trial(100.0, 2.0, 0.0),
            trial(1200.0, 20.0, 0.001),
        ],
    }
}

fn found(outcome: &Outcome) -> Found<'_> {
    Found {
        url: "http://server/",
        demand: Demand::Users,
        goal: Goal::default(),
        outcome,
        calibration: None,
        gave_out: &[],
    }
}

#[test]
fn the_answer_is_first_and_the_curve_marks_its_ends() {
    let outcome = outcome(Answer::Interval {
        works: 1200.0,
        fails: 1224.0,
    });
    let text = text(&found(&outcome));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].starts_with("p99<100ms: works at 1"), "{text}");
    assert!(lines[2].contains("width 2.0 %, confidence 95 %"), "{text}");
    let marked: Vec<&&str> = lines.iter().filter(|line| line.contains("<-")).collect();
    // All loads have a median of 1 ms. So the knee is the load with the highest throughput of exchanges that meet the
    // SLO.
    assert!(
        marked[0].ends_with("<- p99<100ms works, knee")
            && marked[1].ends_with("<- p99<100ms fails"),
        "{text}"
    );
    assert!(text.contains("knee at 1"), "{text}");
}

#[test]
fn a_limit_of_the_generator_is_no_capacity() {
    let outcome = outcome(Answer::Invalid {
        valid_up_to: Some(5000.0),
        reason: "the generator was late".to_owned(),
    });
    let text = text(&found(&outcome));
    assert!(
        text.contains("INVALID") && text.contains("the generator was late"),
        "{text}"
    );
    assert!(!text.contains("works at"), "{text}");
}
