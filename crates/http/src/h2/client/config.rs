//! Settings and limits of an HTTP/2 client connection.

use std::time::Duration;

pub use crate::exchange::{Limits, Timeouts};
use crate::h2::flow::{CONNECTION_WINDOW, UpdateAt};
use crate::h2::settings::Settings;

/// The scheme of every request on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Without TLS, with prior knowledge (`h2c`).
    Http,
    /// Over TLS (`h2`).
    Https,
}

impl Scheme {
    /// The value of `:scheme`.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// The treatment of pushes from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Push {
    /// Push is disabled in the settings. A push from the server closes the connection with an error.
    Disabled,
    /// The server may push, and each push is cancelled when it is promised.
    Refused,
    /// The server may push; the caller may cancel unwanted pushes.
    Accepted,
}

/// The time at which the first requests may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// Together with the client's settings, before the server's settings arrive (RFC 9113 section 3.4).
    AtOnce,
    /// After the server's settings arrive. The first request waits one round trip, but no request exceeds a limit of
    /// the server.
    AwaitSettings,
}

/// Limits on useless frames that a server may send in one second without any useful frame. If a limit is exceeded,
/// the connection fails with [`Failure::TooLarge`](fathometer_model::Failure::TooLarge).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floods {
    /// Frames that require an answer: PING, SETTINGS and refused PUSH_PROMISE.
    pub answers: u32,
    /// Idle frames: DATA without content, WINDOW_UPDATE, PRIORITY, frames of unknown types, and frames on streams that
    /// were reset.
    pub idle: u32,
    /// Bytes of answers, window updates included, that the transport has not taken. Useful frames do not reset this
    /// count.
    pub waiting: u32,
}

/// 1000 frames that require an answer, 10 000 idle frames, and 64 KiB of waiting answers.
impl Default for Floods {
    fn default() -> Floods {
        Floods {
            answers: 1000,
            idle: 10_000,
            waiting: 64 * 1024,
        }
    }
}

/// The configuration of one client connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The scheme, sent in `:scheme`.
    pub scheme: Scheme,
    /// The maximum number of outstanding (queued or sent) requests; at least 1. The server's
    /// SETTINGS_MAX_CONCURRENT_STREAMS applies as well.
    pub streams: u32,
    /// The settings sent to the server. `enable_push` is derived from `push`; its value here is ignored.
    /// `max_concurrent_streams` limits the pushes in flight.
    pub settings: Settings,
    /// The receive window of the connection, in bytes: 65 535 to 2^31 − 1.
    pub connection_window: u32,
    /// Whether to record the times during which the server waits for a receive window
    /// ([`take_window_waits`](super::Connection::take_window_waits)). The record needs memory for each window update.
    pub record_window_waits: bool,
    /// The time at which window updates are sent to the server.
    pub update_at: UpdateAt,
    /// The treatment of pushes.
    pub push: Push,
    /// The maximum number of pushes, promised or in flight. Further pushes are refused.
    pub most_pushes: u32,
    /// The time at which the first requests may be sent.
    pub start: Start,
    /// The maximum size in bytes of the HPACK table for request fields, even if the server allows a larger table.
    pub encoder_table: u32,
    /// Whether request targets are added to the HPACK table. Repeated requests for few targets become smaller. Requests
    /// for many targets become larger, because the targets evict each other.
    pub index_targets: bool,
    /// Whether the client sends GOAWAY before it closes the connection.
    pub send_go_away: bool,
    /// Limits on a response. `head` limits the size of a field section, as SETTINGS_MAX_HEADER_LIST_SIZE counts it, and
    /// the compressed size.
    pub limits: Limits,
    /// Time-outs. `head` and `total` start when a request is handed to the transport, and abort only that request.
    /// `idle` applies to the connection and closes it.
    pub timeouts: Timeouts,
    /// The maximum time until the server acknowledges the client's settings.
    pub settings_timeout: Option<Duration>,
    /// Limits on useless frames.
    pub floods: Floods,
}

/// Like a browser, but with the protocol's initial windows and without pushes. 100 streams; window updates at half a
/// window; requests without a wait for settings; targets not in the table; 30 s for the acknowledgement of settings.
impl Default for Config {
    fn default() -> Config {
        Config {
            scheme: Scheme::Https,
            streams: 100,
            settings: Settings {
                max_concurrent_streams: Some(100),
                ..Settings::default()
            },
            connection_window: CONNECTION_WINDOW,
            record_window_waits: false,
            update_at: UpdateAt::Percent(50),
            push: Push::Disabled,
            most_pushes: 100,
            start: Start::AtOnce,
            encoder_table: 4096,
            index_targets: false,
            send_go_away: true,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            settings_timeout: Some(Duration::from_secs(30)),
            floods: Floods::default(),
        }
    }
}

impl Config {
    /// Returns the settings that are sent to the server.
    pub fn sent_settings(&self) -> Settings {
        Settings {
            enable_push: self.push != Push::Disabled,
            ..self.settings
        }
    }
}
