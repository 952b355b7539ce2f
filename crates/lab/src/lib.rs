//! The laboratory: two hosts with limits, the wire between them, the TCP of an era, a server under test, and the
//! trial of it: one load or one page.
//!
//! It decides nothing about an experiment's design; `fathometer-study` does.

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
