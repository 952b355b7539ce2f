//! The key of a connection in its endpoint.

/// Identifies one connection of an endpoint, until its [`Event::Drained`](crate::Event::Drained).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey(pub u32);
