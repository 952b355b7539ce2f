//! Searches on a simulated server.

use super::*;
use crate::simulated::{Bench, Kind, KnownServer, Model};
use fathometer_model::Seed;

fn planted() -> KnownServer {
    KnownServer::new(Kind::TokenBucket, Seed(3))
}

fn interval(outcome: &Outcome) -> (f64, f64) {
    match outcome.slos[0].answer {
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
        vec![planted.slo.clone()],
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
        vec![planted.slo],
    );
    bench.run(&mut search);
    let outcome = search.outcome(bench.now);
    assert!(
        matches!(
            &outcome.slos[0].answer,
            Answer::Inconclusive { fails: None, reason, .. } if reason.contains("budget of 30 s")
        ),
        "{outcome:?}"
    );
    assert!(outcome.slos[0].estimate.is_some());
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
        vec![planted.slo],
    );
    bench.run(&mut search);
    let answer = &search.outcome(bench.now).slos[0].answer;
    assert!(
        matches!(answer, Answer::Inconclusive { reason, .. } if reason.contains("500")),
        "{answer:?}"
    );
}

#[test]
fn a_largest_load_below_the_generators_limit_is_reached_and_ends_the_search() {
    let planted = planted();
    for (whole, most, largest) in [(false, 200.0, 200.0), (true, 90.6, 90.0)] {
        let goal = Goal {
            most,
            whole,
            start: 40.0,
            ..Goal::default()
        };
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(goal, vec![planted.slo.clone()]);
        search.set_generator_limit(20_000.0, "the generator applies no more".to_owned());
        let outcome = run_with(&mut search, &mut bench, false, &|_, _| false);
        let answer = &outcome.slos[0].answer;
        assert!(
            matches!(answer, Answer::Inconclusive { reason, .. } if reason.contains("largest load tried")),
            "{answer:?}"
        );
        let loads = outcome.trials.iter().map(|trial| trial.load);
        assert_eq!(loads.fold(0.0, f64::max), largest);
    }
}

#[test]
fn a_trial_without_a_latency_limit_lasts_until_exchanges_can_have_timed_out() {
    let slo = SloLimit {
        text: "errors<1%".to_owned(),
        limit: None,
        share: 0.01,
    };
    let goal = Goal {
        timeout: 10.0,
        ..Goal::default()
    };
    let mut search = Search::new(goal, vec![slo.clone()]);
    let plan = search.next_trial(0.0).unwrap();
    let mut trial = TrialSoFar::new(1, goal.timeout);
    for n in 0..2000 {
        trial.series[0].record(&slo, f64::from(n) * 0.01, 0.005, false);
    }
    // After 10.4 s, the outcomes of the first 0.4 s are known: too few exchanges.
    for (seconds, may_end) in [(2.5, false), (10.4, false), (12.5, true)] {
        trial.seconds = seconds;
        assert_eq!(search.look(&trial), may_end, "{seconds}");
    }
    assert!(plan.longest >= 2.0 * goal.timeout, "{plan:?}");
}

#[test]
fn a_server_that_refuses_above_its_rate_is_searched_as_quickly_as_others() {
    // The share of errors is 1 - 500/load: its logit is steep at the capacity and flat far above it.
    for (share, rate) in [(0.01, 500.0), (0.05, 500.0), (0.01, 830.0)] {
        let planted = KnownServer {
            slo: SloLimit {
                text: "errors".to_owned(),
                limit: None,
                share,
            },
            capacity: rate / (1.0 - share),
            model: Model::Rejecting {
                rate,
                burst: 20.0,
                tokens: 20.0,
                at: 0.0,
            },
            ..planted()
        };
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(Goal::default(), vec![planted.slo.clone()]);
        bench.run(&mut search);
        let outcome = search.outcome(bench.now);
        let (works, fails) = interval(&outcome);
        assert!(
            works <= planted.capacity && planted.capacity <= fails,
            "works {works}, fails {fails}"
        );
        assert!(bench.now < 180.0, "share {share}, rate {rate}: {outcome:?}");
    }
}

