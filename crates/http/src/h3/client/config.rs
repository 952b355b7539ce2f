//! Configuration and limits of an HTTP/3 client connection.

use crate::exchange::{Limits, Timeouts};
use crate::h3::Settings;
use crate::qpack::EncoderPolicy;

/// The configuration of QPACK field compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Qpack {
    /// The maximum dynamic table that the peer's encoder may use, in bytes (SETTINGS_QPACK_MAX_TABLE_CAPACITY); 0: no
    /// table.
    pub table: u32,
    /// The maximum number of streams that may wait for entries of the dynamic table (SETTINGS_QPACK_BLOCKED_STREAMS).
    pub blocked_streams: u16,
    /// The rules for this side's encoder, which uses the peer's table.
    pub encoder: EncoderPolicy,
}

/// The configuration of browsers: a table of 4096 bytes in each direction, and up to 16 blocked streams.
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

/// The configuration of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The maximum number of requests that are queued or in flight; at least 1. The server separately limits the number
    /// of open streams through QUIC.
    pub streams: u32,
    /// The configuration of field compression.
    pub qpack: Qpack,
    /// Whether request targets are inserted into the dynamic table. Repeated requests for few targets become smaller.
    /// Requests for many targets become larger, because the targets evict each other.
    pub index_targets: bool,
    /// Whether a reserved setting and a reserved frame are sent, which the server must ignore (RFC 9114 section 7.2.8).
    pub reserved: bool,
    /// Limits on a response. `head` limits the size of a field section, as SETTINGS_MAX_FIELD_SECTION_SIZE counts it,
    /// and the compressed size.
    pub limits: Limits,
    /// Time limits. `head` and `total` start when a request is passed to the transport; when one expires, only that
    /// request fails. When `idle` expires, the connection fails.
    pub timeouts: Timeouts,
}

/// 100 requests, QPACK as in browsers, and no request targets in the table.
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
    /// Returns the settings that are sent to the server.
    pub fn settings(&self) -> Settings {
        Settings {
            max_field_section_size: Some(self.limits.head.0),
            qpack_max_table_capacity: u64::from(self.qpack.table),
            qpack_blocked_streams: u64::from(self.qpack.blocked_streams),
        }
    }
}
