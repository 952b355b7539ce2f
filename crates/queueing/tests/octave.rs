//! Tests that the models agree with the package `queueing` for GNU Octave (Marzolla, QEST 2010), which was written
//! independently.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the test runs another program"
)]

use std::process::{Command, Stdio};

use fathometer_model::Seed;
use fathometer_queueing::classes::{self, Class};
use fathometer_queueing::closed::{Network, Station};
use fathometer_queueing::limited::LimitedNetwork;
use fathometer_queueing::open::{self, OpenStation};
use fathometer_queueing::simulation::{
    Admission, Discipline, Distribution, Overflow, Retries, SimulatedStation, Simulation, Source,
};
use fathometer_queueing::{PerSecond, Seconds, bounds, erlang};

/// Prints each figure of each case with all digits: one line per case.
const SCRIPT: &str = r#"
pkg load queueing
function show(varargin)
  printf("%.15g ", [varargin{:}]); printf("\n");
end
% 1 Lazowska and others, chapter 6: a processor and two disks, three users.
[U R Q X] = qncsmva(3, [0.005 0.030 0.027], [121 70 50], [1 1 1], 15); show(X(1)/121, Q, U);
% 2 A central server model (Buzen): the processor is visited before each disk.
P = [0.05 0.65 0.3; 1 0 0; 1 0 0]; V = qncsvisits(P);
[U R Q X] = qncsmva(12, [0.02 0.2 0.4], V, [1 1 1], 0); show(X(1)/V(1), Q, U);
% 3 A machine repairman with three servers.
[U R Q X] = qncsmva(25, [0.5], [1], [3], 2); show(X(1), Q, U);
% 4 Multiserver, single-server and delay stations together.
[U R Q X] = qncsmva(40, [0.060 0.010 0.080], [1 1 1], [4 1 -1], 0.3); show(X(1), Q(1:2), U(1:2));
% 5 The same network, saturated. qncsmva fails here (a throughput of -44): its recursion loses the probability of an
% empty station to cancellation. Conditional mean value analysis (Casale 2008) does not.
[U R Q X] = qncscmva(150, 0.010, 0.060 ./ min(1:150, 4), [1 1], 0.38); show(X(1), Q(2), Q(1));
% 6 By convolution, with two balanced stations.
[U R Q X] = qncsconv(30, [0.01 0.01 0.004], [1 1 1], [1 1 1]); show(X(1), Q, U);
% 7 Two classes of customers.
[U R Q X] = qncmmva([6 9], [0.01 0.04 0.02; 0.03 0.005 0.02], [1 1 1; 1 1 1], [1 1 -1], [0.2 0.5]); show(X(:,1)', Q(:)');
% 8 An open network of M/M/c stations with feedback.
P = [0 0.3 0.5; 1 0 0; 1 0 0]; V = qnosvisits(P, [150 0 0]);
[U R Q X] = qnos(150, [0.005 0.03 0.027], V, [8 30 40]/2); show(X, Q, U, R);
% 9 Bounds.
[Xl Xu Rl Ru] = qncsaba(20, [0.005 0.03 0.027], [1 1 1], [1 1 1], 0.5); show(Xl, Xu, Rl, Ru);
% 11 Erlang.
show(erlangb(5, 10), erlangc(5, 10), erlangb(80, 90), erlangc(80, 90));
% 12 Four workers, as a flow-equivalent server: two processors, a disk and a delay inside of it.
x = zeros(1, 4);
for j = 1:4
  [U R Q X] = qncsmva(j, [0.004 0.003 0.020], [1 1 1], [2 1 -1]); x(j) = X(1);
end
[U R Q X] = qncsmvald(20, 1 ./ x(min(1:20, 4)), 1, 0.25); show(X(1), Q(1));
% 13 The same, saturated, by convolution.
[U R Q X] = qncsconvld(40, [1 ./ x(min(1:40, 4)); 0.06 ./ (1:40)], [1 1]); show(X(1), Q(1));
% 14 M/M/m/K that is full.
[U R Q X p0 a] = qsmmmk(300, 100, 4, 6);
[U R Q X p0 b] = qsmmmk(300, 100, 4, 4);
[U R Q X p0 c] = qsmmmk(8, 1, 4, 24); show(a, b, c);
"#;

/// Runs Octave and returns its figures, one list per case; `None` if Octave is not installed.
fn figures(script: &str) -> Option<Vec<Vec<f64>>> {
    let output = Command::new("octave-cli")
        .args(["--no-init-file", "--quiet", "--eval", script])
        .stderr(Stdio::piped())
        .output()
        .ok()
        .filter(|output| output.status.success());
    let Some(output) = output else {
        let is_required = std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(
            !is_required,
            "octave with its package queueing is required and does not run"
        );
        eprintln!("skipped: octave with its package queueing does not run");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        line.split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect()
    };
    Some(text.lines().map(line).collect())
}

