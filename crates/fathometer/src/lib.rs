//! The library of the binary: the command line, the study runner, the event loops that run the protocol
//! machines on kernel sockets, servers under test, progress. It never prints a number that it did not measure.

// Must be first, so that all other modules can use its macros.
#[macro_use]
pub mod print;

pub mod bottleneck;
pub mod build_facts;
pub mod client;
pub mod command;
pub mod data;
pub mod era;
pub mod http3_client;
pub mod key_log;
pub mod lab;
pub mod leftovers;
pub mod load;
pub mod load_view;
pub mod origin;
pub mod package;
pub mod program;
pub mod progress;
pub mod quic;
pub mod run_folder;
pub mod scratch;
pub mod secrets;
pub mod server;
pub mod sha256;
pub mod site_cache;
pub mod site_folder;
pub mod stderr;
pub mod study;
pub mod tap_file;
pub mod trial;
pub mod url;
pub mod whole_file;
pub mod wire;
pub mod workload;
