//! A scenario: the quantities of a prediction that differ from the measurement.

use std::fmt;
use std::str::FromStr;

use fathometer_model::{Bandwidth, Bytes};
use fathometer_queueing::Seconds;

/// A change of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change<T> {
    /// A factor of the measured value.
    Times(f64),
    /// A value that replaces the measured value.
    Value(T),
}

/// An amount of memory: `64M` or `2G`, in mebibytes or gibibytes, as in a study's factor `memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(pub Bytes);

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Memory, String> {
        let units = [('M', 20), ('G', 30)];
        let amount = units.iter().find_map(|(unit, bits)| {
            let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
            number.checked_mul(1 << bits)
        });
        match amount {
            Some(bytes) if bytes > 0 => Ok(Memory(Bytes(bytes))),
            _ => Err("write an amount of memory, as in 64M or 2G".to_owned()),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}M", self.0.0 >> 20)
    }
}

/// The changes of a scenario; by default there are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenario {
    /// The number of users.
    pub users: Option<Change<u32>>,
    /// The server's CPU capacity, in cores.
    pub cpu: Option<Change<f64>>,
    /// The memory of the server's host.
    pub memory: Option<Change<Memory>>,
    /// The time of an exchange at the disk that follows from the memory; `None` for the measured time.
    pub disk: Option<Seconds>,
    /// The number of the server's workers.
    pub workers: Option<Change<u32>>,
    /// The server's listen backlog.
    pub backlog: Option<Change<u32>>,
    /// The rate of the link.
    pub link: Option<Change<Bandwidth>>,
}

impl Scenario {
    /// Returns the number of users in this scenario, for a measured number.
    pub fn users(&self, measured: u32) -> u32 {
        match self.users {
            None => measured,
            Some(Change::Value(users)) => users,
            Some(Change::Times(factor)) => times(measured, factor).max(1),
        }
    }

    /// Returns the number of workers in this scenario, for a measured number; at least 1.
    pub fn workers(&self, measured: u32) -> u32 {
        changed(self.workers, measured).max(1)
    }

    /// Returns the backlog in this scenario, for a measured backlog.
    pub fn backlog(&self, measured: u32) -> u32 {
        changed(self.backlog, measured)
    }

    /// Returns the number of cores in this scenario, for a measured number.
    pub fn cores(&self, measured: f64) -> f64 {
        match self.cpu {
            None => measured,
            Some(Change::Value(cores)) => cores,
            Some(Change::Times(factor)) => measured * factor,
        }
    }

    /// Returns the time on the link in this scenario, in seconds, for a time on the measured link.
    pub fn link_s(&self, measured_s: f64, rate: Option<Bandwidth>) -> f64 {
        match (self.link, rate) {
            (Some(Change::Times(factor)), _) => measured_s / factor,
            (Some(Change::Value(other)), Some(rate)) => {
                measured_s * rate.as_bits_per_second() as f64 / other.as_bits_per_second() as f64
            }
            _ => measured_s,
        }
    }

    /// Whether the scenario has no changes.
    pub fn is_as_measured(&self) -> bool {
        *self == Scenario::default()
    }
}

/// `cpu=2x,users=3x`
impl FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenario, String> {
        let mut scenario = Scenario::default();
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} is not a change: write it as in cpu=2x"))?;
            let (name, value) = (name.trim(), value.trim());
            match name {
                "users" => scenario.users = Some(change(name, value)?),
                "cpu" => scenario.cpu = Some(change(name, value)?),
                "memory" => scenario.memory = Some(change(name, value)?),
                "workers" => scenario.workers = Some(change(name, value)?),
                "backlog" => scenario.backlog = Some(change(name, value)?),
                "link" => scenario.link = Some(change(name, value)?),
                _ => {
                    return Err(format!(
                        "{name:?} cannot be changed: only users, cpu (cores), link (rate), memory, workers and backlog can"
                    ));
                }
            }
        }
        let is_positive = |cores: Option<Change<f64>>| match cores {
            Some(Change::Value(cores)) => cores > 0.0 && cores <= 4096.0,
            _ => true,
        };
        let is_none = |count: Option<Change<u32>>| count == Some(Change::Value(0));
        match !is_none(scenario.users) && !is_none(scenario.workers) && is_positive(scenario.cpu) {
            true => Ok(scenario),
            false => Err("users, cpu and workers must be above 0".to_owned()),
        }
    }
}

/// Returns a count after a change.
fn changed(change: Option<Change<u32>>, measured: u32) -> u32 {
    match change {
        None => measured,
        Some(Change::Value(count)) => count,
        Some(Change::Times(factor)) => times(measured, factor),
    }
}

/// Returns a count times a factor, rounded.
fn times(count: u32, factor: f64) -> u32 {
    (f64::from(count) * factor).round() as u32
}

/// Parses a change: a factor as in `2x`, or a value.
fn change<T: FromStr>(name: &str, text: &str) -> Result<Change<T>, String> {
    if let Some(factor) = text.strip_suffix('x') {
        return match factor.parse::<f64>() {
            Ok(factor) if (1e-3..=1e3).contains(&factor) => Ok(Change::Times(factor)),
            _ => Err(format!(
                "{name}={text}: a factor is a number from 0.001 to 1000, as in 2x"
            )),
        };
    }
    match text.parse() {
        Ok(value) => Ok(Change::Value(value)),
        Err(_) => Err(format!(
            "{name}={text}: write a factor, as in 2x, or a value, as in users=200, cpu=1.5, link=100Mbit/s, memory=64M, workers=64 or backlog=511"
        )),
    }
}

/// `cpu=2x users=200`
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.cpu.map(|change| word("cpu", change)));
        words.extend(self.link.map(|change| word("link", change)));
        words.extend(self.memory.map(|change| word("memory", change)));
        words.extend(self.workers.map(|change| word("workers", change)));
        words.extend(self.backlog.map(|change| word("backlog", change)));
        words.extend(self.users.map(|change| word("users", change)));
        match words.is_empty() {
            true => write!(f, "as measured"),
            false => write!(f, "{}", words.join(" ")),
        }
    }
}

fn word<T: fmt::Display>(name: &str, change: Change<T>) -> String {
    match change {
        Change::Times(factor) => format!("{name}={factor}x"),
        Change::Value(value) => format!("{name}={value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_and_applied() {
        let scenario: Scenario = "cpu=2x, users=200,link=100Mbit/s".parse().unwrap();
        assert_eq!(scenario.users(7), 200);
        assert_eq!(scenario.cores(0.2), 0.4);
        let gigabit: Bandwidth = "1Gbit/s".parse().unwrap();
        assert!((scenario.link_s(0.001, Some(gigabit)) - 0.01).abs() < 1e-12);
        assert_eq!(scenario.to_string(), "cpu=2x link=100 Mbit/s users=200");
        assert!(Scenario::default().is_as_measured());
        let scenario: Scenario = "workers=0.1x,backlog=16".parse().unwrap();
        assert_eq!((scenario.workers(64), scenario.workers(4)), (6, 1));
        assert_eq!((scenario.backlog(511), scenario.users(7)), (16, 7));
        assert_eq!(scenario.to_string(), "workers=0.1x backlog=16");
    }

    #[test]
    fn unknown_and_impossible_changes_are_errors() {
        for text in [
            "",
            "cpu",
            "cpu=0",
            "cpu=-1x",
            "users=0",
            "users=1.5",
            "memory=+64MB",
            "memory=64",
            "memory=0M",
            "cpu=NaNx",
            "workers=0",
            "backlog=-1",
        ] {
            assert!(text.parse::<Scenario>().is_err(), "{text:?}");
        }
    }
}
