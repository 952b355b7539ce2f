//! The processes by which requests arrive.

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At constant intervals.
    Constant,
    /// At random, independently of each other.
    Poisson,
}
