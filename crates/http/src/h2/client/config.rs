//! How a client connection of HTTP/2 behaves, and what it puts up with.

use std::time::Duration;

pub use crate::h1::client::{Limits, Timeouts};
use crate::h2::flow::{CONNECTION_WINDOW, UpdateAt};
use crate::h2::settings::Settings;

/// The scheme of every request on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Without TLS, by prior knowledge (`h2c`).
    Http,
    /// Over TLS (`h2`).
    Https,
}

impl Scheme {
    /// As `:scheme` says it.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// What becomes of the server's pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Push {
    /// The server is told not to push; a push is a fault that ends the connection.
    Disabled,
    /// The server may push, and each push is cancelled when it is promised.
    Refused,
    /// The server may push; the caller may cancel what it does not want.
    Accepted,
}

/// When the first requests may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// With the client's settings, before the server has told its own (RFC 9113 section 3.4).
    AtOnce,
    /// After the server's settings: it costs a round trip, and no limit of the server is passed.
    AwaitSettings,
}

/// Frames of no use that a server may send in one second in which nothing of any use comes. Past
/// any of them the connection fails with [`Failure::TooLarge`](fathometer_model::Failure::TooLarge).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floods {
    /// Frames that want an answer: PING, SETTINGS, pushes that are refused.
    pub answers: u32,
    /// Frames that carry nothing: DATA without content, WINDOW_UPDATE, PRIORITY, frames of unknown
    /// types, frames on streams that were reset.
    pub idle: u32,
    /// Octets of answers, window updates among them, that wait because the transport does not take
    /// them, whatever comes.
    pub waiting: u32,
}

/// 1000 frames to be answered, 10 000 that carry nothing, 64 KiB of answers that wait.
impl Default for Floods {
    fn default() -> Floods {
        Floods {
            answers: 1000,
            idle: 10_000,
            waiting: 64 * 1024,
        }
    }
}

/// How one connection behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// What `:scheme` says.
    pub scheme: Scheme,
    /// The most requests queued or sent and not yet answered; at least 1. The server's
    /// SETTINGS_MAX_CONCURRENT_STREAMS is kept as well.
    pub streams: u32,
    /// What the server is told. `enable_push` follows from `push` and is not looked at;
    /// `max_concurrent_streams` bounds the pushes under way.
    pub settings: Settings,
    /// The connection's window, in octets: 65 535 to 2^31 − 1.
    pub connection_window: u32,
    /// When the server is told that it may send more.
    pub update_at: UpdateAt,
    /// What becomes of pushes.
    pub push: Push,
    /// The most pushes promised or under way; further ones are refused.
    pub most_pushes: u32,
    /// When the first requests may leave.
    pub start: Start,
    /// The most octets of the table that request heads are compressed with, whatever the server
    /// offers.
    pub encoder_table: u32,
    /// Whether targets go into that table: it makes repeated requests for few targets smaller, and
    /// those for many targets larger, since they throw each other out.
    pub index_targets: bool,
    /// Whether the server is told by GOAWAY when the client is done.
    pub say_goodbye: bool,
    /// What a response may be. `head` is the size of a field section as SETTINGS_MAX_HEADER_LIST_SIZE
    /// counts it, and a bound on its compressed size as well.
    pub limits: Limits,
    /// How long to wait. `head` and `total` count from when a request was handed to the transport,
    /// and end the request; `idle` is about the connection, and ends that.
    pub timeouts: Timeouts,
    /// How long the server may take to acknowledge settings.
    pub settings_timeout: Option<Duration>,
    /// What of no use is put up with.
    pub floods: Floods,
}

/// What a browser does, but for its windows, and without pushes: 100 streams, the windows that the
/// protocol starts with, updates at half a window, requests at once, targets not in the table, 30 s for
/// an acknowledgement.
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
            update_at: UpdateAt::Percent(50),
            push: Push::Disabled,
            most_pushes: 100,
            start: Start::AtOnce,
            encoder_table: 4096,
            index_targets: false,
            say_goodbye: true,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            settings_timeout: Some(Duration::from_secs(30)),
            floods: Floods::default(),
        }
    }
}

impl Config {
    /// The settings that are sent.
    pub fn told(&self) -> Settings {
        Settings {
            enable_push: self.push != Push::Disabled,
            ..self.settings
        }
    }
}
