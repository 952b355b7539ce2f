//! Load tests on clusters, as text and decisions: the batch script that Slurm runs and the manifests that Kubernetes
//! applies, the words of their command lines, and the end of a submitted job.
//!
//! A cluster's own scheduler places, starts, limits and accounts for the ranks of a test. This crate writes what the
//! scheduler reads and interprets what it reports. It starts no program and reads no file or clock.

pub mod kubernetes;
pub mod shell;
pub mod slurm;
