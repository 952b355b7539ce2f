//! A load test's result in every form it is shown in.

mod formats;
mod promises;
mod sample;
mod schema;
mod screen;
