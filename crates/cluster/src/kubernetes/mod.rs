//! A load test as an Indexed Job of Kubernetes.

pub mod manifest;
pub mod names;
pub mod yaml;

pub use manifest::{LoadJob, Secret};
pub use names::{Name, Quantity};
