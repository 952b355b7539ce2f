//! Workloads: which files a site has, and what is in them.
//!
//! A workload is a function from a [`Seed`](fathometer_model::Seed) to a
//! [`Site`](fathometer_model::Site): the same seed gives the same bytes on every machine. Nothing
//! here reads or writes files, knows a protocol or decides when something is fetched.
//!
//! - [`microscape`]: the test page of Nielsen et al. (SIGCOMM '97)
//! - [`content`]: bytes and text with a stated compressibility
//! - [`synthetic`]: files of an exact size whose octets are right for their type
//! - [`arrivals`]: when sessions begin in an open loop
//! - [`plan`]: what is asked for, by whom, in which order
//! - [`distribution`]: probability laws
//! - [`coding`]: the content codings that a site stores in advance

pub mod arrivals;
pub mod coding;
pub mod content;
pub mod distribution;
pub mod microscape;
pub mod plan;
pub mod synthetic;
