//! What both scripts of Slurm begin with, and how they write the command.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::shell::{CARRIAGE_RETURN, quote};

/// A script as it is written.
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// The options that `sbatch` reads, a comment, and the variables of the folder and of carriage returns.
    pub(super) fn begin(directives: &[String], comment: &str, folder: &Path) -> Lines {
        let mut lines = Lines(Vec::new());
        lines.line(&[b"#!/bin/sh"]);
        for option in directives {
            lines.line(&[b"#SBATCH ", option.as_bytes()]);
        }
        lines.line(&[comment.as_bytes()]);
        lines.line(&[CARRIAGE_RETURN.as_bytes(), br"=$(printf '\r')"]);
        lines.line(&[b"folder=", &quote(folder.as_os_str().as_bytes())]);
        lines
    }

    pub(super) fn line(&mut self, words: &[&[u8]]) {
        self.0.extend(words.concat());
        self.0.push(b'\n');
    }

    /// The words of the command, which end a `set --`: the script's own arguments are the one list that a POSIX shell
    /// has.
    pub(super) fn command(&mut self, command: &[OsString]) {
        for (place, word) in command.iter().enumerate() {
            let more: &[u8] = match place + 1 < command.len() {
                true => b" \\",
                false => b"",
            };
            self.line(&[b"    ", &quote(word.as_bytes()), more]);
        }
    }

    /// The script, with this text at its end.
    pub(super) fn end(mut self, text: &str) -> Vec<u8> {
        self.0.extend_from_slice(text.as_bytes());
        self.0
    }
}
