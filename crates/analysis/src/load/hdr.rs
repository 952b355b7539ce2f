//! The distributions as an HdrHistogram log (version 1.3 of the format), which the tools of HdrHistogram read. It
//! contains compressed V2 histograms of nanoseconds, one line per phase of the measured window, with the phase as tag
//! (`Tag=corrected`).
//!
//! The column `Interval_Max` is in milliseconds, the default of these tools. The histograms have three
//! significant digits; exact sums and extremes are in the JSON summary.

use std::io::{self, Write};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogWriterBuilder, IntervalLogWriterError, Tag,
};

use super::{LoadResult, phases};
use crate::civil;

const NANOS_PER_MILLI: f64 = 1e6;

/// Writes the log to `out`.
///
/// # Errors
/// When a write to `out` fails.
pub fn write(result: &LoadResult, out: &mut impl Write) -> io::Result<()> {
    let setup = &result.setup;
    let started = setup.started;
    writeln!(out, "#[Histogram log format version 1.3]")?;
    writeln!(
        out,
        "#[Fathometer {}: {} {}, values in nanoseconds]",
        one_line(&setup.version),
        one_line(&setup.url),
        one_line(&setup.policy),
    )?;
    for reason in &result.validity.reasons {
        writeln!(out, "#[INVALID: {}]", one_line(reason))?;
    }
    writeln!(
        out,
        "#[StartTime: {started:.3} (seconds since epoch), {}]",
        civil::utc(started)
    )?;
    writeln!(out, "#[BaseTime: {started:.3} (seconds since epoch)]")?;
    writeln!(
        out,
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
    )?;
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .with_max_value_divisor(NANOS_PER_MILLI)
        .begin_log_with(out, &mut serializer)?;
    let start = result
        .warm_up
        .as_ref()
        .map_or(setup.warm_up, |warm_up| warm_up.duration);
    for (name, times) in phases::of(&result.measured.latency) {
        if times.is_empty() {
            continue;
        }
        let tag = Tag::new(name);
        log.write_histogram(&times.histogram(), start, result.measured.duration, tag)
            .map_err(|error| match error {
                IntervalLogWriterError::IoError(error) => error,
                other => io::Error::other(other.to_string()),
            })?;
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
