//! Checks that clients report the same median latency for responses that a server delays.

use serde_json::{Value, json};

use super::super::trace::median;
use super::client::Client;
use super::place::Place;
use super::server::{self, Server, Tuning};
use super::{Judgement, ROUNDS, SECONDS};

/// Largest relative difference between the medians of two clients.
const AGREEMENT: f64 = 0.05;
/// A file that nginx sends in parts of 2 KiB, 20 ms apart. The delay is so long that the client's own time does not
/// matter, and that no processor is busy.
const SLOW_FILE: (&str, usize) = ("slow.html", 4096);

/// Compares the medians that clients report for a file that nginx delays.
pub(super) fn compare(place: &Place, processor: usize) -> Result<Judgement, String> {
    server::write_site(&place.folder, &[SLOW_FILE])?;
    let nginx = Server::nginx(&place.folder, processor, Tuning::Fast)?;
    let clients = [
        Client::Ours { pipeline: 1 },
        Client::Wrk,
        Client::H2load { pipeline: 1 },
    ];
    let url = nginx.url(&format!("slow/{}", SLOW_FILE.0));
    let mut medians = vec![Vec::new(); clients.len()];
    for _ in 0..ROUNDS {
        for (client, medians) in clients.iter().zip(&mut medians) {
            if let Some(cost) = client.run_timed(place, &url, SECONDS)? {
                medians.extend(cost.latency.map(|results| results[0]));
            }
        }
    }
    println!("median latency of {} bytes that nginx delays", SLOW_FILE.1);
    let mut results = Vec::new();
    for (client, values) in clients.iter().zip(medians) {
        if values.is_empty() {
            println!("{:20}  not reported", client.name());
            if matches!(client, Client::Ours { .. }) {
                return Err("fathometer load reports no median".to_owned());
            }
            continue;
        }
        let middle = median(values);
        println!("{:20}{:>10.3} ms", client.name(), middle * 1e3);
        results.push((client.name(), middle));
    }
    let least = results
        .iter()
        .map(|(_, time)| *time)
        .fold(f64::INFINITY, f64::min);
    let most = results.iter().map(|(_, time)| *time).fold(0.0, f64::max);
    let apart = most / least - 1.0;
    let met = apart <= AGREEMENT;
    println!(
        "\nlargest difference of two medians {:.1} % (target at most {:.0} %): {}",
        apart * 100.0,
        AGREEMENT * 100.0,
        if met { "met" } else { "MISSED" }
    );
    let medians: Vec<Value> = results
        .iter()
        .map(|(name, time)| json!({ "name": name, "median_s": time }))
        .collect();
    let results =
        json!({ "medians": medians, "apart": apart, "most_apart": AGREEMENT, "met": met });
    Ok((met, results))
}
