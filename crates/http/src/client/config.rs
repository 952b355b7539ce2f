//! Settings of a client connection, for all protocols.

use std::time::Duration;

use crate::exchange::{Limits, Timeouts};
use crate::h1;
use crate::h2;
use crate::h2::settings::Settings;

/// The settings of one connection. A setting has no effect if the protocol lacks its mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The maximum number of requests in flight; at least 1. The server may allow fewer.
    pub depth: u32,
    /// Whether the transport uses TLS, which determines the scheme of requests.
    pub tls: bool,
    /// Whether the server may push.
    pub push: bool,
    /// The receive window of a stream, in bytes.
    pub stream_window: u32,
    /// The receive window of the connection, in bytes.
    pub connection_window: u32,
    /// Whether to record the times at which the server waits for these windows.
    pub record_window_waits: bool,
    /// The largest dynamic table for the compression of response fields, in bytes.
    pub header_table: u32,
    /// The time limit for the server's acknowledgement of settings; `None` sets no limit.
    pub settings_timeout: Option<Duration>,
    /// Limits on a response.
    pub limits: Limits,
    /// Time limits for a response.
    pub timeouts: Timeouts,
}

/// One request at a time over TLS; otherwise the HTTP/2 defaults.
impl Default for Config {
    fn default() -> Config {
        let http2 = h2::client::Config::default();
        Config {
            depth: 1,
            tls: true,
            push: false,
            stream_window: http2.settings.initial_window_size,
            connection_window: http2.connection_window,
            record_window_waits: false,
            header_table: http2.settings.header_table_size,
            settings_timeout: http2.settings_timeout,
            limits: http2.limits,
            timeouts: http2.timeouts,
        }
    }
}

impl Config {
    pub(super) fn http1(&self) -> h1::client::Config {
        h1::client::Config {
            depth: u16::try_from(self.depth).unwrap_or(u16::MAX),
            limits: self.limits,
            timeouts: self.timeouts,
        }
    }

    pub(super) fn http2(&self) -> h2::client::Config {
        let usual = h2::client::Config::default();
        h2::client::Config {
            streams: self.depth,
            scheme: match self.tls {
                true => h2::client::Scheme::Https,
                false => h2::client::Scheme::Http,
            },
            settings: Settings {
                initial_window_size: self.stream_window,
                header_table_size: self.header_table,
                ..usual.settings
            },
            connection_window: self.connection_window,
            record_window_waits: self.record_window_waits,
            push: match self.push {
                true => h2::client::Push::Accepted,
                false => h2::client::Push::Disabled,
            },
            settings_timeout: self.settings_timeout,
            limits: self.limits,
            timeouts: self.timeouts,
            ..usual
        }
    }
}
