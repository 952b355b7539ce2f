//! Page studies: a replicate builds a laboratory, retrieves a page or sets of files, counts the packets, and
//! removes the laboratory.
//!
//! The module `factors` declares the factors of a page study, and `levels` converts a cell's levels into settings.
//! `site` provides the files to retrieve, `path` provides the path, `serving` runs the server, and `storage` prepares
//! the server's page cache. `replicate` runs a replicate: `retrieving` is its client, `security` contains the TLS
//! settings of both sides, `quic` contains the settings of HTTP/3, `accounts` measures the hosts' CPU time, `capture`
//! counts the packets, and `metrics` extracts the metrics.

mod accounts;
mod capture;
mod factors;
mod levels;
mod metrics;
mod path;
mod place;
mod quic;
mod replicate;
mod retrieving;
mod security;
mod serving;
mod site;
mod storage;

use std::collections::BTreeMap;

use fathometer_http::driver::Policy;

use self::capture::{CAPTURE, TAPS};
use self::site::PageSite;
use crate::experiment::{
    Experiment, Finished, Needs, Preparation, PrepareError, Prepared, ReplicateError, Replicates,
    Servers, Setup, Shared,
};
use crate::factor::AnyFactor;
use crate::spec::{Cell, Key, Study};

/// The factors that set the QUIC settings of an HTTP/3 server, each with the levels that leave the settings unchanged.
const QUIC_FACTORS: [(&str, [&str; 2]); 3] = [
    ("congestion", ["", "era"]),
    ("iw", ["", "era"]),
    ("udp_offload", ["", "on"]),
];

/// The experiment of page studies.
pub static PAGE: PageExperiment = PageExperiment;

/// A replicate is one retrieval of a page, or of sets of files.
pub struct PageExperiment;

impl Experiment for PageExperiment {
    fn name(&self) -> &'static str {
        "page"
    }

    fn meaning(&self) -> &'static str {
        "a replicate is one retrieval of a page, with every packet counted"
    }

    fn factors(&self) -> Vec<&'static dyn AnyFactor> {
        factors::FACTORS.to_vec()
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                TAPS,
                "the packets at both ends of the path, if the study keeps captures",
            ),
            (
                CAPTURE,
                "the packets at the client's end of the path, for other programs",
            ),
            ("exchanges.ndjson", "the exchanges, one per line"),
            ("connections.ndjson", "the connections, one per line"),
            (
                "services.ndjson",
                "policy h3-alt-svc: the events of alternative services",
            ),
            (
                "files.ndjson",
                "workloads of sets: when each file was usable",
            ),
            (
                "processors.ndjson",
                "with `accounts`: the CPU time of both hosts every 100 ms",
            ),
            (
                "keys.log",
                "policies with TLS: the secrets, with which Wireshark decrypts the captures",
            ),
        ]
    }

    fn keys(&self) -> &'static [Key] {
        &[Key::Captures, Key::SnapLength, Key::Accounts, Key::Plots]
    }

    fn needs<'a>(&self, _: &'a Study, servers: &'a Servers) -> Needs<'a> {
        Box::new(|cell| unsupported_http3(cell, servers))
    }

    fn prepare(&self, preparation: &Preparation<'_>) -> Result<Prepared, PrepareError> {
        let mut servers = preparation.servers.values();
        let on_disk = servers.any(|(_, installed)| installed.is_some());
        let pages = site::load(preparation, on_disk)?;
        Ok(Prepared {
            replicates: Box::new(Retrievals { pages }),
            notes: Vec::new(),
        })
    }
}

/// Returns the reason why the cell's server does not support HTTP/3; `None` if it does, or if the policy does not use
/// HTTP/3.
///
/// The embedded origin, or a program that supports HTTP/3, serves a page over HTTP/3. A program has its own QUIC
/// implementation, which cannot be configured here.
fn unsupported_http3(cell: &Cell, servers: &Servers) -> Option<String> {
    let policy = cell.level("policy").parse::<Policy>().ok()?;
    if !policy.protocol.is_over_quic() {
        return None;
    }
    let (definition, _) = servers.get(cell.level("server"))?;
    if definition.program.is_none() {
        let imitates = matches!(
            definition.name.as_str(),
            "embedded-jigsaw" | "embedded-apache"
        );
        return imitates.then(|| format!("{} imitates a server without HTTP/3", definition.name));
    }
    QUIC_FACTORS
        .into_iter()
        .find(|(factor, usual)| !usual.contains(&cell.level(factor)))
        .map(|(factor, _)| {
            let (name, level) = (&definition.name, cell.level(factor));
            format!("{name} has its own QUIC, which does not support {factor}={level}")
        })
}

/// The replicates of a page study, and the files of all its cells.
struct Retrievals {
    pages: BTreeMap<String, PageSite>,
}

impl Replicates for Retrievals {
    fn run(&self, shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
        let page = self
            .pages
            .get(setup.cell.level("workload"))
            .expect("the pages of all cells were built");
        replicate::run(shared, setup, page)
    }
}
