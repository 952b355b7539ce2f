//! A load test's result in every output format.

mod formats;
mod promises;
mod sample;
mod schema;
mod screen;
