//! The privileges to create namespaces and devices.
//!
//! This program has these privileges as root, or in a user namespace. In a user namespace, the program is root only
//! over the network namespaces that it creates. No program needs to be installed set-uid.

use std::fs;
use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// The source of the privilege to create namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Privilege {
    /// The program already had the privilege.
    Given,
    /// The program moved into a user namespace.
    UserNamespace,
}

/// A capability, and whether this machine has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ability {
    /// The capability's name.
    pub name: String,
    /// The use of the capability in Fathometer.
    pub purpose: String,
    /// Whether experiments are impossible without it.
    pub required: bool,
    /// The details, or the reason why the capability is missing and the remedy.
    pub state: Result<String, String>,
}

/// Ensures that this program may create namespaces, and moves it into a user namespace if needed.
///
/// Call it at the start of `main`, before any thread exists: the kernel does not move a program with threads. Files that
/// the program writes still belong to the user.
pub fn acquire() -> Result<Privilege> {
    if has_capabilities()? {
        return Ok(Privilege::Given);
    }
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    // SAFETY: CLONE_NEWUSER implies CLONE_THREAD and CLONE_FS; with one thread, neither has an effect. With
    // several threads the kernel returns an error.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }
        .map_err(|errno| explain(errno.into(), "make a user namespace"))?;
    let write = |path: &str, text: String| {
        fs::write(path, text).map_err(|error| explain(error, &format!("write {path}")))
    };
    // The kernel requires this before groups can be mapped.
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw()))?;
    write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw()))?;
    if !has_capabilities()? {
        return Err(explain(
            io::Error::from_raw_os_error(libc::EPERM),
            "use a user namespace",
        ));
    }
    Ok(Privilege::UserNamespace)
}

fn has_capabilities() -> Result<bool> {
    let wanted = CAP_NET_ADMIN | CAP_SYS_ADMIN;
    let status = fs::read_to_string("/proc/thread-self/status").map_err(|_| Error::NoProc)?;
    Ok(capabilities(&status).is_some_and(|found| found & wanted == wanted))
}

/// Whether this program is root of the machine, and not just of a user namespace.
pub(crate) fn is_machine_root() -> bool {
    rustix::process::geteuid().is_root() && in_first_user_namespace()
}

/// Whether this is the initial user namespace: only there, all user numbers are mapped to themselves.
pub(crate) fn in_first_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

pub(crate) fn capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Explains why a user namespace was denied.
fn explain(error: io::Error, doing: &str) -> Error {
    let setting = |path: &str| {
        let value = fs::read_to_string(format!("/proc/sys/{path}")).ok();
        value.and_then(|value| value.trim().parse::<i64>().ok())
    };
    reason(error, doing, &setting)
}

fn reason(error: io::Error, doing: &str, setting: &dyn Fn(&str) -> Option<i64>) -> Error {
    let denied = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    if setting("user/max_user_namespaces") == Some(0) {
        return Error::UserNamespacesOff {
            sysctl: "sysctl -w user.max_user_namespaces=10000".to_owned(),
        };
    }
    if denied && setting("kernel/unprivileged_userns_clone") == Some(0) {
        return Error::UserNamespacesOff {
            sysctl: "sysctl -w kernel.unprivileged_userns_clone=1".to_owned(),
        };
    }
    if denied && setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        return Error::AppArmor;
    }
    if denied {
        return Error::NoCapability {
            ability: "SYS_ADMIN",
        };
    }
    Error::System {
        doing: doing.to_owned(),
        source: error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_setting_that_would_help() {
        let explained = |errno: i32, name: &'static str, value: i64| {
            let error = io::Error::from_raw_os_error(errno);
            reason(error, "make a user namespace", &|path| {
                (path == name).then_some(value)
            })
            .to_string()
        };
        let off = explained(libc::ENOSPC, "user/max_user_namespaces", 0);
        assert!(off.contains("user.max_user_namespaces=10000"), "{off}");
        let off = explained(libc::EPERM, "kernel/unprivileged_userns_clone", 0);
        assert!(off.contains("unprivileged_userns_clone=1"), "{off}");
        let armour = explained(
            libc::EACCES,
            "kernel/apparmor_restrict_unprivileged_userns",
            1,
        );
        assert!(armour.contains("AppArmor"), "{armour}");
        let container = explained(libc::EPERM, "user/max_user_namespaces", 10_000);
        assert!(container.contains("--cap-add SYS_ADMIN"), "{container}");
        let threads = explained(libc::EINVAL, "none", 0);
        assert!(threads.starts_with("make a user namespace:"), "{threads}");
    }

    #[test]
    fn capabilities_are_read_from_status() {
        let status = "Name:\tx\nCapEff:\t0000000000201000\n";
        assert_eq!(capabilities(status), Some(CAP_NET_ADMIN | CAP_SYS_ADMIN));
        assert_eq!(capabilities("CapEff:\tzz"), None);
    }
}
