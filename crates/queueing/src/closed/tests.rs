use super::*;

fn close(left: f64, right: f64, relative: f64) {
    assert!(
        (left - right).abs() <= relative * right.abs(),
        "{left} is not {right}"
    );
}

/// Mean value analysis as published, for single servers: Reiser and Lavenberg, section 3.
fn recursion(think: f64, demands: &[f64], users: u32) -> (f64, Vec<f64>) {
    let mut queues = vec![0.0; demands.len()];
    let mut throughput = 0.0;
    for n in 1..=users {
        let residences: Vec<f64> = demands
            .iter()
            .zip(&queues)
            .map(|(demand, queue)| demand * (1.0 + queue))
            .collect();
        throughput = f64::from(n) / (think + residences.iter().sum::<f64>());
        queues = residences.iter().map(|time| throughput * time).collect();
    }
    (throughput, queues)
}

#[test]
fn single_servers_agree_with_the_published_recursion() {
    let demands = [0.005, 0.004, 0.003, 0.0001];
    let network = Network {
        think: Seconds(0.2),
        stations: demands
            .iter()
            .map(|&demand| Station::queue("station", Seconds(demand), 1))
            .collect(),
    };
    for users in [1, 2, 20, 100, 2000] {
        let solution = network.solve(users).unwrap();
        let (throughput, queues) = recursion(0.2, &demands, users);
        close(solution.throughput.0, throughput, 1e-10);
        for (station, queue) in solution.stations.iter().zip(queues) {
            close(station.customers, queue, 1e-9);
        }
    }
}

/// The machine repairman, M/M/c//N, by its birth-death equations: Kleinrock, 3.8.
#[test]
fn multiserver_stations_agree_with_the_machine_repairman() {
    let (think, service) = (2.0, 0.5);
    for (servers, users) in [(1, 5), (3, 10), (4, 40), (16, 60)] {
        let mut weights = vec![1.0];
        for j in 1..=users {
            let births = f64::from(users - j + 1) / think;
            let deaths = f64::from(j.min(servers)) / service;
            weights.push(weights[j as usize - 1] * births / deaths);
        }
        let sum: f64 = weights.iter().sum();
        let mean = |value: &dyn Fn(f64) -> f64| {
            let terms = weights.iter().enumerate();
            terms.map(|(j, w)| value(j as f64) * w / sum).sum::<f64>()
        };
        let network = Network {
            think: Seconds(think),
            stations: vec![Station::queue("repair", Seconds(service), servers)],
        };
        let solution = network.solve(users).unwrap();
        let busy = mean(&|j| j.min(f64::from(servers)));
        close(solution.throughput.0, busy / service, 1e-12);
        close(solution.stations[0].customers, mean(&|j| j), 1e-12);
        close(
            solution.stations[0].utilisation,
            busy / f64::from(servers),
            1e-12,
        );
    }
}

#[test]
fn ten_thousand_users_of_many_servers_lose_no_digits() {
    let network = Network {
        think: Seconds(1.0),
        stations: vec![
            Station::queue("processors", Seconds(0.016), 64),
            Station::queue("disk", Seconds(0.0002), 1),
            Station::delay("path", Seconds(0.08)),
        ],
    };
    for users in [100, 4000, 4400, 10_000] {
        let solution = network.solve(users).unwrap();
        let customers: f64 = solution.stations.iter().map(|s| s.customers).sum();
        let thinking = solution.throughput * network.think;
        // Each user is at a station or thinks.
        close(customers + thinking, f64::from(users), 1e-9);
        assert!(solution.throughput.0 <= 64.0 / 0.016);
    }
    // Past saturation the throughput is the capacity, to all digits, and the response time follows from it.
    let saturated = network.solve(10_000).unwrap();
    close(saturated.throughput.0, 4000.0, 1e-9);
    close(saturated.response.0, 10_000.0 / 4000.0 - 1.0, 1e-9);
}

#[test]
fn parameters_outside_their_range_are_errors() {
    let network = Network {
        think: Seconds(0.0),
        stations: vec![Station::queue("cpu", Seconds(f64::NAN), 1)],
    };
    assert!(network.solve(1).is_err());
    let network = Network {
        think: Seconds(0.0),
        stations: vec![Station::queue("cpu", Seconds(0.0), 1)],
    };
    assert!(network.solve(1).is_err());
    let network = Network {
        think: Seconds(0.0),
        stations: vec![Station::queue("cpu", Seconds(1.0), 0)],
    };
    assert!(network.solve(1).is_err());
    let network = Network {
        think: Seconds(1.0),
        stations: vec![],
    };
    assert!(network.solve(0).is_err());
    close(network.solve(5).unwrap().throughput.0, 5.0, 1e-12);
}

#[test]
fn a_delay_and_few_servers_far_beyond_saturation_have_a_mean() {
    let network = Network {
        think: Seconds(0.0),
        stations: vec![
            Station::queue("processor", Seconds(1e-3), 2),
            Station::queue("a link that takes no time", Seconds(0.0), 1),
            Station::delay("elsewhere", Seconds(9e-3)),
        ],
    };
    for users in [10, 100, 200, 300, 400, 1000, 5000] {
        let solution = network.solve(users).unwrap();
        let expected = f64::from(users) / solution.throughput.0;
        assert!(
            (solution.response.0 / expected - 1.0).abs() < 1e-9,
            "{users} users: {solution:?}"
        );
    }
}
