//! A load test's result in every output format.

pub mod formats;
mod page;
pub mod sample;
mod schema;
mod screen;
mod slos;
