//! Merges the results of all ranks into one result.

use std::time::Duration;

use fathometer_analysis::load::{
    ByteCounts, Counts, Ended, Latency, LoadResult, RankFigures, UserTime, Window,
};
use fathometer_load::timeline::{Timeline, merge_counts};
use fathometer_model::{Bytes, Validity};

use crate::record::{RankRecord, Reported, TestFacts};

/// The limit for the difference between the starts of two ranks, and for the drift of a clock. Above it, a result is
/// INVALID, because the planned instants of a rank are shifted.
pub const SKEW: Duration = Duration::from_millis(5);

/// The result of a whole test.
pub type Merged = LoadResult;

/// The reason why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// No rank finished.
    #[error("none of the {0} ranks finished with a result")]
    Nothing(u32),
}

/// Merges the reports of the ranks, in their order. `lost` contains the number, the reason and the intervals of each
/// lost rank.
pub(crate) fn merge(
    facts: &TestFacts,
    ended: Vec<RankRecord>,
    lost: &[(u32, String, Reported)],
    timeline: Timeline,
) -> Result<Merged, MergeError> {
    let elapsed = ended.iter().map(RankRecord::elapsed).max();
    let elapsed = elapsed.ok_or(MergeError::Nothing(facts.ranks))?;
    let mut validity = Validity::default();
    let mut ranks = Vec::new();
    for (number, why, so_far) in lost {
        let time = facts.interval * u32::try_from(so_far.intervals).unwrap_or(u32::MAX);
        validity.invalidate(format!(
            "rank {number} was lost ({why}): only its figures of the first {:.1} s are included; after that, 1/{} of \
             the planned load is missing",
            time.as_secs_f64(),
            facts.ranks
        ));
        ranks.push(of_lost(*number, why, so_far));
    }
    for record in &ended {
        judge(record, facts, &mut validity);
        ranks.push(of_ended(record));
    }
    ranks.sort_by_key(|rank| rank.rank);
    let mut all = ended.into_iter();
    let mut result = match all.next() {
        Some(first) => first.result,
        None => return Err(MergeError::Nothing(facts.ranks)),
    };
    for record in all {
        add(&mut result, record.result);
    }
    for (_, _, so_far) in lost {
        add_reported(&mut result.measured, so_far);
    }
    if !lost.is_empty() {
        // The sums lack the users of a lost rank, so this field is removed.
        result.user_time = None;
    }
    result.timeline = timeline.finish(elapsed);
    result.validity = validity;
    result.ranks = ranks;
    Ok(result)
}

/// Invalidates the result if one rank has a reason.
fn judge(record: &RankRecord, facts: &TestFacts, validity: &mut Validity) {
    let name = format!("rank {} ({})", record.rank, record.host);
    for reason in &record.result.validity.reasons {
        validity.invalidate(format!("{name}: {reason}"));
    }
    let limit = SKEW;
    if record.start_skew() > limit {
        validity.invalidate(format!(
            "{name}: it may have started {:.1?} before or after rank 0 (limit {limit:.1?}): the round trips to rank 0 \
             are too long, or it received the start too late",
            record.start_skew()
        ));
    }
    if record.clock.drift > limit {
        validity.invalidate(format!(
            "{name}: its clock drifted by at least {:.1?} against that of rank 0 (limit {limit:.1?}): check that both \
             machines synchronise their clocks by NTP or PTP",
            record.clock.drift
        ));
    }
    if let Some(asked) = facts.measured
        && record.result.measured.duration < asked
    {
        validity.invalidate(format!(
            "{name}: its share ended after {:.1} s of {:.1} s",
            record.result.measured.duration.as_secs_f64(),
            asked.as_secs_f64()
        ));
    }
}

fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

fn of_ended(record: &RankRecord) -> RankFigures {
    let measured = &record.result.measured;
    let latency = &measured.latency;
    let generator = &record.result.generator;
    let elapsed = record.elapsed().as_secs_f64();
    let (sent, received) = record.traffic;
    RankFigures {
        rank: record.rank,
        host: record.host.clone(),
        lost: None,
        planned: measured.counts.planned,
        completed: measured.counts.completed,
        errors: measured.counts.errors(),
        p50_ms: latency.corrected.quantile(0.5).map(millis),
        p99_ms: latency.corrected.quantile(0.99).map(millis),
        send_lag_p99_ms: latency.send_lag.quantile(0.99).map(millis),
        cpu_s: Some((generator.cpu_user + generator.cpu_system).as_secs_f64()),
        clock_offset_s: Some(record.clock.before.offset as f64 / 1e9),
        clock_uncertainty_ms: Some(millis(record.clock.before.uncertainty)),
        clock_drift_ms: Some(millis(record.clock.drift)),
        start_skew_ms: Some(millis(record.start_skew())),
        control_bytes_per_s: (elapsed > 0.0).then(|| (sent + received) as f64 / elapsed),
    }
}

