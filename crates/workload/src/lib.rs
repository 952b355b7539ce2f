//! Workloads: the files of a site, and their contents.
//!
//! A workload is a function from a [`Seed`](fathometer_model::Seed) to a [`Site`](fathometer_model::Site): the same
//! seed gives the same bytes on every machine. This crate does no input or output, implements no protocol, and does not
//! decide when a file is requested.
//!
//! - [`workload`]: a plan and its files; [`catalogue`]: the workloads by name; [`statistics`]: the figures
//!   of a workload
//! - [`microscape`]: the test page of Nielsen et al. (SIGCOMM '97)
//! - [`webstone`], [`specweb`], [`pareto`], [`leucht`], [`today`]: file sets from the literature, and from
//!   today's Web
//! - [`surge`]: sizes, popularity, pages and locality that follow measured laws
//! - [`httperf`], [`access_log`], [`har`]: workloads from recordings and session files
//! - [`content`]: bytes and text with a stated compressibility
//! - [`synthetic`]: files of an exact size with valid bytes of their type
//! - [`arrivals`]: the instants at which sessions begin in an open loop
//! - [`plan`]: the requests, their order and their pauses
//! - [`distribution`]: probability laws; [`fit`]: goodness-of-fit tests
//! - [`coding`]: the content codings in which a site stores files in advance

pub mod access_log;
pub mod arrivals;
mod builder;
pub mod catalogue;
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
mod target;
pub mod today;
pub mod webstone;
pub mod workload;
