//! Load tests on clusters, without I/O: the batch script for Slurm, the manifests for Kubernetes, and the values of
//! their options. Also the rules that decide when and how a submitted job has ended.
//!
//! A cluster's own scheduler places, starts, limits and accounts for the ranks of a test. This crate writes the
//! scheduler's input and interprets its reports. It starts no program and reads no file or clock.

pub mod kubernetes;
pub mod shell;
pub mod slurm;