/// Runs a search; a trial is invalid if `is_late` returns true for its number and load.
fn run_with(
    search: &mut Search,
    bench: &mut Bench,
    is_noise: bool,
    is_late: &dyn Fn(usize, f64) -> bool,
) -> Outcome {
    let mut count = 0;
    while let Some(plan) = search.next_trial(bench.now) {
        let (trial, achieved) = bench.apply(plan.load, plan.warm_up, plan.longest, &mut |trial| {
            search.look(trial)
        });
        let invalid = match is_late(count, plan.load) {
            true => vec!["the generator was late".to_owned()],
            false => Vec::new(),
        };
        let ending = Ending {
            achieved: Some(achieved),
            latency_ms: None,
            invalid,
            is_noise,
        };
        search.end(&trial, &ending);
        count += 1;
        assert!(count < 200, "the search does not end");
    }
    search.outcome(bench.now)
}

#[test]
fn a_generator_with_a_lower_limit_yields_no_capacity() {
    let planted = planted();
    let limit = 0.7 * planted.capacity;
    for is_known in [false, true] {
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(Goal::default(), vec![planted.slo.clone()]);
        if is_known {
            search.set_generator_limit(limit, "the generator applies no more".to_owned());
        }
        let outcome = run_with(&mut search, &mut bench, false, &|_, load| load > limit);
        match &outcome.slos[0].answer {
            Answer::Invalid {
                valid_up_to: Some(valid),
                reason,
            } => {
                assert!(*valid <= limit && *valid > 0.2 * limit, "{outcome:?}");
                assert!(reason.contains("generator"));
            }
            other => panic!("{other:?}"),
        }
        if is_known {
            assert!(outcome.trials.iter().all(|trial| trial.load <= limit));
        }
    }
}

#[test]
fn a_limit_of_the_generator_above_the_capacity_changes_nothing() {
    let planted = planted();
    let mut bench = Bench::new(planted.clone(), Seed(1));
    let mut search = Search::new(Goal::default(), vec![planted.slo.clone()]);
    search.set_generator_limit(1.1 * planted.capacity, "no more".to_owned());
    bench.run(&mut search);
    let (works, fails) = interval(&search.outcome(bench.now));
    assert!(works < planted.capacity && planted.capacity < fails);
}

#[test]
fn a_search_without_a_valid_trial_ends_after_few() {
    for (whole, loads) in [(false, 5), (true, 2)] {
        let goal = Goal {
            whole,
            start: if whole { 4.0 } else { 100.0 },
            ..Goal::default()
        };
        let mut bench = Bench::new(planted(), Seed(1));
        let mut search = Search::new(goal, vec![planted().slo]);
        let outcome = run_with(&mut search, &mut bench, true, &|_, _| true);
        assert!(
            matches!(
                &outcome.slos[0].answer,
                Answer::Invalid { valid_up_to: None, reason } if reason.contains("late")
            ),
            "{outcome:?}"
        );
        assert_eq!(outcome.trials.len(), 3 * loads, "{outcome:?}");
        assert!(
            outcome
                .trials
                .iter()
                .all(|trial| trial.load >= 100.0 / 256.0)
        );
    }
}

#[test]
fn noise_at_the_first_loads_costs_time_and_not_the_answer() {
    let planted = planted();
    let mut bench = Bench::new(planted.clone(), Seed(1));
    let mut search = Search::new(Goal::default(), vec![planted.slo.clone()]);
    let outcome = run_with(&mut search, &mut bench, true, &|count, _| count < 5);
    let (works, fails) = interval(&outcome);
    assert!(works < planted.capacity && planted.capacity < fails);
}

#[test]
fn noise_below_a_load_that_was_valid_is_no_limit_of_the_generator() {
    let planted = planted();
    for noisy in [10..16, 10..1000] {
        let mut bench = Bench::new(planted.clone(), Seed(1));
        let mut search = Search::new(Goal::default(), vec![planted.slo.clone()]);
        let outcome = run_with(&mut search, &mut bench, true, &|count, _| {
            noisy.contains(&count)
        });
        match &outcome.slos[0].answer {
            Answer::Interval { works, fails } => {
                assert!(noisy.end == 16 && *works < planted.capacity && planted.capacity < *fails);
            }
            Answer::Inconclusive { reason, .. } => {
                assert!(noisy.end == 1000 && reason.contains("late"), "{outcome:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_search_that_is_stopped_says_why() {
    let mut search = Search::new(Goal::default(), vec![planted().slo]);
    assert!(search.next_trial(0.0).is_some());
    search.stop("the server stopped answering".to_owned());
    assert_eq!(search.next_trial(1.0), None);
    let answer = &search.outcome(1.0).slos[0].answer;
    assert!(
        matches!(answer, Answer::Inconclusive { reason, .. } if reason.contains("stopped answering")),
        "{answer:?}"
    );
}
