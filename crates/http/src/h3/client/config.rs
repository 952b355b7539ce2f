//! Configuration and limits of a client's HTTP/3 connection.

use crate::exchange::{Limits, Timeouts};
use crate::h3::Settings;
use crate::qpack::EncoderPolicy;

/// Settings of field compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qpack {
    /// The largest dynamic table that the peer's encoder may use, in bytes (SETTINGS_QPACK_MAX_TABLE_CAPACITY);
    /// 0: no table.
    pub table: u32,
    /// The largest number of streams that may wait for entries of the dynamic table
    /// (SETTINGS_QPACK_BLOCKED_STREAMS).
    pub blocked_streams: u16,
    /// How this side's encoder uses the peer's table.
    pub encoder: EncoderPolicy,
}

/// The settings of browsers: a table of 4096 bytes in each direction, and up to 16 blocked streams.
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
    /// Only the static table, in both directions.
    pub const STATIC: Qpack = Qpack {
        table: 0,
        blocked_streams: 0,
        encoder: EncoderPolicy::OFF,
    };
}

/// The settings of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The maximum number of requests that are queued or in flight; at least 1. The server limits the number of
    /// open streams through QUIC.
    pub streams: u32,
    /// How fields are compressed.
    pub qpack: Qpack,
    /// Whether targets are inserted into the dynamic table. Repeated requests for a few targets become smaller.
    /// Requests for many targets become larger because their targets evict each other.
    pub index_targets: bool,
    /// Whether a reserved setting and a reserved frame are sent, to test that the server ignores them (RFC 9114
    /// section 7.2.8).
    pub reserved: bool,
    /// Limits on a response. `head` limits the size of a field section, as SETTINGS_MAX_FIELD_SECTION_SIZE
    /// counts it, and also its compressed size.
    pub limits: Limits,
    /// Time limits. `head` and `total` start when a request is passed to the transport; when they expire, that
    /// request fails. When `idle` expires, the connection fails.
    pub timeouts: Timeouts,
}

/// 100 requests, QPACK as browsers use it, targets are not inserted into the table.
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
    /// The settings that are sent to the server.
    pub fn settings(&self) -> Settings {
        Settings {
            max_field_section_size: Some(self.limits.head.0),
            qpack_max_table_capacity: u64::from(self.qpack.table),
            qpack_blocked_streams: u64::from(self.qpack.blocked_streams),
        }
    }
}
