//! Outputs that accept no data: a full disk as stdout, stderr or a file, and a pipe whose reader has closed it.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use crate::support::programs::{FATHOMETER, run};
use crate::support::scripted_server::{Answer, Server};

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_full_stdout_is_reported_and_every_file_is_written() {
    let server = Server::start(|_| Answer::Whole(10));
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(FATHOMETER)
        .args(["load", &format!("http://{}/", server.address)])
        .args([
            "-n", "20", "-c", "2", "--save", "it.json", "--save", "it.txt",
        ])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(full())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    assert!(
        message.contains("stdout") && message.contains("No space left"),
        "{message}"
    );
    for name in ["it.json", "it.txt"] {
        assert!(
            fs::metadata(folder.path().join(name)).unwrap().len() > 100,
            "{name}"
        );
    }
}

#[test]
fn a_full_stderr_does_not_change_the_result() {
    let server = Server::start(|_| Answer::Whole(10));
    let output = Command::new(FATHOMETER)
        .args(["load", &format!("http://{}/", server.address)])
        .args(["-n", "20", "-c", "2", "--json"])
        .stdin(Stdio::null())
        .stderr(full())
        .output()
        .unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
}

/// `fathometer … | head -0`: the pipe is closed before the first byte is written.
#[test]
fn a_reader_that_closes_the_pipe_early_is_not_a_failure() {
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["site", "microscape"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(FATHOMETER)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");

        let output = Command::new(FATHOMETER)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(full())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(
            message.contains("No space left"),
            "{arguments:?}: {message}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_written_prevents_neither_other_files_nor_the_screen() {
    let server = Server::start(|_| Answer::Whole(10));
    let folder = tempfile::tempdir().unwrap();
    for name in ["full.parquet", "full.json"] {
        symlink("/dev/full", folder.path().join(name)).unwrap();
    }
    let mut command = Command::new(FATHOMETER);
    command
        .args(["load", "--quiet", &format!("http://{}/", server.address)])
        .args(["-n", "3000", "-c", "4", "--json"])
        .args(["--save", "full.json", "--save", "full.parquet"])
        .args(["--save", "it.csv"])
        .current_dir(folder.path());
    let output = run(&command);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    for name in ["full.json", "full.parquet"] {
        let is_reported = message
            .lines()
            .any(|line| line.contains(name) && line.contains("No space left"));
        assert!(is_reported, "{name}: {message}");
    }
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["measured"]["counts"]["completed"], 3000);
    assert!(fs::metadata(folder.path().join("it.csv")).unwrap().len() > 100);
}
