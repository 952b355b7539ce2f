//! Series from networks with known parameters: the fit finds the parameters, predictions are accurate, and a series that
//! no law describes is not predicted.

use std::collections::BTreeMap;

use fathometer_analysis::bottleneck::{Effect, Elasticity, Resource, Response};
use fathometer_analysis::statistics::{Estimate, Interval};
use fathometer_model::{Bandwidth, Seed};
use fathometer_predict::PredictError;
use fathometer_predict::elasticities::{MeasuredElasticities, StepRow, elasticities};
use fathometer_predict::law::Law;
use fathometer_predict::prediction::{Figure, Options, Prediction, predict};
use fathometer_predict::predictions::Predictions;
use fathometer_predict::scenario::Scenario;
use fathometer_predict::screen;
use fathometer_predict::series::{Admission, Load, QuotaTimes, Reading, Selection, Series};
use fathometer_queueing::closed::{Network, Solution, Station};
use fathometer_queueing::simulation::{
    Discipline, Distribution, Quota, SimulatedStation, Simulation, Source,
};
use fathometer_queueing::{PerSecond, Seconds};

const DELAY: f64 = 0.009;
const LOADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// D, w and B of the law of wake-ups.
#[derive(Clone, Copy)]
struct Cost {
    busy: f64,
    alone: f64,
    background: f64,
}

const CONSTANT: Cost = Cost {
    busy: 200e-6,
    alone: 0.0,
    background: 0.0,
};

const FALLING: Cost = Cost {
    busy: 120e-6,
    alone: 140e-6,
    background: 0.006,
};

fn network(demand: f64, cores: f64) -> Network {
    let servers = cores.floor().max(1.0);
    Network {
        think: Seconds(0.0),
        stations: vec![
            Station::delay("delay", Seconds(DELAY)),
            Station::queue(
                "processor",
                Seconds(demand * servers / cores),
                servers as u32,
            ),
        ],
    }
}

/// Returns the exact solution and its CPU time, by a fixed-point iteration with damping factor 0.5.
fn exact(cost: Cost, cores: f64, users: u32) -> (Solution, f64) {
    let mut demand = cost.busy + cost.alone;
    for _ in 0..200 {
        let found = network(demand, cores).solve(users).unwrap();
        let queue = found.stations[1].customers / cores.floor().max(1.0);
        let shared = (cost.alone + cost.background / found.throughput.0) / (1.0 + queue);
        demand = 0.5 * (demand + cost.busy + shared);
    }
    (network(demand, cores).solve(users).unwrap(), demand)
}

/// Returns two replicates per load, one above and one below the exact figures by `noise`.
fn series(cost: Cost, cores: f64, noise: f64) -> Series {
    let loads = LOADS.map(|users| {
        let (exact, demand) = exact(cost, cores, users);
        let reading = |factor: f64| Reading {
            throughput: PerSecond(exact.throughput.0 * factor),
            response: Seconds(exact.response.0 / factor),
            percentiles: BTreeMap::from([
                (50, Seconds(0.9 * exact.response.0)),
                (99, Seconds(2.0 * exact.response.0)),
            ]),
            busy: exact.throughput.0 * demand * factor,
            errors: 0.0,
            disk: None,
            wire_bytes: None,
        };
        Load {
            users,
            readings: vec![reading(1.0 + noise), reading(1.0 - noise)],
            has_all_latencies: true,
        }
    });
    of_loads(loads.to_vec(), cores)
}

fn of_loads(loads: Vec<Load>, cores: f64) -> Series {
    Series {
        name: "known".to_owned(),
        loads,
        batches: Vec::new(),
        has_processor_time: true,
        cores,
        quota: None,
        link: None,
        round_trip: None,
        further_trips: Vec::new(),
        server: None,
        admission: Admission::default(),
        failing: Vec::new(),
        page_cache: Err("not recorded".to_owned()),
        notes: Vec::new(),
    }
}

fn up_to(share: f64) -> Selection {
    Selection {
        up_to: share,
        ..Selection::default()
    }
}

fn options() -> Options {
    Options {
        fit: up_to(0.6),
        users: Vec::new(),
        draws: 40,
        exchanges: 4_000,
        seed: Seed(1),
    }
}