/// Returns throughput, customers and utilisations of the queueing stations.
fn solved(think: f64, users: u32, stations: Vec<Station>) -> Vec<f64> {
    let queues = stations
        .iter()
        .filter(|s| s.capacity().0.is_finite())
        .count();
    let network = Network {
        think: Seconds(think),
        stations,
    };
    let solution = network.solve(users).unwrap();
    let mut all = vec![solution.throughput.0];
    all.extend(solution.stations.iter().take(queues).map(|s| s.customers));
    all.extend(solution.stations.iter().take(queues).map(|s| s.utilisation));
    all
}

fn queues(demands: &[f64]) -> Vec<Station> {
    let each = demands.iter();
    each.map(|&demand| Station::queue("station", Seconds(demand), 1))
        .collect()
}

fn mixed() -> Vec<Station> {
    vec![
        Station::queue("processors", Seconds(0.060), 4),
        Station::queue("disk", Seconds(0.010), 1),
        Station::delay("path", Seconds(0.080)),
    ]
}

fn two_classes() -> Vec<f64> {
    let stations = [
        Station::queue("processor", Seconds(0.0), 1),
        Station::queue("disk", Seconds(0.0), 1),
        Station::delay("path", Seconds(0.0)),
    ];
    let class = |users, think, demands: [f64; 3]| Class {
        users,
        think: Seconds(think),
        demands: demands.map(Seconds).to_vec(),
    };
    let solution = classes::solve(
        &stations,
        &[
            class(6, 0.2, [0.01, 0.04, 0.02]),
            class(9, 0.5, [0.03, 0.005, 0.02]),
        ],
    )
    .unwrap();
    let mut all: Vec<f64> = solution.iter().map(|class| class.throughput.0).collect();
    for station in 0..3 {
        all.extend(
            solution
                .iter()
                .map(|class| class.throughput * class.residences[station]),
        );
    }
    all
}

fn open_network() -> Vec<f64> {
    let station = |service, servers, arrivals, routing: &[f64]| OpenStation {
        name: "station".to_owned(),
        service: Seconds(service),
        servers,
        arrivals: PerSecond(arrivals),
        routing: routing.to_vec(),
    };
    let solution = open::solve(&[
        station(0.005, 4, 150.0, &[0.0, 0.3, 0.5]),
        station(0.03, 15, 0.0, &[1.0, 0.0, 0.0]),
        station(0.027, 20, 0.0, &[1.0, 0.0, 0.0]),
    ])
    .unwrap();
    let mut all: Vec<f64> = solution.iter().map(|s| s.throughput.0).collect();
    all.extend(solution.iter().map(|s| s.customers));
    all.extend(solution.iter().map(|s| s.utilisation));
    all.extend(solution.iter().map(|s| s.residence.0));
    all
}

/// Returns the throughput and the number of exchanges at a server with four workers.
fn four_workers(think: f64, users: u32) -> Vec<f64> {
    let network = LimitedNetwork {
        think: Seconds(think),
        before: Seconds(0.0),
        stations: vec![
            Station::queue("processors", Seconds(0.004), 2),
            Station::queue("disk", Seconds(0.003), 1),
            Station::delay("backend", Seconds(0.020)),
        ],
        workers: 4,
    };
    let solution = network.solve(users).unwrap();
    let here = solution.stations.iter().map(|station| station.customers);
    vec![solution.throughput.0, here.sum()]
}

fn bound(bounds: bounds::Bounds) -> Vec<f64> {
    vec![
        bounds.least.0,
        bounds.most.0,
        bounds.fastest.0,
        bounds.slowest.0,
    ]
}

