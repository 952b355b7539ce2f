//! Temporary folders that do not outlast the program, nor its murder.
//!
//! A folder is named after the process that made it. Making one first removes those whose process
//! is gone, so what SIGKILL leaves is cleaned up by the next run.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "fathometer-";

/// A temporary folder, removed with everything in it when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a folder that other users may read and nobody else may write.
    pub fn new() -> io::Result<Scratch> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = std::env::temp_dir();
        remove_stale(&parent);
        let pid = std::process::id();
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{pid}-{n}"));
            match fs::DirBuilder::new().mode(0o755).create(&path) {
                Ok(()) => {
                    // The mask may have taken bits away that a server's own user needs.
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                    return Ok(Scratch { path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|rest| rest.split_once('-'))
            .and_then(|(pid, _)| pid.parse::<u32>().ok())
        else {
            continue;
        };
        if !Path::new(&format!("/proc/{pid}")).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner_and_the_dead_are_buried() {
        // No process has the highest number that fits: it is beyond the kernel's limit of 2^22.
        let stale = std::env::temp_dir().join(format!("{PREFIX}4294967295-0"));
        fs::create_dir_all(stale.join("inside")).unwrap();
        let scratch = Scratch::new().unwrap();
        assert!(!stale.exists());
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
