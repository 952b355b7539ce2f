//! `fathometer load`, run as a user runs it, against real servers on loopback.
//!
//! Every load is bounded by a count or by a few seconds. Every server is a child or a thread that ends with its
//! test, and every file is in a temporary folder. A test whose peer is not installed prints a message to stderr
//! and passes, unless `FATHOMETER_REQUIRE_TOOLS` is 1.

mod agreement;
mod compare;
mod counts;
mod duckdb;
mod endings;
mod heads;
mod http3;
mod hydra;
mod idle;
mod mpi;
mod mpi_job;
mod outputs;
mod predict;
mod printing;
mod probes;
mod protocols;
mod ranks;
mod support;
mod usage;
mod workloads;
