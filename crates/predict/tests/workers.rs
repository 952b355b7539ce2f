//! A server with workers whose parameters are known: light loads, at which each user has a worker, predict the throughput,
//! the latency and the errors of loads with fewer workers than users.

use std::collections::BTreeMap;

use fathometer_model::Seed;
use fathometer_predict::PredictError;
use fathometer_predict::prediction::{Options, Prediction, Row, predict};
use fathometer_predict::screen;
use fathometer_predict::series::{Admission, Load, Reading, Selection, Series};
use fathometer_queueing::closed::{Network, Station};
use fathometer_queueing::simulation::{
    Admission as Workers, Discipline, Distribution, Overflow, Retries, SimulatedStation,
    Simulation, SimulationResult, Source,
};
use fathometer_queueing::{PerSecond, Seconds};

/// Seconds on the path, to the server and back, without a worker.
const PATH: f64 = 0.002;
/// Mean seconds in the server, with a worker: at a backend and at the processor.
const BACKEND: f64 = 0.02;
const PROCESSOR: f64 = 0.001;
const WORKERS: u32 = 4;
const BACKLOG: u32 = 16;
const TIMEOUT: f64 = 0.5;

/// Returns the server, by simulation with its own seed.
fn server(users: u32, workers: u32) -> SimulationResult {
    behind(PATH, &[Seconds(0.0)], users, workers)
}

/// Returns the same server behind another path. Each exchange also has one of the delays `further`, without a worker.
fn behind(path: f64, further: &[Seconds], users: u32, workers: u32) -> SimulationResult {
    let station = |name: &str, service, discipline| SimulatedStation {
        name: name.to_owned(),
        service,
        discipline,
    };
    let constant = |seconds| Distribution::Deterministic(Seconds(seconds));
    Simulation {
        source: Source::Users {
            count: users,
            think: constant(0.0),
        },
        stations: vec![
            station("path", constant(path), Discipline::Delay),
            station(
                "further",
                Distribution::Empirical(further.to_vec()),
                Discipline::Delay,
            ),
            station(
                "backend",
                Distribution::Exponential(Seconds(BACKEND)),
                Discipline::Delay,
            ),
            station(
                "processor",
                Distribution::Exponential(Seconds(PROCESSOR)),
                Discipline::InOrder(1),
            ),
        ],
        rounds: Vec::new(),
        rounds_from: 0,
        admission: Some(Workers {
            before: 2,
            workers,
            backlog: BACKLOG + 1,
            overflow: Overflow::Retry(Retries::LINUX),
            handshake: None,
        }),
        timeout: Some(Seconds(TIMEOUT)),
        warm_up: 4_000,
        measured: 20_000,
        seed: Seed(77),
    }
    .run()
    .unwrap()
}

fn load(users: u32) -> Load {
    of(users, &server(users, WORKERS))
}

fn of(users: u32, found: &SimulationResult) -> Load {
    let percentile = |percent: u32| {
        let share = f64::from(percent) / 100.0;
        (percent, found.completed_quantile(share))
    };
    let reading = Reading {
        throughput: PerSecond(found.throughput.mean),
        response: Seconds(found.completed.mean),
        percentiles: BTreeMap::from([50, 99].map(percentile)),
        busy: found.utilisations[3],
        errors: found.failed.mean,
        disk: None,
        wire_bytes: None,
    };
    Load {
        users,
        readings: vec![reading.clone(), reading],
        has_all_latencies: true,
    }
}

fn series(admission: Admission) -> Series {
    Series {
        name: "known".to_owned(),
        loads: [1, 2, 3, 8, 16].map(load).to_vec(),
        batches: Vec::new(),
        has_processor_time: true,
        cores: 1.0,
        quota: None,
        link: None,
        round_trip: None,
        further_trips: Vec::new(),
        server: None,
        admission,
        failing: [40, 64].map(load).to_vec(),
        page_cache: Err("not recorded".to_owned()),
        notes: Vec::new(),
    }
}

fn stated() -> Admission {
    Admission {
        workers: Some(WORKERS),
        backlog: Some(BACKLOG),
        timeout: Some(Seconds(TIMEOUT)),
        before: Seconds(PATH),
        connects: false,
        keeps_connections: false,
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
        fit: up_to(0.8),
        users: Vec::new(),
        draws: 20,
        exchanges: 20_000,
        seed: Seed(1),
    }
}

fn at(prediction: &Prediction, users: u32) -> &Row {
    let row = prediction.rows.iter().find(|row| row.users == users);
    row.unwrap()
}

#[test]
fn light_loads_and_stated_workers_predict_saturation_and_errors() {
    let prediction = predict(&series(stated()), &Default::default(), &options()).unwrap();
    assert_eq!(prediction.fitted_users, [1, 2, 3]);
    let held = prediction.workers.unwrap().held_ms;
    assert!((held - 21.0).abs() < 0.5, "{held}");
    for users in [1, 2, 3, 8, 16, 40, 64] {
        let row = at(&prediction, users);
        for compared in [row.throughput_compared, row.mean_compared] {
            let error = compared.unwrap().error_share.abs();
            assert!(error < 0.04, "{users} users: {row:?}");
        }
        let workers = row.workers.unwrap();
        let measured = workers.errors_measured_share.unwrap();
        assert!((workers.errors_share - measured).abs() < 0.03, "{row:?}");
        assert_eq!(row.bottleneck, "workers", "{row:?}");
        assert_eq!(row.saturated, users >= 8, "{row:?}");
    }
    // Four workers of 21 ms. Of 64 users, 21 have a worker or a slot in the accept queue. The exchanges of the other
    // users fail after 0.5 s at most.
    let last = at(&prediction, 64);
    assert!((last.throughput_per_s.value / 190.5 - 1.0).abs() < 0.04);
    let errors = last.workers.unwrap().errors_share;
    assert!((0.2..=86.0 / (86.0 + 180.0)).contains(&errors), "{errors}");
    assert_eq!(at(&prediction, 16).workers.unwrap().errors_share, 0.0);
    let text = screen::render(&prediction);
    assert!(
        text.contains("all 4 workers are busy, and the processor is at 19 %"),
        "{text}"
    );
    assert!(
        text.contains("the accept queue of 16 overflows from 40 users on; exchanges that fail: "),
        "{text}"
    );
    assert!(text.contains("Workers: 4, each held for 21"), "{text}");
}

