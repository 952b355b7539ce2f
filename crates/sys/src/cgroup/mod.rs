//! The limits of a host: CPU time, memory, disk traffic and processors, set with control groups of either version.
//!
//! A [`Group`] contains the processes of a host. Processes are placed in the group before they start ([`Group::place`]),
//! so all their resource use is counted. The group's usage ([`Group::cpu_usage`] and similar functions) includes exited
//! processes. If possible, a group is created below this program's own group, so that limits of this program also apply
//! to its hosts; otherwise in the nearest group above.
//!
//! Differences between the versions:
//!
//! - Pressure ([`Usage::pressure`]) only exists in version 2. If version 1 has the controllers and version 2 is mounted
//!   too, a group has a directory in both.
//! - The disk throttling of version 1 does not throttle writes through the page cache.
//! - If the kernel has real-time groups (`CONFIG_RT_GROUP_SCHED`), groups with the `cpu` controller reject
//!   threads under `SCHED_FIFO` ([`priority`](crate::priority)).
//!
//! Memory is charged to the group that touches it first. Pages of a file that another group has read before stay charged
//! to that group. To start a host with a cold cache, evict its files from the page cache first.
//!
//! Dropping a [`Group`] removes the group. [`remove_stale`] finds groups of killed programs by name and lock, and removes
//! them.

mod ability;
mod descriptors;
mod directory;
mod layout;
mod limits;
mod of_process;
mod owner;
mod refusal;
mod stacks;
mod usage;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Doing, Error, Result};
use layout::{Tree, Version};
use limits::{Kind, Setting};
use refusal::unavailable;

pub use crate::applied_limit::AppliedLimit;
pub use ability::{Controller, available, controllers, test_limits};
pub use limits::{BlockDevice, CpuLimit, DiskLimit, Limits};
pub use of_process::{LimitingGroups, limits_of_process, roots_of_unit};
pub use owner::{Removal, remove_stale};
pub use refusal::advice;
pub use usage::{CpuUsage, DiskUsage, MemoryUsage, Usage, UsageProbe};

/// The control group of a host. Dropping it removes the group; remaining members are not killed, but moved to this
/// program's group.
#[derive(Debug)]
pub struct Group {
    limits: Limits,
    parts: Vec<Part>,
}

/// A group's directory in one tree.
#[derive(Debug, Clone)]
struct Part {
    tree: Tree,
    path: PathBuf,
    /// The controllers that are active in this directory.
    controllers: Vec<String>,
    /// Whether socket memory is accounted for. In version 1 this requires a limit of socket memory.
    counts_sockets: bool,
}

impl Part {
    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

impl Group {
    /// Creates a group with these limits, and verifies that they read back as set.
    ///
    /// `name` is a label for users who inspect the machine: letters, digits, `-`, `_` and `.`.
    pub fn create(name: &str, limits: &Limits) -> Result<Group> {
        if !owner::valid_label(name) {
            return Err(Error::BadName {
                name: name.to_owned(),
                what: "name of a control group",
            });
        }
        let mut group = Group {
            limits: limits.clone(),
            parts: Vec::new(),
        };
        if let Some(number) = limits.descriptors {
            descriptors::possible(number)?;
        }
        let mut trees = layout::trees();
        // Version 1 first: if it has the controllers, version 2 is used only for its additional figures.
        trees.sort_by_key(|tree| tree.version == Version::Two);
        let mut missing: BTreeSet<Resource> = limits.resources();
        // On an error, dropping `group` removes what was created.
        for tree in &trees {
            let part = match tree.version {
                Version::One => group.make_v1(name, tree)?,
                Version::Two => group.make_v2(name, tree)?,
            };
            let Some(part) = part else { continue };
            missing.retain(|resource| !part.has(resource.controller(tree.version)));
            group.parts.push(part);
        }
        if let Some(resource) = missing.first() {
            return Err(Error::NoLimit {
                what: resource.name(),
                reason: unavailable(*resource, &trees),
            });
        }
        group.enforce()?;
        Ok(group)
    }

    /// Changes existing limits of the group, and verifies that they read back as set. Limits cannot be added
    /// or removed.
    pub fn change(&mut self, limits: &Limits) -> Result<()> {
        if let Some(what) = self.limits.other_than(limits) {
            return Err(Error::NoLimit {
                what,
                reason: "the limits of a group are fixed when it is created".to_owned(),
            });
        }
        self.limits = limits.clone();
        self.enforce()
    }

    fn enforce(&self) -> Result<()> {
        for (part, setting) in self.settings()? {
            write_setting(part, &setting)?;
        }
        for limit in self.verify()? {
            if !limit.holds {
                return Err(Error::NotTaken {
                    what: limit.what,
                    wanted: limit.wanted,
                    found: limit.got,
                });
            }
        }
        Ok(())
    }

