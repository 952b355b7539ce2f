//! Notable facts about a result, one sentence each, for readers who read only the first lines.
//!
//! A finding describes the server or the requested load. It never makes a result invalid and never fails a threshold:
//! a test may measure fast refusals on purpose.

use std::collections::BTreeMap;

use super::LoadResult;
use super::quantity::{count, percent};

/// Facts that affect the interpretation of the figures; usually none.
pub fn of(result: &LoadResult) -> Vec<String> {
    let counts = &result.measured.counts;
    let (all, errors) = (counts.completed, counts.status_errors());
    let mut findings: Vec<String> = counts.size_mismatch().into_iter().collect();
    if result.generator.repeated > 0 {
        findings.push(format!(
            "the window was repeated: {} before it {} INVALID only because of noise on this machine",
            result.generator.repeated,
            if result.generator.repeated == 1 {
                "was"
            } else {
                "were"
            },
        ));
    }
    if let Some(from) = result.measured.ended.silent_from {
        findings.push(format!(
            "no response from {:.1} s of {:.1} s on: all later requests failed or were never answered; did the \
             server stop?",
            from.as_secs_f64(),
            result.measured.duration.as_secs_f64(),
        ));
    }
    if all == 0 {
        return findings;
    }
    let is_workload = !result.setup.workload.starts_with('/');
    let refusals = counts.statuses.range(400..);
    let redirects: u64 = counts.statuses.range(300..400).map(|(_, n)| n).sum();
    let not_modified = counts.statuses.get(&304).copied().unwrap_or(0);
    if !result.skipped.is_empty() {
        let skipped: Vec<String> = result
            .skipped
            .iter()
            .map(|(reason, times)| format!("{} with {reason}", count(*times)))
            .collect();
        findings.push(format!(
            "{} lines or entries of the workload's file are not requested: {}",
            count(result.skipped.values().sum::<u64>()),
            skipped.join(", ")
        ));
    }
    if let Some(sequence) = &result.sequence
        && sequence.requested > sequence.pages
    {
        findings.push(format!(
            "the workload's sequence of {} pages was requested {:.1} times: at its end it is repeated, so pages \
             recur in the same order, and a cache may hit more often than with a longer sequence (for surge: \
             requests=N)",
            count(sequence.pages),
            sequence.times()
        ));
    }
    if errors == all {
        let statuses: BTreeMap<u16, u64> = refusals.map(|(s, n)| (*s, *n)).collect();
        findings.push(all_refused(&statuses, is_workload));
    } else if 2 * errors > all {
        findings.push(format!(
            "{} of the responses had an error status: median and throughput describe mostly errors",
            percent(errors as f64 / all as f64)
        ));
    } else if redirects == all && not_modified == 0 {
        findings.push(
            "every response was a redirect, and a load test does not follow them: use the URL that they name"
                .to_owned(),
        );
    }
    findings
}

/// States that every response had an error status, and adds the question for the most frequent status.
fn all_refused(statuses: &BTreeMap<u16, u64>, is_workload: bool) -> String {
    let most = statuses.iter().max_by_key(|&(_, times)| times);
    let most = most.map_or(0, |(status, _)| *status);
    let what = match statuses.len() {
        1 => format!("every response was {}", named(most)),
        _ => {
            let each: Vec<String> = statuses
                .iter()
                .map(|(status, times)| format!("{}: {}", named(*status), count(*times)))
                .collect();
            format!("every response had an error status ({})", each.join(", "))
        }
    };
    format!("{what}: {}", question(most, is_workload))
}

/// The first thing to check, as a question.
fn question(status: u16, is_workload: bool) -> &'static str {
    match status {
        401 | 403 | 407 => "does the server require credentials, or does it block this address?",
        404 | 410 if is_workload => "does the server have the files of this workload?",
        404 | 410 => "is the URL right?",
        405 | 501 => "does the server allow this method for this URL?",
        421 => "is it the right host?",
        429 => "does the server limit the request rate?",
        400..=499 => "is the request in the form that the server expects?",
        502 | 504 => "is the upstream server running?",
        503 => "is the server overloaded, or not ready?",
        _ => "what does the server's own log say?",
    }
}

/// The status with its name, if the name is common (RFC 9110 section 15).
fn named(status: u16) -> String {
    let name = match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        410 => "Gone",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => return status.to_string(),
    };
    format!("{status} ({name})")
}
