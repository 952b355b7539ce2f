//! Finds the resource that limits a server. A search runs trials of the unchanged set-up, and trials in which one limit
//! is varied by a step. [`fathometer_analysis::bottleneck`] derives the verdict.
//!
//! - [`setup`]: a server on a host with limits, a path and a load, and its variations
//! - [`server`], [`site`]: the server under test, and its site
//! - [`run`]: the trials
//! - [`signals`]: the signals of a trial, from the probes, the path and the clients
//! - [`record`]: the output of a search on the screen and in a folder
//! - [`planted`], [`self_test`]: planted bottlenecks, set-ups with a known limit that test the method
//! - [`slow_server`]: the server of the planted bottlenecks, with a fault in its handler
//! - [`error`]: the reasons why a search fails

pub mod error;
pub mod planted;
pub mod record;
pub mod run;
pub mod self_test;
pub mod server;
pub mod setup;
pub mod signals;
pub mod site;
pub mod slow_server;
