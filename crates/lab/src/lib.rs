//! The laboratory: two hosts with limits, the path between them, the TCP settings of an era, a server under test, and
//! trials of this server with a load or a page.
//!
//! The crate `fathometer-study` contains the design of experiments.

pub mod abilities;
pub mod catalog;
pub mod data;
pub mod era;
pub mod hosts;
pub mod leftovers;
pub mod nearest;
pub mod path_report;
pub mod program;
pub mod server;
pub mod tap_file;
pub mod trial;
pub mod wire;
