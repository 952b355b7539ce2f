//! HTTP protocol machines, client drivers and the origin: bytes and `now` in, bytes, events and
//! the next time-out out. No sockets, no clocks, no threads.
//!
//! Two floors within. A *connection* machine ([`h1::client`], [`h1::server`]) handles one byte
//! stream and is fuzzed alone. A *driver* ([`driver`]) holds a client's policy (how many
//! connections, pipelined or not, when to flush, when to close) and retrieves a page over as many
//! connection machines as the policy says. The [`origin`] decides what a server answers, whatever
//! version of HTTP carries it.

pub mod alt_svc;
pub mod archive;
pub mod client;
pub mod driver;
pub mod field_block;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod hpack;
pub mod html;
mod huffman;
pub mod origin;
pub mod pace;
pub mod package;
pub mod qpack;
pub mod waiting;
