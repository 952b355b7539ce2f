//! The facts about a test that the engine does not have, and the defaults that were used.

use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_http::driver::Policy;
use fathometer_load::workload::SEED;
use fathometer_load::{Users, Windows, secrets};
use fathometer_quic_sockets::UdpOffload;
use fathometer_sys::Machine;

use super::arguments::{LoadArguments, SPIN};
use super::plan;

/// Adds the facts about the test that the engine does not have.
pub(super) fn describe(
    result: &mut LoadResult,
    arguments: &LoadArguments,
    policy: Policy,
    planned: &plan::Planned,
) {
    let setup = &mut result.setup;
    setup.url.clone_from(&arguments.url);
    setup.command = secrets::command_line();
    setup.version = env!("CARGO_PKG_VERSION").to_owned();
    setup.machine = Machine::read().facts();
    let mut defaults = Vec::new();
    let mut tell = |asked: bool, name: &str, value: String| {
        if !asked {
            defaults.push((name.to_owned(), value));
        }
    };
    if let Users::Closed { users, .. } = &planned.users {
        let asked = arguments.connections.or(arguments.ue).is_some();
        tell(asked, "users", users.to_string());
        let is_on = !arguments.rest.is_zero();
        tell(is_on, "wake-up coalescing", "off".to_owned());
    } else if let Users::Open { connections, .. } = &planned.users {
        tell(
            arguments.connections.is_some(),
            "connections",
            connections.to_string(),
        );
        tell(
            arguments.spin != SPIN,
            "busy-wait",
            format!("{SPIN:?} at most, no longer than the wake-up latency"),
        );
        tell(
            arguments.arrivals.is_some(),
            "arrivals",
            "constant".to_owned(),
        );
    }
    tell(
        arguments.duration.is_some() || arguments.requests.is_some(),
        "duration",
        setup
            .duration
            .map_or(String::new(), |time| format!("{} s", time.as_secs_f64())),
    );
    tell(
        arguments.threads.is_some(),
        "threads",
        setup.threads.to_string(),
    );
    tell(
        arguments.timeout != Duration::from_secs(30),
        "timeout",
        "30 s".to_owned(),
    );
    tell(!arguments.warmup.is_zero(), "warm-up", "none".to_owned());
    tell(arguments.policy.is_some(), "policy", policy.to_string());
    if policy.protocol.multiplexes() {
        let windows = Windows::default();
        for (name, given, default) in [
            ("window of a stream", arguments.h2_window, windows.stream),
            (
                "window of a connection",
                arguments.h2_connection_window,
                windows.connection,
            ),
        ] {
            tell(given != default, name, format!("{default} B"));
        }
    }
    if policy.protocol.is_over_quic() {
        let given = arguments.udp_offload;
        tell(
            given != UdpOffload::On,
            "UDP offload",
            UdpOffload::On.to_string(),
        );
    }
    if policy.tls {
        for (name, value) in arguments.security.defaults() {
            tell(false, name, value);
        }
    }
    tell(
        arguments.keep_alive.is_some(),
        "idle connections",
        "kept".to_owned(),
    );
    tell(arguments.nagle, "Nagle's algorithm", "off".to_owned());
    tell(
        arguments.reset,
        "end of connections",
        "closed, not reset".to_owned(),
    );
    tell(arguments.seed != SEED, "seed", SEED.to_string());
    setup.defaults = defaults;
}
