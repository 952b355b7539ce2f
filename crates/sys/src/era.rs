//! The TCP settings of a host: settings of its namespace, its device and its routes. Each setting is applied, read back
//! and recorded.
//!
//! The caller passes the settings of an era. This module applies them, and reports every setting that the kernel does
//! not have, rejects or changes.
//!
//! # How closely Linux can imitate the TCP of 1997
//!
//! Measured on Linux 6.18 with two hosts and 45 ms each way; `tests/lab/eras.rs` tests these statements where possible.
//!
//! What works:
//!
//! - *SYN options.* With `tcp_timestamps`, `tcp_sack` and `tcp_window_scaling` at 0, the SYN has only the MSS option.
//!   With `tcp_ecn`, `tcp_fastopen`, `tcp_frto`, `tcp_early_retrans` (tail loss probes) and `tcp_recovery` (RACK) at 0,
//!   none of these features is visible on the wire.
//! - *Congestion control.* `tcp_congestion_control` or the route's `congctl`. A new namespace uses the machine's default,
//!   which is BBR on some machines: every era should set it.
//! - *Initial window.* The route's `initcwnd`, from 1.
//! - *Receive window.* `tcp_rmem` with twice the window as default and maximum, and no window scaling: `4096
//!   17520 17520` advertises 8760 in the SYN and never more, for all programs. The route's `window` and
//!   `TCP_WINDOW_CLAMP` do not last: since 6.10 the first full segment resets the clamp from the buffer, and the window
//!   grows to 65535.
//! - *Send buffer.* `tcp_wmem` includes the kernel's overhead, 2048 bytes per full segment: with 8192, four segments are
//!   in flight; with 10240, five; with 12288, six.
//! - *One decision per segment.* With [`TcpSettings::burst_segments`] at 1, no segment waits for other segments to form a
//!   burst.
//! - *Minimum retransmission time-out.* `tcp_rto_min_us`, or the route's `rto_min`: 1 s is accepted. (The
//!   socket option of that name can only lower it.) The time-out is the smoothed round trip *plus* the larger
//!   of this and four deviations; BSD used the larger of 1 s and the whole sum.
//! - *Every second segment acknowledged.* Linux sends some quick acknowledgements at the start of a connection and after
//!   each acknowledgement whose delay expired. `TCP_QUICKACK` at 0 stops them. The client sets it after connecting and
//!   after every read. The server sets it on the listening socket, whose connections inherit it; the acknowledgement of
//!   a request is then sent with the response. For programs that do not set it,
//!   [`HostProcess::listening_sockets`](crate::HostProcess::listening_sockets) gives access to their sockets. As in BSD,
//!   a program that reads slowly causes fewer acknowledgements.
//!
//! What does not work:
//!
//! - *Delayed acknowledgements of 200 ms.* A pending acknowledgement waits 40 ms, or 44 ms with the timer
//!   granularity of 250 Hz. BSD waited for the next tick of a 200 ms clock, 100 ms on average. `TCP_DELACK_MAX_US` can
//!   only shorten the delay, and the round trip is an upper bound of the adaptive delay. So the stall of a response
//!   larger than the initial window is shorter by this difference.
//! - *Slow start.* The window grows by the bytes acknowledged, so it doubles each round trip. In 1997 it grew
//!   by one segment per acknowledgement, so half as fast when every second segment is acknowledged. From 1
//!   segment to a window of 6 the difference is one to two round trips.
//! - *Initial time-out.* 1 s, 2 s, 4 s for SYN and SYN-ACK with `tcp_syn_linear_timeouts` at 0; by default, four times
//!   1 s. In 1997: 3 s, 6 s, 12 s, and 0.5 s on Solaris. The difference only matters for a SYN that is lost or queued for
//!   a second.
//! - *Recovery.* NewReno with proportional rate reduction, where 1997 had Reno: the difference only matters
//!   after losses.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::netlink::{Netlink, RouteMetrics};
use crate::socket::SocketOptions;

const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// The TCP settings of one host. Settings that are not given keep the kernel's defaults of a new namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TcpSettings {
    /// Kernel settings by their dotted name (`net.ipv4.tcp_sack`), with the value as printed by
    /// `/proc/sys/net`. All kinds of white space between numbers are equivalent.
    pub sysctl: BTreeMap<String, String>,
    /// The metrics of every route of the host.
    pub route: RouteMetrics,
    /// The options of every socket of the host. The code that opens the sockets applies them.
    pub socket: SocketOptions,
    /// The largest number of segments that TCP passes to the device as one packet (`gso_max_segs`). With 1,
    /// the sender decides about each segment separately, as before segmentation offload. With more, it holds
    /// segments back to send them in bursts (`tcp_tso_win_divisor`).
    pub burst_segments: Option<u32>,
}