#[test]
fn light_loads_of_a_known_network_predict_the_others() {
    for (cost, cores, accuracy) in [
        (CONSTANT, 0.2, 0.03),
        (CONSTANT, 4.0, 0.03),
        // The assumed share of wake-ups reduces the accuracy.
        (FALLING, 0.2, 0.05),
    ] {
        let series = series(cost, cores, 0.01);
        let prediction = predict(&series, &"users=1x".parse().unwrap(), &options());
        // A prediction with a scenario is not compared with the measurement, even if the scenario has no effect.
        assert!(prediction.unwrap().rows[0].throughput_compared.is_none());
        let prediction = predict(&series, &Default::default(), &options()).unwrap();
        assert!(prediction.fitted_users.len() < LOADS.len());
        let mut predicted = 0;
        for row in &prediction.rows {
            let (Some(rate), Some(mean)) = (row.throughput_compared, row.mean_compared) else {
                // 128 is twice the largest measured number of users.
                assert_eq!(row.users, 128);
                continue;
            };
            predicted += 1;
            assert!(rate.error_share.abs() < accuracy, "{row:?}");
            assert!(mean.error_share.abs() < accuracy, "{row:?}");
            assert!(rate.within && mean.within, "{row:?}");
            assert!(row.throughput_per_s.value <= row.bound_per_s * (1.0 + 1e-9));
            assert!(row.p50_ms.value < row.tail_ms.value);
        }
        assert_eq!(predicted, LOADS.len());
        let last = prediction.rows.last().unwrap();
        assert!(last.extrapolated && last.bottleneck == "processor");
        assert!(
            (prediction.delay_ms - 1e3 * DELAY).abs() < 0.3,
            "{}",
            prediction.delay_ms
        );
    }
}

#[test]
fn the_simplest_law_that_passes_is_chosen() {
    let law = |cost| {
        predict(&series(cost, 0.2, 0.01), &Default::default(), &options())
            .unwrap()
            .law
    };
    let Law::Constant { demand_s } = law(CONSTANT) else {
        panic!("not constant");
    };
    assert!((demand_s / 200e-6 - 1.0).abs() < 0.01);
    let Law::WakeUps {
        demand_s,
        wake_up_s,
        background_cores,
    } = law(FALLING)
    else {
        panic!("no wake-ups");
    };
    assert!((demand_s / FALLING.busy - 1.0).abs() < 0.1, "{demand_s}");
    assert!((wake_up_s / FALLING.alone - 1.0).abs() < 0.1, "{wake_up_s}");
    assert!((background_cores - FALLING.background).abs() < 0.002);
}

/// The mean CPU time of a round of the server with a quota.
const ROUND: Seconds = Seconds(90e-6);

/// Returns a server with a quota whose exchanges have two to four rounds, by simulation with its own seeds.
fn with_quota(users: u32) -> Load {
    with_quota_and(users, Distribution::Exponential(ROUND))
}

/// Returns the same server with another distribution of the CPU time.
fn with_quota_and(users: u32, service: Distribution) -> Load {
    let station = |name: &str, service, discipline| SimulatedStation {
        name: name.to_owned(),
        service,
        discipline,
    };
    let further = [
        vec![Seconds(0.0); 8],
        vec![Seconds(0.004)],
        vec![Seconds(0.008)],
    ];
    let quota = Quota {
        servers: 1,
        share: 0.2,
        period: Seconds(0.01),
        burst: Seconds(0.0),
    };
    let simulation = Simulation {
        source: Source::Users {
            count: users,
            think: Distribution::Deterministic(Seconds(0.0)),
        },
        stations: vec![
            // One or two further round trips for a fifth of the exchanges.
            station(
                "further",
                Distribution::Empirical(further.into_iter().flatten().collect()),
                Discipline::Delay,
            ),
            station(
                "path",
                Distribution::Deterministic(Seconds(0.004)),
                Discipline::Delay,
            ),
            station("processor", service, Discipline::Quota(quota)),
        ],
        rounds: vec![0.0, 1.0],
        rounds_from: 1,
        admission: None,
        timeout: None,
        warm_up: 1_000,
        measured: 10_000,
        seed: Seed(7),
    };
    let found = simulation.run().unwrap();
    let percentiles = [50, 98].map(|percent| (percent, found.quantile(f64::from(percent) / 100.0)));
    let reading = Reading {
        throughput: PerSecond(found.throughput.mean),
        response: Seconds(found.response.mean),
        percentiles: BTreeMap::from(percentiles),
        busy: 0.2 * found.utilisations[2],
        errors: 0.0,
        disk: None,
        wire_bytes: None,
    };
    Load {
        users,
        readings: vec![reading.clone(), reading],
        has_all_latencies: true,
    }
}

