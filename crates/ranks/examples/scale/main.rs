//! Determines the limits of a load test with many ranks. Measures the CPU time of rank 0's operations, and uses it in
//! simulations of tests with up to 3000 ranks in virtual time. Prints the tables of `docs/scale.md` (`cargo xtask
//! scale`).

mod costs;
mod packet;
mod scenario;
mod simulation;

use std::error::Error;
use std::time::Duration;

use fathometer_path::Profile;
use fathometer_ranks::record::TestFacts;
use fathometer_ranks::secret::Secret;
use fathometer_ranks::whole::encode_part;

use costs::{Costs, IntervalCosts};
use scenario::{Found, Scenario};
use simulation::simulate;

/// A test with intervals of one second.
const FACTS: TestFacts = TestFacts {
    ranks: 2,
    interval: Duration::from_secs(1),
    warm_up: Duration::ZERO,
    measured: Some(Duration::from_secs(60)),
};

/// The loads, in exchanges per rank and second.
const LOADS: [u64; 4] = [100, 1_000, 10_000, 100_000];
/// The load of the simulations, in exchanges per second for each rank.
const SIMULATED: u64 = 10_000;
/// The numbers of ranks in the simulations.
const RANKS: [u32; 5] = [10, 100, 300, 1_000, 3_000];

/// The links of rank 0: name, rate and one-way delay.
const LINKS: [(&str, &str, &str); 3] = [
    ("10 Gbit/s, 0.1 ms", "10Gbit/s", "50us"),
    ("1 Gbit/s, 1 ms", "1Gbit/s", "500us"),
    ("100 Mbit/s, 20 ms", "100Mbit/s", "10ms"),
];

fn secret() -> Secret {
    Secret::new(b"a secret of this program").expect("the secret is long enough")
}

fn main() -> Result<(), Box<dyn Error>> {
    let costs = costs::measure()?;
    print_costs(&costs);
    let mut intervals = Vec::new();
    for exchanges in LOADS {
        intervals.push(costs::of_intervals(exchanges)?);
    }
    print_intervals(&costs, &intervals);
    let simulated = intervals.iter().find(|costs| costs.exchanges == SIMULATED);
    let simulated = *simulated.ok_or("the simulated load is not measured")?;
    let figures = encode_part(&costs::part(1, 0, SIMULATED));
    println!(
        "\nTests in virtual time, each rank with {SIMULATED} exchanges per second ({} bytes per interval):\n\n\
         | link of rank 0, round trip | ranks | start after | clock error | last interval after | slowest ping | last \
         result after | processor |\n|---|---:|---:|---:|---:|---:|---:|---:|",
        simulated.bytes
    );
    for (name, rate, delay) in LINKS {
        let path = path(rate, delay)?;
        for ranks in RANKS {
            let found = simulate(&Scenario {
                ranks,
                path: &path,
                secret: &secret(),
                costs,
                interval: (simulated, &figures),
            });
            print_found(name, ranks, &found);
        }
    }
    Ok(())
}

fn path(rate: &str, delay: &str) -> Result<Profile, Box<dyn Error>> {
    let text = format!(
        "name = 'link'\nsource = 'assumed'\n[both]\nrate = '{rate}'\npropagation = '{delay}'\nframing = 'ethernet'\n\
         queue = {{ packets = 4000000 }}"
    );
    Ok(Profile::from_toml(&text, "link")?)
}

fn micros(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn print_costs(costs: &Costs) {
    println!("| what rank 0 does | CPU time |\n|---|---:|");
    for (what, time) in [
        ("accepts a connection", costs.accept),
        (
            "completes the TLS handshake, proves the secret and checks the proof",
            costs.handshake,
        ),
        ("waits for bytes, for each connection", costs.poll),
        ("reads once", costs.read),
        ("writes once", costs.write),
        ("decrypts, verifies and answers a ping", costs.ping),
    ] {
        println!("| {what} | {} |", micros(time));
    }
}

fn print_intervals(costs: &Costs, intervals: &[IntervalCosts]) {
    println!(
        "\n| exchanges per rank and second | traffic per rank | a rank encodes | rank 0 receives | rank 0 merges | memory \
         per rank | ranks that take a tenth of a processor |\n|---:|---:|---:|---:|---:|---:|---:|"
    );
    for interval in intervals {
        let each = interval.receive + interval.merge + costs.ping;
        let each = each + 2 * (costs.read + costs.poll) + costs.write;
        println!(
            "| {} | {:.1} kB/s | {} | {} | {} | {:.1} kB | {:.0} |",
            interval.exchanges,
            interval.bytes as f64 / 1e3,
            micros(interval.encode),
            micros(interval.receive),
            micros(interval.merge),
            interval.memory as f64 / 1e3,
            0.1 / each.as_secs_f64()
        );
    }
}

fn print_found(name: &str, ranks: u32, found: &Found) {
    if !found.is_complete {
        println!("| {name} | {ranks} | does not end within 120 s | | | | | |");
        return;
    }
    println!(
        "| {name} | {ranks} | {} | {} | {} | {} | {} | {:.2} % |",
        millis(found.rendezvous),
        millis(found.uncertainty),
        millis(found.last_interval),
        millis(found.ping),
        millis(found.last_result),
        100.0 * found.processor
    );
}
