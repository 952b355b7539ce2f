//! The settings of one end of a connection.

use std::time::Duration;

/// Congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC with HyStart.
    Cubic,
    /// NewReno.
    Reno,
}

/// The settings of one end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The largest IP packet, in bytes.
    pub mtu: u32,
    /// The initial congestion window, in segments; at least 1.
    pub initial_window: u32,
    /// Whether time stamps are offered (RFC 7323).
    pub timestamps: bool,
    /// Whether selective acknowledgements are offered (RFC 2018).
    pub sack: bool,
    /// Whether window scaling is offered, for windows above 65 535 bytes.
    pub window_scaling: bool,
    /// TCP_NODELAY: whether partial segments are sent immediately.
    pub no_delay: bool,
    /// The initial receive window, in bytes.
    pub receive_window: u32,
    /// The largest receive window, in bytes.
    pub most_receive_window: u32,
    /// Congestion control.
    pub congestion: Congestion,
    /// Whether a tail loss probe is sent before the retransmission time-out (`tcp_early_retrans` 3).
    pub loss_probe: bool,
    /// The minimum difference between the smoothed round-trip time and the time-out (`tcp_rto_min_us`).
    pub least_timeout: Duration,
    /// The phase of the kernel's timer ticks at instant 0. On real hosts it can have any value below 256 ms.
    pub tick_phase: Duration,
}

impl Settings {
    /// Returns the defaults of a Linux host (Documentation/networking/ip-sysctl.rst), with TCP_NODELAY.
    pub fn today(mtu: u32) -> Settings {
        Settings {
            mtu,
            initial_window: 10,
            timestamps: true,
            sack: true,
            window_scaling: true,
            no_delay: true,
            // Half of tcp_rmem's default of 131072, at most 65535, in whole segments of 1460 bytes.
            receive_window: 64_240,
            // Half of tcp_rmem's maximum.
            most_receive_window: 3 << 20,
            congestion: Congestion::Cubic,
            loss_probe: true,
            least_timeout: Duration::from_millis(200),
            tick_phase: Duration::ZERO,
        }
    }
}