#[test]
fn light_loads_of_a_quota_predict_its_knee_and_its_percentiles() {
    let series = Series {
        quota: Some(QuotaTimes {
            period: Seconds(0.01),
            burst: Seconds(0.0),
        }),
        round_trip: Some(Seconds(0.004)),
        ..of_loads(LOADS.map(with_quota).to_vec(), 0.2)
    };
    let prediction = predict(&series, &Default::default(), &options()).unwrap();
    assert_eq!(prediction.tail_percent, 98);
    for row in prediction.rows.iter().filter(|row| row.users <= 64) {
        for compared in [row.throughput_compared, row.mean_compared] {
            assert!(compared.unwrap().error_share.abs() < 0.03, "{row:?}");
        }
        // This server takes exchanges in the order of arrival. The model predicts real servers, whose order is partly random:
        // if exchanges wait, the predicted tail is longer.
        let tail = row.tail_compared.unwrap().error_share;
        let longest = if row.users <= 8 { 0.02 } else { 0.35 };
        assert!((-0.02..longest).contains(&tail), "{row:?}");
    }
    // A model with a slower processor instead of the quota predicts neither the knee nor the latencies.
    let slower = Series {
        quota: None,
        round_trip: None,
        ..series
    };
    let worst = |prediction: Prediction| {
        let rows = prediction.rows.into_iter();
        let errors = rows.filter_map(|row| row.mean_compared);
        errors
            .map(|mean| mean.error_share.abs())
            .fold(0.0, f64::max)
    };
    let other = predict(&slower, &Default::default(), &options()).unwrap();
    assert!(worst(other) > 2.0 * worst(prediction));
}

#[test]
fn the_interval_of_the_tail_has_all_variations_that_light_loads_allow() {
    let with_variation = |variation: f64| {
        let service = Distribution::Lognormal {
            mean: ROUND,
            variation,
        };
        LOADS.map(|users| with_quota_and(users, service.clone()))
    };
    // The latencies of one and two users do not show the variation of the CPU time.
    let light = Options {
        fit: Selection {
            users: vec![1, 2],
            ..Selection::default()
        },
        ..options()
    };
    let tails = |variation: f64| {
        let series = Series {
            quota: Some(QuotaTimes {
                period: Seconds(0.01),
                burst: Seconds(0.0),
            }),
            round_trip: Some(Seconds(0.004)),
            ..of_loads(with_variation(variation).to_vec(), 0.2)
        };
        let prediction = predict(&series, &Default::default(), &light).unwrap();
        let heavy = prediction.rows.into_iter().filter(|row| row.users >= 8);
        heavy
            .filter_map(|row| row.tail_compared)
            .collect::<Vec<_>>()
    };
    for variation in [1.0, 2.0, 3.0] {
        let tails = tails(variation);
        assert!(
            tails.iter().all(|tail| tail.within),
            "variation {variation}: {tails:?}"
        );
    }
}

#[test]
fn bursts_show_what_an_exchange_costs_among_many() {
    // Wake-ups take nearly all CPU time, which is more than the assumed share.
    let cost = Cost {
        busy: 40e-6,
        alone: 220e-6,
        background: 0.0,
    };
    let series = series(cost, 0.2, 0.05);
    let compared = |bursts: &[u32]| {
        let options = Options {
            fit: Selection {
                users: vec![1, 4, 8],
                bursts: bursts.to_vec(),
                ..up_to(0.6)
            },
            ..options()
        };
        let prediction = predict(&series, &Default::default(), &options).unwrap();
        assert_eq!(prediction.burst_users, bursts);
        let row = prediction.rows.iter().find(|row| row.users == 32).unwrap();
        assert!(!row.fitted && !row.burst);
        row.throughput_compared.unwrap()
    };
    let (without, with) = (compared(&[]), compared(&[16, 64]));
    let [error, error_with] = [without, with].map(|compared| compared.error_share.abs());
    assert!(
        error_with < 0.05 && error > 2.0 * error_with,
        "error {error} without bursts, {error_with} with bursts"
    );
}

