//! What of a host can be limited on this machine, found out by trying.

use std::path::PathBuf;

use fathometer_model::Bytes;

use super::layout::Version;
use super::{BlockDevice, CpuLimit, DiskLimit, Group, Limits, Resource};
use crate::error::Result;
use crate::privilege::Ability;

/// What of a host can be limited here: each limit is tried on a group without members, which is
/// removed again.
pub fn available() -> Vec<Ability> {
    let limits = |change: &dyn Fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let disk = |change: &dyn Fn(&mut DiskLimit)| -> Result<Limits> {
        let mut disk = DiskLimit {
            device: BlockDevice::of_path(&std::env::temp_dir())?,
            read_bytes_per_s: None,
            write_bytes_per_s: None,
            read_ops_per_s: None,
            write_ops_per_s: None,
        };
        change(&mut disk);
        Ok(limits(&|limits| limits.disk = Some(disk.clone())))
    };
    let cores = crate::sched::processors().map(|mut cores| {
        cores.truncate(1);
        limits(&|limits| limits.cores = Some(cores.clone()))
    });
    let tried = [
        (
            "cpu limit",
            "hosts with a slow processor",
            Ok(limits(&|limits| limits.cpu = Some(CpuLimit::cores(0.5)))),
        ),
        (
            "memory limit",
            "hosts with little memory",
            Ok(limits(&|limits| limits.memory = Some(Bytes(64 << 20)))),
        ),
        (
            "disk bytes limit",
            "hosts with a slow disk, below the folder for temporary files",
            disk(&|disk| disk.read_bytes_per_s = Some(1 << 30)),
        ),
        (
            "disk operations limit",
            "hosts whose disk seeks slowly, below the same folder",
            disk(&|disk| disk.read_ops_per_s = Some(1 << 20)),
        ),
        ("processor choice", "hosts with few processors", cores),
        (
            "cpu account",
            "processor time of a host, to the last ended process",
            Ok(Limits::default()),
        ),
    ];
    tried
        .into_iter()
        .map(|(name, purpose, limits)| Ability {
            name: name.to_owned(),
            purpose: purpose.to_owned(),
            required: false,
            state: limits
                .and_then(|limits| attempt(&limits))
                .map_err(|e| e.to_string()),
        })
        .collect()
}

/// Which interface a controller answers to on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// What it is about: `cpu`, `memory`, `disk`, `processors`.
    pub name: &'static str,
    /// Version of the interface and the topmost directory that can be seen from here; `None` where no
    /// control groups that are mounted have it.
    pub interface: Option<(u8, PathBuf)>,
}

/// The interface of each controller that limits of a host need. Machines may have both versions at
/// once, and then each controller belongs to one of them.
pub fn controllers() -> Vec<Controller> {
    let trees = super::layout::trees();
    let found = |resource: Resource| {
        let tree = trees
            .iter()
            .find(|tree| tree.has(resource.controller(tree.version)));
        tree.map(|tree| (number(tree.version), tree.top.clone()))
    };
    [
        ("cpu", Resource::Cpu),
        ("memory", Resource::Memory),
        ("disk", Resource::Disk),
        ("processors", Resource::Cores),
    ]
    .into_iter()
    .map(|(name, resource)| Controller {
        name,
        interface: found(resource),
    })
    .collect()
}

fn number(version: Version) -> u8 {
    match version {
        Version::One => 1,
        Version::Two => 2,
    }
}

fn attempt(limits: &Limits) -> Result<String> {
    let group = Group::create("probe", limits)?;
    group.cpu_usage()?;
    let wanted = limits.resources();
    let part = group.parts.iter().find(|part| {
        let mut wanted = wanted.iter();
        wanted.any(|resource| part.has(resource.controller(part.tree.version)))
    });
    let part = part.or(group.parts.first());
    Ok(part.map_or_else(String::new, |part| {
        let version = number(part.tree.version);
        let parent = part.path.parent().unwrap_or(&part.path);
        format!(
            "by control groups version {version}, below {}",
            parent.display()
        )
    }))
}
