//! Studies, in these modules:
//!
//! - [`files`] and [`spec`]: the files of a study, and its design;
//! - [`experiment`] and [`kinds`]: the interface of a kind of study, and the kinds ([`page`], [`load`]);
//! - [`plan`] and [`schedule`]: what a run would measure, and the order of execution;
//! - [`run`], [`stopping`] and [`past`]: a run, the rule that ends it, and resuming it after an interruption;
//! - [`share`] and [`merge`]: a study on several machines: the share of a machine, and one run from all parts;
//! - [`evaluation`]: the evaluation of a run.
//!
//! Three modules measure servers outside of a study's run. [`bottleneck`] finds the resource that limits a server.
//! [`capacity_search`] is the driver of capacity searches, which capacity studies use too. [`compare_self_test`] is the
//! measured self-test of comparisons; it starts its own servers.

pub mod bottleneck;
pub mod capacity_search;
mod common;
pub mod compare_self_test;
pub mod evaluation;
pub mod experiment;
pub mod factor;
pub mod files;
mod host_signals;
pub mod kinds;
pub mod load;
mod materials;
pub mod merge;
pub mod page;
pub mod past;
pub mod plan;
mod plots;
pub mod progress;
mod quantities;
pub mod run;
pub mod run_folder;
pub mod schedule;
pub mod schemas;
pub mod share;
pub mod spec;
pub mod starter;
pub mod stopping;
