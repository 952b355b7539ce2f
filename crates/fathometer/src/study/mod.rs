//! Studies: what is varied, in which order it is run, and running it.

pub mod schedule;
pub mod spec;
