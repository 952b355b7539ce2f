//! One load test on many machines.
//!
//! `fathometer load` started *N* times is one test of *N* ranks. [`environment`] finds which rank a process is, from
//! options or from the variables of Slurm, Kubernetes, Open MPI and PMI.

pub mod environment;
pub mod node_list;
