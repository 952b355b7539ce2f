//! The network path as a machine: serialisation, propagation, queues and impairments, with the
//! profiles that describe paths.
//!
//! A path has two directions, each a [`Link`]. A packet that arrives meets, in this order:
//!
//! ```text
//!  arrive ──► loss ──► queue ──► serialisation ──► propagation ──► deliver
//!             drop      drop      8·(len+framing)   constant, plus
//!             list,     tail,     ───────────────   jitter; some held
//!             random    CoDel          rate         back or doubled
//! ```
//!
//! The link starts to clock a packet out at `max(arrival, link free)`. A packet in propagation
//! occupies neither the link nor the queue. Times are exact: the fraction of a nanosecond that a
//! packet leaves over is carried to the next, so a thousand packets take a thousand times one.
//!
//! Nothing here sleeps, reads a clock or touches a device. The host tells the time with every
//! call, so the same machine runs on kernel packets in real time and in virtual time in tests:
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
//! // 47 octets with their framing at 28.8 kbit/s, then 75 ms.
//! assert_eq!(due, Instant::from_nanos(13_055_556 + 75_000_000));
//! ```
//!
//! Random decisions are functions of (seed, direction, stage, packet number) and of nothing else:
//! [`predict`] tells what becomes of packet *n* before there is a packet *n*. Drops by a queue
//! depend on when packets come, and so are not predicted.
//!
//! Not here: TUN devices and waiting (the binary hosts the machine), schedulers among flows,
//! explicit congestion notification, policers, links that share a medium.

mod codel;
mod delayed_ack;
mod drop_list;
mod duration;
mod fate;
mod framing;
mod link;
mod profile;

pub use delayed_ack::{DelayedAck, DelayedAckClock, Outbound};
pub use drop_list::DropList;
pub use fate::{Decisions, Fate, predict};
pub use framing::Framing;
pub use link::{Arrival, Delivery, Depth, DropReason, Dropped, Link};
pub use profile::{
    Codel, Direction, DirectionProfile, Distribution, GilbertElliott, Jitter, LossModel, Profile,
    ProfileError, Queue, Reorder,
};
