//! HTTP protocol state machines, client drivers and the origin, without I/O. Input: bytes and the current time.
//! Output: bytes, events and the time of the next time-out. The crate uses no sockets, clocks or threads.
//!
//! There are two layers. A *connection* machine ([`h1::client`], [`h1::server`]) handles one byte stream and is fuzzed
//! alone. A *driver* ([`driver`]) implements a client's policy: the number of connections, pipelining, flushing and
//! closing. It retrieves a page over several connection machines. The [`origin`] determines the responses of a server,
//! in every version of HTTP. The registry [`protocol`] lists the names and properties of each protocol.

pub mod alt_svc;
pub mod client;
pub mod driver;
pub mod exchange;
pub mod field_block;
pub mod h1;
pub mod h2;
pub mod h3;
#[cfg(test)]
mod hexadecimal;
pub mod hpack;
pub mod html;
mod huffman;
pub mod message;
pub mod origin;
pub mod pace;
pub mod protocol;
pub mod qpack;
pub mod waiting;