/// Batches of `size` exchanges at a light load. The CPU time of an exchange depends on the number of exchanges that
/// remain.
fn batch(cost: Cost, size: u32, noise: f64) -> Load {
    let rate = 200.0;
    let shared = (1..=size).map(|left| cost.alone / (1.0 + f64::from(left)));
    let demand = cost.busy + shared.sum::<f64>() / f64::from(size);
    let reading = |factor: f64| Reading {
        throughput: PerSecond(rate),
        response: Seconds(0.02),
        percentiles: BTreeMap::new(),
        busy: rate * demand * factor,
        errors: 0.0,
        disk: None,
        wire_bytes: None,
    };
    Load {
        users: size,
        readings: vec![reading(1.0 + noise), reading(1.0 - noise)],
        has_all_latencies: false,
    }
}

#[test]
fn batches_show_what_an_exchange_costs_among_many() {
    let cost = Cost {
        busy: 40e-6,
        alone: 220e-6,
        background: 0.0,
    };
    let mut series = series(cost, 0.2, 0.01);
    let without = Options {
        fit: Selection {
            users: vec![1, 4, 8],
            ..up_to(0.6)
        },
        ..options()
    };
    let at_64 = |prediction: &Prediction| {
        let row = prediction.rows.iter().find(|row| row.users == 64);
        row.unwrap().throughput_compared.unwrap().error_share.abs()
    };
    let error = at_64(&predict(&series, &Default::default(), &without).unwrap());
    series.batches = [16, 64].map(|size| batch(cost, size, 0.01)).to_vec();
    // Without selected users, all batches with a light enough load are fitted.
    let with = predict(&series, &Default::default(), &options()).unwrap();
    assert_eq!(with.batch_sizes, [16, 64]);
    let found = at_64(&with);
    assert!(
        found < 0.03 && error > 2.0 * found,
        "without {error}, with {found}"
    );
    let row = with.rows.iter().find(|row| row.users == 64).unwrap();
    assert!(row.throughput_compared.unwrap().within);
    // With selected users, only selected batches are fitted.
    let none = predict(&series, &Default::default(), &without).unwrap();
    assert!(none.batch_sizes.is_empty());
    let named = Options {
        fit: Selection {
            batches: vec![32],
            ..up_to(0.6)
        },
        ..options()
    };
    let refused = predict(&series, &Default::default(), &named);
    assert!(matches!(refused, Err(PredictError::Unusable(reason)) if reason.contains("of 32")));
}

/// If exchanges share a fifth of the CPU time, it looks constant at light loads, and the fitted law is wrong at high
/// loads.
#[test]
fn without_bursts_the_interval_allows_for_another_law() {
    let cost = Cost {
        busy: 210e-6,
        alone: 50e-6,
        background: 0.0,
    };
    let options = Options {
        fit: Selection {
            users: vec![1, 4, 8],
            ..up_to(0.6)
        },
        ..options()
    };
    let prediction = predict(&series(cost, 0.2, 0.01), &Default::default(), &options).unwrap();
    let row = prediction.rows.iter().find(|row| row.users == 64).unwrap();
    let compared = row.throughput_compared.unwrap();
    assert!(compared.error_share < -0.1 && compared.within, "{row:?}");
}

#[test]
fn a_burst_that_was_not_measured_is_an_error() {
    let options = Options {
        fit: Selection {
            bursts: vec![63],
            ..up_to(0.6)
        },
        ..options()
    };
    let error = predict(&series(CONSTANT, 0.2, 0.01), &Default::default(), &options);
    assert!(matches!(error, Err(PredictError::Unusable(reason)) if reason.contains("63 users")));
}

#[test]
fn a_larger_processor_raises_the_capacity_and_not_the_light_load() {
    let series = series(CONSTANT, 0.2, 0.01);
    let prediction = predict(&series, &"cpu=2x".parse().unwrap(), &options()).unwrap();
    let of = |users| {
        prediction
            .rows
            .iter()
            .find(|row| row.users == users)
            .unwrap()
    };
    // The exact values: the same network with 0.4 cores.
    for users in [1, 16, 64] {
        let exact = network(CONSTANT.busy, 0.4).solve(users).unwrap();
        let found = of(users).throughput_per_s.value;
        assert!(
            (found / exact.throughput.0 - 1.0).abs() < 0.03,
            "{users} users: {found}"
        );
    }
    let effect = prediction.effect.unwrap();
    assert_eq!(effect.users, 64);
    assert!(
        (effect.throughput_share.value - 1.0).abs() < 0.05,
        "{effect:?}"
    );
    let text = screen::render(&prediction);
    assert!(
        text.starts_with("known, cpu=2x\ncpu=2x at 64 users: throughput +"),
        "{text}"
    );
}

