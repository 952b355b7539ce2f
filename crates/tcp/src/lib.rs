//! A model of Linux's TCP without I/O: both ends of a connection, in virtual time.
//!
//! An [`Endpoint`] is one end. Its caller passes the segments that arrive, the bytes that the application writes, and
//! the time. The endpoint returns segments to send, bytes to read, and the time of its next timer. Segments have the
//! length of real segments, options included, so that packets and bytes can be counted and a path can be simulated.
//!
//! The model follows the behaviour of Linux 6.x as the kernel's documentation and RFCs describe it, at the level of
//! segments:
//!
//! - connections: the handshake with its time-outs, FIN in both directions;
//! - sending: initial window, slow start by bytes acknowledged, congestion window validation (similar to RFC 7661),
//!   HyStart, CUBIC (RFC 9438) and Reno, Nagle's algorithm, restart after idle time;
//! - acknowledging: quick acknowledgements at the start of a connection, interactive mode, delayed acknowledgements
//!   with an adaptive delay, acknowledgements when the application has read all data;
//! - losses: tail loss probes and RACK (RFC 8985), time-outs (RFC 6298 with Linux's minimum), selective acknowledgements,
//!   duplicate SACK (RFC 2883), proportional rate reduction (RFC 6937), detection and undo of spurious time-outs by time
//!   stamps (RFC 3522);
//! - timers: the kernel's ticks of 4 ms, and the coarser steps of its long timers.
//!
//! Not in the model: delays of segments by segmentation offload, pacing, BBR, ECN, TCP Fast Open, urgent data,
//! keep-alive, path MTU discovery, flow control when the receiving application does not read. [`Endpoint::counters`]
//! returns the losses and retransmissions of a connection: the caller decides whether to report a prediction with
//! losses.
//!
//! ```
//! use fathometer_model::Instant;
//! use fathometer_tcp::{Endpoint, Settings};
//!
//! let mut client = Endpoint::connect(Settings::today(1500), Instant::ZERO);
//! let mut server = Endpoint::listen(Settings::today(1500));
//! let syn = client.poll_transmit().unwrap();
//! assert_eq!(syn.wire_length(), 60);
//! server.handle_segment(&syn, Instant::ZERO);
//! client.handle_segment(&server.poll_transmit().unwrap(), Instant::ZERO);
//! assert!(client.is_established());
//! ```

mod acknowledging;
mod congestion;
mod counters;
mod endpoint;
mod receiver;
mod round_trip;
mod segment;
mod sender;
mod settings;
mod ticks;

pub use counters::Counters;
pub use endpoint::{Endpoint, Read};
pub use segment::{Flags, Segment};
pub use settings::{Congestion, Settings};
