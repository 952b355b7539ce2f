//! A group's directories: where they can be made, and what has to be done before they take members.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::layout::{self, Tree, Version};
use super::owner::{self, Name};
use super::refusal::{DELEGATE, no_directory, not_enabled};
use super::{Group, Part, reading, writing};
use crate::error::{Doing, Error, Result};

/// The controllers that a group takes along where it can, for its accounts.
const ACCOUNTS: [&str; 3] = ["cpu", "cpuacct", "memory"];

impl Group {
    /// Makes the group's directory in a tree of version 1, if it needs one there.
    pub(super) fn make_v1(&self, name: &str, tree: &Tree) -> Result<Option<Part>> {
        let needed = self
            .limits
            .resources()
            .into_iter()
            .any(|resource| tree.has(resource.controller(Version::One)));
        if !needed && !ACCOUNTS.iter().any(|account| tree.has(account)) {
            return Ok(None);
        }
        let name = Name::new(name, BTreeSet::new())?.to_string();
        let mut refused = None;
        for parent in [&tree.own, &tree.top] {
            let path = parent.join(&name);
            match owner::create(&path) {
                Ok(()) => {
                    let part = Part {
                        tree: tree.clone(),
                        counts_sockets: tree.has("memory") && account_for_sockets(&path),
                        path,
                        controllers: tree.controllers.clone(),
                        witness: false,
                    };
                    if let Err(error) = inherit_cpuset(&part) {
                        let _ = owner::remove(&part.path, tree);
                        return Err(error);
                    }
                    return Ok(Some(part));
                }
                Err(error) => refused = Some((path, error)),
            }
        }
        match refused {
            Some((path, error)) if needed => Err(no_directory(&path, &error)),
            // Accounts are taken where they can be had.
            _ => Ok(None),
        }
    }

    /// Makes the group's directory in the tree of version 2, if it needs one there.
    pub(super) fn make_v2(&self, name: &str, tree: &Tree, threads: bool) -> Result<Option<Part>> {
        let resources = self.limits.resources();
        let needed: BTreeSet<&str> = resources
            .iter()
            .map(|resource| resource.controller(Version::Two))
            .filter(|controller| tree.has(controller))
            .collect();
        let counted = self.parts.iter().any(|part| part.has("cpuacct"));
        if needed.is_empty() && counted {
            return Ok(self.make_witness(name, tree));
        }
        if threads && let Some(domain) = needed.iter().find(|c| matches!(**c, "memory" | "io")) {
            return Err(Error::NoLimit {
                what: "memory or disk traffic of single threads",
                reason: format!("version 2 of control groups has no {domain} for threads"),
            });
        }
        let mut reason = None;
        // A threaded group must be right below the group of the process.
        let reach = if threads { 1 } else { usize::MAX };
        for parent in tree.upwards().take(reach) {
            match self.make_v2_in(parent, name, tree, &needed, threads) {
                Ok(part) => return Ok(Some(part)),
                // The first refusal is about the nearest group, which is the one to talk about.
                Err(error) => {
                    let _ = reason.get_or_insert(error);
                }
            }
        }
        match reason {
            Some(error) if !needed.is_empty() => Err(error),
            _ => Ok(None),
        }
    }

    /// Makes a directory in version 2 that limits nothing, for the pressure on its members: that
    /// is kept without any controller, and in version 2 alone. None where it cannot be had.
    fn make_witness(&self, name: &str, tree: &Tree) -> Option<Part> {
        if !tree.own.join("cpu.pressure").exists() {
            return None;
        }
        let part = self
            .make_v2_in(&tree.own, name, tree, &BTreeSet::new(), false)
            .ok()?;
        // Below a group with threads there are none for processes.
        let kind = fs::read_to_string(part.path.join("cgroup.type")).ok();
        if kind.is_none_or(|kind| kind.trim() != "domain") {
            let _ = owner::remove(&part.path, tree);
            return None;
        }
        Some(Part {
            witness: true,
            ..part
        })
    }

    fn make_v2_in(
        &self,
        parent: &Path,
        name: &str,
        tree: &Tree,
        needed: &BTreeSet<&str>,
        threads: bool,
    ) -> Result<Part> {
        let read = |path: PathBuf| fs::read_to_string(&path).doing(reading(&path));
        let present = layout::words(&read(parent.join("cgroup.controllers"))?);
        if let Some(absent) = needed.iter().find(|c| !present.iter().any(|p| p == *c)) {
            return Err(Error::NoLimit {
                what: "use of a controller",
                reason: format!(
                    "{absent} is not handed down to {}: {DELEGATE}",
                    parent.display()
                ),
            });
        }
        let control = parent.join("cgroup.subtree_control");
        let enabled = layout::words(&read(control.clone())?);
        let missing: BTreeSet<String> = needed
            .iter()
            .filter(|c| !enabled.iter().any(|e| e == *c))
            .map(|c| (*c).to_owned())
            .collect();
        // What others of this kind have switched on goes when the last of them does.
        let mut switched = missing.clone();
        for name in owner::names_in(parent) {
            switched.extend(name.switched);
        }
        let path = parent.join(Name::new(name, switched)?.to_string());
        owner::create(&path).map_err(|error| no_directory(&path, &error))?;
        let made = || {
            if threads {
                let kind = path.join("cgroup.type");
                fs::write(&kind, "threaded").doing(writing(&kind, "threaded"))?;
            }
            for controller in &missing {
                let word = format!("+{controller}");
                fs::write(&control, &word).map_err(|error| not_enabled(&control, &word, &error))?;
            }
            let controllers = read(path.join("cgroup.controllers"))?;
            Ok(Part {
                tree: tree.clone(),
                path: path.clone(),
                controllers: layout::words(&controllers),
                witness: false,
                counts_sockets: true,
            })
        };
        made().inspect_err(|_| {
            let _ = owner::remove(&path, tree);
        })
    }
}

/// A new group of version 1 has neither processors nor memory nodes, and takes no member so.
fn inherit_cpuset(part: &Part) -> Result<()> {
    if !(part.tree.version == Version::One && part.has("cpuset")) {
        return Ok(());
    }
    let parent = part.path.parent().unwrap_or(&part.path);
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let from = parent.join(file);
        let value = fs::read_to_string(&from).doing(reading(&from))?;
        let to = part.path.join(file);
        fs::write(&to, value.trim()).doing(writing(&to, value.trim()))?;
    }
    Ok(())
}

/// In version 1 memory of sockets is accounted for as soon as it is limited, be it to what nobody
/// can reach. Returns whether it is.
fn account_for_sockets(path: &Path) -> bool {
    let limit = path.join("memory.kmem.tcp.limit_in_bytes");
    fs::write(limit, i64::MAX.to_string()).is_ok()
}
