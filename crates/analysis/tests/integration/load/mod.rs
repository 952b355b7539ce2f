//! A load test's result in every output format.

pub mod formats;
mod page;
mod promises;
pub mod sample;
mod schema;
mod screen;