/// Returns a measured elasticity of throughput to a limit: 0.5 (0.4 to 0.6), from a step by this factor.
fn half(resource: Resource, factor: f64) -> Elasticity {
    let estimate = |value: f64| Estimate {
        n: 5,
        value,
        interval: Some(Interval {
            low: value - 0.1,
            high: value + 0.1,
        }),
    };
    Elasticity {
        resource,
        responses: vec![Response {
            factor,
            relief: factor.ln().abs(),
            throughput: estimate(0.5),
            throughput_simultaneous: None,
            latency: estimate(-0.5),
            latency_simultaneous: None,
            latency_p98: estimate(-0.5),
        }],
        effect: Effect::Undecided,
        on_latency: Effect::Undecided,
    }
}

#[test]
fn elasticities_of_a_known_network_are_predicted() {
    let mut series = series(CONSTANT, 0.2, 0.001);
    // The median of the lightest load has two round trips, and further round trips fill the remaining delay.
    series.round_trip = Some(Seconds(0.004));
    let limits = [
        half(Resource::Cpu, 1.25),
        half(Resource::RoundTrip, 0.8),
        half(Resource::Load, 1.25),
        half(Resource::LinkRate, 1.25),
        half(Resource::DiskBytes, 1.25),
    ];
    let at = |users: u32, cores: f64| {
        let measured = MeasuredElasticities {
            setup: "a server".to_owned(),
            users,
            cores: Some(cores),
            elasticities: limits.to_vec(),
        };
        elasticities(&series, &measured, &options()).unwrap()
    };
    let value = |row: &StepRow| row.throughput.unwrap().value;
    // A single user has 9 ms of delay and 1 ms at the processor. A step shortens one of these times by a fifth.
    let found = at(1, 0.2);
    assert!(!found.has_other_quota);
    let step = 1.25_f64.ln();
    for (row, expected) in found.steps[..2]
        .iter()
        .zip([(10.0_f64 / 9.8).ln() / step, (10.0_f64 / 8.2).ln() / step])
    {
        assert!(
            (value(row) - expected).abs() < 0.02,
            "{row:?}, expected {expected}"
        );
        let mean = row.mean.unwrap().value;
        assert!(
            (mean + expected).abs() < 0.02,
            "{row:?}, expected {expected}"
        );
    }
    for row in &found.steps[3..] {
        assert!(row.throughput.is_none() && row.not_predicted.is_some());
    }
    // In saturation, throughput depends on the processor alone.
    let found = at(64, 0.2);
    let values: Vec<f64> = found.steps[..3].iter().map(value).collect();
    for (found, expected) in values.iter().zip([1.0, 0.0, 0.0]) {
        assert!((found - expected).abs() < 0.05, "{values:?}");
    }
    let text = screen::elasticities(&found);
    assert!(
        text.contains("0.50 (0.40 to 0.60)") && text.contains(")!"),
        "{text}"
    );
    assert!(
        text.contains("Note: disk-bytes is not predicted: the model does not contain this limit."),
        "{text}"
    );
    // With four times the quota, 10 users no longer saturate the processor.
    let [scarce, plenty] = [0.2, 0.8].map(|cores| at(10, cores));
    assert!(plenty.has_other_quota && (plenty.cores - 0.8).abs() < 0.01);
    assert!(value(&plenty.steps[0]) < 0.5 * value(&scarce.steps[0]));
}

#[test]
fn a_slower_link_becomes_the_bottleneck() {
    let mut series = series(CONSTANT, 4.0, 0.01);
    let gigabit: Bandwidth = "1Gbit/s".parse().unwrap();
    series.link = Some(gigabit);
    for reading in series.loads.iter_mut().flat_map(|load| &mut load.readings) {
        reading.wire_bytes = Some(12_500.0);
    }
    let scenario = "link=10Mbit/s".parse().unwrap();
    let prediction = predict(&series, &scenario, &options()).unwrap();
    let last = prediction.rows.last().unwrap();
    // 12.5 kB at 10 Mbit/s are 10 ms.
    assert_eq!((last.bottleneck, last.saturated), ("link", true));
    assert!(
        (last.throughput_per_s.value - 100.0).abs() < 1.0,
        "{last:?}"
    );
}

