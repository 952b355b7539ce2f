//! Searches on a simulated server.

use super::*;
use crate::simulated::{Bench, Kind, Planted};
use fathometer_model::Seed;

fn planted() -> Planted {
    Planted::new(Kind::TokenBucket, Seed(3))
}

fn interval(outcome: &Outcome) -> (f64, f64) {
    match outcome.promises[0].answer {
        Answer::Interval { works, fails } => (works, fails),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn an_interval_has_the_width_that_was_asked_for_and_certified_ends() {
    let planted = planted();
    let mut bench = Bench::new(planted.clone(), Seed(1));
    let mut search = Search::new(
        Goal {
            width: 0.05,
            ..Goal::default()
        },
        vec![planted.promise.clone()],
    );
    bench.run(&mut search);
    let outcome = search.outcome(bench.now);
    let (works, fails) = interval(&outcome);
    assert!(
        works < planted.capacity && planted.capacity < fails && fails <= 1.0501 * works,
        "{outcome:?}"
    );
    for (end, purpose) in [(works, Purpose::Works), (fails, Purpose::Fails)] {
        assert!(
            outcome
                .trials
                .iter()
                .any(|trial| trial.load == end && trial.purpose == purpose)
        );
    }
    assert_eq!(outcome.recovers, Some(true));
}

#[test]
fn a_search_without_time_left_keeps_what_it_has() {
    let planted = planted();
    let mut bench = Bench::new(planted.clone(), Seed(1));
    let mut search = Search::new(
        Goal {
            budget: 30.0,
            ..Goal::default()
        },
        vec![planted.promise],
    );
    bench.run(&mut search);
    let outcome = search.outcome(bench.now);
    assert!(
        matches!(
            &outcome.promises[0].answer,
            Answer::Inconclusive { fails: None, .. }
        ),
        "{outcome:?}"
    );
    assert!(outcome.promises[0].estimate.is_some());
}

#[test]
fn a_server_that_bears_the_largest_load_has_no_upper_bound() {
    let planted = planted();
    let mut bench = Bench::new(planted.clone(), Seed(1));
    let mut search = Search::new(
        Goal {
            most: 500.0,
            ..Goal::default()
        },
        vec![planted.promise],
    );
    bench.run(&mut search);
    let answer = &search.outcome(bench.now).promises[0].answer;
    assert!(
        matches!(answer, Answer::Inconclusive { reason, .. } if reason.contains("500")),
        "{answer:?}"
    );
}

#[test]
fn a_generator_with_a_lower_limit_yields_no_capacity() {
    let planted = planted();
    let limit = 0.7 * planted.capacity;
    let mut bench = Bench::new(planted.clone(), Seed(1));
    let mut search = Search::new(Goal::default(), vec![planted.promise]);
    while let Some(plan) = search.next_trial(bench.now) {
        let (trial, achieved) = bench.apply(plan.load, plan.warm_up, plan.longest, &mut |trial| {
            search.look(trial)
        });
        let invalid = match plan.load > limit {
            true => vec!["the generator was late".to_owned()],
            false => Vec::new(),
        };
        let ending = Ending {
            achieved: Some(achieved),
            latency_ms: None,
            invalid,
            is_noise: false,
        };
        search.end(&trial, &ending);
        assert!(bench.now < 1000.0, "the search does not end");
    }
    let outcome = search.outcome(bench.now);
    match &outcome.promises[0].answer {
        Answer::Invalid {
            valid_up_to,
            reason,
        } => {
            assert!(
                *valid_up_to <= limit && *valid_up_to > 0.2 * limit,
                "{outcome:?}"
            );
            assert!(reason.contains("generator"));
        }
        other => panic!("{other:?}"),
    }
}