fn of_lost(rank: u32, why: &str, so_far: &Reported) -> RankFigures {
    RankFigures {
        rank,
        host: "-".to_owned(),
        lost: Some(why.to_owned()),
        planned: so_far.counts.planned,
        completed: so_far.counts.completed,
        errors: so_far.counts.errors(),
        p50_ms: so_far.corrected.quantile(0.5).map(millis),
        p99_ms: so_far.corrected.quantile(0.99).map(millis),
        send_lag_p99_ms: so_far.send_lag.quantile(0.99).map(millis),
        cpu_s: None,
        clock_offset_s: None,
        clock_uncertainty_ms: None,
        clock_drift_ms: None,
        start_skew_ms: None,
        control_bytes_per_s: None,
    }
}

/// Adds the result of another rank, except for its validity, timeline and table of ranks.
fn add(to: &mut LoadResult, from: LoadResult) {
    let silent_from = match (
        to.measured.ended.silent_from,
        from.measured.ended.silent_from,
    ) {
        (Some(one), Some(other)) => Some(one.max(other)),
        _ => None,
    };
    add_window(&mut to.measured, &from.measured);
    to.measured.ended.silent_from = silent_from;
    for (to, from) in [(&mut to.warm_up, from.warm_up), (&mut to.drain, from.drain)] {
        match (to.as_mut(), from) {
            (Some(to), Some(from)) => add_window(to, &from),
            (None, from) => *to = from,
            (Some(_), None) => {}
        }
    }
    to.setup.threads += from.setup.threads;
    for (to, from) in to.targets.iter_mut().zip(from.targets) {
        to.completed += from.completed;
        to.failed += from.failed;
    }
    if let (Some(to), Some(from)) = (&mut to.sequence, from.sequence) {
        to.requested += from.requested;
    }
    to.user_time = match (to.user_time, from.user_time) {
        (Some(one), Some(other)) => Some(UserTime {
            users: one.users + other.users,
            busy: one.busy + other.busy,
            paused: one.paused + other.paused,
            slots: one.slots.max(other.slots),
            tolerance: one.tolerance.max(other.tolerance),
        }),
        _ => None,
    };
    let (to, from) = (&mut to.generator, from.generator);
    to.cpu_user += from.cpu_user;
    to.cpu_system += from.cpu_system;
    to.workers.extend(from.workers);
    to.peak_memory = to.peak_memory.max(from.peak_memory);
    // Keeps the values of the rank with the highest usage of its limit.
    let share = |(open, limit): (u64, u64)| open as f64 / limit.max(1) as f64;
    if share(from.descriptors) > share(to.descriptors) {
        to.descriptors = from.descriptors;
    }
    to.ports_exhausted += from.ports_exhausted;
    to.steal = to.steal.max(from.steal);
    to.repeated += from.repeated;
}

/// Adds the same window of another rank. All ranks start together, so the longer window includes both.
fn add_window(to: &mut Window, from: &Window) {
    let Window {
        duration,
        counts,
        bytes,
        latency,
        ended,
        connections,
        handshakes,
        frames,
        datagrams,
        paused,
    } = from;
    to.duration = to.duration.max(*duration);
    merge_counts(&mut to.counts, counts.clone());
    add_bytes(&mut to.bytes, bytes);
    add_latency(&mut to.latency, latency);
    add_ended(&mut to.ended, ended);
    to.connections.merge(connections);
    to.handshakes.merge(handshakes);
    to.frames.merge(frames);
    to.datagrams.merge(datagrams);
    to.paused += *paused;
}

fn add_bytes(to: &mut ByteCounts, from: &ByteCounts) {
    let ByteCounts {
        request_heads,
        request_fields,
        request_bodies,
        response_heads,
        response_fields,
        response_bodies,
        content,
        failed_responses,
    } = *from;
    to.request_heads += request_heads;
    to.request_fields += request_fields;
    to.request_bodies += request_bodies;
    to.response_heads += response_heads;
    to.response_fields += response_fields;
    to.response_bodies += response_bodies;
    to.content += content;
    to.failed_responses += failed_responses;
}

fn add_latency(to: &mut Latency, from: &Latency) {
    let Latency {
        corrected,
        uncorrected,
        queue,
        send_lag,
        connect,
        tls,
        first_byte,
        transfer,
        page,
        failed,
    } = from;
    to.corrected.merge(corrected);
    to.uncorrected.merge(uncorrected);
    to.queue.merge(queue);
    to.send_lag.merge(send_lag);
    to.connect.merge(connect);
    to.tls.merge(tls);
    to.first_byte.merge(first_byte);
    to.transfer.merge(transfer);
    to.page.merge(page);
    to.failed.merge(failed);
}

fn add_ended(to: &mut Ended, from: &Ended) {
    let Ended {
        completed,
        status_errors,
        failed,
        received,
        useful,
        connected,
        silent_from: _,
    } = *from;
    to.completed += completed;
    to.status_errors += status_errors;
    to.failed += failed;
    to.received += received;
    to.useful += useful;
    to.connected += connected;
}

/// Adds the reports of a lost rank: counts, received bytes, latency and send lag.
fn add_reported(to: &mut Window, so_far: &Reported) {
    let counts: &Counts = &so_far.counts;
    merge_counts(&mut to.counts, counts.clone());
    to.latency.corrected.merge(&so_far.corrected);
    to.latency.send_lag.merge(&so_far.send_lag);
    to.ended.completed += counts.completed;
    to.ended.status_errors += counts.status_errors();
    to.ended.failed += counts.failed();
    to.ended.received += Bytes(so_far.received);
    to.ended.connected += counts.connected;
}
