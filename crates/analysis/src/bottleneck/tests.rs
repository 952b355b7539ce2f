//! Verdicts on synthetic observations of every kind of limit, and changes to the observations that must not alter the
//! verdicts.

mod family;
mod plants;

use std::time::Duration;

use fathometer_model::Validity;
use proptest::prelude::*;

use super::*;
use crate::statistics::Intervals;
use plants::*;

#[test]
fn every_planted_limit_is_named() {
    for noise in [0.0, 0.02] {
        for (planted, plant) in plants() {
            let verdict = judge(&plant.observed(noise), Intervals::default());
            assert_eq!(
                verdict.named(),
                Some(planted),
                "noise {noise}\n{verdict:#?}"
            );
        }
    }
}

/// The simultaneous level reduces power: with this much noise, five replicates leave the weaker limits undecided.
#[test]
fn no_other_limit_is_named_in_noise_and_few_stay_undecided() {
    let mut undecided = 0;
    for (planted, plant) in plants() {
        let verdict = judge(&plant.observed(0.05), Intervals::default());
        undecided += u32::from(verdict.named().is_none());
        let named = verdict.named().unwrap_or(planted);
        assert_eq!(named, planted, "{verdict:#?}");
    }
    assert!(2 * undecided < plants().len() as u32, "{undecided}");
}

/// Twice as many workers give 0 to 35 % more throughput. At 35 %, the workers would be a limit.
#[test]
fn a_limit_that_may_give_a_quarter_more_is_not_eliminated() {
    let observed = |change: Option<(Resource, f64)>, replicate, throughput_per_s| Observation {
        change: change.map(|(resource, factor)| Change { resource, factor }),
        replicate,
        throughput_per_s,
        goodput_bytes_per_s: 0.0,
        latency_mean: Duration::from_millis(10),
        latency_p98: Duration::from_millis(20),
        errors: 0.0,
        signals: Signals::default(),
        validity: Validity::default(),
    };
    let mut all = Vec::new();
    for (replicate, elasticity) in (0u32..).zip([-0.1f64, 0.45, 0.2, 0.45, 0.3]) {
        all.push(observed(None, replicate, 100.0));
        all.push(observed(Some((Resource::Load, 1.25)), replicate, 100.0));
        let more = 100.0 * 2f64.powf(elasticity);
        all.push(observed(Some((Resource::Workers, 2.0)), replicate, more));
    }
    let verdict = judge(&all, Intervals::default());
    assert!(
        matches!(verdict.outcome, Outcome::Undecided { .. }),
        "{verdict:#?}"
    );
}

#[test]
fn the_probes_alone_suspect_what_is_planted() {
    for (planted, plant) in plants() {
        let suspicions = suspect(&plant.signals);
        let found = suspicions.iter().find(|s| s.resource == planted);
        let found = found.unwrap_or_else(|| panic!("{planted}: {suspicions:#?}"));
        // Probes cannot distinguish a slow disk from a memory shortage that makes the disk busy, so both are
        // suspected.
        let least = match planted {
            Resource::DiskOperations | Resource::Memory => Confidence::Likely,
            _ => suspicions[0].confidence,
        };
        assert!(found.confidence >= least, "{planted}: {suspicions:#?}");
    }
}

#[test]
fn nothing_is_named_when_the_interval_is_too_wide() {
    let verdict = judge(&cpu().observed(0.4), Intervals::default());
    assert!(
        matches!(verdict.outcome, Outcome::Undecided { .. }),
        "{verdict:#?}"
    );
    assert!(verdict.summary.contains("CPU time"), "{}", verdict.summary);
}

#[test]
fn a_single_replicate_has_no_interval_and_no_verdict() {
    let mut observations = cpu().observed(0.0);
    observations.retain(|observation| observation.replicate == 0);
    let verdict = judge(&observations, Intervals::default());
    assert!(
        matches!(verdict.outcome, Outcome::Undecided { .. }),
        "{verdict:#?}"
    );
}

