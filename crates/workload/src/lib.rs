//! Workloads: which files a site has, and what is in them.
//!
//! A workload is a function from a [`Seed`](fathometer_model::Seed) to a
//! [`Site`](fathometer_model::Site): the same seed gives the same bytes on every machine. Nothing
//! here reads or writes files, knows a protocol or decides when something is fetched.
//!
//! - [`workload`]: a plan and its files, by name; [`statistics`] of it
//! - [`microscape`]: the test page of Nielsen et al. (SIGCOMM '97)
//! - [`webstone`], [`specweb`], [`pareto`], [`leucht`], [`today`]: sets of the literature and of now
//! - [`surge`]: sizes, popularity, pages and locality that follow measured laws
//! - [`httperf`], [`access_log`], [`har`]: what others recorded or wrote down
//! - [`content`]: bytes and text with a stated compressibility
//! - [`synthetic`]: files of an exact size whose octets are right for their type
//! - [`arrivals`]: when sessions begin in an open loop
//! - [`plan`]: what is asked for, by whom, in which order
//! - [`distribution`]: probability laws; [`fit`]: whether draws follow them
//! - [`coding`]: the content codings that a site stores in advance

pub mod access_log;
pub mod arrivals;
mod calendar;
pub mod coding;
pub mod content;
pub mod distribution;
pub mod fault;
pub mod fit;
pub mod har;
pub mod httperf;
pub mod leucht;
pub mod microscape;
pub mod pareto;
pub mod plan;
pub mod specweb;
pub mod statistics;
pub mod surge;
pub mod synthetic;
pub mod today;
pub mod webstone;
pub mod workload;
