//! Series made from networks whose parameters are known: the fit finds them, predictions come true, and what no law
//! describes is not predicted.

use std::collections::BTreeMap;

use fathometer_model::{Bandwidth, Seed};
use fathometer_predict::PredictError;
use fathometer_predict::law::Law;
use fathometer_predict::prediction::{Options, predict};
use fathometer_predict::screen;
use fathometer_predict::series::{Load, Reading, Series};
use fathometer_queueing::closed::{Network, Station};
use fathometer_queueing::{PerSecond, Seconds, varying};

const DELAY: f64 = 0.009;
const LOADS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Processor time of an exchange at a throughput, in seconds.
type Demand = fn(f64) -> f64;

fn constant(_: f64) -> f64 {
    200e-6
}

fn falling(rate: f64) -> f64 {
    2e-3 * rate.max(1.0).powf(-0.4)
}

fn network(demand: Demand, cores: f64, rate: PerSecond) -> Network {
    let servers = cores.floor().max(1.0);
    Network {
        think: Seconds(0.0),
        stations: vec![
            Station::delay("delay", Seconds(DELAY)),
            Station::queue(
                "processor",
                Seconds(demand(rate.0) * servers / cores),
                servers as u32,
            ),
        ],
    }
}

/// Two replicates a load, one above and one below the exact figures by `noise`.
fn series(demand: Demand, cores: f64, noise: f64) -> Series {
    let loads = LOADS.map(|users| {
        let exact = varying::solve(&|rate| network(demand, cores, rate), users).unwrap();
        let reading = |factor: f64| Reading {
            throughput: PerSecond(exact.throughput.0 * factor),
            response: Seconds(exact.response.0 / factor),
            percentiles: BTreeMap::from([
                (50, Seconds(0.9 * exact.response.0)),
                (99, Seconds(2.0 * exact.response.0)),
            ]),
            busy: exact.throughput.0 * demand(exact.throughput.0) * factor,
            wire_bytes: None,
        };
        Load {
            users,
            readings: vec![reading(1.0 + noise), reading(1.0 - noise)],
        }
    });
    Series {
        name: "known".to_owned(),
        loads: loads.to_vec(),
        cores,
        link: None,
        notes: Vec::new(),
    }
}

fn options() -> Options {
    Options {
        fit_up_to: 0.6,
        users: Vec::new(),
        draws: 40,
        exchanges: 4_000,
        seed: Seed(1),
    }
}

#[test]
fn light_loads_of_a_known_network_predict_the_others() {
    let cases: [(Demand, f64); 3] = [(constant, 0.2), (constant, 4.0), (falling, 0.2)];
    for (demand, cores) in cases {
        let series = series(demand, cores, 0.01);
        let prediction = predict(&series, &"users=1x".parse().unwrap(), &options());
        // A scenario that changes nothing is not a comparison with the measurement; the plain one is.
        assert!(prediction.unwrap().rows[0].throughput_compared.is_none());
        let prediction = predict(&series, &Default::default(), &options()).unwrap();
        assert!(prediction.fitted_users.len() < LOADS.len());
        let mut predicted = 0;
        for row in &prediction.rows {
            let (Some(rate), Some(mean)) = (row.throughput_compared, row.mean_compared) else {
                // Twice the largest.
                assert_eq!(row.users, 128);
                continue;
            };
            predicted += 1;
            assert!(rate.error_share.abs() < 0.03, "{row:?}");
            assert!(mean.error_share.abs() < 0.03, "{row:?}");
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
    let law = |demand| {
        predict(&series(demand, 0.2, 0.01), &Default::default(), &options())
            .unwrap()
            .law
    };
    let Law::Constant { demand_s } = law(constant) else {
        panic!("not constant");
    };
    assert!((demand_s / 200e-6 - 1.0).abs() < 0.01);
    let Law::Power { exponent, .. } = law(falling) else {
        panic!("not a power");
    };
    assert!((exponent - 0.6).abs() < 0.02);
}

#[test]
fn a_larger_processor_raises_the_capacity_and_not_the_light_load() {
    let series = series(constant, 0.2, 0.01);
    let prediction = predict(&series, &"cpu=2x".parse().unwrap(), &options()).unwrap();
    let of = |users| {
        prediction
            .rows
            .iter()
            .find(|row| row.users == users)
            .unwrap()
    };
    // The truth: the same network with 0.4 cores.
    for users in [1, 16, 64] {
        let exact = network(constant, 0.4, PerSecond(1.0)).solve(users).unwrap();
        let found = of(users).throughput_per_s.value;
        assert!(
            (found / exact.throughput.0 - 1.0).abs() < 0.03,
            "{users}: {found}"
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

#[test]
fn a_slower_link_becomes_the_bottleneck() {
    let mut series = series(constant, 4.0, 0.01);
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
fn what_no_law_describes_is_not_predicted() {
    // A cost that alternates.
    let uneven = |rate: f64| match (rate.log2() as u32) % 2 {
        0 => 100e-6,
        _ => 300e-6,
    };
    let mut jumping = series(constant, 0.2, 0.005);
    for reading in jumping.loads.iter_mut().flat_map(|load| &mut load.readings) {
        reading.busy = reading.throughput.0 * uneven(reading.throughput.0);
    }
    let error = predict(&jumping, &Default::default(), &options()).unwrap_err();
    assert!(matches!(error, PredictError::NoModel(_)), "{error}");
    // Two loads cannot check a law of two parameters.
    let mut few = series(falling, 0.2, 0.005);
    few.loads.truncate(2);
    let everything = Options {
        fit_up_to: 1.0,
        ..options()
    };
    let error = predict(&few, &Default::default(), &everything).unwrap_err();
    assert!(error.to_string().contains("at least 3"), "{error}");
}
