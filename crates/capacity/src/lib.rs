//! The capacity search: the highest load at which a server meets an SLO, as an interval *[works, fails]* with a
//! stated width and confidence.
//!
//! # Two stages
//! 1. **Locate.** Short trials bracket the capacity, then narrow it ([`posterior`]). This stage only proposes loads. A
//!    wrong proposal costs time and never makes an answer wrong.
//! 2. **Certify.** A longer trial at each end of the interval tests the end itself ([`evidence`]). An answer consists of
//!    certified ends only. If an end cannot be certified, the interval moves.
//!
//! # Why the confidence holds
//! - The evidence of a trial may be evaluated as often as the driver likes: it is a test martingale ([`evidence`]).
//! - At most one end of a pair can be wrong: the lower end is wrong only above the capacity, the upper end only below
//!   it. Therefore each end of the *k*-th pair is tested at the level α·6/(π²k²), and all pairs together err with a
//!   probability of at most α ([`goal`]).
//! - Exchanges are not independent. Their number is divided by the measured dispersion of the share of bad exchanges
//!   ([`evidence`]). The dispersion is an estimate, so [`self_test`] measures the coverage.
//! - A second test that a load fails needs no independence. If *q* is the share of bad exchanges of a stationary
//!   series, the running share reaches *q*/α with a probability of at most α (the maximal ergodic theorem).
//!
//! # Several SLOs
//! A search finds the capacity of each SLO. [`Search::jointly`] makes it find the highest load at which all SLOs are
//! met: the lower end is then certified for each SLO, and the upper end for the SLO that is violated first. The
//! answer for any of the SLOs may be wrong, so their error levels add up.
//!
//! # How to drive a search
//! [`Search::next_trial`] returns the next trial or `None`. The driver applies the load, records exchanges in a
//! [`TrialSoFar`], and calls [`Search::look`] from time to time: it returns whether the trial may end. After the
//! trial the driver waits until nothing is in flight, then calls [`Search::end`]. The driver passes the time; the
//! search has no clock, no randomness and no I/O.

pub mod bisection;
pub mod evidence;
pub mod gate;
pub mod goal;
pub mod knee;
pub mod outcome;
pub mod posterior;
pub mod ramp;
pub mod search;
pub mod self_test;
pub mod series;
pub mod simulated;
pub mod slo_limit;
mod state;
pub mod trial;

pub use goal::Goal;
pub use outcome::{Answer, Outcome, SloOutcome};
pub use search::Search;
pub use series::Series;
pub use slo_limit::SloLimit;
pub use trial::{Purpose, TrialPlan, TrialRecord, TrialSoFar};
