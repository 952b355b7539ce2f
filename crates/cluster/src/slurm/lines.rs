//! The common parts of both Slurm scripts: the first lines and the command.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::shell::{CARRIAGE_RETURN, quote};

/// A script that is being written.
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// Begins a script: the `#SBATCH` options, a comment, and the variables for the folder and for a carriage return.
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

    /// Writes the words of the command as arguments of `set --`: the positional parameters are the only list in a POSIX
    /// shell.
    pub(super) fn command(&mut self, command: &[OsString]) {
        for (place, word) in command.iter().enumerate() {
            let more: &[u8] = match place + 1 < command.len() {
                true => b" \\",
                false => b"",
            };
            self.line(&[b"    ", &quote(word.as_bytes()), more]);
        }
    }

    /// Appends this text as the end of the script, and returns the script's bytes.
    pub(super) fn end(mut self, text: &str) -> Vec<u8> {
        self.0.extend_from_slice(text.as_bytes());
        self.0
    }
}
