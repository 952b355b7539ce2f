//! Adds the facts about a test that the engine does not record, and the defaults that were used.

use std::time::Duration;

use fathometer_analysis::load::LoadResult;
use fathometer_http::driver::Policy;
use fathometer_load::workload::SEED;
use fathometer_load::{Users, Windows, secrets};
use fathometer_quic_sockets::UdpOffload;
use fathometer_sys::Machine;

use super::arguments::{LoadArguments, SPIN};
use super::plan;

/// Adds the facts that the engine does not record.
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
    let mut note = |asked: bool, name: &str, value: String| {
        if !asked {
            defaults.push((name.to_owned(), value));
        }
    };
    if let Users::Closed { users, .. } = &planned.users {
        let asked = arguments.connections.or(arguments.ue).is_some();
        note(asked, "users", users.to_string());
        let is_on = !arguments.rest.is_zero();
        note(is_on, "wake-up coalescing", "off".to_owned());
    } else if let Users::Open { connections, .. } = &planned.users {
        note(
            arguments.connections.is_some(),
            "connections",
            connections.to_string(),
        );
        note(
            arguments.spin != SPIN,
            "busy-wait",
            format!("at most {SPIN:?} and at most the wake-up latency"),
        );
        note(
            arguments.arrivals.is_some(),
            "arrivals",
            planned
                .process
                .map_or(String::new(), |process| process.to_string()),
        );
    }
    note(
        arguments.duration.is_some() || arguments.requests.is_some(),
        "duration",
        setup
            .duration
            .map_or(String::new(), |time| format!("{} s", time.as_secs_f64())),
    );
    note(
        arguments.threads.is_some(),
        "threads",
        setup.threads.to_string(),
    );
    note(
        arguments.timeout != Duration::from_secs(30),
        "timeout",
        "30 s".to_owned(),
    );
    note(!arguments.warmup.is_zero(), "warm-up", "none".to_owned());
    note(arguments.policy.is_some(), "policy", policy.to_string());
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
            note(given != default, name, format!("{default} B"));
        }
    }
    if policy.protocol.is_over_quic() {
        let given = arguments.udp_offload;
        note(
            given != UdpOffload::On,
            "UDP offload",
            UdpOffload::On.to_string(),
        );
    }
    if policy.tls {
        for (name, value) in arguments.security.defaults() {
            note(false, name, value);
        }
    }
    note(
        arguments.keep_alive.is_some(),
        "idle connections",
        "kept".to_owned(),
    );
    note(arguments.nagle, "Nagle's algorithm", "off".to_owned());
    note(
        arguments.reset,
        "end of connections",
        "closed, not reset".to_owned(),
    );
    note(arguments.seed != SEED, "seed", SEED.to_string());
    setup.defaults = defaults;
}
