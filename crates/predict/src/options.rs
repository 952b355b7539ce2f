//! The options of a prediction.

use fathometer_model::Seed;

use crate::series::Selection;

/// The options of a prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The loads that are fitted.
    pub fit: Selection,
    /// The numbers of users; empty for the measured numbers and twice the largest.
    pub users: Vec<u32>,
    /// The number of bootstrap samples.
    pub draws: u32,
    /// The number of exchanges of each simulation.
    pub exchanges: u32,
    /// The seed of the bootstrap and the simulations.
    pub seed: Seed,
}
