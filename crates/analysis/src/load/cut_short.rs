//! Tests that were interrupted.

use std::time::Duration;

use super::LoadResult;

/// Whether the measured time or number of exchanges is below the requested one.
fn is_cut_short(result: &LoadResult) -> bool {
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

/// States which part of the requested measurement the figures cover; `None` if the measurement is complete.
pub fn cut_short(result: &LoadResult) -> Option<String> {
    if !is_cut_short(result) {
        return None;
    }
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
    Some(format!(
        "interrupted: the figures cover {had} of {asked}; requests in flight count as unfinished"
    ))
}
