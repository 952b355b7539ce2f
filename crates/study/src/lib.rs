//! Studies: their files ([`files`]), the design ([`spec`]), the interface of a kind of study ([`experiment`])
//! and the kinds ([`kinds`]: [`page`], [`load`]), the order of execution ([`schedule`]), the whole run ([`run`]), when it ends
//! ([`stopping`]), and resuming it after an interruption ([`past`]).

pub mod bottleneck;
mod common;
pub mod experiment;
pub mod factor;
pub mod files;
pub mod kinds;
pub mod load;
mod materials;
pub mod page;
pub mod past;
mod plots;
pub mod progress;
mod quantities;
pub mod run;
pub mod run_folder;
pub mod schedule;
pub mod schemas;
pub mod spec;
pub mod starter;
pub mod stopping;
