//! What follows from a result by division.

use std::time::Duration;

use super::{LoadResult, Window};

/// Exchanges a second that the plan asked for.
pub(super) fn offered(window: &Window) -> Option<f64> {
    per_second(window.counts.planned as f64, window.duration)
}

/// Exchanges a second whose response came whole within the window.
pub(super) fn achieved(window: &Window) -> Option<f64> {
    per_second(window.ended.completed as f64, window.duration)
}

/// Octets of useful content a second: of responses with a status below 400 that came whole.
pub(super) fn goodput(window: &Window) -> Option<f64> {
    per_second(window.ended.useful.as_f64(), window.duration)
}

/// Response octets a second, heads and content.
pub(super) fn throughput(window: &Window) -> Option<f64> {
    per_second(window.ended.received.as_f64(), window.duration)
}

/// Little's Load Factor: how many exchanges were under way on average. By Little's law that is the
/// sum of the response times over the time they were measured for; nothing is truncated.
pub(super) fn load_factor(window: &Window) -> Option<f64> {
    per_second(
        window.latency.corrected.sum().as_secs_f64(),
        window.duration,
    )
}

/// The same of pages, whose exchanges may run beside each other: how many users were busy.
pub(super) fn page_load_factor(window: &Window) -> Option<f64> {
    has_pages(window)
        .then(|| per_second(window.latency.page.sum().as_secs_f64(), window.duration))
        .flatten()
}

/// Whether some page had more than one file, so that a page is something else than an exchange.
pub(super) fn has_pages(window: &Window) -> bool {
    let counts = &window.counts;
    !window.latency.page.is_empty()
        && counts.completed + counts.failed() > counts.pages + counts.pages_failed
}

/// How many connections were open on average.
pub(super) fn mean_open(window: &Window) -> Option<f64> {
    per_second(window.connections.open.as_secs_f64(), window.duration)
}

/// Errors over everything that came to an end or was given up: failures, responses of status 400
/// and above, and exchanges still unanswered when the drain was over.
pub(super) fn error_share(window: &Window) -> Option<f64> {
    let counts = &window.counts;
    let all = counts.completed + counts.failed() + counts.unfinished;
    (all > 0).then(|| (counts.errors() + counts.unfinished) as f64 / all as f64)
}

/// The generator's processor time for an exchange that ended within the window: user and system.
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