    /// Returns the requested limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the directories of this group, one in each tree that it is in.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Gives the group priority over ordinary sibling groups and threads, within its limits: on contended processors it
    /// gets twenty times the CPU time of each sibling. Threads of this program with [raised
    /// priority](crate::priority::raise_priority) still have priority over the group.
    ///
    /// Has no effect without the `cpu` controller. In version 2 it also has no effect on a group beside this program's
    /// own group: other programs may share the own group, and would get less CPU time.
    pub fn raise_priority(&self) -> Result<()> {
        for part in self.parts.iter().filter(|part| part.has("cpu")) {
            let (file, usual) = match part.tree.version {
                Version::One => ("cpu.shares", 1024),
                Version::Two => ("cpu.weight", 100),
            };
            if part.tree.version == Version::Two {
                let own = part.tree.now().own;
                if owner::is_aside(&own) {
                    // The largest value that the kernel accepts.
                    let (path, value) = (own.join(file), "10000");
                    fs::write(&path, value).doing(writing(&path, value))?;
                } else if part.path.parent() != Some(&own) {
                    continue;
                }
            }
            let (path, value) = (part.path.join(file), (20 * usual).to_string());
            fs::write(&path, &value).doing(writing(&path, &value))?;
        }
        Ok(())
    }

    /// Makes a command start inside the group: no instruction of the program runs outside. Starting the command fails if
    /// the group or a limit cannot be applied.
    pub fn place(&self, command: &mut Command) -> Result<()> {
        let entries: Vec<File> = self
            .parts
            .iter()
            .map(|part| {
                let path = part.path.join("cgroup.procs");
                let mut open = File::options();
                open.write(true).open(&path).doing(opening(&path))
            })
            .collect::<Result<_>>()?;
        let descriptors = self.limits.descriptors;
        // SAFETY: the closure only makes system calls, as is required after a fork of a program with threads.
        unsafe {
            command.pre_exec(move || {
                // "0" means the writing process.
                for mut entry in &entries {
                    entry.write_all(b"0")?;
                }
                descriptors.map_or(Ok(()), descriptors::limit)
            });
        }
        Ok(())
    }

    /// Moves a running process, with all its threads, into the group. Existing children stay in their group, and existing
    /// memory stays charged to the old group.
    pub fn add_process(&self, pid: u32) -> Result<()> {
        for part in &self.parts {
            part.add("cgroup.procs", pid, &format!("process {pid}"))?;
        }
        Ok(())
    }

    /// Reads all limits back.
    pub fn verify(&self) -> Result<Vec<AppliedLimit>> {
        let mut applied = Vec::new();
        let settings = self.settings()?.into_iter();
        for (part, setting) in
            settings.filter(|(_, setting)| !matches!(setting.kind, Kind::Count | Kind::Before))
        {
            let path = part.path.join(setting.file);
            match fs::read_to_string(&path) {
                Ok(text) => applied.push(setting.compare(&text)),
                Err(error)
                    if setting.kind == Kind::Optional
                        && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).doing(reading(&path)),
            }
        }
        Ok(applied)
    }

    /// Reads back the limits that are set for each process ([`Limits::descriptors`]), for a placed process. Fails if the
    /// process no longer exists.
    pub fn verify_process(&self, pid: u32) -> Result<Vec<AppliedLimit>> {
        let wanted = self.limits.descriptors.into_iter();
        wanted.map(|n| descriptors::verify(n, pid)).collect()
    }

    /// Returns the CPU time of the group since it was created.
    pub fn cpu_usage(&self) -> Result<CpuUsage> {
        self.usage_probe().cpu()
    }

    /// Returns the memory that is charged to the group. Figures that the machine does not account for are `None`.
    pub fn memory_usage(&self) -> MemoryUsage {
        self.usage_probe().memory()
    }

    /// Returns the disk traffic of the group, summed over all disks. `None` if it is not accounted for, as in groups without
    /// a disk limit and without [`Limits::counts_disk`].
    pub fn disk_usage(&self) -> Option<DiskUsage> {
        self.usage_probe().disk()
    }

    /// Returns a reader of the group's usage, which may be sent to another thread. After the group has been removed,
    /// all figures are absent.
    pub fn usage_probe(&self) -> UsageProbe {
        UsageProbe::new(&self.parts)
    }

    /// Returns the settings of the limits, each with the directory in which it applies.
    fn settings(&self) -> Result<Vec<(&Part, Setting)>> {
        let mut found = Vec::new();
        for part in &self.parts {
            let settings = match part.tree.version {
                Version::One => self.limits.settings_v1()?,
                Version::Two => self.limits.settings_v2()?,
            };
            let here = settings.into_iter().filter(|s| part.has(s.controller));
            found.extend(here.map(|setting| (part, setting)));
        }
        Ok(found)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for part in &self.parts {
            let _alone = owner::alone(&part.tree);
            // A directory that cannot be removed is left for `remove_stale` of the next run.
            let _ = owner::remove(&part.path, &part.tree);
        }
    }
}

/// The resources that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Cpu,
    Memory,
    Disk,
    Cores,
}

