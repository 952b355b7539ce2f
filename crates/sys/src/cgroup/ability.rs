//! Finds which resources of a host can be limited on this machine, with the same steps as an experiment.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fathometer_model::Bytes;

use super::layout::Version;
use super::{BlockDevice, CpuLimit, DiskLimit, Group, Limits, Resource, reading};
use crate::error::{Doing, Error, Result};
use crate::privilege::Ability;

/// Returns which resources of a host can be limited on this machine. Tries each limit on a group with processes
/// ([`test_limits`]).
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
            "hosts with a disk that seeks slowly, below the same folder",
            disk(&|disk| disk.read_ops_per_s = Some(1 << 20)),
        ),
        ("processor choice", "hosts with few processors", cores),
        (
            "cpu account",
            "CPU time of a host, including exited processes",
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
                .and_then(|limits| test_limits(&limits))
                .map_err(|e| e.to_string()),
        })
        .collect()
}

/// The interface of a controller on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// The controller's resource: `cpu`, `memory`, `disk`, `processors`.
    pub name: &'static str,
    /// The version of the interface and the topmost visible directory; `None` if no mounted tree of control groups has the
    /// controller.
    pub interface: Option<(u8, PathBuf)>,
}

/// Returns the interface of each controller that a host's limits need. If both versions are present, each controller
/// belongs to one of them.
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

/// Tests these limits with the steps of a trial: creates the group, starts a process in it, moves a running process
/// into it, sets the limits, reads them back, and removes everything. Returns the version and the location of the
/// group.
///
/// All steps are needed: on some machines a group can be created and limited, but cannot get processes.
pub fn test_limits(limits: &Limits) -> Result<String> {
    let mut group = Group::create("probe", limits)?;
    // Ignored, because not every kind of group has a weight for CPU time.
    let _ = group.raise_priority();
    let mut command = Member::command();
    group.place(&mut command)?;
    let placed = Member::start(command, "start a process in a control group")?;
    let moved = Member::start(Member::command(), "start a process")?;
    group.add_process(moved.pid())?;
    group.change(limits)?;
    for part in &group.parts {
        let path = part.path.join("cgroup.procs");
        let members = std::fs::read_to_string(&path).doing(reading(&path))?;
        for member in [&placed, &moved] {
            let pid = member.pid().to_string();
            if !members.lines().any(|line| line == pid) {
                return Err(Error::NotTaken {
                    what: format!("the members of {}", part.path.display()),
                    wanted: pid,
                    found: members.replace('\n', " "),
                });
            }
        }
    }
    for limit in group.verify_process(placed.pid())? {
        if !limit.holds {
            return Err(Error::NotTaken {
                what: limit.what,
                wanted: limit.wanted,
                found: limit.got,
            });
        }
    }
    group.cpu_usage()?;
    let place = place(&group);
    drop((placed, moved));
    let directories: Vec<PathBuf> = group.directories().map(Path::to_owned).collect();
    drop(group);
    if let Some(left) = directories.into_iter().find(|path| path.exists()) {
        return Err(Error::NoLimit {
            what: "removal",
            reason: format!("{} still exists", left.display()),
        });
    }
    Ok(place)
}

/// A waiting process. Dropping this value kills it.
struct Member(Child);

impl Member {
    fn command() -> Command {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn start(mut command: Command, doing: &str) -> Result<Member> {
        command.spawn().map(Member).doing(doing)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The process may already have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Describes the version and the location of a group's interface.
fn place(group: &Group) -> String {
    let wanted = group.limits().resources();
    let part = group.parts.iter().find(|part| {
        let mut wanted = wanted.iter();
        wanted.any(|resource| part.has(resource.controller(part.tree.version)))
    });
    let part = part.or(group.parts.first());
    part.map_or_else(String::new, |part| {
        let version = number(part.tree.version);
        let parent = part.path.parent().unwrap_or(&part.path);
        format!(
            "by control groups version {version}, below {}",
            parent.display()
        )
    })
}
