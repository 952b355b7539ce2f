//! `cargo xtask bench load`: cost per exchange, of clients and of servers.
//!
//! Clients are compared by CPU time (user and system) of the whole program per exchange with the same nginx. nginx
//! counts the exchanges itself, so the figures do not depend on the clients' own counts. The targets were set with
//! nginx. The same cost with `fathometer serve`, which is faster than any client, is reported and not judged: there
//! each client counts its own exchanges, and the share of the client's own code in the cost is smaller. Servers are
//! compared by their CPU time under the same client. Server and client each have one processor. All measurements
//! alternate in rounds, and a ratio is the median of the ratios within each round. Other load on the machine then
//! affects both sides of a ratio.
//!
//! HTTP/2 over TLS is measured with both clients and both servers, ours and nghttp2's. HTTP/3 is measured in the same
//! way with ours and quic-go's, side by side and without a target.
//!
//! A large file is measured separately: the kernel does the work, and servers differ only in how efficiently they
//! request it. Then an open loop at half of the capacity of client and server measures the send lag.
//!
//! The last part compares the latencies that clients report, not their speed. The percentiles must agree for a
//! saturated server, and for a file that the server delays by a known time.
//!
//! The client is measured with its defaults: without wake-up coalescing, which would change the result.

mod client;
mod held_back;
mod http3;
mod lag;
mod large;
mod latency;
mod place;
mod samples;
pub(super) mod server;

use std::path::Path;
use std::process::ExitCode;

use fathometer_sys::{Interrupt, sched};
use serde_json::{Value, json};

use self::client::{Client, Cost};
use self::place::Place;
use self::server::{Server, Tuning};
use super::trace::{Scratch, build, median};

/// Rounds of each measurement. Other load on the machine changes within seconds; alternating rounds expose both
/// sides of a ratio to the same load.
const ROUNDS: usize = 9;
/// Seconds that each client runs in each round: long compared with its start-up time.
const SECONDS: u32 = 2;
/// Bytes of the file.
const SIZE: usize = 1024;
const FILE: &str = "1k.html";

/// A comparison of our program with a peer in the same rounds.
struct Bar {
    name: &'static str,
    ours: usize,
    peer: usize,
    /// Upper bound of our cost relative to the peer's; `None`: reported, not judged.
    most: Option<f64>,
}

/// Cost of one program in each round, and its exchanges per second.
#[derive(Default)]
struct Row {
    micros: Vec<f64>,
    rates: Vec<f64>,
}

impl Row {
    fn push(&mut self, cost: &Cost) {
        self.micros.push(cost.cpu * 1e6 / cost.exchanges as f64);
        self.rates.push(cost.exchanges as f64 / cost.seconds);
    }
}

/// A part of the bench, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// A client's cost per exchange.
    Clients,
    /// A server's cost per exchange, and clients at their limit.
    Servers,
    /// Files of 1 MiB.
    Large,
    /// The send lag of an open loop.
    SendLag,
    /// HTTP/2 over TLS.
    Http2,
    /// HTTP/3.
    Http3,
    /// Agreement of the percentiles that clients report for a saturated server.
    Latency,
}

impl Part {
    const JUDGED: [Part; 7] = [
        Part::Clients,
        Part::Servers,
        Part::Large,
        Part::SendLag,
        Part::Http2,
        Part::Http3,
        Part::Latency,
    ];
}

