//! Waits for a window of HTTP/2 (RFC 9113 section 5.2) or HTTP/3 (RFC 9000 section 4.1), from the client's records.
//!
//! The window was exhausted when the server sent the last byte that the client read. The server could send again when
//! the client's grant arrived. So the next byte could reach the client one round trip after the grant, and any later
//! delay has another cause. If the round trip is unknown, a wait counts only if its grant came after the last byte.

use fathometer_model::{Instant, WindowWait};

use super::{Cause, Segment, Span, cut, push};

/// The times in which an exchange waited for the window of its stream or of its connection.
pub(super) fn spans(waits: &[WindowWait], exchange: u32, round_trip_ns: Option<u64>) -> Vec<Span> {
    waits
        .iter()
        .filter(|wait| wait.exchange.is_none_or(|number| number == exchange))
        .filter_map(|wait| {
            let end = match round_trip_ns {
                Some(trip) => {
                    let possible = wait.granted.as_nanos().saturating_add(trip);
                    wait.to.min(Instant::from_nanos(possible))
                }
                None if wait.granted >= wait.from => wait.to,
                None => return None,
            };
            (end > wait.from).then_some((wait.from, end))
        })
        .collect()
}

/// Replaces the causes of an exchange's segments by [`Cause::FlowControl`] in the parts of `content` that lie in
/// `waits`. A loss is not replaced, because the lost bytes were within the window.
pub(super) fn overlay(segments: &[Segment], content: Span, waits: &[Span]) -> Vec<Segment> {
    let mut all = Vec::new();
    for segment in segments {
        for (span, is_content) in cut((segment.from, segment.to), &[content]) {
            if !is_content || segment.cause == Cause::Loss {
                push(&mut all, span, segment.cause);
                continue;
            }
            for (span, is_wait) in cut(span, waits) {
                let cause = match is_wait {
                    true => Cause::FlowControl,
                    false => segment.cause,
                };
                push(&mut all, span, cause);
            }
        }
    }
    all
}