#[test]
fn a_change_of_an_unknown_link_is_not_predicted() {
    let gigabit: Bandwidth = "1Gbit/s".parse().unwrap();
    // The rate is unknown, or the rate is known and the bytes of an exchange are unknown.
    for rate in [None, Some(gigabit)] {
        let mut series = series(CONSTANT, 4.0, 0.01);
        series.link = rate;
        for scenario in ["link=10Mbit/s", "link=2x"] {
            let error = predict(&series, &scenario.parse().unwrap(), &options()).unwrap_err();
            assert!(
                matches!(&error, PredictError::Scenario(reason) if reason.contains("the rate of the link")),
                "{error}"
            );
        }
    }
}

#[test]
fn the_scalability_law_predicts_a_series_without_processor_time() {
    let law = |users: u32| {
        let n = f64::from(users);
        100.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.0005 * n * (n - 1.0))
    };
    let load = |users: u32| Load {
        users,
        readings: [1.01, 0.99]
            .map(|noise| Reading {
                throughput: PerSecond(law(users) * noise),
                response: Seconds(f64::from(users) / (law(users) * noise)),
                percentiles: BTreeMap::new(),
                busy: 0.0,
                errors: 0.0,
                disk: None,
                wire_bytes: None,
            })
            .to_vec(),
        has_all_latencies: true,
    };
    let predicted = |users: &[u32], what_if: Scenario| {
        let mut series = of_loads(users.iter().map(|&users| load(users)).collect(), 1.0);
        series.has_processor_time = false;
        let options = Options {
            fit: Selection::default(),
            users: vec![1, 64],
            ..options()
        };
        Predictions::of(&[series], &[what_if], &options).unwrap()
    };
    let output = predicted(&[1, 2, 4, 8, 16, 24], Scenario::default());
    assert!(output.unpredicted.is_empty() && output.predictions.is_empty());
    let prediction = &output.scalability[0];
    let [light, heavy] = &prediction.rows[..] else {
        panic!("{prediction:?}");
    };
    assert!(light.fitted && light.throughput_compared.unwrap().within);
    assert!(heavy.extrapolated && heavy.throughput_compared.is_none());
    let Figure { value, low, high } = heavy.throughput_per_s;
    assert!((value / law(64) - 1.0).abs() < 0.02, "{heavy:?}");
    assert!(low < law(64) && law(64) < high, "{heavy:?}");
    assert!((heavy.mean_ms.value / (64e3 / law(64)) - 1.0).abs() < 0.02);
    let peak = prediction.peak_users.unwrap();
    assert!((peak / (0.95_f64 / 0.0005).sqrt() - 1.0).abs() < 0.05);
    let text = screen::scalability(prediction);
    assert!(text.contains("highest at 44 users"), "{text}");
    assert!(text.contains("measure with --probe PID"), "{text}");
    // Three loads do not determine three parameters, and the law has no processor that could be twice as fast.
    for (users, what_if) in [
        (&[1, 2, 4][..], Scenario::default()),
        (&[1, 2, 4, 8, 16][..], "cpu=2x".parse().unwrap()),
    ] {
        let output = predicted(users, what_if);
        assert!(output.scalability.is_empty());
        assert!(output.unpredicted[0].reason.contains("--probe PID"));
    }
}

#[test]
fn what_no_law_describes_is_not_predicted() {
    // A CPU time that alternates between loads.
    let uneven = |rate: f64| match (rate.log2() as u32) % 2 {
        0 => 100e-6,
        _ => 300e-6,
    };
    let mut jumping = series(CONSTANT, 0.2, 0.005);
    for reading in jumping.loads.iter_mut().flat_map(|load| &mut load.readings) {
        reading.busy = reading.throughput.0 * uneven(reading.throughput.0);
    }
    let error = predict(&jumping, &Default::default(), &options()).unwrap_err();
    assert!(matches!(error, PredictError::NoModel(_)), "{error}");
    // Two loads do not separate a trend from noise.
    let mut few = series(FALLING, 0.2, 0.005);
    few.loads.truncate(2);
    let everything = Options {
        fit: up_to(1.0),
        ..options()
    };
    let error = predict(&few, &Default::default(), &everything).unwrap_err();
    assert!(error.to_string().contains("at least 3"), "{error}");
}
