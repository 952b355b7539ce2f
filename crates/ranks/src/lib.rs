//! One load test on many machines.
//!
//! *N* processes of `fathometer load` form one test of *N* ranks. [`environment`] determines the rank of a process from
//! options, or from the variables of Slurm, Kubernetes, Open MPI and PMI.
//!
//! Rank 0 listens at the rendezvous address. Each other rank, a member, has one control connection to rank 0. The state
//! machines [`coordinator`] and [`member`] do no I/O. They communicate over a [`link`], which authenticates both sides
//! with a shared [`secret`]. A [`channel`] encrypts the link. [`clock_offset`] compares the clocks of two ranks.
//! [`session`] runs either state machine on sockets.
//!
//! If the launcher has a key-value store for its processes, [`rendezvous`] reads the rendezvous address from that
//! store, with [`pmi`].
//!
//! A study over several machines needs no communication: [`study_share`] determines the share of a process.
//!
//! A rank reports the figures of each interval, and its result, to rank 0 and to its [`spool`]. [`whole`] computes the
//! whole test from these reports, which come from the network or from spools. [`merge`] combines them into one result.

#[cfg(test)]
mod absurd;
pub mod channel;
pub mod clock_offset;
#[cfg(test)]
mod conversation;
pub mod coordinator;
mod engine;
pub mod environment;
pub mod limits;
pub mod link;
pub mod member;
pub mod merge;
pub mod message;
pub mod node_list;
pub mod plan_hash;
pub mod pmi;
pub mod record;
pub mod rendezvous;
#[cfg(test)]
mod reports;
pub mod secret;
pub mod session;
pub mod spool;
pub mod study_share;
pub mod whole;