/// A route of a host, which gets the metrics of [`TcpSettings::route`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destination of the route.
    pub destination: IpAddr,
    /// The prefix length of the destination, in bits.
    pub prefix: u8,
    /// The source address that the host uses on this route.
    pub source: Option<IpAddr>,
}

/// The result of one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedSetting {
    /// The setting's name, as in `net.ipv4.tcp_sack` or `route initcwnd`.
    pub name: String,
    /// The requested value.
    pub wanted: String,
    /// The result.
    pub outcome: SettingOutcome,
}

/// The result of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "detail")]
pub enum SettingOutcome {
    /// The setting was changed from this value.
    Applied(String),
    /// The setting already had the value. Runs of older versions name this outcome `already-so`.
    #[serde(alias = "already-so")]
    Unchanged,
    /// The setting could not be changed, for this reason.
    Impossible(String),
}

/// The results of all settings of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AppliedSettings(pub Vec<AppliedSetting>);

impl AppliedSettings {
    /// Returns the settings that could not be applied.
    pub fn impossible(&self) -> impl Iterator<Item = &AppliedSetting> {
        self.0
            .iter()
            .filter(|setting| matches!(setting.outcome, SettingOutcome::Impossible(_)))
    }
}

impl fmt::Display for AppliedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.wanted)?;
        match &self.outcome {
            SettingOutcome::Applied(before) => write!(f, " (was {before})"),
            SettingOutcome::Unchanged => write!(f, " (unchanged)"),
            SettingOutcome::Impossible(reason) => write!(f, " cannot be set: {reason}"),
        }
    }
}

impl TcpSettings {
    /// Returns these settings; settings that are not set have the values of `base`.
    pub fn overlaid_on(&self, base: &TcpSettings) -> TcpSettings {
        let mut sysctl = base.sysctl.clone();
        sysctl.extend(self.sysctl.clone());
        let mut route = base.route.clone();
        route.take_from(&self.route);
        TcpSettings {
            sysctl,
            route,
            socket: self.socket.overlaid_on(&base.socket),
            burst_segments: self.burst_segments.or(base.burst_segments),
        }
    }

    /// Applies the settings to the calling thread's namespace: kernel settings first, then the device, then each route,
    /// which is added or replaced.
    ///
    /// Fails only if nothing could be applied, for example in the program's own namespace, whose settings apply to the
    /// whole machine and are never changed.
    pub fn apply(&self, device: u32, routes: &[Route]) -> Result<AppliedSettings> {
        refuse_own_namespace()?;
        let mut applied = Vec::new();
        for (name, wanted) in &self.sysctl {
            applied.push(AppliedSetting {
                name: name.clone(),
                wanted: wanted.clone(),
                outcome: set_sysctl(name, wanted),
            });
        }
        let mut netlink = Netlink::open()?;
        if let Some(wanted) = self.burst_segments {
            applied.push(AppliedSetting {
                name: "device gso_max_segs".to_owned(),
                wanted: wanted.to_string(),
                outcome: set_burst(&mut netlink, device, wanted),
            });
        }
        for route in routes {
            add_route(&mut netlink, device, route, &self.route, &mut applied)?;
        }
        Ok(AppliedSettings(applied))
    }
}

/// Returns the value of a kernel setting in the calling thread's namespace, with normalised white space; `None` if the
/// kernel has no such setting there.
pub fn sysctl(name: &str) -> Result<Option<String>> {
    let path = sysctl_path(name).ok_or_else(|| bad_name(name))?;
    match fs::read_to_string(&path) {
        Ok(value) => Ok(Some(normalised(&value))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::System {
            doing: format!("read {}", path.display()),
            source,
        }),
    }
}

/// Rejects the program's own namespace, because its settings apply to the whole machine.
pub(crate) fn refuse_own_namespace() -> Result<()> {
    let own = fs::read_link("/proc/self/ns/net");
    let here = fs::read_link("/proc/thread-self/ns/net");
    match (own, here) {
        (Ok(own), Ok(here)) if own != here => Ok(()),
        _ => Err(Error::OwnNamespace),
    }
}

/// Sets a kernel setting in the calling thread's namespace, and reads it back.
pub(crate) fn set_sysctl(name: &str, wanted: &str) -> SettingOutcome {
    let impossible = |reason: String| SettingOutcome::Impossible(reason);
    let Some(path) = sysctl_path(name) else {
        return impossible(bad_name(name).to_string());
    };
    let before = match fs::read_to_string(&path) {
        Ok(value) => normalised(&value),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return impossible("this kernel does not have the setting in a namespace".to_owned());
        }
        Err(error) => return impossible(format!("the setting cannot be read: {error}")),
    };
    let wanted = normalised(wanted);
    if before == wanted {
        return SettingOutcome::Unchanged;
    }
    if let Err(error) = fs::write(&path, &wanted) {
        let reason = match name {
            CONGESTION_CONTROL => why_not_congestion_control(&wanted, &error),
            _ => error.to_string(),
        };
        return impossible(format!("the kernel kept {before}: {reason}"));
    }
    match fs::read_to_string(&path).map(|value| normalised(&value)) {
        Ok(found) if found == wanted => SettingOutcome::Applied(before),
        Ok(found) => impossible(format!("the kernel set {found} instead")),
        Err(error) => impossible(format!("the setting cannot be read back: {error}")),
    }
}