/// Builds the release binary, measures, prints tables and a line of JSON, and fails when a target is missed.
pub(crate) fn run(root: &Path, only: &[Part]) -> Result<ExitCode, String> {
    let ours = build(root)?;
    let processors = sched::processors().map_err(|error| error.to_string())?;
    let &[for_server, for_client, ..] = processors.as_slice() else {
        return Err("this needs two processors: one for the client, one for the server".to_owned());
    };
    let scratch = Scratch::new()?;
    let mut place = Place {
        ours,
        quic_go: None,
        bare: None,
        processor: for_client,
        folder: scratch.0.clone(),
        interrupt: Interrupt::install().map_err(|error| error.to_string())?,
    };
    server::write_site(&scratch.0, &[(FILE, SIZE)])?;
    println!(
        "servers on processor {for_server}, clients on processor {for_client}, {ROUNDS} rounds of \
         {SECONDS} s, a file of {SIZE} bytes\n"
    );
    let mut parts = match only {
        [] => Part::JUDGED.to_vec(),
        only => only.to_vec(),
    };
    parts.dedup();
    let (mut met, mut results) = (true, serde_json::Map::new());
    for part in parts {
        for (name, (is_met, figures)) in measure(part, root, &mut place, for_server)? {
            met &= is_met;
            results.insert(name.to_owned(), figures);
        }
    }
    results.insert("bench".to_owned(), "load".into());
    results.insert("met".to_owned(), met.into());
    println!("{}", Value::Object(results));
    Ok(match met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs one part; returns the name of each judgement with its result.
fn measure(
    part: Part,
    root: &Path,
    place: &mut Place,
    processor: usize,
) -> Result<Vec<(&'static str, Judgement)>, String> {
    Ok(match part {
        Part::Clients => {
            place.bare = client::build_bare_loop(root, &place.folder);
            vec![("clients", clients(place, processor)?)]
        }
        Part::Servers => {
            let (servers, at_their_limit) = servers(place, processor)?;
            vec![
                ("servers", servers),
                ("clients_at_their_limit", at_their_limit),
            ]
        }
        Part::Large => vec![("large_file", large::measure(place, processor)?)],
        Part::SendLag => vec![("send_lag", lag::measure(place, processor)?)],
        Part::Http2 => {
            let [clients, servers] = http2(place, processor)?;
            vec![("http2_clients", clients), ("http2_servers", servers)]
        }
        Part::Http3 => {
            place.quic_go = http3::build_quic_go(root, &place.folder);
            // There is no target: the figures are printed side by side.
            let [clients, servers] = http3::measure(place, processor)?;
            vec![
                ("http3_clients", (true, clients.1)),
                ("http3_servers", (true, servers.1)),
            ]
        }
        Part::Latency => vec![("latency", latency::measure(place, processor)?)],
    })
}

fn clients(place: &Place, processor: usize) -> Result<Judgement, String> {
    let clients = [
        Client::Ours { pipeline: 1 },
        Client::Wrk,
        Client::H2load { pipeline: 1 },
        Client::Ab,
        Client::Oha,
        Client::Wrk2,
        Client::Ours { pipeline: 16 },
        Client::H2load { pipeline: 16 },
        Client::Bare,
    ];
    let bars = [
        bar("wrk", 0, 1, Some(0.92)),
        bar("a bare loop in C", 0, 8, Some(1.08)),
        bar("h2load", 0, 2, None),
        bar("ab", 0, 3, None),
        bar("oha", 0, 4, None),
        bar("wrk2", 0, 5, None),
        bar("h2load, pipelined x16", 6, 7, Some(0.32)),
    ];
    let nginx = Server::nginx(&place.folder, processor, Tuning::Fast)?;
    let mut rows: Vec<Row> = clients.iter().map(|_| Row::default()).collect();
    for _ in 0..ROUNDS {
        for (client, row) in clients.iter().zip(&mut rows) {
            let before = nginx.requests()?;
            let Some(mut cost) = client.run(place, &nginx.url(FILE), SECONDS)? else {
                continue;
            };
            // nginx also counts the status request itself.
            cost.exchanges = nginx.requests()?.saturating_sub(before + 1).max(1);
            row.push(&cost);
        }
    }
    let names = clients.map(Client::name);
    println!("client CPU per exchange, 64 connections, HTTP/1.1 keep-alive, from nginx");
    Ok(judged(&names, &rows, &bars))
}

/// Measures servers. With the first server (ours), also measures the clients, because the clients are slower than this
/// server.
fn servers(place: &Place, processor: usize) -> Result<(Judgement, Judgement), String> {
    let servers = [
        Server::ours(place, processor)?,
        Server::nginx(&place.folder, processor, Tuning::None)?,
        Server::nginx(&place.folder, processor, Tuning::Fast)?,
    ];
    let clients = [Client::Wrk, Client::Ours { pipeline: 1 }];
    let mut at_their_limit = clients.map(|_| Row::default());
    let mut rows: Vec<Row> = Vec::new();
    let mut names = Vec::new();
    for client in clients {
        for server in &servers {
            names.push(format!("{}, under {}", server.name, client.name()));
            rows.push(Row::default());
        }
    }
    for _ in 0..ROUNDS {
        // Both clients of a server run one after the other: other load on the machine changes within seconds.
        for (place_of_server, place_of_client) in
            (0..servers.len()).flat_map(|server| [(server, 0), (server, 1)])
        {
            let n = place_of_client * servers.len() + place_of_server;
            let (server, row) = (&servers[place_of_server], &mut rows[n]);
            let before = server.cpu()?;
            let client = clients[place_of_client];
            let Some(mut cost) = client.run(place, &server.url(FILE), SECONDS)? else {
                return Err(format!("{} is not installed", client.name()));
            };
            if cost.exchanges == 0 {
                return Err(format!("{} does not report its exchanges", client.name()));
            }
            if place_of_server == 0 {
                at_their_limit[place_of_client].push(&cost);
            }
            cost.cpu = server.cpu()? - before;
            row.push(&cost);
        }
    }
    println!("\nclient CPU per exchange, from {}", servers[0].name);
    let faster = judged(
        &clients.map(Client::name),
        &at_their_limit,
        &[bar("wrk", 1, 0, None)],
    );
    println!("\nserver CPU per exchange, 64 connections, HTTP/1.1 keep-alive");
    let bars = [
        bar("nginx, under wrk", 0, 1, Some(0.8)),
        bar("nginx with cached files, under wrk", 0, 2, Some(0.75)),
        bar("nginx, under fathometer", 3, 4, Some(0.8)),
        bar(
            "nginx with cached files, under fathometer",
            3,
            5,
            Some(0.75),
        ),
    ];
    Ok((judged(&names, &rows, &bars), faster))
}

/// Measures HTTP/2 over TLS: the CPU time of two clients and two servers, in all four combinations. Returns the
/// judgement of the clients, then the judgement of the servers.
fn http2(place: &Place, processor: usize) -> Result<[Judgement; 2], String> {
    server::write_identity(&place.folder)?;
    let ours = Server::ours_secure(place, processor)?;
    let peer = Server::nghttpd(&place.folder, processor)?;
    let servers: Vec<&Server> = std::iter::once(&ours).chain(peer.as_ref()).collect();
    let clients = [Client::OursHttp2, Client::H2loadHttp2];
    // Pairs of a client and a server; 0 is our program, 1 is the peer.
    let pairs = [(0, 0), (1, 0), (0, 1), (1, 1)];
    let mut of_clients = pairs.map(|_| Row::default());
    let mut of_servers = pairs.map(|_| Row::default());
    for _ in 0..ROUNDS {
        for (place_of, &(client, server)) in pairs.iter().enumerate() {
            let Some(server) = servers.get(server) else {
                continue;
            };
            let before = server.cpu()?;
            let Some(mut cost) = clients[client].run(place, &server.url(FILE), SECONDS)? else {
                continue;
            };
            if cost.exchanges == 0 {
                return Err(format!(
                    "{} completed no exchange with {}",
                    clients[client].name(),
                    server.name
                ));
            }
            of_clients[place_of].push(&cost);
            cost.cpu = server.cpu()? - before;
            of_servers[place_of].push(&cost);
        }
    }
    let server_names = [ours.name, "nghttpd"];
    let names = pairs.map(|(client, server)| {
        format!("{}, from {}", clients[client].name(), server_names[server])
    });
    println!("\nclient CPU per exchange, HTTP/2 over TLS, 16 connections of 16 streams");
    let judged_clients = judged(
        &names,
        &of_clients,
        &[
            bar("h2load, from fathometer serve", 0, 1, Some(0.42)),
            bar("h2load, from nghttpd", 2, 3, Some(0.9)),
        ],
    );
    let names = pairs.map(|(client, server)| {
        format!("{}, under {}", server_names[server], clients[client].name())
    });
    println!("\nserver CPU per exchange, HTTP/2 over TLS, 16 connections of 16 streams");
    let judged_servers = judged(
        &names,
        &of_servers,
        &[
            bar("nghttpd, under fathometer", 0, 2, Some(0.5)),
            bar("nghttpd, under h2load", 1, 3, Some(0.5)),
        ],
    );
    Ok([judged_clients, judged_servers])
}

const fn bar(name: &'static str, ours: usize, peer: usize, most: Option<f64>) -> Bar {
    Bar {
        name,
        ours,
        peer,
        most,
    }
}

/// Whether each target is met, and all figures as JSON.
type Judgement = (bool, Value);

/// Prints all rows and targets.
fn judged(names: &[impl AsRef<str>], rows: &[Row], bars: &[Bar]) -> Judgement {
    println!(
        "{:48}{:>8}{:>20}{:>13}",
        "", "µs", "least to most", "exchanges/s"
    );
    let mut results = Vec::new();
    for (name, row) in names.iter().zip(rows) {
        let name = name.as_ref();
        if row.micros.is_empty() {
            println!("{name:48}   not installed");
            continue;
        }
        let (micros, rate) = (median(row.micros.clone()), median(row.rates.clone()));
        let least = row.micros.iter().copied().fold(f64::INFINITY, f64::min);
        let most = row.micros.iter().copied().fold(0.0, f64::max);
        let spread = format!("{least:.2} to {most:.2}");
        println!("{name:48}{micros:>8.2}{spread:>20}{rate:>13.0}");
        results.push(json!({
            "name": name,
            "cpu_us": row.micros,
            "cpu_us_median": micros,
            "exchanges_per_s": rate,
        }));
    }
    println!();
    let mut all_met = true;
    let mut ratios = Vec::new();
    for bar in bars {
        let (ours, peer) = (&rows[bar.ours].micros, &rows[bar.peer].micros);
        let pairs: Vec<f64> = ours.iter().zip(peer).map(|(a, b)| a / b).collect();
        if pairs.is_empty() {
            continue;
        }
        let ratio = median(pairs);
        let met = bar.most.is_none_or(|most| ratio <= most);
        all_met &= met;
        let verdict = match bar.most {
            Some(most) if met => format!("target {most}: met"),
            Some(most) => format!("target {most}: MISSED"),
            None => String::new(),
        };
        println!("of {:45}{ratio:>8.3}  {verdict}", bar.name);
        ratios.push(json!({
            "of": bar.name,
            "ratio": ratio,
            "bar": bar.most,
            "met": met,
        }));
    }
    (all_met, json!({ "programs": results, "ratios": ratios }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(micros: &[f64]) -> Row {
        Row {
            micros: micros.to_vec(),
            rates: micros.iter().map(|micros| 1e6 / micros).collect(),
        }
    }

    #[test]
    fn a_ratio_is_that_of_pairs_and_what_is_missing_is_not_judged() {
        // Other load on the machine doubled all costs in the second round.
        let rows = [
            row(&[8.0, 16.0, 8.0]),
            row(&[10.0, 20.0, 10.0]),
            Row::default(),
        ];
        let names = ["ours", "peer", "absent"];
        let judge = |most| judged(&names, &rows, &[bar("peer", 0, 1, Some(most))]).0;
        assert!(judge(0.8) && !judge(0.79));
        let absent = [bar("absent", 0, 2, Some(0.1))];
        let (met, results) = judged(&names, &rows, &absent);
        assert!(met);
        assert_eq!(results["ratios"], json!([]));
        assert_eq!(results["programs"].as_array().unwrap().len(), 2);
    }
}
