//! Tests of this kernel's abilities that experiments use.

use std::fs;
use std::io::ErrorKind;

use fathometer_sys::cgroup::{self, Group, Limits};
use fathometer_sys::privilege::Ability;
use fathometer_sys::probe::{NetworkProbe, SystemProbe};
use fathometer_sys::reclaim;

/// Tests whether a thread's priority takes effect among all programs of this machine.
pub(super) fn priorities() -> Ability {
    let file = "/proc/sys/kernel/sched_autogroup_enabled";
    // If the file is missing, the kernel has no autogroups and priorities take effect among all programs.
    let apart = fs::read_to_string(file).is_ok_and(|text| text.trim() == "1");
    Ability {
        name: "priorities".to_owned(),
        purpose: "measuring while other login sessions of this machine are busy".to_owned(),
        required: false,
        state: match apart {
            false => Ok("take effect among all programs".to_owned()),
            true => Err(
                "take effect only within a session, and every busy session gets the same share: run no other programs \
                 during a measurement, or sysctl -w kernel.sched_autogroup_enabled=0"
                    .to_owned(),
            ),
        },
    }
}

/// Tests whether the page cache loses pages only because of a memory limit.
pub(super) fn page_cache() -> Ability {
    let schemes = reclaim::schemes();
    let state = match schemes.first() {
        None => Ok("the kernel does not reclaim it while memory is free".to_owned()),
        Some(scheme) => Err(format!(
            "{scheme}: {}",
            match scheme.spares_mapped {
                true =>
                    "studies protect the files of their sites from this; other files may be evicted and read again",
                false =>
                    "disable it during studies with a memory or disk limit, or cells may be INVALID",
            }
        )),
    };
    Ability {
        name: "page cache".to_owned(),
        purpose: "experiments in which memory or the disk runs out".to_owned(),
        required: false,
        state,
    }
}

/// Tests all sources of measurements that some kernels lack or reserve for root.
pub(super) fn available() -> Vec<Ability> {
    [
        ("pressure", "waiting times of tasks for a resource", psi()),
        (
            "sock_diag",
            "each connection's congestion window, round-trip time and state",
            sock_diag(),
        ),
        (
            "memory account",
            "the memory of a host, including its files and sockets",
            memory_account(),
        ),
        (
            "schedstat",
            "waiting times of threads for a processor",
            readable("/proc/self/schedstat", "CONFIG_SCHED_INFO"),
        ),
        (
            "smaps_rollup",
            "the memory of processes that share memory",
            readable("/proc/self/smaps_rollup", "Linux 4.14 or later"),
        ),
        (
            "perf counters",
            "profiles of the CPU time of programs, by the perf tool",
            perf_counters(),
        ),
    ]
    .into_iter()
    .map(|(name, purpose, state)| Ability {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        required: false,
        state,
    })
    .collect()
}

fn psi() -> Result<String, String> {
    let missing =
        "not in this kernel, or disabled: it needs CONFIG_PSI and the boot parameter psi=1";
    let pressure = SystemProbe::open()
        .map_err(|error| error.to_string())?
        .read()
        .pressure;
    let found = [
        ("cpu", pressure.cpu_some.is_some()),
        ("memory", pressure.memory_some.is_some()),
        ("io", pressure.io_some.is_some()),
    ];
    listed("of", &found).ok_or_else(|| missing.to_owned())
}

fn sock_diag() -> Result<String, String> {
    let table = NetworkProbe::open_here()
        .and_then(|mut probe| probe.table())
        .map_err(|error| error.to_string())?;
    Ok(format!(
        "available; {} established connections in this network namespace",
        table.established
    ))
}

fn memory_account() -> Result<String, String> {
    let group = Group::create("probe", &Limits::default()).map_err(|error| error.to_string())?;
    let memory = group.usage_probe().read().memory;
    let found = [
        ("programs and files", memory.current.is_some()),
        ("sockets", memory.sockets.is_some()),
    ];
    listed("of", &found)
        .ok_or_else(|| format!("no control group accounts for memory: {}", cgroup::advice()))
}

fn perf_counters() -> Result<String, String> {
    let file = "/proc/sys/kernel/perf_event_paranoid";
    readable(file, "CONFIG_PERF_EVENTS")?;
    // Level 3 and higher, which some distributions set by default, reserves perf events for root.
    let level = fs::read_to_string(file).ok();
    let level: Option<i32> = level.and_then(|level| level.trim().parse().ok());
    if level.is_some_and(|level| level > 2) && !rustix::process::geteuid().is_root() {
        return Err("only for root: run sysctl -w kernel.perf_event_paranoid=2".to_owned());
    }
    let hardware = fs::exists("/sys/bus/event_source/devices/cpu").unwrap_or(false);
    Ok(match hardware {
        true => "events of the kernel and of the processor",
        false => {
            "only events of the kernel; this machine has no access to the counters of the processor"
        }
    }
    .to_owned())
}

/// Checks whether a file of the kernel can be read. The error contains `needs`, the requirement of the file.
fn readable(path: &str, needs: &str) -> Result<String, String> {
    match fs::read_to_string(path) {
        Ok(_) => Ok(path.to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(format!("{path} does not exist: it needs {needs}"))
        }
        Err(error) => Err(format!("{path} cannot be read: {error}")),
    }
}

/// Returns the names that were found, as in `of cpu, memory`; `None` if no name was found.
fn listed(word: &str, found: &[(&str, bool)]) -> Option<String> {
    let there: Vec<&str> = found
        .iter()
        .filter_map(|(name, there)| there.then_some(*name))
        .collect();
    (!there.is_empty()).then(|| format!("{word} {}", there.join(", ")))
}
