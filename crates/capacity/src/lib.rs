//! The capacity search: the highest load at which a server keeps a promise, as an interval *[works, fails]* of a stated
//! width and confidence.
//!
//! # Two stages
//! 1. **Locate.** Short trials bracket the capacity, then narrow it ([`posterior`]). This stage only proposes loads. A
//!    wrong proposal costs time and never makes an answer wrong.
//! 2. **Certify.** A longer trial at each end of the interval tests the end itself ([`evidence`]). An answer consists of
//!    certified ends only. If an end cannot be certified, the interval moves.
//!
//! # Why the confidence holds
//! - A trial may be looked at as often as the driver likes: the evidence is a test martingale, see [`evidence`].
//! - The two ends of a pair cannot both be wrong: a load that is certified as working is wrong only above the capacity,
//!   and one that is certified as failing only below it, and the first is the lower one. So each end of the *k*-th pair
//!   is tested at the level α·6/(π²k²), and all pairs together err with a probability of at most α ([`goal`]).
//! - Exchanges are not independent. Their number is divided by the measured dispersion of the share ([`evidence`]). This
//!   is an estimate, and the reason why [`self_test`] measures the coverage.
//! - A second test that a load fails needs no independence: of a stationary series whose share of bad exchanges is *q*,
//!   the running share reaches *q*/α with a probability of at most α (the maximal ergodic theorem).
//!
//! # Several promises
//! A search finds the capacity of each promise. [`Search::jointly`] makes it find the load up to which all of them hold:
//! the lower end is then certified for each promise, and the upper end for the one that breaks first. Each promise may
//! be the one that is wrong, so that their levels add up.
//!
//! # How to drive a search
//! [`Search::next_trial`] returns the next trial or nothing. The driver applies the load, records exchanges in a
//! [`TrialSoFar`], and asks [`Search::look`] from time to time whether to continue. It waits until nothing is in flight,
//! then calls [`Search::end`]. Time is passed in; the search has no clock, no randomness and no I/O.

pub mod bisection;
pub mod evidence;
pub mod gate;
pub mod goal;
pub mod knee;
pub mod outcome;
pub mod posterior;
pub mod promise;
pub mod ramp;
pub mod search;
pub mod self_test;
pub mod series;
pub mod simulated;
mod state;
pub mod trial;

pub use goal::Goal;
pub use outcome::{Answer, Outcome, PromiseOutcome};
pub use promise::Promise;
pub use search::Search;
pub use series::Series;
pub use trial::{Purpose, TrialPlan, TrialRecord, TrialSoFar};