/// Explains the error of setting the congestion control of a namespace (`tcp_set_default_congestion_control` in
/// net/ipv4/tcp_cong.c).
fn why_not_congestion_control(wanted: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => {
            format!(
                "it has no congestion control {wanted}; load its module (`modprobe tcp_{wanted}`)"
            )
        }
        Some(libc::EPERM) => format!(
            "it does not allow {wanted} in namespaces ({error}); add {wanted} to the machine's \
             net.ipv4.tcp_allowed_congestion_control"
        ),
        _ => error.to_string(),
    }
}

/// Returns the file of a setting; `None` unless the name is a dotted path under `net`.
fn sysctl_path(name: &str) -> Option<PathBuf> {
    let good = name.starts_with("net.")
        && name.split('.').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        });
    good.then(|| Path::new("/proc/sys").join(name.replace('.', "/")))
}

fn bad_name(name: &str) -> Error {
    Error::BadName {
        name: name.to_owned(),
        what: "kernel setting (as in net.ipv4.tcp_sack)",
    }
}

fn normalised(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn set_burst(netlink: &mut Netlink, device: u32, wanted: u32) -> SettingOutcome {
    let set = |netlink: &mut Netlink| -> Result<u32> {
        let before = netlink.link(device)?.gso_max_segs;
        netlink.set_gso_max_segs(device, wanted)?;
        Ok(before)
    };
    match set(netlink) {
        Err(error) => SettingOutcome::Impossible(error.to_string()),
        Ok(before) if before == wanted => SettingOutcome::Unchanged,
        Ok(before) => match netlink.link(device) {
            Ok(link) if link.gso_max_segs == wanted => SettingOutcome::Applied(before.to_string()),
            Ok(link) => {
                SettingOutcome::Impossible(format!("the kernel set {} instead", link.gso_max_segs))
            }
            Err(error) => SettingOutcome::Impossible(error.to_string()),
        },
    }
}

/// Adds one route, then its metrics one by one. A metric that the kernel rejects is recorded, and the other metrics take
/// effect.
fn add_route(
    netlink: &mut Netlink,
    device: u32,
    route: &Route,
    metrics: &RouteMetrics,
    applied: &mut Vec<AppliedSetting>,
) -> Result<()> {
    let add = |netlink: &mut Netlink, metrics: &RouteMetrics| {
        netlink.add_route(
            device,
            route.destination,
            route.prefix,
            route.source,
            metrics,
        )
    };
    add(netlink, &RouteMetrics::default())?;
    let mut taken = RouteMetrics::default();
    for (name, wanted, one) in metrics.each() {
        let mut attempt = taken.clone();
        attempt.take_from(&one);
        let outcome = match add(netlink, &attempt) {
            Ok(()) => {
                taken = attempt;
                SettingOutcome::Applied("the kernel's choice".to_owned())
            }
            Err(error) => SettingOutcome::Impossible(error.to_string()),
        };
        applied.push(AppliedSetting {
            name: format!("route to {}: {name}", route.destination),
            wanted,
            outcome,
        });
    }
    add(netlink, &taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_outside_net_are_refused_by_name() {
        for name in [
            "kernel.hostname",
            "net",
            "net..tcp_sack",
            "net.../kernel.x",
            "net.ipv4/../x",
        ] {
            assert!(sysctl_path(name).is_none(), "{name}");
        }
        assert_eq!(
            sysctl_path("net.ipv4.conf.fm-0.rp_filter").unwrap(),
            Path::new("/proc/sys/net/ipv4/conf/fm-0/rp_filter")
        );
    }

    #[test]
    fn a_congestion_control_that_is_refused_has_a_remedy() {
        let why = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            why_not_congestion_control("bbr", &error)
        };
        assert!(why(libc::ENOENT).contains("modprobe tcp_bbr"));
        assert!(why(libc::EPERM).contains("net.ipv4.tcp_allowed_congestion_control"));
        assert!(!why(libc::EBUSY).contains("bbr"));
        // The file of the setting cannot be written.
        assert!(!why(libc::EACCES).contains("allowed_congestion_control"));
    }

    #[test]
    fn the_machines_own_settings_are_not_touched() {
        let settings = TcpSettings {
            sysctl: BTreeMap::from([("net.ipv4.tcp_sack".to_owned(), "0".to_owned())]),
            ..TcpSettings::default()
        };
        assert!(matches!(settings.apply(1, &[]), Err(Error::OwnNamespace)));
    }
}
