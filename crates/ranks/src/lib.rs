//! One load test on many machines.
//!
//! `fathometer load` started *N* times is one test of *N* ranks. [`environment`] finds which rank a process is, from
//! options or from the variables of Slurm, Kubernetes, Open MPI and PMI.
//!
//! Rank 0 listens where all ranks meet, and each other rank, a member, has one control connection to it. The machines
//! of both sides are without I/O: [`coordinator`] and [`member`], over a [`link`] that authenticates both sides with a
//! shared [`secret`], over a [`channel`] that encrypts. [`clock_offset`] compares their clocks. [`session`] hosts either
//! machine on sockets.
//!
//! Where the launcher has a store for its processes, [`rendezvous`] finds the place to meet by it, with [`pmi`].
//!
//! A study over several machines needs no communication: [`study_share`] finds which share a process measures.
//!
//! A rank reports its figures of each interval and its result, to rank 0 and to its [`spool`]. The [`whole`] is a
//! function of these reports, whether they arrive or are read, and [`merge`] makes one result of it.

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
