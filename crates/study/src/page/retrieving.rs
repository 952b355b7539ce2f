//! The client of a replicate. It retrieves a page, or several sets of files one after another.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fathometer_http::driver::{Options, PageDriver, Retrieval, ValidatorCache};
use fathometer_lab::hosts::{Host, Side};
use fathometer_load::client::{self, ClientSockets, LoopStatistics};
use fathometer_model::Instant;
use fathometer_sys::usage::ThreadClock;
use fathometer_sys::{Clock, SocketOptions};

use super::accounts::{Accounts, Part};
use super::levels::Levels;
use super::place::Place;
use crate::experiment::ReplicateError;

/// The time limit of the first retrieval, which runs inside the server's host.
const BEFOREHAND: Duration = Duration::from_secs(20);

/// The parameters of a retrieval.
pub(super) struct Retrieving<'a> {
    pub(super) host: &'a Host,
    pub(super) levels: &'a Levels<'a>,
    pub(super) sockets: &'a ClientSockets,
    pub(super) port: u16,
    pub(super) clock: Clock,
    pub(super) deadline: Instant,
}

impl Retrieving<'_> {
    /// Retrieves the page, or the sets one after another. Each retrieval uses new connections.
    pub(super) fn run(
        &self,
        cache: &ValidatorCache,
        accounts: Option<&Accounts>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Retrieval, LoopStatistics), ReplicateError> {
        let server = SocketAddr::new(IpAddr::V4(Side::Server.ipv4()), self.port);
        let (levels, clock) = (self.levels, self.clock);
        let lists: Vec<_> = match levels.sets.as_slice() {
            [] => vec![None],
            sets => sets.iter().cloned().map(Some).collect(),
        };
        let visits: Vec<(Options, ValidatorCache)> = lists
            .into_iter()
            .map(|list| {
                let options = Options {
                    list,
                    ..levels.options.clone()
                };
                (options, cache.clone())
            })
            .collect();
        let driven = self.host.namespace.run(|| {
            if let Some(accounts) = accounts {
                accounts.open(Side::Client, Part::Program, ThreadClock::current());
            }
            let mut all: Option<(Retrieval, LoopStatistics)> = None;
            for (options, cache) in visits {
                let mut driver = PageDriver::new(
                    levels.policy,
                    options,
                    levels.visit,
                    levels.page.base.clone(),
                    cache,
                    clock.now(),
                );
                let statistics = client::drive(
                    &mut driver,
                    server,
                    self.sockets,
                    clock,
                    self.deadline,
                    &|| interrupted(),
                )?;
                let ended = statistics.timed_out || interrupted();
                let retrieval = driver.finish(clock.now());
                all = Some(match all {
                    None => (retrieval, statistics),
                    Some((before, so_far)) => {
                        (followed_by(before, retrieval), so_far.and(statistics))
                    }
                });
                if ended {
                    break;
                }
            }
            if let Some(accounts) = accounts {
                accounts.close_current();
            }
            Ok::<_, client::ClientError>(all)
        })?;
        Ok(driven?.expect("there is at least one visit"))
    }
}

/// Fills a cache and a session store by a first retrieval inside the server's host, without the path.
pub(super) fn retrieve_beforehand(
    place: &Place<'_>,
    sockets: &ClientSockets,
) -> Result<ValidatorCache, ReplicateError> {
    let sockets = ClientSockets {
        options: SocketOptions {
            no_delay: Some(true),
            ..SocketOptions::default()
        },
        quick_ack: None,
        ..sockets.clone()
    };
    let retrieving = Retrieving {
        host: place.host,
        levels: &place.levels.plain(),
        sockets: &sockets,
        port: place.access.port(),
        clock: place.clock,
        deadline: place.clock.now() + BEFOREHAND,
    };
    let (retrieval, statistics) = retrieving.run(&ValidatorCache::default(), None, &|| false)?;
    if !retrieval.failures.is_empty() || retrieval.milestones.page_complete.is_none() {
        let count = retrieval.failures.len();
        let tls = statistics.tls_failure.map(|failure| format!(": {failure}"));
        return Err(ReplicateError::Beforehand {
            server: place.setup.definition.name.clone(),
            reason: format!("{count} files failed{}", tls.unwrap_or_default()),
        });
    }
    Ok(retrieval.cache)
}

/// Merges two consecutive retrievals. Figures that exist only for a page are taken from the first retrieval.
fn followed_by(mut first: Retrieval, second: Retrieval) -> Retrieval {
    let connections = first.connections.len() as u32;
    let exchanges = first.exchanges.len() as u32;
    first
        .exchanges
        .extend(second.exchanges.into_iter().map(|mut exchange| {
            exchange.exchange += exchanges;
            exchange.connection += connections;
            exchange
        }));
    first
        .connections
        .extend(second.connections.into_iter().map(|mut connection| {
            connection.connection += connections;
            connection
        }));
    first.files.extend(second.files);
    first.failures.extend(second.failures);
    first
        .services
        .extend(second.services.into_iter().map(|mut service| {
            service.connection = service.connection.map(|number| number + connections);
            service
        }));
    first.milestones.page_complete = second.milestones.page_complete;
    first.bytes.received += second.bytes.received;
    first.counters.requests_retried += second.counters.requests_retried;
    first
}
