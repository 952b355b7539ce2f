//! How a test ended: the exit code, and what an interrupted test covers.

use std::process::ExitCode;
use std::time::Duration;

use fathometer_analysis::load::{LoadResult, Verdict};

/// The exit code of a result and its promises.
pub(crate) fn exit_code(result: &LoadResult, promises: &[Verdict]) -> ExitCode {
    let counts = &result.measured.counts;
    let has_gone_silent = result.measured.ended.silent_from.is_some();
    if !result.validity.is_valid() {
        ExitCode::from(3)
    } else if has_gone_silent || promises.iter().any(|promise| !promise.kept) {
        ExitCode::from(4)
    } else if counts.completed == 0 && counts.planned > 0 {
        // No exchange succeeded: the measurement is valid, but the test failed.
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    }
}

/// Whether less was measured than requested.
pub(super) fn is_cut_short(result: &LoadResult) -> bool {
    let measured = &result.measured;
    let by_time = result
        .setup
        .duration
        .is_some_and(|asked| measured.duration < asked);
    let by_count = result
        .setup
        .exchanges
        .is_some_and(|asked| measured.counts.planned < asked);
    by_time || by_count
}

/// Describes what the figures of an interrupted test cover.
pub(super) fn cut_short(result: &LoadResult) -> String {
    let measured = &result.measured;
    let (had, asked) = match (result.setup.duration, result.setup.exchanges) {
        (_, Some(count)) => (
            measured.counts.planned.to_string(),
            format!("{count} exchanges"),
        ),
        (time, None) => {
            let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
            (
                seconds(measured.duration),
                seconds(time.unwrap_or_default()),
            )
        }
    };
    format!(
        "interrupted: the figures cover {had} of {asked}; requests in flight count as unfinished"
    )
}