#[test]
fn what_is_named_from_too_few_pairs_or_beside_a_wide_interval_is_not_settled() {
    let mut observations = cpu().observed(0.01);
    assert!(judge(&observations, Intervals::default()).is_settled(REPLICATES as usize));
    observations.retain(|observation| observation.replicate < 3);
    let three = judge(&observations, Intervals::default());
    assert!(three.is_settled(3) && !three.is_settled(4));
    // One limit has one pair fewer, as after an invalid trial.
    let of_link = |o: &Observation| o.change.is_some_and(|c| c.resource == Resource::LinkRate);
    let link = observations.iter().position(of_link).unwrap();
    observations[link].validity.invalidate("the path was late");
    let one_less = judge(&observations, Intervals::default());
    assert_eq!(one_less.named(), Some(Resource::Cpu));
    assert!(!one_less.is_settled(3));
    assert!(!judge(&cpu().observed(0.4), Intervals::default()).is_settled(2));
}

#[test]
fn what_is_surely_less_than_what_is_named_need_not_be_told_exactly() {
    let mut observations = cpu().observed(0.0);
    // Simulated noise: some pairs have slightly more throughput, so that the interval contains a relevant
    // effect.
    let change_link = |observations: &mut [Observation], factors: [f64; 5]| {
        let of_link =
            |o: &&mut Observation| o.change.is_some_and(|c| c.resource == Resource::LinkRate);
        for observation in observations.iter_mut().filter(of_link) {
            observation.throughput_per_s *= factors[observation.replicate as usize];
        }
    };
    change_link(&mut observations, [1.0, 1.1, 1.0, 1.1, 1.05]);
    let beside = judge(&observations, Intervals::default());
    let link = beside
        .ranking
        .iter()
        .find(|r| r.resource == Resource::LinkRate);
    let effect = |ranked: &Ranked| ranked.elasticity.as_ref().unwrap().effect;
    assert_eq!(link.map(effect), Some(Effect::Undecided));
    assert!(beside.is_settled(5), "{beside:#?}");
    // The effect may be as large as the effect of the named limit, so the verdict is not settled.
    change_link(&mut observations, [1.0, 1.2, 1.0, 1.2, 1.1]);
    let near = judge(&observations, Intervals::default());
    assert_eq!(near.named(), Some(Resource::Cpu));
    assert!(!near.is_settled(5), "{near:#?}");
}

#[test]
fn probes_without_perturbation_name_nothing_but_say_what_would_tell() {
    let mut observations = cpu().observed(0.0);
    observations.retain(|observation| observation.change.is_none());
    let verdict = judge(&observations, Intervals::default());
    assert_eq!(verdict.named(), None);
    assert!(
        verdict.summary.contains("strongly suspect"),
        "{}",
        verdict.summary
    );
    assert!(
        verdict.summary.contains("larger quota"),
        "{}",
        verdict.summary
    );
}

#[test]
fn what_is_saturated_and_gives_nothing_is_told() {
    // A processor that is saturated by busy-waiting: neither more CPU time nor another relief helps.
    let spinning = Plant {
        answers: answers(&[]),
        ..cpu()
    };
    let verdict = spinning.verdict();
    assert!(
        matches!(verdict.outcome, Outcome::Undecided { .. }),
        "{verdict:#?}"
    );
    assert!(
        verdict.summary.contains("looks saturated"),
        "{}",
        verdict.summary
    );
    // If another limit is decisive, the verdict names that limit and reports the disagreement.
    let elsewhere = Plant {
        answers: answers(&[(Resource::LinkRate, 0.9)]),
        ..cpu()
    };
    let verdict = elsewhere.verdict();
    let expected = Outcome::Limited {
        resource: Resource::LinkRate,
        basis: Basis::Perturbation,
    };
    assert_eq!(verdict.outcome, expected);
    assert!(
        verdict.remarks[0].contains("disagree"),
        "{:#?}",
        verdict.remarks
    );
}

#[test]
fn what_is_squeezed_only_and_was_not_saturated_is_near_and_does_not_limit() {
    let near = Plant {
        signals: Signals {
            busiest_thread: Some(0.78),
            ..link_rate().signals
        },
        answers: answers(&[(Resource::OneCore, 0.9), (Resource::LinkRate, 0.6)]),
    };
    assert_eq!(near.verdict().named(), Some(Resource::LinkRate));
}

