//! Servers in virtual time with a capacity that is known by construction, and a driver that applies trials to them.

mod arrivals;
mod driver;
mod models;
mod servers;
mod slow;

pub use arrivals::Arrivals;
pub use driver::Bench;
pub use models::{Bucket, Model};
pub use servers::{KINDS, Kind, KnownServer};
pub use slow::SOCKET_KINDS;
