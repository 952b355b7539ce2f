//! What of a host can be limited on this machine, found out by trying.

use fathometer_model::Bytes;

use super::layout::Version;
use super::{BlockDevice, CpuLimit, DiskLimit, Group, Limits};
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
    let disk = std::env::temp_dir();
    let disk = BlockDevice::of_path(&disk).map(|device| {
        limits(&|limits| {
            limits.disk = Some(DiskLimit {
                device,
                read_bytes_per_s: Some(1 << 30),
                write_bytes_per_s: None,
                read_ops_per_s: None,
                write_ops_per_s: None,
            });
        })
    });
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
        ("disk limit", "hosts with a slow disk", disk),
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
        let version = match part.tree.version {
            Version::One => 1,
            Version::Two => 2,
        };
        let parent = part.path.parent().unwrap_or(&part.path);
        format!(
            "by control groups version {version}, below {}",
            parent.display()
        )
    }))
}
