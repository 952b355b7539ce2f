//! The simulation agrees with Ciw (Palmer, Knight, Harper, Hawa, Journal of Simulation 13, 2019), a simulator of queueing networks
//! in Python that was written independently: exponential networks with limits, and a network without a closed form.

#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the test runs another program"
)]
#[path = "../../fathometer/tests/support/python.rs"]
mod python;

use fathometer_model::Seed;
use fathometer_queueing::simulation::{
    Admission, Discipline, Distribution, Measured, Overflow, SimulatedStation, Simulation, Source,
};
use fathometer_queueing::{PerSecond, Seconds};

use self::python::python;

/// Prints three figures of each network, each with the half-width of its 95 % interval from 20 batch means: completed
/// exchanges per second, the share of refused exchanges, and the mean time of completed exchanges.
const SCRIPT: &str = r"
import ciw
from ciw.dists import Deterministic, Exponential, Sequential

BATCHES, STUDENT = 20, 2.093
WARM_UP, END = 20.0, 220.0

def measured(values):
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    return mean, STUDENT * (squares / (len(values) - 1) / len(values)) ** 0.5

def show(network, seed, first, last):
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(END)
    records = simulation.get_all_records()
    began, ended, lost = {}, [], []
    for record in sorted(records, key=lambda record: record.exit_date):
        if record.record_type == 'rejection':
            lost.append(record.arrival_date)
            continue
        if record.node == first:
            began[record.id_number] = record.arrival_date
        if record.node == last and record.id_number in began:
            ended.append((record.exit_date, record.exit_date - began[record.id_number]))
    length = (END - WARM_UP) / BATCHES
    batch = lambda time: int((time - WARM_UP) // length)
    done, times, refused = [0] * BATCHES, [0.0] * BATCHES, [0] * BATCHES
    for at, time in ended:
        if WARM_UP <= at < END:
            done[batch(at)] += 1
            times[batch(at)] += time
    for at in lost:
        if WARM_UP <= at < END:
            refused[batch(at)] += 1
    print(*measured([count / length for count in done]),
          *measured([r / (r + d) for r, d in zip(refused, done)]),
          *measured([t / d for t, d in zip(times, done)]))

# 1 M/M/2 with three places to wait.
show(ciw.create_network(
    arrival_distributions=[Exponential(90.0)], service_distributions=[Exponential(50.0)],
    number_of_servers=[2], queue_capacities=[3]), 1, 1, 1)

# 2 Four exchanges at most, each at a processor and then at a disk; the others are refused.
show(ciw.create_network(
    arrival_distributions=[Exponential(60.0), None],
    service_distributions=[Exponential(100.0), Exponential(70.0)],
    routing=[[0.0, 1.0], [0.0, 0.0]], number_of_servers=[1, 1], system_capacity=4), 2, 1, 2)

# 3 Twelve users who think, and three workers whose service takes always the same.
show(ciw.create_network(
    arrival_distributions=[Sequential([0.001] * 12 + [float('inf')]), None],
    service_distributions=[Exponential(20.0), Deterministic(0.02)],
    routing=[[0.0, 1.0], [1.0, 0.0]], number_of_servers=[float('inf'), 3]), 3, 2, 2)
";

/// Runs Ciw and returns its figures, one list per network; `None` if Ciw is not installed.
fn figures() -> Option<Vec<Vec<f64>>> {
    let text = python("ciw", SCRIPT, &[])?;
    let line = |line: &str| {
        let words = line.split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    };
    Some(text.lines().map(line).collect())
}

fn station(name: &str, service: Distribution, discipline: Discipline) -> SimulatedStation {
    SimulatedStation {
        name: name.to_owned(),
        service,
        discipline,
    }
}

fn exponential(per_second: f64) -> Distribution {
    Distribution::Exponential(Seconds(1.0 / per_second))
}

fn network(source: Source, stations: Vec<SimulatedStation>, limits: (u32, u32)) -> Simulation {
    let (workers, backlog) = limits;
    Simulation {
        source,
        stations,
        rounds: Vec::new(),
        rounds_from: 0,
        admission: Some(Admission {
            before: 0,
            workers,
            backlog,
            overflow: Overflow::Refuse,
            handshake: None,
        }),
        timeout: None,
        warm_up: 2_000,
        measured: 60_000,
        seed: Seed(13),
    }
}

/// Returns the networks of [`SCRIPT`].
fn ours() -> [Simulation; 3] {
    [
        network(
            Source::Arrivals(PerSecond(90.0)),
            vec![station("work", exponential(50.0), Discipline::InOrder(2))],
            (2, 3),
        ),
        network(
            Source::Arrivals(PerSecond(60.0)),
            vec![
                station("processor", exponential(100.0), Discipline::InOrder(1)),
                station("disk", exponential(70.0), Discipline::InOrder(1)),
            ],
            (4, 0),
        ),
        network(
            Source::Users {
                count: 12,
                think: exponential(20.0),
            },
            vec![station(
                "work",
                Distribution::Deterministic(Seconds(0.02)),
                Discipline::Delay,
            )],
            (3, 12),
        ),
    ]
}

#[test]
fn finite_queues_and_workers_agree_with_ciw() {
    let Some(theirs) = figures() else { return };
    assert_eq!(theirs.len(), 3);
    for (number, (ours, theirs)) in ours().iter().zip(&theirs).enumerate() {
        let found = ours.run().unwrap();
        let figures = [
            ("throughput", found.throughput),
            ("refused", found.failed),
            ("response", found.completed),
        ];
        for ((name, ours), theirs) in figures.iter().zip(theirs.chunks_exact(2)) {
            let theirs = Measured {
                mean: theirs[0],
                half_width: theirs[1],
            };
            // Both are estimates: the 99.9 % interval of their difference is 1.7 times as wide as its 95 % interval.
            // Both seeds are fixed, so the outcome is fixed, too.
            let allowed = 1.7 * ours.half_width.hypot(theirs.half_width);
            let what = format!("network {}: {name} {ours:?}, Ciw {theirs:?}", number + 1);
            assert!((ours.mean - theirs.mean).abs() <= allowed, "{what}");
            // The interval is narrow enough to show a wrong model. The last network refuses no exchange.
            assert!(allowed <= 0.2 * theirs.mean, "{what}");
        }
    }
}