#[test]
fn one_core_limits_when_one_thread_uses_most_of_it() {
    let mut plant = one_core();
    plant.signals.busiest_thread = Some(0.78);
    assert_eq!(plant.verdict().named(), Some(Resource::OneCore));
    // No thread uses a whole core, so a squeeze that costs throughput is weak evidence.
    plant.signals.busiest_thread = Some(0.6);
    assert_ne!(plant.verdict().named(), Some(Resource::OneCore));
}

#[test]
fn more_workers_that_use_more_cores_mean_one_core() {
    let plant = Plant {
        answers: answers(&[(Resource::Workers, 0.9)]),
        ..one_core()
    };
    let verdict = plant.verdict();
    assert_eq!(verdict.named(), Some(Resource::OneCore));
    let is_remarked = verdict
        .remarks
        .iter()
        .any(|r| r.contains("compute on more cores"));
    assert!(is_remarked, "{:#?}", verdict.remarks);
}

#[test]
fn a_saturated_core_that_nothing_could_vary_is_named_by_elimination() {
    let mut plant = one_core();
    plant
        .answers
        .retain(|(resource, _, _)| !matches!(resource, Resource::OneCore | Resource::Workers));
    let expected = Outcome::Limited {
        resource: Resource::OneCore,
        basis: Basis::Elimination,
    };
    assert_eq!(plant.verdict().outcome, expected);
}

#[test]
fn a_machine_without_idle_processors_is_not_judged_a_waiting_server() {
    let mut plant = sleep();
    plant.signals.machine_idle = Some(0.4);
    assert_eq!(plant.verdict().named(), Some(Resource::ServerItself));
    // As before, but the server's processes wait for a processor that other programs use.
    plant.signals.machine_idle = Some(0.02);
    let verdict = plant.verdict();
    assert_eq!(verdict.named(), None, "{verdict:#?}");
    for part in ["the processors of this machine are saturated", "--cpu"] {
        assert!(verdict.summary.contains(part), "{}", verdict.summary);
    }
    let itself = suspect(&plant.signals)
        .into_iter()
        .find(|suspicion| suspicion.resource == Resource::ServerItself);
    assert!(itself.is_none_or(|suspicion| suspicion.confidence == Confidence::Possible));
    // Some CPU time is left, but the processes wait, because threads that wake each other up cannot use all of it.
    let mut waits = sleep();
    waits.signals.machine_idle = Some(0.15);
    waits.signals.cpu_pressure = Some(0.37);
    let verdict = waits.verdict();
    assert_eq!(verdict.named(), None, "{verdict:#?}");
    assert!(verdict.summary.contains("waits for a processor for 37 %"));
    // A host that uses its whole quota has all the CPU time to which it is entitled.
    let mut own = cpu();
    own.signals.machine_idle = Some(0.02);
    assert_eq!(own.verdict().named(), Some(Resource::Cpu));
}

#[test]
fn what_is_named_by_elimination_does_not_deny_what_a_step_gave() {
    let mut plant = sleep();
    for (resource, _, elasticity) in &mut plant.answers {
        if *resource == Resource::Load {
            *elasticity = 0.8;
        }
    }
    let verdict = plant.verdict();
    assert_eq!(
        verdict.named(),
        Some(Resource::ServerItself),
        "{verdict:#?}"
    );
    let summary = &verdict.summary;
    assert!(!summary.contains("no varied limit"), "{summary}");
    assert!(
        summary.contains("none of the varied limits makes a difference"),
        "{summary}"
    );
    assert!(summary.contains("25 % more load gave"), "{summary}");
}

