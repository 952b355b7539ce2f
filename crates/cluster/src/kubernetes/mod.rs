//! Writes a load test or a study as an Indexed Job of Kubernetes.

pub mod manifest;
pub mod names;
mod parts;
pub mod study;
pub mod yaml;

pub use manifest::{LoadJob, Secret};
pub use names::{Name, Quantity};
pub use study::StudyJob;
