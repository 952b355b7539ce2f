//! Disks that fill up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system, unmounted when dropped.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    /// Mounts a small file system; `None`, with a message, if this user may not mount.
    pub fn mount(at: &Path, size: &str) -> Option<SmallDisk> {
        fs::create_dir(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at)
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            let required = std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1");
            assert!(
                !required,
                "a lab is required, but a small disk is not available"
            );
            eprintln!("SKIPPED: a small disk is not available: only root may mount one");
            return None;
        }
        Some(SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
