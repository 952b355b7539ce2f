//! User-defined options of `sbatch`. Each becomes a `#SBATCH` line, so it must be one word without quotes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The name of one or more partitions, in the syntax of `--partition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition(String);

/// A time limit in one of Slurm's forms, for example `MINUTES`, `MINUTES:SECONDS`, `HOURS:MINUTES:SECONDS` or
/// `DAYS-HOURS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeLimit(String);

/// Any other long option of `sbatch`, as in `--account=physics` or `--exclusive`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchOption(String);

/// The error for an invalid option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OptionError(&'static str);

/// Options that the batch script sets itself.
const SET_BY_THE_SCRIPT: [&str; 12] = [
    "--nodes",
    "--ntasks",
    "--ntasks-per-node",
    "--cpus-per-task",
    "--partition",
    "--time",
    "--output",
    "--error",
    "--array",
    "--requeue",
    "--wrap",
    "--parsable",
];

impl FromStr for Partition {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Partition, OptionError> {
        let name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,".contains(&byte);
        match !text.is_empty() && !text.starts_with('-') && text.bytes().all(name) {
            true => Ok(Partition(text.to_owned())),
            false => Err(OptionError(
                "write the name of a partition, or several separated by commas",
            )),
        }
    }
}

impl FromStr for TimeLimit {
    type Err = OptionError;

    /// Parses Slurm's forms with `:` or `-`. [`TimeLimit::from`] converts durations.
    fn from_str(text: &str) -> Result<TimeLimit, OptionError> {
        let wrong = OptionError(
            "write a length of time as in 90s, 10m or 2h, or as Slurm does: 10:00, 1:30:00, 1-12",
        );
        let (days, rest) = match text.split_once('-') {
            Some((days, rest)) => (Some(days), rest),
            None => (None, text),
        };
        let fields: Vec<&str> = rest.split(':').collect();
        let numbers = days.iter().chain(&fields).all(|field| {
            (1..=6).contains(&field.len()) && field.bytes().all(|b| b.is_ascii_digit())
        });
        let fields_are_right = match days {
            Some(_) => (1..=3).contains(&fields.len()),
            // A bare number is rejected: Slurm reads it as minutes, but all other options of this program are in
            // seconds.
            None => (2..=3).contains(&fields.len()),
        };
        match numbers && fields_are_right {
            true => Ok(TimeLimit(text.to_owned())),
            false => Err(wrong),
        }
    }
}

impl From<Duration> for TimeLimit {
    /// Converts a duration, rounded up to whole seconds.
    fn from(time: Duration) -> TimeLimit {
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        TimeLimit(format!("{hours}:{minutes:02}:{seconds:02}"))
    }
}

impl FromStr for BatchOption {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<BatchOption, OptionError> {
        let name = text.split('=').next().unwrap_or_default();
        if !name.starts_with("--") || name.len() < 4 {
            return Err(OptionError(
                "write a long option of sbatch as one word, as in --account=physics",
            ));
        }
        // In these lines, sbatch removes quotes and backslashes, and `#` starts a comment.
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"'\"\\#".contains(&byte);
        if !text.bytes().all(plain) {
            return Err(OptionError(
                "options of sbatch may not contain spaces, quotes, backslashes, # or non-ASCII characters; \
                 set the environment variable SBATCH_… instead",
            ));
        }
        if SET_BY_THE_SCRIPT.contains(&name) {
            return Err(OptionError(
                "this option of sbatch is set by fathometer; use --nodes, --ranks, --cpus, --partition, --time or \
                 --folder",
            ));
        }
        Ok(BatchOption(text.to_owned()))
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BatchOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_a_line_of_sbatch_cannot_hold_are_refused() {
        for good in ["all", "gpu,cpu", "a_b-c.d"] {
            assert!(good.parse::<Partition>().is_ok(), "{good}");
        }
        for bad in ["", "-x", "a b", "a\n#SBATCH --x", "a'b", "ü"] {
            assert!(bad.parse::<Partition>().is_err(), "{bad}");
        }
        for good in [
            "--account=physics",
            "--exclusive",
            "--constraint=a&b|c",
            "--mem=4G",
        ] {
            assert_eq!(good.parse::<BatchOption>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "--",
            "-A",
            "account=x",
            "--comment=a b",
            "--x=a\nb",
            "--x=#",
            "--x='a'",
            "--x=\\",
            "--ntasks=3",
            "--output=x",
            "--array",
        ] {
            assert!(bad.parse::<BatchOption>().is_err(), "{bad}");
        }
    }

    #[test]
    fn time_limits_are_those_of_slurm_or_lengths_of_time() {
        for good in ["10:00", "1:30:00", "1-12", "1-12:30", "1-12:30:00"] {
            assert_eq!(good.parse::<TimeLimit>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "10",
            "a:b",
            "1:2:3:4",
            "1-2-3",
            "-1:00",
            "1-1:2:3:4",
            ":",
            "1234567:00",
        ] {
            assert!(bad.parse::<TimeLimit>().is_err(), "{bad}");
        }
        let limit = |millis| TimeLimit::from(Duration::from_millis(millis)).to_string();
        assert_eq!(limit(90_000), "0:01:30");
        assert_eq!(limit(36_000_500), "10:00:01");
    }
}
