//! The report of a program that ran behind an emulated path.

use std::fmt;

use fathometer_model::{DirectionCertificate, PathCertificate, Validity};
use fathometer_path::Profile;
use serde::Serialize;

use crate::hosts::Lab;

/// The conditions of a program behind an emulated path: the profile, the TCP settings, and the path's certificate.
/// `Serialize` writes the report as JSON, and `Display` formats it for a terminal.
#[derive(Debug, Serialize)]
pub struct PathReport<'a> {
    /// The path.
    pub profile: &'a Profile,
    /// The era: the TCP settings of both hosts.
    pub era: &'a str,
    /// The seed of all random events.
    pub seed: u64,
    /// TCP settings of the era that this kernel does not support.
    pub impossible_settings: Vec<String>,
    /// Whether the delivery threads have a higher priority than all other threads of the machine.
    pub punctual_threads: bool,
    /// The exit code of the program.
    pub exit_code: u8,
    /// The certificate of the path.
    pub path: &'a PathCertificate,
    /// Whether the path was accurate enough.
    pub validity: &'a Validity,
}

/// Returns the settings of the era that this kernel does not support, each once.
pub fn impossible_settings(lab: &Lab) -> Vec<String> {
    let mut settings: Vec<String> = Vec::new();
    for host in [&lab.client, &lab.server] {
        for setting in host.applied.impossible() {
            let text = setting.to_string();
            if !settings.contains(&text) {
                settings.push(text);
            }
        }
    }
    settings
}

impl fmt::Display for PathReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "path {}", self.profile)?;
        writeln!(f, "     source: {}", self.profile.source)?;
        writeln!(f, "     era {}, seed {}", self.era, self.seed)?;
        for setting in &self.impossible_settings {
            writeln!(
                f,
                "     era setting not supported by this kernel: {setting}"
            )?;
        }
        if !self.punctual_threads {
            writeln!(
                f,
                "     SCHED_FIFO is not permitted: deliveries may wait for a processor"
            )?;
        }
        direction(f, "up  ", &self.path.up)?;
        direction(f, "down", &self.path.down)?;
        if self.validity.is_valid() {
            return writeln!(f, "     valid");
        }
        for reason in &self.validity.reasons {
            writeln!(f, "     INVALID: {reason}")?;
        }
        Ok(())
    }
}

fn direction(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    certificate: &DirectionCertificate,
) -> fmt::Result {
    write!(
        f,
        "{name} {} packets ({}) in, {} ({}) out",
        certificate.packets_in,
        certificate.bytes_in,
        certificate.packets_out,
        certificate.bytes_out,
    )?;
    if certificate.packets_out > 0 {
        write!(
            f,
            "; late p50 {}, p99 {}, max {}",
            Micros(certificate.lateness_p50_ns),
            Micros(certificate.lateness_p99_ns),
            Micros(certificate.lateness_max_ns),
        )?;
    }
    for (reason, count) in &certificate.drops {
        write!(f, "; {count} dropped: {reason}")?;
    }
    writeln!(f, "; {} lost by the emulation", certificate.unasked_drops)
}

/// A time in nanoseconds. It is printed in microseconds, or in milliseconds if it is long.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0 as f64 / 1e3;
        if micros < 1000.0 {
            write!(f, "{micros:.1} µs")
        } else {
            write!(f, "{:.2} ms", micros / 1e3)
        }
    }
}
