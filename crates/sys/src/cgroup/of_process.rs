//! Finds the groups that limit a process that this program did not start: a service of systemd, a container.
//!
//! The limits of all groups above a process apply to it, so its limit is the smallest of them. The usage is read from
//! the group with this limit, because all its members share the limit.

use std::fs;
use std::path::{Path, PathBuf};

use fathometer_model::Bytes;

use super::Part;
use super::layout::{self, Tree, Version};
use super::usage::UsageProbe;

/// Memory limits above this value, in bytes, mean "unlimited" in version 1.
const NO_LIMIT: u64 = 1 << 60;

/// The groups whose limits apply to a process.
#[derive(Debug, Clone)]
pub struct LimitingGroups {
    /// The path of the group with the processor quota, or else of the group with the memory limit, within its tree; as
    /// in `/system.slice/nginx.service`.
    pub name: String,
    /// The processor quota that the group's members share, in cores; `None`: no quota.
    pub cpu: Option<f64>,
    /// The memory limit that the group's members share; `None`: no limit.
    pub memory: Option<Bytes>,
    /// Reads the resource use of the groups.
    pub probe: UsageProbe,
}

/// Returns the groups that limit a process; `None` if no group limits it, or if the process does not exist.
pub fn limits_of_process(pid: u32) -> Option<LimitingGroups> {
    let trees = layout::trees_of_process(pid);
    let cpu = smallest(&trees, "cpu", quota);
    let memory = smallest(&trees, "memory", memory_limit);
    let name = cpu.as_ref().map(|found| &found.1);
    let name = name.or(memory.as_ref().map(|found| &found.1))?.clone();
    let mut parts = Vec::new();
    if let Some((_, path, tree)) = &cpu {
        parts.push(part(tree, path, &["cpu"]));
        // In version 1 another tree may account for CPU time; the same group has its own directory there.
        if tree.version == Version::One
            && let Some(account) = trees.iter().find(|tree| tree.has("cpuacct"))
        {
            let below = path.strip_prefix(&tree.top).unwrap_or(Path::new(""));
            let same = account.top.join(below);
            let place = match same.is_dir() {
                true => &same,
                false => &account.own,
            };
            // The top group counts the usage of the whole machine.
            if *place != account.top {
                parts.push(part(account, place, &["cpuacct"]));
            }
        }
    }
    if let Some((_, path, tree)) = &memory {
        parts.push(part(tree, path, &["memory"]));
    }
    let top = |tree: &Tree| tree.top.clone();
    let of = cpu.as_ref().map(|found| top(found.2));
    let of = of.or(memory.as_ref().map(|found| top(found.2)))?;
    Some(LimitingGroups {
        name: format!("/{}", name.strip_prefix(of).unwrap_or(&name).display()),
        cpu: cpu.map(|found| found.0),
        memory: memory.map(|found| Bytes(found.0 as u64)),
        probe: UsageProbe::new(&parts),
    })
}

/// Returns the processes in groups with this name (as in `nginx.service` or `docker-4f5a….scope`) whose parents are not in
/// such a group.
pub fn roots_of_unit(unit: &str) -> Vec<u32> {
    let in_unit = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        text.lines().any(|line| {
            let path = line.splitn(3, ':').nth(2).unwrap_or_default();
            path.split('/').any(|part| part == unit)
        })
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut roots: Vec<u32> = processes
        .filter(|pid| in_unit(*pid) && !parent(*pid).is_some_and(in_unit))
        .collect();
    roots.sort_unstable();
    roots
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any character.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the smallest limit of the process's group and the groups above it, in a controller's tree.
fn smallest<'t>(
    trees: &'t [Tree],
    controller: &str,
    limit: fn(Version, &Path) -> Option<f64>,
) -> Option<(f64, PathBuf, &'t Tree)> {
    let tree = trees.iter().find(|tree| tree.has(controller))?;
    let each = tree.upwards();
    let each = each.filter_map(|path| Some((limit(tree.version, path)?, path.to_owned(), tree)));
    // If limits are equal, the nearest group is used, because it has the fewest other members.
    each.reduce(|best, next| if next.0 < best.0 { next } else { best })
}

fn part(tree: &Tree, path: &Path, controllers: &[&str]) -> Part {
    Part {
        tree: tree.clone(),
        path: path.to_owned(),
        controllers: controllers.iter().map(|&name| name.to_owned()).collect(),
        counts_sockets: false,
    }
}

/// Returns the processor quota of a group, in cores.
fn quota(version: Version, path: &Path) -> Option<f64> {
    let text = |file: &str| fs::read_to_string(path.join(file)).ok();
    match version {
        Version::One => quota_v1(&text("cpu.cfs_quota_us")?, &text("cpu.cfs_period_us")?),
        Version::Two => quota_v2(&text("cpu.max")?),
    }
}

/// Parses quota and period; a quota of -1 means no quota.
fn quota_v1(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (i64, i64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// Parses `2500 10000`, or `max 100000` for no quota.
fn quota_v2(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    quota_v1(quota, period)
}

/// Returns the memory limit of a group, in bytes.
fn memory_limit(version: Version, path: &Path) -> Option<f64> {
    let file = match version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    };
    let limit: u64 = fs::read_to_string(path.join(file))
        .ok()?
        .trim()
        .parse()
        .ok()?;
    (limit < NO_LIMIT).then_some(limit as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{CpuLimit, Group, Limits};

    #[test]
    fn quotas_of_both_versions_are_cores() {
        assert_eq!(quota_v1("2500\n", "10000\n"), Some(0.25));
        assert_eq!(quota_v1("-1\n", "100000\n"), None);
        assert_eq!(quota_v2("2500 10000\n"), Some(0.25));
        assert_eq!(quota_v2("max 100000\n"), None);
    }

    #[test]
    fn the_quota_of_a_process_is_found_by_its_number_and_by_the_name_of_its_group() {
        let limits = Limits {
            cpu: Some(CpuLimit::cores(0.5)),
            memory: Some(Bytes(64 << 20)),
            ..Limits::default()
        };
        let group = match Group::create("limited", &limits) {
            Ok(group) => group,
            Err(error) => return eprintln!("SKIPPED, no groups on this machine: {error}"),
        };
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        group.add_process(child.id()).unwrap();
        let found = limits_of_process(child.id()).unwrap();
        let unit = found.name.rsplit('/').next().unwrap().to_owned();
        let roots = roots_of_unit(&unit);
        let usage = found.probe.read();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            (found.cpu, found.memory),
            (Some(0.5), Some(Bytes(64 << 20)))
        );
        assert_eq!(roots, [child.id()], "{unit}");
        assert!(
            usage.cpu.is_some() && usage.memory.current.is_some(),
            "{found:?} {usage:?}"
        );
    }
}
