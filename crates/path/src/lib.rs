//! The network path as a state machine: serialisation, propagation, queues and impairments, and the profiles
//! that describe paths.
//!
//! A path has two directions, each a [`Link`]. A packet passes these stages, in this order:
//!
//! ```text
//!  arrive ──► loss ──► queue ──► serialisation ──► propagation ──► deliver
//!             drop      drop      8·(len+framing)   constant, plus
//!             list,     tail,     ───────────────   jitter; some held
//!             random    CoDel          rate         back or doubled
//! ```
//!
//! The link starts to serialise a packet at `max(arrival, link free)`. A packet in propagation occupies neither the
//! link nor the queue. Times are exact: the remaining fraction of a nanosecond is carried to the next packet. A
//! thousand equal packets therefore take exactly a thousand times as long as one packet.
//!
//! This crate does not sleep, read a clock or access a device. The host passes the time with every call, so
//! the same code runs on kernel packets in real time and in virtual time in tests:
//!
//! ```
//! use fathometer_model::{Instant, Seed};
//! use fathometer_path::{Direction, Link, Profile};
//!
//! let modem = "name = 'modem'\nsource = 'an example'\n[both]\n\
//!              rate = '28.8kbit/s'\npropagation = '75ms'\nframing = 'ppp'";
//! let modem = Profile::from_toml(modem, "an example").unwrap();
//! let mut link = Link::new(&modem, Direction::Up, Seed(1));
//! link.arrive(Instant::ZERO, 40, "a SYN");
//! let due = link.next_due().unwrap();
//! let packet = link.deliver(due).unwrap();
//! assert_eq!((packet.payload, packet.scheduled), ("a SYN", due));
//! // 47 bytes with their framing at 28.8 kbit/s, then 75 ms.
//! assert_eq!(due, Instant::from_nanos(13_055_556 + 75_000_000));
//! ```
//!
//! A link can compress the bytes that it serialises, like modems with [`v42bis`]: see [`Compression`].
//!
//! Random decisions are functions of (seed, direction, stage, packet number) only: [`predict`] computes the
//! fate of packet *n* in advance. Drops by a queue depend on arrival times, so they are not predicted.
//!
//! Not in this crate: TUN devices and waiting (the binary drives the state machine), scheduling among flows, explicit
//! congestion notification, policers, links that share a medium.

mod codel;
mod delayed_ack;
mod drop_list;
mod duration;
mod fate;
mod framing;
mod link;
mod modem;
mod ppp;
mod profile;
mod queue;
pub mod v42bis;

pub use delayed_ack::{DelayedAck, DelayedAckClock, Outbound};
pub use drop_list::DropList;
pub use fate::{Decisions, DropReason, Fate, predict};
pub use framing::Framing;
pub use link::{Arrival, Delivery, Dropped, Link};
pub use modem::Compression;
pub use profile::{
    Codel, Direction, DirectionProfile, Distribution, GilbertElliott, Jitter, LossModel, Profile,
    ProfileError, Queue, Reorder,
};
pub use queue::Depth;
