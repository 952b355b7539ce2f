//! Servers in virtual time whose capacity is known by construction, and a driver that applies trials to them.

mod arrivals;
mod driver;
mod servers;

pub use arrivals::Arrivals;
pub use driver::Bench;
pub use servers::{KINDS, Kind, Model, Planted};
