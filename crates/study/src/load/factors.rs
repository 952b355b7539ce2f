//! The factors of load and capacity studies.

use std::time::Duration;

use fathometer_http::driver::Policy;
use fathometer_model::Bytes;
use fathometer_model::quantity::TimeSpan;
use fathometer_workload::distribution::Law;
use fathometer_workload::plan::Sessions;

use crate::factor::{AnyFactor, Factor, parsed, unless};

/// The factors for the number of users. Only load studies have these factors: in a capacity study, the search sets the
/// number of users.
static OF_USERS: &[&dyn AnyFactor] = &[&CLIENTS, &UES];

/// The factors of all studies with loads: the factors of the server's host and of a single load.
static OF_EVERY_TRIAL: &[&dyn AnyFactor] = &[
    &LOOP,
    &CPU,
    &MEMORY,
    &DISK,
    &CACHE,
    &INITIAL_WINDOW,
    &BACKLOG,
    &WORKERS,
    &SHED,
    &KEEP_ALIVE_S,
    &KEEP_ALIVE_REQUESTS,
    &REQUESTS,
];

/// Returns all factors of load studies.
pub(super) fn of_loads() -> Vec<&'static dyn AnyFactor> {
    let alone: &[&dyn AnyFactor] = &[&BESIDE, &REST_MS];
    [OF_USERS, OF_EVERY_TRIAL, alone].concat()
}

/// Returns all factors of capacity studies. The number of users is not a factor, because the search sets it, and there
/// is one load at a time.
pub(super) fn of_searches() -> Vec<&'static dyn AnyFactor> {
    OF_EVERY_TRIAL.to_vec()
}

/// The maximum number of users of a load. Each user has a connection, and a machine has about 60,000 ports per address.
const MOST_USERS: u32 = 1_000_000;

pub(super) static CLIENTS: Factor<u32> =
    Factor::text("clients", "Number of users of the closed loop.", &[], users);

pub(super) static UES: Factor<u32> = Factor::text(
    "ues",
    "Number of users of the closed loop; used instead of `clients` if the study has both.",
    &[],
    users,
);

fn users(level: &str) -> Result<u32, String> {
    match parsed(level)? {
        users @ 1..=MOST_USERS => Ok(users),
        _ => Err(format!("it can be from 1 to {MOST_USERS}")),
    }
}

/// OFF times and session lengths of users in SURGE (Barford and Crovella 1998).
const SURGE_SESSIONS: Sessions = Sessions {
    pages: Some(Law::InverseGaussian {
        mean: 3.86,
        lambda: 6.08,
    }),
    off: Some(Law::Pareto {
        scale: 1.0,
        shape: 1.4,
    }),
};

/// A session with one page, followed by a pause longer than any test. The connection stays open.
const IDLE_SESSIONS: Sessions = Sessions {
    pages: None,
    off: Some(Law::Fixed(86_400.0)),
};

pub(super) static LOOP: Factor<Sessions> = Factor::words(
    "loop",
    "What a user does after a page: the next page (webstone), SURGE's OFF times (surge), nothing (idle).",
    &[
        ("webstone", Sessions::ENDLESS),
        ("surge", SURGE_SESSIONS),
        ("idle", IDLE_SESSIONS),
    ],
)
.or("webstone");

pub(super) static CPU: Factor<f64> = Factor::text(
    "cpu",
    "CPU quota of the server's host, in percent of `cpu_quota`.",
    &[],
    |level| match parsed::<f64>(level)? {
        percent if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("it can be a percentage, 0 or more".to_owned()),
    },
)
.or("100");

pub(super) static MEMORY: Factor<Option<Bytes>> = Factor::text(
    "memory",
    "Memory limit of the server's host, including the page cache.",
    &["none"],
    |level| {
        if level == "none" {
            return Ok(None);
        }
        level
            .strip_suffix('M')
            .and_then(|number| number.parse::<u64>().ok())
            .and_then(|mebibytes| mebibytes.checked_mul(1 << 20))
            .map(|bytes| Some(Bytes(bytes)))
            .ok_or_else(|| "it can be none, or a number of mebibytes as in 16M".to_owned())
    },
)
.or("none");

/// A limit for reads from the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// Operations per second.
    Operations(u64),
    /// Bytes per second.
    Bytes(u64),
}

pub(super) static DISK: Factor<Option<Reads>> = Factor::text(
    "disk",
    "Limit of disk reads of the server's host.",
    &["none"],
    |level| {
        let number = |suffix: &str| level.strip_suffix(suffix)?.parse::<u64>().ok();
        let bytes = || number("MBps")?.checked_mul(1_000_000).map(Reads::Bytes);
        match level {
            "none" => Ok(None),
            _ => number("ops")
                .map(Reads::Operations)
                .or_else(bytes)
                .map(Some)
                .ok_or_else(|| {
                    "it can be none, operations per second as in 200ops, or a rate as in 4MBps"
                        .to_owned()
                }),
        }
    },
)
.or("none");

/// The level `warm`: pages are requested before the load, so that the page cache contains as much of the site as fits.
pub(super) static CACHE: Factor<bool> = Factor::words(
    "cache",
    "Whether pages are requested before the load.",
    &[("warm", true), ("cold", false)],
)
.or("warm");

