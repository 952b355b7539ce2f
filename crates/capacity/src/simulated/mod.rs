//! Servers in virtual time whose capacity is known by construction, and a driver that applies trials to them.

mod driver;
mod servers;

pub use driver::{Arrivals, Bench};
pub use servers::{KINDS, Kind, Model, Planted};
