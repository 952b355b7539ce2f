//! Which resource limited a load on a server.
//!
//! A probe that shows a resource full does not show that it limits: a page cache always fills its
//! memory, a disk is busy because memory is short, an accept queue is full because all workers are
//! taken. So a verdict needs two witnesses. *Saturation* is what the probes saw of the load as it
//! is ([`suspect`]). *Perturbation* is what throughput did when one limit was changed by a step and
//! everything else was left as it was ([`elasticities`]). [`judge()`] names a resource when both
//! agree, or when the perturbation is decisive by itself, and says where they disagree.
//!
//! Everything here is a function of recorded numbers: somebody else runs the loads.
//!
//! # What is leaned on
//!
//! The operational laws (P. J. Denning and J. P. Buzen, "The operational analysis of queueing
//! network models", ACM Computing Surveys 10(3), 1978; R. Jain, "The Art of Computer Systems
//! Performance Analysis", 1991, chapter 33). With demand D_i of an exchange at resource i,
//! throughput X, latency R, N users and pauses of Z:
//!
//! - utilisation: U_i = X D_i. The busiest resource is the one with the largest demand, and at the
//!   limit X = 1 / D_max: throughput has elasticity 1 to the speed of that resource alone.
//! - Little: N = X (R + Z). In a closed loop below saturation X = N / (R + Z): throughput has the
//!   elasticity to every speed that the resource's share in R + Z is, and 1 to the number of users.
//!   That a round trip or a sleep limits such a load is true, and more users cure it.
//! - Scaling all speeds (pauses as well) scales throughput. So the elasticities to all of them add up
//!   to 1, and what varied limits leave is due to something that was not varied: the server itself,
//!   or the load.
//!
//! # What is easily confused, and what tells
//!
//! | | shown by | told apart by |
//! |---|---|---|
//! | quota or one core | processor busy | the quota's own use; the busiest thread; a quota relieved gives nothing to a server on one thread |
//! | memory or disk | disk reads | refaults; which of the two gives more when relieved |
//! | small window or link rate | slow transfers | link utilisation; the round trip shortened |
//! | backlog or workers | accept queue full, connecting takes 1 s and 3 s | whether workers are free; a longer queue does not serve faster |
//! | server itself or load | nothing is saturated | time to the first octet that neither round trip nor processor explains; whether more users get more |
//!
//! - [`Resource`], [`Observation`], [`Signals`]: what goes in
//! - [`Verdict`]: what comes out; [`screen`], [`html`] and [`json`] show it
//! - [`Confusion`]: how often planted limits were named rightly

mod confusion;
mod elasticity;
pub mod html;
pub mod json;
mod judge;
mod observation;
mod resource;
pub mod screen;
mod suspicion;
#[cfg(test)]
mod tests;
mod verdict;
mod words;

pub use confusion::{Confusion, Named};
pub use elasticity::{Effect, Elasticity, Response, elasticities};
pub use judge::judge;
pub use observation::{Change, Observation, Signals};
pub use resource::{Resource, UnknownResource};
pub use suspicion::{Confidence, Suspicion, suspect};
pub use verdict::{Basis, Counts, Outcome, Ranked, Verdict};