impl Resource {
    fn controller(self, version: Version) -> &'static str {
        match (self, version) {
            (Resource::Cpu, _) => "cpu",
            (Resource::Memory, _) => "memory",
            (Resource::Disk, Version::One) => "blkio",
            (Resource::Disk, Version::Two) => "io",
            (Resource::Cores, _) => "cpuset",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "CPU time",
            Resource::Memory => "memory",
            Resource::Disk => "disk traffic",
            Resource::Cores => "choice of processors",
        }
    }
}

impl Limits {
    /// Returns the first resource that only one of the two values limits, or whose limit cannot be changed.
    fn other_than(&self, other: &Limits) -> Option<&'static str> {
        let (here, there) = (self.resources(), other.resources());
        if let Some(resource) = here.symmetric_difference(&there).next() {
            return Some(resource.name());
        }
        let of = |limits: &Limits| {
            let disk = limits.disk.as_ref()?;
            Some((disk.device, disk.rates().map(|rate| rate.is_some())))
        };
        if of(self) != of(other) {
            return Some(Resource::Disk.name());
        }
        // This limit is set when a process starts, so it cannot be changed later.
        (self.descriptors != other.descriptors).then_some("descriptors")
    }

    fn resources(&self) -> BTreeSet<Resource> {
        [
            (self.cpu.is_some(), Resource::Cpu),
            (self.memory.is_some(), Resource::Memory),
            (self.disk.is_some(), Resource::Disk),
            (self.cores.is_some(), Resource::Cores),
        ]
        .into_iter()
        .filter_map(|(limited, resource)| limited.then_some(resource))
        .collect()
    }
}

impl Part {
    fn add(&self, members: &str, number: u32, what: &str) -> Result<()> {
        let path = self.path.join(members);
        let Err(error) = fs::write(&path, number.to_string()) else {
            return Ok(());
        };
        let what = format!("put {what} into {}", self.path.display());
        Err(match error.raw_os_error() {
            Some(libc::EINVAL) if self.has("cpu") => Error::NoLimit {
                what: "thread or process",
                reason: format!(
                    "{what}: refused; a kernel with real-time groups refuses threads under \
                     SCHED_FIFO"
                ),
            },
            Some(libc::EOPNOTSUPP) => Error::NoLimit {
                what: "single thread",
                reason: format!("{what}: the group was created for whole processes"),
            },
            _ => Error::System {
                doing: what,
                source: error,
            },
        })
    }
}

fn write_setting(part: &Part, setting: &Setting) -> Result<()> {
    let path = part.path.join(setting.file);
    match fs::write(&path, &setting.value) {
        Ok(()) => Ok(()),
        // The kernel then does not count, and the usage is not available.
        Err(_) if setting.kind == Kind::Count => Ok(()),
        Err(error)
            if matches!(setting.kind, Kind::Optional | Kind::Before)
                && error.kind() != io::ErrorKind::InvalidInput =>
        {
            // Machines without swap have no swap setting, and old kernels have no bursts.
            Ok(())
        }
        Err(error) => Err(error).doing(writing(&path, &setting.value)),
    }
}

fn opening(path: &Path) -> String {
    format!("open {}", path.display())
}

fn reading(path: &Path) -> String {
    format!("read {}", path.display())
}

fn writing(path: &Path, value: &str) -> String {
    format!("write {value:?} to {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_before_others_has_more_than_the_usual_weight() {
        let group = match Group::create("before", &Limits::default()) {
            Ok(group) => group,
            Err(error) => return eprintln!("SKIPPED, no groups on this machine: {error}"),
        };
        group.raise_priority().unwrap();
        for part in group.parts.iter().filter(|part| part.has("cpu")) {
            let (file, value) = match part.tree.version {
                Version::One => ("cpu.shares", "20480"),
                Version::Two if part.path.parent() != Some(&part.tree.own) => continue,
                Version::Two => ("cpu.weight", "2000"),
            };
            let found = fs::read_to_string(part.path.join(file)).unwrap();
            assert_eq!(found.trim(), value);
        }
    }

    /// On a hybrid machine, version 2 has no controllers, but still has groups and usage.
    #[test]
    fn version_2_counts_what_processes_use_without_a_controller() {
        let Some(tree) = layout::trees()
            .into_iter()
            .find(|tree| tree.version == Version::Two)
        else {
            return eprintln!("SKIPPED, no control groups of version 2");
        };
        let mut group = Group {
            limits: Limits::default(),
            parts: Vec::new(),
        };
        let Some(part) = group.make_v2("two", &tree).unwrap() else {
            return eprintln!("SKIPPED, no group of version 2 can be made here");
        };
        let path = part.path.clone();
        group.parts.push(part);
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]);
        group.place(&mut command).unwrap();
        assert!(command.status().unwrap().success());
        let usage = group.cpu_usage().unwrap();
        assert!(usage.total > std::time::Duration::ZERO, "{usage:?}");
        drop(group);
        assert!(!path.exists());
    }
}