/// The responses of large files take further round trips of 8 ms without a worker. The variation of the backend hides them.
#[test]
fn further_round_trips_of_the_workloads_files_hold_no_worker() {
    let trip = 0.008;
    let probabilities = [0.8, 0.1, 0.05, 0.05];
    let further: Vec<Seconds> = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3]
        .map(|trips| Seconds(f64::from(trips) * trip))
        .to_vec();
    let load = |users| of(users, &behind(trip, &further, users, WORKERS));
    let series = |further_trips: &[f64]| Series {
        loads: [1, 2, 3, 8, 16].map(load).to_vec(),
        round_trip: Some(Seconds(trip)),
        further_trips: further_trips.to_vec(),
        failing: Vec::new(),
        ..series(Admission {
            before: Seconds(trip),
            ..stated()
        })
    };
    let error = |further_trips: &[f64]| {
        let prediction = predict(&series(further_trips), &Default::default(), &options()).unwrap();
        let compared = at(&prediction, 16).throughput_compared;
        compared.unwrap().error_share
    };
    let (known, unknown) = (error(&probabilities), error(&[]));
    assert!(known.abs() < 0.03, "{known}");
    assert!(unknown < -0.08, "{unknown}");
}

#[test]
fn without_its_workers_the_prediction_misses_them() {
    let series = series(Admission::default());
    let prediction = predict(&series, &Default::default(), &options()).unwrap();
    // If the workers are unknown, loads with failures are not compared.
    assert!(prediction.rows.iter().all(|row| row.users != 64));
    let row = at(&prediction, 16);
    assert!(row.workers.is_none());
    assert!(
        row.throughput_compared.unwrap().error_share > 1.0,
        "{row:?}"
    );
    for scenario in ["workers=2x", "backlog=64"] {
        let error = predict(&series, &scenario.parse().unwrap(), &options()).unwrap_err();
        assert!(matches!(error, PredictError::Scenario(_)), "{error}");
        assert!(error.to_string().contains("--workers N"), "{error}");
    }
    // An absolute number of workers needs no measured number.
    let limited = predict(&series, &"workers=4".parse().unwrap(), &options()).unwrap();
    assert_eq!(at(&limited, 16).bottleneck, "workers");
}

#[test]
fn twice_the_workers_double_the_throughput_until_the_processor_is_saturated() {
    let series = series(stated());
    let of = |scenario: &str| {
        let users = Options {
            users: vec![64],
            ..options()
        };
        predict(&series, &scenario.parse().unwrap(), &users).unwrap()
    };
    let (twice, many) = (of("workers=2x,backlog=128"), of("workers=64,backlog=128"));
    let truth = server(64, 2 * WORKERS);
    let row = at(&twice, 64);
    assert!(
        (row.throughput_per_s.value / truth.throughput.mean - 1.0).abs() < 0.05,
        "{row:?}"
    );
    assert!((row.throughput_per_s.value / 381.0 - 1.0).abs() < 0.05);
    assert_eq!(row.workers.unwrap().errors_share, 0.0);
    let effect = twice.effect.unwrap().throughput_share;
    assert!((effect.value - 1.0).abs() < 0.06, "{effect:?}");
    // With as many workers as users, the processor is the bottleneck, as in the network without workers.
    let row = at(&many, 64);
    let network = Network {
        think: Seconds(0.0),
        stations: vec![
            Station::delay("delay", Seconds(PATH + BACKEND)),
            Station::queue("processor", Seconds(PROCESSOR), 1),
        ],
    };
    let free = network.solve(64).unwrap();
    assert!((row.throughput_per_s.value / free.throughput.0 - 1.0).abs() < 0.03);
    assert_eq!((row.bottleneck, row.saturated), ("processor", true));
}

#[test]
fn users_that_keep_their_connections_are_not_predicted_beyond_the_limit() {
    let kept = Admission {
        keeps_connections: true,
        ..stated()
    };
    let prediction = predict(&series(kept.clone()), &Default::default(), &options()).unwrap();
    assert!(prediction.rows.iter().all(|row| row.users <= WORKERS));
    assert!(
        prediction.notes[0].contains("accepts 4 connections"),
        "{:?}",
        prediction.notes
    );
    let more = predict(
        &series(kept.clone()),
        &"users=3x".parse().unwrap(),
        &options(),
    )
    .unwrap();
    assert_eq!(more.effect, None);
    assert!(
        more.notes
            .iter()
            .any(|note| note.contains("users have no effect")),
        "{:?}",
        more.notes
    );
    let beyond = Options {
        users: vec![8],
        ..options()
    };
    let error = predict(&series(kept), &Default::default(), &beyond).unwrap_err();
    assert!(
        error.to_string().contains("accepts 4 connections"),
        "{error}"
    );
}
