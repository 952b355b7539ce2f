//! A capacity search on sockets: the load engine applies the trials that a [`Search`] requests to a server.
//!
//! `fathometer capacity` and capacity studies both search with [`run`]. They differ in the [`Subject`], which defines
//! the access to the server and the additional measurements during a trial. `trials` applies a trial, `idle` waits
//! until the server's queues are empty, `seen` counts exchanges for each SLO, and `demand` defines the kind of load.
//! [`output`] prints the result of a search, and [`socket_self_test`] searches servers whose capacity is known.

mod calibration;
mod demand;
mod idle;
pub mod output;
pub mod own_origin;
mod seen;
pub mod socket_self_test;
mod trials;

use std::time::Duration;

use fathometer_capacity::{Outcome, Search, SloLimit, TrialPlan, TrialRecord};

pub use self::calibration::Calibration;
pub use self::demand::{ArrivalProcess, Demand};
pub use self::trials::{Subject, Trials};

use self::trials::Applied;

/// The reason why a search ends if the server does not answer any more.
pub const SILENT: &str = "the server stopped answering";

/// The number of connections of an open loop: the initial number, and the maximum.
pub const CONNECTIONS: (u32, u32) = (512, 8192);

/// An event of a search.
pub enum Step<'a> {
    /// A trial begins.
    Begins {
        /// The trial.
        plan: &'a TrialPlan,
        /// Seconds since the start of the search.
        at_s: f64,
    },
    /// A trial is complete.
    Ended(&'a TrialRecord),
}

/// The end of a search.
pub struct Ended {
    /// The result of the search.
    pub outcome: Outcome,
    /// Whether the search ended because the server did not answer any more.
    pub is_silent: bool,
}

/// Runs trials until the search has its answer, its budget is used up, the server does not answer any more, or the user
/// interrupts the search. Each event is passed to `watch`.
///
/// # Errors
/// If a trial cannot run, or `watch` fails.
pub fn run<S: Subject>(
    search: &mut Search,
    trials: &mut Trials<'_, S>,
    watch: &mut dyn FnMut(&Step<'_>) -> Result<(), S::Error>,
) -> Result<Ended, S::Error> {
    let clock = trials.clock;
    let started = clock.now();
    let elapsed = || clock.now().since(started).as_secs_f64();
    let mut is_silent = false;
    while let Some(plan) = search.next_trial(elapsed()) {
        watch(&Step::Begins {
            plan: &plan,
            at_s: elapsed(),
        })?;
        match trials.apply(&plan, search)? {
            Applied::Complete => {
                if let Some(record) = search.trials().last() {
                    watch(&Step::Ended(record))?;
                }
            }
            Applied::Interrupted => search.stop("the search was interrupted".to_owned()),
            Applied::Silent => {
                is_silent = true;
                search.stop(SILENT.to_owned());
            }
        }
    }
    Ok(Ended {
        outcome: search.outcome(elapsed()),
        is_silent,
    })
}

/// Returns the default timeout of an exchange: ten times the largest latency limit, but at least 1 s and at most 300 s.
pub fn timeout(slos: &[SloLimit]) -> Duration {
    let limits = slos.iter().filter_map(|slo| slo.limit);
    Duration::from_secs_f64((10.0 * limits.fold(0.0, f64::max)).clamp(1.0, 300.0))
}
