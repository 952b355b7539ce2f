//! The command line. Other crates measure, predict and analyse.

// Must be first, so that all other modules can use its macros.
#[macro_use]
pub mod print;

pub mod build_facts;
pub mod command;
