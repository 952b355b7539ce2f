//! The calibration of the generator: trials against this program's own origin with the same protocol, connections and
//! recorder, before the first trial of a search.

use fathometer_capacity::SloLimit;
use fathometer_model::{Bytes, Seed};
use fathometer_study::capacity_search::own_origin::{OriginOptions, OwnOrigin};
use fathometer_study::capacity_search::{ArrivalProcess, Calibration, Demand, Trials};
use fathometer_sys::Clock;

use super::super::Failure;
use super::super::load::{LoadArguments, TrialSetup};
use super::server::{self, Server};

/// The requests for which the generator's highest rate is measured.
pub struct Requests<'a> {
    /// The URL under test.
    pub url: &'a str,
    /// The options of `load` that follow `--`.
    pub options: &'a [String],
    /// Connections of an open loop.
    pub connections: u32,
    /// The SLOs of the search; the recorder counts bad exchanges for each.
    pub slos: &'a [SloLimit],
    /// Seed of the workload.
    pub seed: u64,
}

/// Measures the highest rate at which the generator is on time for these requests; `None` if there is no such rate.
///
/// # Errors
/// If the origin does not start, or a test fails.
pub fn measure(
    requests: &Requests<'_>,
    setup: &TrialSetup,
    response: Bytes,
    clock: Clock,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Calibration>, Failure> {
    let demand = Demand::Rate {
        arrivals: ArrivalProcess::Constant,
        connections: requests.connections,
        most_connections: requests.connections,
    };
    let origin = OwnOrigin::start(OriginOptions {
        is_secure: setup.is_secure(),
        is_over_quic: setup.is_over_quic(),
        workload: setup.workload(),
        seed: requests.seed,
        url: requests.url,
        response,
    })?;
    let load = LoadArguments::for_trials(
        &origin.url,
        server::options(demand),
        requests.seed,
        setup.options().timeout,
        requests.options,
    )?;
    let own = Server {
        setup: TrialSetup::of(load.for_own_origin(setup), clock)?,
        targets: Vec::new(),
    };
    let seed = Seed(requests.seed).stream("calibration");
    let mut trials = Trials::new(own, demand, requests.slos, seed, clock, interrupted);
    Calibration::measure(&mut trials, requests.connections, response, setup.policy())
}
