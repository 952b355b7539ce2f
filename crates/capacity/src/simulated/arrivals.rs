//! Arrival processes of requests.

/// An arrival process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At constant intervals.
    Constant,
    /// At random, independently of each other.
    Poisson,
}
