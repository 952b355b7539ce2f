//! Servers in virtual time whose capacity is known by construction, and a driver that applies trials to them.

mod arrivals;
mod driver;
mod servers;
mod slow;

pub use arrivals::Arrivals;
pub use driver::Bench;
pub use servers::{KINDS, Kind, Model, Planted};
pub use slow::SOCKET_KINDS;