#[test]
fn limits_at_the_same_height_are_named_together() {
    let mut plant = cpu();
    plant.signals.link_down = Some(0.97);
    plant.answers = answers(&[]);
    plant
        .answers
        .extend([(Resource::Cpu, 0.8, 0.95), (Resource::LinkRate, 0.8, 0.9)]);
    let resources = vec![Resource::Cpu, Resource::LinkRate];
    let outcome = plant.verdict().outcome;
    match outcome {
        Outcome::Together {
            resources: mut found,
        } => {
            found.sort();
            assert_eq!(found, resources);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_is_named_before_the_disk_that_it_makes_busy() {
    let verdict = memory().verdict();
    let is_remarked = verdict
        .remarks
        .iter()
        .any(|r| r.contains("memory is the cause"));
    assert!(is_remarked, "{:#?}", verdict.remarks);
    // The two limits are equal within the intervals; the cause still comes first.
    let alike = Plant {
        answers: answers(&[(Resource::Memory, 0.9), (Resource::DiskOperations, 0.93)]),
        ..memory()
    };
    let verdict = judge(&alike.observed(0.05), Intervals::default());
    assert_eq!(verdict.named(), Some(Resource::Memory), "{verdict:#?}");
}

#[test]
fn invalid_loads_are_left_out_and_invalid_baselines_leave_no_verdict() {
    let mut observations = cpu().observed(0.01);
    observations[1].validity.invalidate("the path was late");
    let verdict = judge(&observations, Intervals::default());
    assert_eq!(verdict.named(), Some(Resource::Cpu));
    assert_eq!(verdict.counts.invalid, 1);
    assert_eq!(
        verdict.ranking[0].elasticity.as_ref().unwrap().responses[0]
            .throughput
            .n,
        4
    );
    for observation in &mut observations {
        observation.validity = Validity::default();
        observation.validity.invalidate("the generator was busy");
    }
    let verdict = judge(&observations, Intervals::default());
    let reasons = vec!["the generator was busy".to_owned()];
    assert_eq!(verdict.outcome, Outcome::Invalid { reasons });
    assert!(verdict.ranking.is_empty());
}

#[test]
fn elasticities_are_to_relief() {
    let found = elasticities(&round_trip().observed(0.0), Intervals::default());
    let of = |resource| found.iter().find(|e| e.resource == resource).unwrap();
    let response = of(Resource::RoundTrip).clearest().unwrap();
    assert!(
        (response.throughput.value - 0.97).abs() < 1e-6,
        "{response:?}"
    );
    assert!((response.latency.value + 0.97).abs() < 1e-6, "{response:?}");
    assert_eq!(response.throughput.n, REPLICATES as usize);
    // A round trip 20 % shorter: 0.8^-0.97 of the throughput.
    let change = response.throughput_change();
    assert!(
        (change.value - (0.8f64.powf(-0.97) - 1.0)).abs() < 1e-6,
        "{change:?}"
    );
    // A squeeze has an elasticity of the same sign, and a change of the opposite sign.
    let core = elasticities(&one_core().observed(0.0), Intervals::default());
    let core = core
        .iter()
        .find(|e| e.resource == Resource::OneCore)
        .unwrap();
    assert!((core.responses[0].throughput.value - 0.97).abs() < 1e-6);
    assert!(core.responses[0].throughput_change().value < -0.19);
    assert!(!core.was_relieved());
}

#[test]
fn a_resource_limits_if_a_large_step_has_a_large_gain() {
    let with = |elasticity| {
        let mut plant = backlog();
        plant.answers = vec![(Resource::Backlog, 8.0, elasticity)];
        let found = elasticities(&plant.observed(0.01), Intervals::default());
        found[0].effect
    };
    // 8^0.2 is 52 % more throughput.
    assert_eq!(with(0.2), Effect::Limits);
    assert_eq!(with(0.01), Effect::DoesNot);
    // 8^0.09 is 21 % more throughput, below the threshold of 25 %, and the elasticity is small.
    assert_eq!(with(0.09), Effect::Undecided);
}

#[test]
fn files_are_read_back() {
    let observations = memory().observed(0.02);
    let text = serde_json::to_string(&observations).unwrap();
    let read: Vec<Observation> = serde_json::from_str(&text).unwrap();
    assert_eq!(read.len(), observations.len());
    let verdict = judge(&read, Intervals::default());
    let document: json::Document = serde_json::from_str(&json::render(&verdict)).unwrap();
    assert_eq!(document.named, Some(Resource::Memory));
    assert_eq!(document.format, json::FORMAT);
    assert_eq!(document.verdict.ranking.len(), verdict.ranking.len());
}

#[test]
fn screens_keep_their_width() {
    for (_, plant) in plants() {
        let verdict = plant.verdict();
        for width in [68, 80, 100, 140] {
            for line in screen::render(&verdict, width).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn a_screen_states_the_limit_the_reason_and_the_remedy() {
    insta::assert_snapshot!(screen::render(&cpu().verdict(), 100));
}

#[test]
fn a_narrow_screen_omits_the_latency() {
    insta::assert_snapshot!(screen::render(&memory().verdict(), 72));
}

#[test]
fn a_page_has_every_verdict_and_needs_nothing_else() {
    let (first, second) = (cpu().verdict(), lock().verdict());
    let mut confusion = Confusion::new();
    confusion.record("a fifth of a core", Resource::Cpu, first.as_named());
    confusion.record("a lock", Resource::ServerItself, second.as_named());
    assert_eq!(confusion.right(), (2, 2));
    let verdicts = [
        ("a fifth of a core".to_owned(), &first),
        ("a <lock>".to_owned(), &second),
    ];
    let page = html::page("Planted limits", &verdicts, Some(&confusion));
    assert!(page.contains("a &lt;lock&gt;"));
    assert!(page.contains("2 of 2 verdicts named the known limit"));
    assert!(!page.contains("http://") && !page.contains("https://"));
    assert_eq!(page.matches("<svg").count() % 2, 0);
    assert!(!page.contains("NaN"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn units_do_not_matter(kind in 0usize..13, rate in 1e-3f64..1e3, time in 1e-2f64..1e2) {
        let (planted, plant) = plants().swap_remove(kind);
        let observations = plant.observed(0.03);
        let scaled: Vec<Observation> = observations
            .iter()
            .map(|observation| Observation {
                throughput_per_s: observation.throughput_per_s * rate,
                latency_mean: observation.latency_mean.mul_f64(time),
                latency_p98: observation.latency_p98.mul_f64(time),
                ..observation.clone()
            })
            .collect();
        let (before, after) = (judge(&observations, Intervals::default()), judge(&scaled, Intervals::default()));
        prop_assert_eq!(before.named(), Some(planted));
        prop_assert_eq!(after.named(), Some(planted));
        let effects = |verdict: &Verdict| -> Vec<_> {
            let of = |r: &Ranked| r.elasticity.as_ref().map(|e| (e.resource, e.effect, e.on_latency));
            verdict.ranking.iter().map(of).collect()
        };
        prop_assert_eq!(effects(&before), effects(&after));
    }

    #[test]
    fn neither_the_order_nor_the_drift_of_replicates_matters(
        kind in 0usize..13,
        drift in prop::collection::vec(0.5f64..2.0, REPLICATES as usize),
    ) {
        let (planted, plant) = plants().swap_remove(kind);
        let mut observations = plant.observed(0.02);
        observations.reverse();
        for observation in &mut observations {
            observation.throughput_per_s *= drift[observation.replicate as usize];
        }
        prop_assert_eq!(judge(&observations, Intervals::default()).named(), Some(planted));
    }

    #[test]
    fn whatever_is_seen_has_a_verdict_that_can_be_shown(
        numbers in prop::collection::vec(prop::option::of(0.0f64..3.0), 12),
        answers in prop::collection::vec((0usize..11, 0.3f64..3.0, 0.0f64..500.0, 0u32..4), 0..12),
    ) {
        let signals = Signals {
            cpu_of_quota: numbers[0],
            busiest_thread: numbers[1],
            memory_of_limit: numbers[2],
            refaults_per_s: numbers[3],
            disk_reads_per_s: numbers[4],
            disk_reads_limit_per_s: numbers[5],
            link_down: numbers[6],
            listen_overflows_per_s: numbers[7],
            accept_queue: numbers[8],
            first_byte: numbers[9].map(Duration::from_secs_f64),
            transfer: numbers[10].map(Duration::from_secs_f64),
            round_trip: numbers[11].map(Duration::from_secs_f64),
            ..Signals::default()
        };
        let mut observations = vec![observation(None, 0, 100.0, USERS, signals)];
        observations.extend(answers.into_iter().map(|(place, factor, throughput, replicate)| {
            let resource = Resource::ALL[place];
            observation(Some(Change { resource, factor }), replicate, 0.1 + throughput, USERS, signals)
        }));
        let verdict = judge(&observations, Intervals::default());
        prop_assert!(!screen::render(&verdict, 80).is_empty());
        prop_assert!(!html::section(&verdict).into_string().contains("NaN"));
        let json = json::render(&verdict);
        prop_assert!(serde_json::from_str::<json::Document>(&json).is_ok());
    }
}