pub(super) static INITIAL_WINDOW: Factor<Option<u32>> = Factor::text(
    "initcwnd",
    "Initial congestion window of both hosts, in segments.",
    &["default"],
    |level| unless("default", level),
)
.or("default");

pub(super) static BACKLOG: Factor<Option<u32>> = Factor::text(
    "backlog",
    "Number of connections that may wait to be accepted.",
    &["system"],
    |level| unless("system", level),
)
.or("system");

pub(super) static WORKERS: Factor<Option<u32>> = Factor::text(
    "workers",
    "Number of connections served at a time; further connections are not accepted.",
    &["none"],
    |level| unless("none", level),
)
.or("none");

pub(super) static SHED: Factor<bool> = Factor::words(
    "shed",
    "Whether connections above `shed_at` are reset.",
    &[("off", false), ("on", true)],
)
.or("off");

pub(super) static KEEP_ALIVE_S: Factor<Option<Duration>> = Factor::text(
    "keep_alive_s",
    "The server closes a connection that was idle for this time, in seconds.",
    &["server"],
    |level| Ok(unless::<TimeSpan>("server", level)?.map(Duration::from)),
)
.or("server");

pub(super) static KEEP_ALIVE_REQUESTS: Factor<Option<u32>> = Factor::text(
    "keep_alive_requests",
    "The server closes a connection after this number of requests; 0: no limit.",
    &["server"],
    |level| unless("server", level),
)
.or("server");

pub(super) static REQUESTS: Factor<Option<u32>> = Factor::text(
    "requests",
    "The client closes a connection after this number of requests.",
    &["none"],
    |level| unless("none", level),
)
.or("none");

/// The policy of the second load. [`Cell::beside`](crate::spec::Cell::beside) also returns its server.
pub(super) static BESIDE: Factor<Option<Policy>> = Factor::text(
    "beside",
    "A second load at the same time, as POLICY@SERVER.",
    &["none"],
    |level| match (level, level.split_once('@')) {
        ("none", _) => Ok(None),
        (_, Some((policy, _))) => parsed(policy).map(Some),
        _ => Err("it can be none, or a policy and a server as in h2@nghttpd".to_owned()),
    },
)
.or("none");

/// Wake-up coalescing of the clients. The default is 0 (off), because coalescing changes the measured latencies.
pub(super) static REST_MS: Factor<Duration> = Factor::text(
    "rest_ms",
    "Wake-up coalescing of the clients: longest delay of a wake-up, in milliseconds.",
    &["off"],
    |level| {
        let known = || "it can be off, or the longest delay in milliseconds as in 1".to_owned();
        let Some(milliseconds) = unless::<f64>("off", level).map_err(|_| known())? else {
            return Ok(Duration::ZERO);
        };
        match Duration::try_from_secs_f64(milliseconds / 1e3) {
            Ok(longest) if !longest.is_zero() => Ok(longest),
            _ => Err(known()),
        }
    },
)
.or("off");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        for level in ["nan", "inf", "-1", "1e300"] {
            let error = KEEP_ALIVE_S.parse(level).expect_err(level).to_string();
            assert!(error.contains("keep_alive_s"), "{error}");
        }
        for level in ["0", "4000000000"] {
            assert!(UES.parse(level).is_err(), "{level}");
        }
        assert_eq!(UES.parse("30"), Ok(30));
        for level in ["nan", "-50", "inf"] {
            assert!(CPU.parse(level).is_err(), "{level}");
        }
    }

    #[test]
    fn levels_of_memory_and_disk_have_units() {
        assert_eq!(MEMORY.parse("none"), Ok(None));
        assert_eq!(MEMORY.parse("16M"), Ok(Some(Bytes(16 << 20))));
        assert!(MEMORY.parse("16").is_err());
        assert!(MEMORY.parse("18446744073709551615M").is_err());
        assert_eq!(DISK.parse("none"), Ok(None));
        assert_eq!(DISK.parse("200ops"), Ok(Some(Reads::Operations(200))));
        assert_eq!(DISK.parse("4MBps"), Ok(Some(Reads::Bytes(4_000_000))));
        let error = DISK.parse("200").unwrap_err().to_string();
        assert!(error.contains("200ops"), "{error}");
    }

    #[test]
    fn wake_ups_are_delayed_by_a_positive_time_or_not_at_all() {
        assert_eq!(REST_MS.parse("off"), Ok(Duration::ZERO));
        assert_eq!(REST_MS.parse("0.5"), Ok(Duration::from_micros(500)));
        for wrong in ["0", "-1", "NaN", "inf", "1e300", "on"] {
            let error = REST_MS.parse(wrong).unwrap_err().to_string();
            assert!(error.contains("off, or the longest"), "{error}");
        }
    }

    #[test]
    fn a_load_beside_is_a_policy_and_a_server() {
        assert_eq!(BESIDE.parse("none"), Ok(None));
        let policy = BESIDE.parse("h2@nghttpd").unwrap().unwrap();
        assert_eq!(policy.to_string(), "h2");
        assert!(BESIDE.parse("h2").is_err());
        assert!(BESIDE.parse("h9@nginx").is_err());
    }
}
