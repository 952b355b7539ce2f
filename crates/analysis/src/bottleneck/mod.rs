//! Which resource limited a load on a server.
//!
//! A probe that shows a full resource does not show that this resource limits. A page cache always fills its memory, a
//! disk is busy because memory is short, an accept queue is full because all workers are busy. So a verdict needs two
//! kinds of evidence. *Saturation* is the result of the probes under the unchanged load ([`suspect`]). *Perturbation*
//! is the change of throughput when one limit is changed by a step and everything else stays unchanged
//! ([`elasticities`]). [`judge()`] names a resource if both agree, or if the perturbation alone is decisive. It reports
//! the resources for which they disagree.
//!
//! This module evaluates recorded numbers; other code runs the loads.
//!
//! # Theory
//!
//! The theory consists of the operational laws (P. J. Denning and J. P. Buzen, "The operational analysis of queueing
//! network models", ACM Computing Surveys 10(3), 1978; R. Jain, "The Art of Computer Systems Performance Analysis",
//! 1991, chapter 33). Notation: an exchange has the demand D_i at resource i; throughput is X, latency R, the number of
//! users N, and their pause Z.
//!
//! - Utilisation law: U_i = X D_i. The busiest resource has the largest demand. At saturation X = 1 / D_max, so
//!   throughput has elasticity 1 to the speed of this resource, and 0 to all others.
//! - Little's law: N = X (R + Z). In a closed loop below saturation X = N / (R + Z). The elasticity of throughput to
//!   the speed of a resource is then the resource's share of R + Z, and the elasticity to the number of users is 1. A
//!   round trip or a sleep limits such a load, but more users remove that limit.
//! - Scaling all speeds (pauses included) scales throughput. So the elasticities to all speeds add up to 1. If the
//!   elasticities to the varied limits add up to less, something that was not varied limits too: the server itself, or
//!   the load.
//!
//! # Causes with similar symptoms, and how to distinguish them
//!
//! | causes | common symptom | distinguished by |
//! |---|---|---|
//! | quota or one core | processor busy | utilisation of the quota; the busiest thread; more quota does not help a single thread |
//! | memory or disk | disk reads | refaults; relief of the true cause gains more |
//! | small window or link rate | slow transfers | link utilisation; a shorter round trip |
//! | backlog or workers | accept queue full, connecting takes 1 s and 3 s | free workers; a longer queue does not help if workers are the limit |
//! | server itself or load | nothing is saturated | a wait for the first byte beyond round trip and CPU time; more users gain throughput if the load is the limit |
//!
//! - [`Resource`], [`Observation`], [`Signals`]: the input
//! - [`Verdict`]: the result; [`screen`], [`html`] and [`json`] show it
//! - [`Confusion`]: how often planted limits were named correctly

mod confusion;
mod effect;
mod elasticity;
mod gave_out;
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
pub use effect::Effect;
pub use elasticity::{Elasticity, Response, comparisons, elasticities};
pub use gave_out::{Figure, GaveOut, gave_out};
pub use judge::judge;
pub use observation::{Change, Observation, Signals};
pub use resource::{Resource, UnknownResource};
pub use suspicion::{Confidence, Suspicion, suspect};
pub use verdict::{Basis, Counts, Outcome, Ranked, Verdict};
