//! A server's cost for a large file: 1 MiB from the page cache. The kernel does nearly all of the work; servers
//! differ only in how efficiently they request it.

use super::client::Client;
use super::place::Place;
use super::server::{self, Server, Tuning};
use super::{FILE, Judgement, ROUNDS, Row, SECONDS, SIZE, bar, judged};

const LARGE: (&str, usize) = ("1m.html", 1 << 20);

/// Compares servers by CPU time per exchange under the same client.
pub(super) fn measure(place: &Place, processor: usize) -> Result<Judgement, String> {
    // The small file is for the check that a server answers.
    server::write_site(&place.folder, &[(FILE, SIZE), LARGE])?;
    let servers = [
        Server::ours(place, processor)?,
        Server::nginx(&place.folder, processor, Tuning::None)?,
        Server::nginx(&place.folder, processor, Tuning::Sendfile)?,
    ];
    let mut rows = servers.each_ref().map(|_| Row::default());
    for _ in 0..ROUNDS {
        for (server, row) in servers.iter().zip(&mut rows) {
            let before = server.cpu()?;
            let Some(mut cost) = Client::Wrk.run(place, &server.url(LARGE.0), SECONDS)? else {
                return Err("wrk is not installed".to_owned());
            };
            if cost.exchanges == 0 {
                return Err(format!("wrk received nothing from {}", server.name));
            }
            cost.cpu = server.cpu()? - before;
            row.push(&cost);
        }
    }
    println!(
        "\nserver CPU per exchange, a file of {} bytes, under wrk",
        LARGE.1
    );
    let bars = [
        bar("nginx", 0, 1, Some(1.0)),
        bar("nginx with sendfile", 0, 2, Some(0.8)),
    ];
    Ok(judged(
        &servers.each_ref().map(|server| server.name),
        &rows,
        &bars,
    ))
}
