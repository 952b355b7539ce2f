//! Studies: their files ([`files`]), the design ([`spec`]), the interface of a kind of study ([`experiment`])
//! and the kinds ([`kinds`]: [`page`], [`load`]), the order of execution ([`schedule`]), the whole run ([`run`]), when it ends
//! ([`stopping`]), and resuming it after an interruption ([`past`]). A study
//! over several machines: the share of one ([`share`]), and one run of all parts ([`merge`]).

pub mod bottleneck;
mod common;
pub mod experiment;
pub mod factor;
pub mod files;
pub mod kinds;
pub mod load;
mod materials;
pub mod merge;
pub mod page;
pub mod past;
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
