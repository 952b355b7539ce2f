//! Studies: their files ([`files`]), the design ([`spec`]), the interface of a kind of study ([`experiment`])
//! and the kinds ([`kinds`]: [`page`], [`load`]), the order of execution ([`schedule`]), what a run would
//! measure ([`plan`]), the whole run ([`run`]), when it ends
//! ([`stopping`]), resuming it after an interruption ([`past`]), and its evaluation ([`evaluation`]). A study
//! over several machines: the share of one ([`share`]), and one run of all parts ([`merge`]).
//!
//! Searches on servers outside of a study's run: the resource that limits one ([`bottleneck`]), and the driver of
//! capacity searches, which capacity studies use too ([`capacity_search`]). The measured self-test of comparisons
//! ([`compare_self_test`]) starts servers of its own.

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
