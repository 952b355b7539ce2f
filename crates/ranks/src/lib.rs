//! One load test on many machines.
//!
//! `fathometer load` started *N* times is one test of *N* ranks. [`environment`] finds which rank a process is, from
//! options or from the variables of Slurm, Kubernetes, Open MPI and PMI.
//!
//! Rank 0 listens where all ranks meet, and each other rank, a member, has one control connection to it. The machines
//! of both sides are without I/O: [`coordinator`] and [`member`], over a [`link`] that authenticates both sides with a
//! shared [`secret`]. [`clock_offset`] compares their clocks.

pub mod clock_offset;
#[cfg(test)]
mod conversation;
pub mod coordinator;
pub mod environment;
pub mod link;
pub mod member;
pub mod message;
pub mod node_list;
pub mod secret;
