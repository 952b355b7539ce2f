//! A load test's result in every output format.

mod formats;
mod page;
mod promises;
mod sample;
mod schema;
mod screen;
