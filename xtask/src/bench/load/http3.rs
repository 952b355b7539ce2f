//! Measures HTTP/3: the CPU time of two clients and two servers, in all four combinations. The peers use quic-go:
//! Caddy, and a client that is only a loop on quic-go's transport.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::client::Client;
use super::place::{Place, installed};
use super::server::{self, Server};
use super::{FILE, Judgement, ROUNDS, Row, SECONDS, bar, judged};

/// Builds the quic-go client in `folder`; `None` without Go, or when its modules cannot be fetched.
pub(super) fn build_quic_go(root: &Path, folder: &Path) -> Option<PathBuf> {
    let go = installed("go").or_else(|| {
        let usual = PathBuf::from("/usr/local/go/bin/go");
        usual.is_file().then(|| usual.display().to_string())
    })?;
    let program = folder.join("quic-go-client");
    let built = Command::new(go)
        .args(["build", "-mod=readonly", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(root.join("xtask/src/bench/load/quic_go"))
        .status();
    built
        .is_ok_and(|status| status.success())
        .then_some(program)
}

/// Returns the judgement of the clients, then the judgement of the servers.
pub(super) fn measure(place: &Place, processor: usize) -> Result<[Judgement; 2], String> {
    server::write_identity(&place.folder)?;
    let ours = Server::ours_http3(place, processor)?;
    let peer = Server::caddy(&place.folder, processor)?;
    let servers: Vec<&Server> = std::iter::once(&ours).chain(peer.as_ref()).collect();
    let clients = [Client::OursHttp3, Client::QuicGo];
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
    let server_names = [ours.name, "Caddy"];
    let names = pairs.map(|(client, server)| {
        format!("{}, from {}", clients[client].name(), server_names[server])
    });
    println!("\nclient CPU per exchange, HTTP/3, 16 connections of 16 streams");
    let judged_clients = judged(
        &names,
        &of_clients,
        &[
            bar("quic-go, from fathometer serve", 0, 1, None),
            bar("quic-go, from Caddy", 2, 3, None),
        ],
    );
    let names = pairs.map(|(client, server)| {
        format!("{}, under {}", server_names[server], clients[client].name())
    });
    println!("\nserver CPU per exchange, HTTP/3, 16 connections of 16 streams");
    let judged_servers = judged(
        &names,
        &of_servers,
        &[
            bar("Caddy, under fathometer", 0, 2, None),
            bar("Caddy, under quic-go", 1, 3, None),
        ],
    );
    Ok([judged_clients, judged_servers])
}
