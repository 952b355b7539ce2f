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
    /// Whether windows above 65 535 bytes are possible.
    pub window_scaling: bool,
    /// Whether partial segments are sent at once (TCP_NODELAY).
    pub no_delay: bool,
    /// The receive window at first, in bytes.
    pub receive_window: u32,
    /// The largest receive window, in bytes.
    pub most_receive_window: u32,
    /// Congestion control.
    pub congestion: Congestion,
    /// Whether lost tails are probed for before the time-out (`tcp_early_retrans` 3).
    pub loss_probe: bool,
    /// The least difference between the smoothed round trip and the time-out (`tcp_rto_min_us`).
    pub least_timeout: Duration,
    /// Where between two ticks of the kernel's timers the connection begins. Real hosts have any phase below 256 ms.
    pub tick_phase: Duration,
}

impl Settings {
    /// What a Linux host does without any setting of its own (Documentation/networking/ip-sysctl.rst), TCP_NODELAY on.
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
