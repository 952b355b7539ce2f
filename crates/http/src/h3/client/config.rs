//! How a client connection of HTTP/3 behaves, and what it puts up with.

use crate::h1::client::{Limits, Timeouts};
use crate::h3::Settings;
use crate::qpack::EncoderPolicy;

/// How fields are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qpack {
    /// The most octets of the table that the peer's encoder may use (SETTINGS_QPACK_MAX_TABLE_CAPACITY);
    /// 0: none.
    pub table: u32,
    /// The most streams that may wait for that table (SETTINGS_QPACK_BLOCKED_STREAMS).
    pub blocked_streams: u16,
    /// How the own encoder uses the peer's table.
    pub encoder: EncoderPolicy,
}

/// What browsers do: a table of 4096 octets each way, up to 16 streams that wait for it.
impl Default for Qpack {
    fn default() -> Qpack {
        Qpack {
            table: 4096,
            blocked_streams: 16,
            encoder: EncoderPolicy::default(),
        }
    }
}

impl Qpack {
    /// The static table alone, both ways.
    pub const STATIC: Qpack = Qpack {
        table: 0,
        blocked_streams: 0,
        encoder: EncoderPolicy::OFF,
    };
}

/// How one connection behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The most requests queued or sent and not yet answered; at least 1. How many streams may be open
    /// is the server's to say, to QUIC.
    pub streams: u32,
    /// How fields are compressed.
    pub qpack: Qpack,
    /// Whether targets go into the table: it makes repeated requests for few targets smaller, and
    /// those for many targets larger, since they throw each other out.
    pub index_targets: bool,
    /// Whether a setting and a frame are sent that mean nothing, as a test of the server's patience
    /// (RFC 9114 section 7.2.8).
    pub reserved: bool,
    /// What a response may be. `head` is the size of a field section as
    /// SETTINGS_MAX_FIELD_SECTION_SIZE counts it, and a bound on its compressed size as well.
    pub limits: Limits,
    /// How long to wait. `head` and `total` count from when a request was handed to the transport,
    /// and end the request; `idle` is about the connection, and ends that.
    pub timeouts: Timeouts,
}

/// 100 requests, QPACK as browsers use it, targets not in the table.
impl Default for Config {
    fn default() -> Config {
        Config {
            streams: 100,
            qpack: Qpack::default(),
            index_targets: false,
            reserved: false,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
        }
    }
}

impl Config {
    /// What the server is told.
    pub fn settings(&self) -> Settings {
        Settings {
            max_field_section_size: Some(self.limits.head.0),
            qpack_max_table_capacity: u64::from(self.qpack.table),
            qpack_blocked_streams: u64::from(self.qpack.blocked_streams),
        }
    }
}
