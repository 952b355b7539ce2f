//! False alarms: verdicts that find an effect although no limit has one.

use fathometer_model::Seed;

use super::super::*;
use super::plants::{USERS, answers, idle, observation};
use crate::statistics::{Intervals, LEVEL};

/// The share of searches with a false alarm for any of eight limits. The logarithm of throughput is normal with this
/// standard deviation, and the changed loads of a replicate share one baseline.
fn wrong(seed: Seed, trials: u64, replicates: u32, deviation: f64, intervals: Intervals) -> f64 {
    let limits = answers(&[]);
    let draws = seed.stream("no effect");
    let wrong = (0..trials).filter(|trial| {
        let draws = draws.child(*trial);
        let mut observations = Vec::new();
        for replicate in 0..replicates {
            for place in 0..=limits.len() {
                let draws = draws.child(place as u64).child(u64::from(replicate));
                // The sum of twelve uniform numbers (Irwin-Hall) has a variance of 1.
                let normal: f64 = (0..12).map(|k| draws.uniform(k)).sum::<f64>() - 6.0;
                let change = place.checked_sub(1).map(|place| Change {
                    resource: limits[place].0,
                    factor: limits[place].1,
                });
                let throughput = 100.0 * (deviation * normal).exp();
                observations.push(observation(change, replicate, throughput, USERS, idle()));
            }
        }
        elasticities(&observations, intervals).iter().any(|found| {
            matches!(
                found.effect,
                Effect::Limits | Effect::Contributes | Effect::Harms
            )
        })
    });
    wrong.count() as f64 / trials as f64
}

#[test]
fn any_of_eight_limits_without_effect_seems_to_have_one_in_at_most_a_twentieth_of_searches() {
    let default = Intervals { level: LEVEL };
    let trials = 800;
    for (replicates, deviation) in [(3, 0.05), (3, 0.5), (5, 0.5)] {
        let share = wrong(Seed(1961), trials, replicates, deviation, default);
        println!("false alarms {share}; {replicates} replicates, deviation {deviation}");
        // The threshold is three standard errors above 5 %.
        assert!(
            share <= 0.073,
            "false alarms {share}; {replicates} replicates, deviation {deviation}"
        );
    }
    // Each limit at 95 %, without the Bonferroni correction.
    let alone = Intervals {
        level: 1.0 - 8.0 * (1.0 - LEVEL),
    };
    let share = wrong(Seed(1961), trials, 5, 0.5, alone);
    println!("false alarms {share}; 5 replicates, without correction");
    assert!(share > 0.12, "{share}");
}

#[test]
fn a_strong_limit_is_still_named_among_eight() {
    let plant = super::plants::cpu();
    let verdict = plant.verdict();
    assert_eq!(verdict.named(), Some(Resource::Cpu), "{verdict:#?}");
    assert_eq!(verdict.comparisons, 8);
    let text = screen::render(&verdict, 100);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    assert!(
        text.contains(
            "only if its 99.3 % interval shows it too; the joint level of all 8 steps is then 95 %"
        ),
        "{text}"
    );
    assert!(html::page("", &[(String::new(), &verdict)], None).contains("all 8 steps"));
}
