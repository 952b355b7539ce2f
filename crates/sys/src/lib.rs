//! All that is Linux: namespaces, TUN devices, sockets, clocks, capture files.
//!
//! The only crate with `unsafe` in it, and the only one that reads a real clock. It does what it
//! is told and decides nothing: which host gets which TCP, when a packet is due and what a late
//! one means is settled above.
//!
//! - [`clock`], [`wait`]: time, and waiting for it
//! - [`poller`]: waiting for many sockets
//! - [`privilege`]: the right to make namespaces, and what this machine allows
//! - [`namespace`], [`netlink`], [`tun`]: hosts and the devices between them
//! - [`era`]: the TCP of a host, applied and accounted for
//! - [`counters`]: what TCP has counted in a host
//! - [`cgroup`]: what a host may use of this machine, and what it has used
//! - [`probe`]: what an experiment costs the machine, read while it runs
//! - [`socket`], [`mod@tcp_info`]: TCP with every knob, and what the kernel thinks of it
//! - [`udp`]: UDP as QUIC wants it: offloads, ECN, the address a datagram was sent to
//! - [`packet_ring`], [`handover`]: packets and descriptors for a process of our own
//! - [`helper`]: what a process of our own does about itself first
//! - [`pcapng`]: capture files
//! - [`priority`]: threads that must not be late
//! - [`awake`]: processors that do not sleep
//! - [`process`]: programs inside a namespace, that end when told and when we do
//! - [`sched`]: where threads run
//! - [`usage`]: what a thread has used
//! - [`page_cache`], [`reclaim`]: what of a file is in memory, and who takes it from there
//! - [`lock`]: ownership of files and folders, until the owner exits
//! - [`heap`]: memory that the allocator keeps
//! - [`machine`]: what a reader must know of the machine
//! - [`signal`]: the user's wish to end
//! - [`terminal`]: the terminal while a view has it

pub mod awake;
pub mod cgroup;
pub mod clock;
pub mod counters;
pub mod era;
pub mod error;
pub mod handover;
pub mod heap;
pub mod helper;
pub mod lock;
pub mod machine;
pub mod namespace;
pub mod netlink;
pub mod packet_ring;
pub mod page_cache;
pub mod pcapng;
pub mod poller;
pub mod priority;
pub mod privilege;
pub mod probe;
pub mod process;
pub mod reclaim;
pub mod sched;
pub mod signal;
pub mod socket;
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
