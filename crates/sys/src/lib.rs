//! The Linux-specific code: namespaces, TUN devices, sockets, clocks, capture files.
//!
//! This is the only crate with `unsafe` code, and the only crate that reads a real clock. It contains no policy: other
//! crates decide which host gets which TCP settings, when a packet is due, and how to report a late packet.
//!
//! - [`clock`], [`wait`]: the clock, and waiting for a deadline
//! - [`poller`]: waiting for many sockets
//! - [`privilege`], [`abilities`]: the privileges to create namespaces, and the features of this machine
//! - [`namespace`], [`netlink`], [`tun`]: hosts and the devices between them
//! - [`era`]: the TCP settings of a host, applied and recorded
//! - [`counters`]: the TCP counters of a host
//! - [`cgroup`]: the resource limits and the resource use of a host
//! - [`probe`]: the resource use of an experiment, read while it runs
//! - [`socket`], [`mod@tcp_info`]: TCP sockets with all their options, and the kernel's state of a connection
//! - [`udp`]: UDP sockets for QUIC: offloads, ECN, the destination address of a datagram
//! - [`packet_ring`], [`handover`]: pass packets and descriptors to a helper process
//! - [`inherited`]: descriptors from the process that started this process
//! - [`helper`]: the first steps of a helper process
//! - [`pcapng`]: capture files
//! - [`priority`]: real-time priority for threads
//! - [`awake`]: keeps idle processors out of sleep states
//! - [`process`]: programs inside a namespace, which are killed when dropped or when this process exits
//! - [`sched`]: the processors on which a thread runs
//! - [`usage`]: the resource use of threads and of this process
//! - [`page_cache`], [`reclaim`]: the pages of a file in memory, and their eviction
//! - [`lock`]: ownership of files and folders, released when the owner exits
//! - [`heap`]: returns the allocator's free memory to the system
//! - [`machine`]: the properties of the machine that a reader of results needs
//! - [`signal`]: the signals that end the program or reopen logs
//! - [`terminal`]: the terminal's settings while a screen is shown

#![allow(unsafe_code, reason = "only this crate may contain unsafe code")]

pub mod abilities;
mod applied_limit;
pub mod awake;
pub mod cgroup;
pub mod clock;
pub mod counters;
pub mod era;
pub mod error;
pub mod handover;
pub mod heap;
pub mod helper;
pub mod inherited;
pub mod lock;
pub mod machine;
pub mod namespace;
pub mod netlink;
pub mod packet_ring;
pub mod page_cache;
pub mod pcapng;
pub mod poller;
mod pressure;
pub mod priority;
pub mod privilege;
pub mod probe;
pub mod process;
pub mod reclaim;
pub mod sched;
pub mod signal;
pub mod socket;
pub mod stderr;
pub mod tcp_info;
pub mod terminal;
pub mod tun;
pub mod udp;
pub mod usage;
pub mod wait;

pub use clock::Clock;
pub use counters::TcpCounters;
pub use era::{AppliedSettings, TcpSettings};
pub use error::{Error, Result};
pub use machine::Machine;
pub use namespace::Namespace;
pub use packet_ring::{PacketReceiver, PacketRing, PacketSender};
pub use pcapng::CaptureWriter;
pub use privilege::Privilege;
pub use process::{Exit, HostProcess, Session};
pub use signal::{HangUps, Interrupt};
pub use socket::SocketOptions;
pub use tcp_info::{TcpInfo, tcp_info};
pub use tun::{Tun, TunInput};
pub use udp::{UdpOptions, UdpSocket};
pub use wait::{Interest, Readiness, Waiter, Waker};