#[test]
fn textbook_networks_have_the_solutions_of_octave() {
    let Some(theirs) = figures(SCRIPT) else {
        return;
    };
    let bounded = Network {
        think: Seconds(0.5),
        stations: queues(&[0.005, 0.03, 0.027]),
    };
    let ours = [
        solved(15.0, 3, queues(&[0.605, 2.1, 1.35])),
        // Demands per visit to the processor.
        solved(0.0, 12, queues(&[0.02, 0.2 * 0.65, 0.4 * 0.3])),
        solved(2.0, 25, vec![Station::queue("repair", Seconds(0.5), 3)]),
        solved(0.3, 40, mixed()),
        solved(0.3, 150, mixed())[..3].to_vec(),
        solved(0.0, 30, queues(&[0.01, 0.01, 0.004])),
        two_classes(),
        open_network(),
        bound(bounds::asymptotic(&bounded, 20)),
        vec![
            erlang::blocking(5.0, 10),
            erlang::waiting(5.0, 10),
            erlang::blocking(80.0, 90),
            erlang::waiting(80.0, 90),
        ],
        four_workers(0.25, 20),
        four_workers(0.06, 40),
        vec![
            erlang::full(3.0, 4, 2),
            erlang::full(3.0, 4, 0),
            erlang::full(8.0, 4, 20),
        ],
    ];
    assert_eq!(theirs.len(), ours.len());
    for (case, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let number = case + 1;
        assert_eq!(
            ours.len(),
            theirs.len(),
            "case {number}: {ours:?} {theirs:?}"
        );
        for (one, other) in ours.iter().zip(theirs) {
            assert!(
                (one - other).abs() <= 1e-8 * other.abs(),
                "case {number}: {ours:?} is not {theirs:?}"
            );
        }
    }
}

/// The Markov chain of six users and two workers. An exchange holds a worker at a backend (a delay), and then at a
/// processor. States are the numbers at the backend (b), at the processor (p) and waiting for a worker (w).
const WORKERS_SCRIPT: &str = r#"
pkg load queueing
N = 6; W = 2; Z = 0.04; D = 0.02; S = 0.01;
states = [];
for b = 0:W
  for p = 0:W-b
    states(end+1,:) = [b p 0];
    if b + p == W
      for (w = 1:N-W) states(end+1,:) = [b p w]; end
    end
  end
end
at = @(b, p, w) find(ismember(states, [b p w], "rows"));
n = rows(states); G = zeros(n);
for i = 1:n
  b = states(i,1); p = states(i,2); w = states(i,3); outside = N - b - p - w;
  if outside > 0
    if (b + p < W) j = at(b+1, p, w); else j = at(b, p, w+1); end
    G(i,j) += outside / Z;
  end
  if (b > 0) G(i, at(b-1, p+1, w)) += b / D; end
  if p > 0
    if (w > 0) j = at(b+1, p-1, w-1); else j = at(b, p-1, w); end
    G(i,j) += 1 / S;
  end
end
G -= diag(sum(G, 2));
q = ctmc(G);
printf("%.15g ", [sum(q(states(:,2)' > 0)) / S, q * states]); printf("\n");
"#;

#[test]
fn simulated_workers_have_the_solution_of_their_markov_chain() {
    let Some(theirs) = figures(WORKERS_SCRIPT) else {
        return;
    };
    let [throughput, backend, processor, waiting] = theirs[0][..] else {
        panic!("{theirs:?}");
    };
    let station = |name: &str, seconds, discipline| SimulatedStation {
        name: name.to_owned(),
        service: Distribution::Exponential(Seconds(seconds)),
        discipline,
    };
    let simulated = Simulation {
        source: Source::Users {
            count: 6,
            think: Distribution::Exponential(Seconds(0.04)),
        },
        stations: vec![
            station("backend", 0.02, Discipline::Delay),
            station("processor", 0.01, Discipline::InOrder(1)),
        ],
        rounds: Vec::new(),
        rounds_from: 0,
        admission: Some(Admission {
            before: 0,
            workers: 2,
            backlog: 6,
            overflow: Overflow::Retry(Retries::LINUX),
            handshake: None,
        }),
        timeout: None,
        warm_up: 2_000,
        measured: 200_000,
        seed: Seed(42),
    };
    let found = simulated.run().unwrap();
    let rate = found.throughput;
    assert!(
        (rate.mean - throughput).abs() <= 2.0 * rate.half_width
            && rate.half_width < 0.01 * throughput,
        "{rate:?} is not {throughput}"
    );
    assert!((found.utilisations[0] / backend - 1.0).abs() < 0.02);
    assert!((found.workers * 2.0 / (backend + processor) - 1.0).abs() < 0.02);
    assert!((found.waiting / waiting - 1.0).abs() < 0.02);
    // The flow-equivalent server is an approximation here.
    let approximated = LimitedNetwork {
        think: Seconds(0.04),
        before: Seconds(0.0),
        stations: vec![
            Station::delay("backend", Seconds(0.02)),
            Station::queue("processor", Seconds(0.01), 1),
        ],
        workers: 2,
    };
    let approximated = approximated.solve(6).unwrap();
    assert!((approximated.throughput.0 / throughput - 1.0).abs() < 0.02);
}
