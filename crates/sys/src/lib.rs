//! All that is Linux: namespaces, TUN devices, sockets, clocks, capture files.
//!
//! The only crate with `unsafe` in it, and the only one that reads a real clock. It does what it
//! is told and decides nothing: which host gets which TCP, when a packet is due and what a late
//! one means is settled above.
//!
//! - [`clock`], [`wait`]: time, and waiting for it
//! - [`namespace`], [`netlink`], [`tun`]: hosts and the devices between them
//! - [`pcapng`]: capture files

pub mod clock;
pub mod error;
pub mod namespace;
pub mod netlink;
pub mod pcapng;
pub mod tun;
pub mod wait;

pub use clock::Clock;
pub use error::{Error, Result};
pub use namespace::Namespace;
pub use pcapng::CaptureWriter;
pub use tun::Tun;
pub use wait::{Interest, Readiness, Waiter, Waker};
