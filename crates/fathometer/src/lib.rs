//! The binary's insides: the command line, the study runner, the loops that host the machines on
//! kernel sockets, servers under test, progress. It never prints a number that it did not measure.

pub mod data;
pub mod progress;
pub mod run_folder;
pub mod site_folder;
pub mod study;
