//! Studies. The modules are:
//!
//! - [`files`] and [`spec`]: the files of a study, and its design;
//! - [`experiment`] and [`kinds`]: the interface of a kind of study, and the kinds ([`page`], [`load`]);
//! - [`plan`] and [`schedule`]: the cells and replicates of a run, and their order of execution;
//! - [`run`], [`stopping`] and [`past`]: a run, the rule that ends it, and resuming it after an interruption;
//! - [`share`] and [`merge`]: a study on several machines: the share of each machine, and the merge of all parts into
//!   one run;
//! - [`evaluation`]: the evaluation of a run.
//!
//! Three modules measure servers outside of a study's run. [`bottleneck`] finds the resource that limits a server.
//! [`capacity_search`] runs capacity searches, also for capacity studies. [`compare_self_test`] is the measured
//! self-test of comparisons, which starts its own servers.

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
