//! Figures that are quotients of values in a result.

use std::time::Duration;

use super::{LoadResult, Window};

/// The offered rate: planned exchanges per second.
pub(super) fn offered(window: &Window) -> Option<f64> {
    per_second(window.counts.planned as f64, window.duration)
}

/// The achieved rate: responses per second that completed within the window.
pub(super) fn achieved(window: &Window) -> Option<f64> {
    per_second(window.ended.completed as f64, window.duration)
}

/// Goodput in bytes per second: content of complete responses with a status below 400.
pub(super) fn goodput(window: &Window) -> Option<f64> {
    per_second(window.ended.useful.as_f64(), window.duration)
}

/// Throughput in bytes per second: headers and content of responses.
pub(super) fn throughput(window: &Window) -> Option<f64> {
    per_second(window.ended.received.as_f64(), window.duration)
}

/// Little's Load Factor: the mean number of exchanges in flight. By Little's law it is the sum of the response times
/// divided by the length of the window. Neither value is truncated.
pub(super) fn load_factor(window: &Window) -> Option<f64> {
    per_second(
        window.latency.corrected.sum().as_secs_f64(),
        window.duration,
    )
}

/// The load factor of pages: the mean number of busy users. The exchanges of a page may overlap.
pub(super) fn page_load_factor(window: &Window) -> Option<f64> {
    has_pages(window)
        .then(|| per_second(window.latency.page.sum().as_secs_f64(), window.duration))
        .flatten()
}

/// Whether pages had more than one file, so that pages and exchanges differ.
pub(super) fn has_pages(window: &Window) -> bool {
    let counts = &window.counts;
    !window.latency.page.is_empty()
        && counts.completed + counts.failed() > counts.pages + counts.pages_failed
}

/// Mean number of open connections.
pub(super) fn mean_open(window: &Window) -> Option<f64> {
    per_second(window.connections.open.as_secs_f64(), window.duration)
}

/// The share of errors among all exchanges that ended or were abandoned. Errors are failures, responses with a status
/// of 400 and above, and exchanges without a response at the end of the drain.
pub(super) fn error_share(window: &Window) -> Option<f64> {
    let counts = &window.counts;
    let all = counts.completed + counts.failed() + counts.unfinished;
    (all > 0).then(|| (counts.errors() + counts.unfinished) as f64 / all as f64)
}

/// The generator's CPU time (user and system) per exchange that ended within the window.
pub(super) fn cpu_per_exchange(result: &LoadResult) -> Option<(Duration, Duration)> {
    let ended = &result.measured.ended;
    let exchanges = ended.completed + ended.failed;
    let each = |time: Duration| Duration::from_secs_f64(time.as_secs_f64() / exchanges as f64);
    let generator = &result.generator;
    (exchanges > 0).then(|| (each(generator.cpu_user), each(generator.cpu_system)))
}

fn per_second(number: f64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| number / time.as_secs_f64())
}
