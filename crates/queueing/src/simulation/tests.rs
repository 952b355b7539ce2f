use super::*;
use crate::closed::{Network, Station};

pub(super) fn station(
    name: &str,
    service: Distribution,
    discipline: Discipline,
) -> SimulatedStation {
    SimulatedStation {
        name: name.to_owned(),
        service,
        discipline,
    }
}

pub(super) fn exponential(seconds: f64) -> Distribution {
    Distribution::Exponential(Seconds(seconds))
}

pub(super) fn simulation(source: Source, stations: Vec<SimulatedStation>) -> Simulation {
    Simulation {
        source,
        stations,
        rounds: Vec::new(),
        rounds_from: 0,
        admission: None,
        timeout: None,
        warm_up: 5_000,
        measured: 60_000,
        seed: Seed(1909),
    }
}

pub(super) fn users(count: u32, think: f64) -> Source {
    Source::Users {
        count,
        think: exponential(think),
    }
}

/// Checks that a value is within twice the half-width of its interval, and that the interval is narrow. The outcome is fixed,
/// because the seed is fixed.
pub(super) fn agrees(found: Measured, expected: f64) {
    assert!(
        (found.mean - expected).abs() <= 2.0 * found.half_width,
        "{found:?} is not {expected}"
    );
    assert!(
        found.half_width < 0.08 * expected,
        "the interval of {found:?} is too wide"
    );
}

#[test]
fn m_m_1_has_its_mean_and_its_percentiles() {
    for discipline in [Discipline::InOrder(1), Discipline::Shared(1)] {
        let result = simulation(
            Source::Arrivals(PerSecond(60.0)),
            vec![station("cpu", exponential(0.01), discipline)],
        )
        .run()
        .unwrap();
        // R = S / (1 - U) under both disciplines. With service in order of arrival, R is exponential.
        agrees(result.response, 0.025);
        agrees(result.throughput, 60.0);
        assert!((result.utilisations[0] - 0.6).abs() < 0.02);
        if discipline == Discipline::InOrder(1) {
            let p99 = 0.025 * 100f64.ln();
            assert!((result.quantile(0.99).0 / p99 - 1.0).abs() < 0.1);
            let p50 = 0.025 * 2f64.ln();
            assert!((result.quantile(0.5).0 / p50 - 1.0).abs() < 0.05);
        }
    }
}

#[test]
fn m_d_1_waits_half_as_long_and_shared_service_depends_on_the_mean_alone() {
    let run = |service, discipline| {
        simulation(
            Source::Arrivals(PerSecond(70.0)),
            vec![station("cpu", service, discipline)],
        )
        .run()
        .unwrap()
    };
    let constant = Distribution::Deterministic(Seconds(0.01));
    // Pollaczek and Khinchin: W = U S / (2 (1 - U)).
    agrees(
        run(constant.clone(), Discipline::InOrder(1)).response,
        0.01 + 0.7 * 0.01 / 0.6,
    );
    // Processor sharing is insensitive: Kleinrock, volume 2, 4.4.
    agrees(run(constant, Discipline::Shared(1)).response, 0.01 / 0.3);
    let lognormal = Distribution::Lognormal {
        mean: Seconds(0.01),
        variation: 1.0,
    };
    agrees(run(lognormal, Discipline::Shared(1)).response, 0.01 / 0.3);
}

#[test]
fn closed_networks_agree_with_the_exact_solution() {
    let cases = [(1, 4, 0.05), (1, 40, 0.2), (4, 30, 0.05), (2, 12, 0.0)];
    for (servers, count, think) in cases {
        let network = Network {
            think: Seconds(think),
            stations: vec![
                Station::delay("path", Seconds(0.008)),
                Station::queue("cpu", Seconds(0.01), servers),
                Station::queue("disk", Seconds(0.004), 1),
            ],
        };
        let exact = network.solve(count).unwrap();
        let result = simulation(
            users(count, think),
            vec![
                station(
                    "path",
                    Distribution::Deterministic(Seconds(0.008)),
                    Discipline::Delay,
                ),
                station("cpu", exponential(0.01), Discipline::Shared(servers)),
                station("disk", exponential(0.004), Discipline::InOrder(1)),
            ],
        )
        .run()
        .unwrap();
        agrees(result.throughput, exact.throughput.0);
        agrees(result.response, exact.response.0);
        let busy = exact.stations[1].utilisation;
        assert!((result.utilisations[1] - busy).abs() < 0.02);
    }
}

#[test]
fn the_same_seed_gives_the_same_result_and_another_one_does_not() {
    let mut one = simulation(
        users(8, 0.01),
        vec![station("cpu", exponential(0.01), Discipline::Shared(1))],
    );
    one.measured = 2_000;
    let first = one.run().unwrap();
    assert_eq!(first, one.run().unwrap());
    one.seed = Seed(1910);
    assert_ne!(first, one.run().unwrap());
}

