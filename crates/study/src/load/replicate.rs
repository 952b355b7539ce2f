//! A replicate on a server with limits: the common set-up and records of load, sweep and capacity studies.

use std::collections::BTreeMap;

use fathometer_model::{Instant, PathCertificate, Seed, Validity};
use fathometer_sys::Clock;

use super::levels::Levels;
use super::site::Sites;
use crate::experiment::{Figures, ReplicateError, Setup, Shared, wire_limits};
use fathometer_lab::trial::Trial;
use fathometer_load::Options;

/// A replicate that has started.
pub(super) struct Replicate<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) setup: &'a Setup<'a>,
    pub(super) levels: Levels<'a>,
    /// The seed of common random numbers: requests depend only on the workload and the number of the replicate.
    pub(super) seed: Seed,
    pub(super) clock: Clock,
}

impl<'a> Replicate<'a> {
    /// Reads the levels of the cell, and starts the clock.
    pub(super) fn start(
        shared: &'a Shared<'a>,
        setup: &'a Setup<'a>,
        sites: &'a Sites,
    ) -> Result<Replicate<'a>, ReplicateError> {
        let of_workload = shared.seed.stream(setup.cell.level("workload"));
        Ok(Replicate {
            shared,
            setup,
            levels: Levels::of(shared, setup, sites.of(setup.cell))?,
            seed: of_workload.child(u64::from(setup.replicate)),
            clock: Clock::start(),
        })
    }

    /// Returns the options of the cell's load.
    pub(super) fn options(&self) -> Result<Options, ReplicateError> {
        let study = self.shared.study;
        self.levels.options(self.setup, study, self.seed)
    }

    /// Builds the trial of the load on the server of the cell, without a second load.
    pub(super) fn trial(&self) -> Result<Trial<'a>, ReplicateError> {
        let (setup, levels, study) = (self.setup, &self.levels, self.shared.study);
        let warm_cache = levels
            .warm
            .then(|| levels.every_page_once(setup, study, self.seed));
        Ok(Trial {
            definition: setup.definition,
            installed: setup.installed,
            folder: &levels.site.folder,
            profile: setup.profile,
            era: setup.era,
            initial_window: levels.initial_window,
            limits: levels.limits.clone(),
            throttle: levels.throttle,
            wire_limits: study.limits.get(setup.cell.level("path")).map(wire_limits),
            seed: self.seed,
            clock: self.clock,
            warm_cache: warm_cache.transpose()?,
            load: self.options()?,
            beside: None,
        })
    }

    /// Returns the figures of the replicate for its line in `replicates.ndjson`.
    pub(super) fn figures(
        &self,
        metrics: BTreeMap<String, f64>,
        path: PathCertificate,
        validity: Validity,
    ) -> Figures {
        Figures {
            seed: self.seed,
            started: self.clock.realtime_of(Instant::ZERO).as_secs_f64(),
            metrics,
            path,
            validity,
        }
    }
}
