//! The command line. Everything that measures is in the crates below. The program never prints a number that it did
//! not measure.

// Must be first, so that all other modules can use its macros.
#[macro_use]
pub mod print;

pub mod build_facts;
pub mod command;