#[test]
fn parameters_out_of_range_are_errors() {
    let saturated = simulation(
        Source::Arrivals(PerSecond(100.0)),
        vec![station("cpu", exponential(0.01), Discipline::InOrder(1))],
    );
    assert!(matches!(saturated.run(), Err(ModelError::Saturated { .. })));
    let idle = Simulation {
        source: users(0, 1.0),
        ..saturated
    };
    assert!(idle.run().is_err());
    // A closed loop in which no exchange takes time would never end.
    let timeless = simulation(
        users(1, 0.0),
        vec![station("cpu", exponential(0.0), Discipline::InOrder(1))],
    );
    assert!(timeless.run().is_err());
}

/// Returns a short simulation, which is long enough to separate means that are far apart.
fn short(source: Source, stations: Vec<SimulatedStation>) -> Simulation {
    Simulation {
        warm_up: 1_000,
        measured: 20_000,
        ..simulation(source, stations)
    }
}

fn quota(servers: u32, share: f64, period: f64) -> Discipline {
    with_burst(servers, share, period, 0.0)
}

fn with_burst(servers: u32, share: f64, period: f64, burst: f64) -> Discipline {
    Discipline::Quota(Quota {
        servers,
        share,
        period: Seconds(period),
        burst: Seconds(burst),
    })
}

#[test]
fn one_user_of_a_quota_waits_for_the_next_period() {
    // 3 ms of work, 2 ms in each 10 ms, no pause: the server works from 0 to 2, 10 to 12, 20 to 22 ms. Exchanges therefore
    // end at 11, 22, 41, 52 ... ms: two in 30 ms.
    let found = short(
        users(1, 0.0),
        vec![station(
            "cpu",
            Distribution::Deterministic(Seconds(0.003)),
            quota(1, 0.2, 0.01),
        )],
    )
    .run()
    .unwrap();
    assert!((found.throughput.mean / (2.0 / 0.03) - 1.0).abs() < 1e-3);
    assert!((found.quantile(0.25).0 - 0.011).abs() < 1e-6);
    assert!((found.quantile(0.75).0 - 0.019).abs() < 1e-6);
    assert!((found.utilisations[0] - 1.0).abs() < 1e-3);
}

#[test]
fn what_earlier_periods_left_is_used_up_to_the_burst() {
    // 3 ms of work, a pause of 16.5 ms, 2 ms in each 10 ms: with a burst of at least 1 ms, the exchange
    // never waits. Without a burst, the server works from 7.5 to 9.5, from 10 to 11 and from 27.5 ms.
    let median = |burst| {
        let cpu = Distribution::Deterministic(Seconds(0.003));
        let pause = Distribution::Deterministic(Seconds(0.0165));
        let stations = vec![
            station("pause", pause, Discipline::Delay),
            station("cpu", cpu, with_burst(1, 0.2, 0.01, burst)),
        ];
        let found = short(users(1, 0.0), stations).run().unwrap();
        found.quantile(0.5).0
    };
    for (burst, expected) in [(0.0, 0.02), (0.001, 0.0195), (0.002, 0.0195), (0.1, 0.0195)] {
        let found = median(burst);
        assert!(
            (found - expected).abs() < 1e-6,
            "burst {burst}: found {found}"
        );
    }
}

#[test]
fn a_quota_works_at_full_speed_until_it_is_used_up() {
    let run = |count, discipline, service| {
        let stations = vec![
            station("delay", exponential(0.05), Discipline::Delay),
            station("cpu", exponential(service), discipline),
        ];
        short(users(count, 0.0), stations).run().unwrap()
    };
    // At a light load an exchange takes the time of a full processor; with a slower processor it would take 5 ms here.
    let light = run(1, quota(1, 0.2, 0.01), 0.001);
    assert!(light.response.mean < 0.0535, "{:?}", light.response);
    assert!(run(1, Discipline::Shared(1), 0.005).response.mean > 0.0545);
    // Saturated, the quota is the capacity.
    let heavy = run(64, quota(1, 0.2, 0.01), 0.001);
    assert!((heavy.throughput.mean / 200.0 - 1.0).abs() < 0.01);
    // A quota of all servers is no limit.
    let whole = run(20, quota(2, 2.0, 0.01), 0.004);
    let network = Network {
        think: Seconds(0.05),
        stations: vec![Station::queue("cpu", Seconds(0.004), 2)],
    };
    agrees(whole.throughput, network.solve(20).unwrap().throughput.0);
}

#[test]
fn rounds_visit_all_stations_again() {
    let stations = vec![
        station("delay", exponential(0.004), Discipline::Delay),
        station("cpu", exponential(0.001), Discipline::InOrder(1)),
    ];
    let rounds = vec![0.0, 0.75, 0.0, 0.25];
    let found = Simulation {
        rounds,
        ..short(users(8, 0.0), stations.clone())
    }
    .run()
    .unwrap();
    // 2.5 rounds on average; means depend on the demands alone (Reiser and Lavenberg).
    let network = Network {
        think: Seconds(0.0),
        stations: vec![
            Station::delay("delay", Seconds(0.01)),
            Station::queue("cpu", Seconds(0.0025), 1),
        ],
    };
    let exact = network.solve(8).unwrap();
    agrees(found.throughput, exact.throughput.0);
    agrees(found.response, exact.response.0);
    let wrong = Simulation {
        rounds: vec![0.5],
        ..short(users(8, 0.0), stations)
    };
    assert!(wrong.run().is_err());
}
