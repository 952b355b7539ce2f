//! The server under test of a capacity search.

use fathometer_analysis::load::LoadResult;
use fathometer_load::server_probes::{Probes, Target};
use fathometer_load::{Live, Options};
use fathometer_study::capacity_search::{Demand, Subject};
use fathometer_sys::Clock;

use super::super::Failure;
use super::super::load::TrialSetup;

/// A server with a URL.
pub struct Server {
    /// The protocol and connections of the requests.
    pub setup: TrialSetup,
    /// The processes and units that are monitored during each trial of the search.
    pub targets: Vec<Target>,
}

impl Subject for Server {
    type Error = Failure;

    fn options(&self) -> Result<Options, Failure> {
        Ok(self.setup.options())
    }

    fn apply(
        &mut self,
        options: Options,
        clock: Clock,
        stop: &(dyn Fn() -> bool + Sync),
        live: &mut dyn FnMut(&Live),
    ) -> Result<LoadResult, Failure> {
        let probes = Probes::start(&self.targets, clock)?;
        let mut result = fathometer_load::run(options, clock, stop, live)?;
        result.server = probes.map(|probes| probes.stop(&result));
        Ok(result)
    }
}

/// Returns the `load` options for this kind of load; each trial sets the rate or the number of users itself.
pub fn options(demand: Demand) -> &'static [&'static str] {
    match demand {
        Demand::Rate { .. } => &["--rate", "1"],
        Demand::Users => &["-c", "1"],
        Demand::UserEquivalents => &["--ue", "1"],
    }
}
