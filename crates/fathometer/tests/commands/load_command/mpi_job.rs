//! A load test whose ranks are started by a launcher of MPI.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::programs::{FATHOMETER, tool};

/// A folder with the secret of the ranks, for the files of one job.
pub struct Job {
    folder: TempDir,
}

impl Job {
    /// Creates the folder; `None`, with a message on stderr, if the launcher is not installed.
    pub fn of(launcher: &str) -> Option<Job> {
        tool(launcher)?;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "a secret of these tests\n").unwrap();
        Some(Job { folder })
    }

    pub fn spools(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    /// Returns the launcher's command with these options, for this number of processes of `fathometer load`.
    pub fn command(
        &self,
        launcher: &[&str],
        processes: u32,
        url: &str,
        arguments: &[&str],
    ) -> Command {
        let mut command = Command::new(launcher[0]);
        command
            .args(&launcher[1..])
            .args(["-n", &processes.to_string()])
            .args([FATHOMETER, "load", "--quiet", "--json", "--threads", "1"])
            .arg(url)
            .args(arguments)
            .arg("--secret-file")
            .arg(self.folder.path().join("secret"))
            .env("TMPDIR", self.folder.path())
            .stdin(Stdio::null());
        for of_others in ["SLURM_PROCID", "SLURM_NTASKS", "FATHOMETER_RANKS"] {
            command.env_remove(of_others);
        }
        command
    }
}
