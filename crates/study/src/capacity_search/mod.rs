//! A capacity search on sockets: the load engine applies the trials that a [`Search`] asks for to a server.
//!
//! `fathometer capacity` and the cells of a capacity study search in the same way, by [`run`]. They differ in the
//! [`Subject`]: how the server is reached, and what else is measured during a trial. `trials` applies one trial,
//! `idle` waits until the server has drained, `seen` counts exchanges for each promise, and `demand` is what loads are.
//! [`output`] is what is printed of a search, and [`socket_self_test`] searches servers whose capacity is known.

mod calibration;
mod demand;
mod idle;
pub mod output;
pub mod own_origin;
mod seen;
pub mod socket_self_test;
mod trials;

use std::time::Duration;

use fathometer_capacity::{Outcome, Promise, Search, TrialPlan, TrialRecord};

pub use self::calibration::Calibration;
pub use self::demand::{ArrivalProcess, Demand};
pub use self::trials::{Subject, Trials};

use self::trials::Applied;

/// Why a search ends whose server is gone.
pub const SILENT: &str = "the server stopped answering";

/// Connections of an open loop: at first, and at most.
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

/// How a search ended.
pub struct Ended {
    /// What it found.
    pub outcome: Outcome,
    /// Whether it ended because the server answered no request any more.
    pub is_silent: bool,
}

/// Runs trials until the answer of a search is known, its budget is spent, the server is gone, or the user interrupts
/// it. Each event is passed to `watch`.
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

/// The timeout of an exchange, if none is given: ten times the largest limit of latency, from 1 s to 300 s.
pub fn timeout(promises: &[Promise]) -> Duration {
    let limits = promises.iter().filter_map(|promise| promise.limit);
    Duration::from_secs_f64((10.0 * limits.fold(0.0, f64::max)).clamp(1.0, 300.0))
}
