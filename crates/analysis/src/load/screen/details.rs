//! The details: outcomes of exchanges, offered and achieved rate, exact bytes, errors with their meanings, the cost of
//! the generator, and every default setting.

use super::super::lines::line;
use super::super::quantity::{bytes, count, counted, percent, three_digits, time};
use super::super::{LoadResult, LoopKind, Window, WorkerHealth, protocol_screen, rates};
use crate::text::{Align, Grid};

/// All details, in parts that are separated by empty lines.
pub(super) fn render(result: &LoadResult) -> String {
    let mut text = outcomes(&result.measured);
    text.push_str(&errors(&result.measured));
    text.push('\n');
    text.push_str(&rates(result));
    text.push('\n');
    text.push_str(&generator(result));
    text.push_str(&other_windows(result));
    text.push('\n');
    text.push_str(&settings(result));
    text
}

fn outcomes(window: &Window) -> String {
    let counts = &window.counts;
    let mut outcome = format!(
        "{} planned, {} sent, {} completed, {} failed, {} unfinished",
        count(counts.planned),
        count(counts.sent),
        count(counts.completed),
        count(counts.failed()),
        count(counts.unfinished),
    );
    if counts.retried > 0 {
        outcome.push_str(&format!(", {} retried", count(counts.retried)));
    }
    let mut text = line("exchanges", &outcome);
    if counts.wrong_size > 0 {
        text.push_str(&line(
            "wrong size",
            &format!(
                "{} of another length than planned: the server has other files, or its responses vary",
                counted(counts.wrong_size, "response"),
            ),
        ));
    }
    if rates::has_pages(window) || counts.sessions > 0 {
        text.push_str(&line(
            "pages",
            &format!(
                "{} complete, {} with a failure; {} ended",
                count(counts.pages),
                count(counts.pages_failed),
                counted(counts.sessions, "session"),
            ),
        ));
    }
    text.push_str(&line("connections", &connections(window)));
    let statuses: Vec<String> = counts
        .statuses
        .iter()
        .map(|(status, times)| format!("{status}: {}", count(*times)))
        .collect();
    let statuses = match statuses.is_empty() {
        true => "none: no complete response".to_owned(),
        false => statuses.join(", "),
    };
    text.push_str(&line("statuses", &statuses));
    text
}

/// The connections: their number, their mean lifetime, and the share of the open time in which they were idle.
fn connections(window: &Window) -> String {
    let (counts, connections) = (&window.counts, &window.connections);
    let mut text = format!(
        "{} attempted, {} established",
        count(counts.connects),
        count(counts.connected)
    );
    if connections.ended() > 0 {
        let ways = [
            (connections.closed_by_client, "by this side"),
            (connections.closed_by_server, "by the server"),
            (connections.failed, "by a failure"),
        ];
        let ways: Vec<String> = ways
            .into_iter()
            .filter(|&(times, _)| times > 0)
            .map(|(times, by)| format!("{} {by}", count(times)))
            .collect();
        text.push_str(&format!("; ended {}", ways.join(", ")));
        let life = connections.life.mean().zip(connections.exchanges.mean());
        if let Some((life, exchanges)) = life {
            text.push_str(&format!(
                ", after {} and {} exchanges on average",
                time(life),
                three_digits(exchanges)
            ));
        }
    }
    let open = rates::mean_open(window).zip(connections.idle_share());
    if let Some((open, idle)) = open {
        text.push_str(&format!(
            "; {} open on average, idle {} of the open time",
            three_digits(open),
            percent(idle)
        ));
    }
    text
}

/// Errors by class, each with its meaning; empty without errors.
fn errors(window: &Window) -> String {
    let counts = &window.counts;
    let share = rates::error_share(window).unwrap_or(0.0);
    let all = counts.errors() + counts.unfinished;
    let mut text = match all {
        0 => line(
            "errors",
            &format!("none of {}", counted(counts.completed, "exchange")),
        ),
        all => line(
            "errors",
            &format!(
                "{} of {} ({}): failures, statuses of 400 and above, unfinished",
                count(all),
                counted(
                    counts.completed + counts.failed() + counts.unfinished,
                    "exchange"
                ),
                percent(share),
            ),
        ),
    };
    let mut classes: Vec<(String, u64, &str)> = counts
        .failures
        .iter()
        .map(|(failure, times)| {
            let name = failure.name().to_owned();
            (name, *times, failure.in_words())
        })
        .collect();
    let status = |least: u16, most: u16| -> u64 {
        counts.statuses.range(least..=most).map(|(_, n)| n).sum()
    };
    for (name, times, meaning) in [
        (
            "status 4xx",
            status(400, 499),
            "the server rejected the request",
        ),
        (
            "status 5xx",
            status(500, u16::MAX),
            "the server could not answer",
        ),
        (
            "unfinished",
            counts.unfinished,
            "neither answered nor timed out at the end of the drain",
        ),
    ] {
        if times > 0 {
            classes.push((name.to_owned(), times, meaning));
        }
    }
    classes.extend(counts.connect_failures.iter().map(|(failure, times)| {
        let name = format!("connect {}", failure.name());
        (name, *times, failure.in_words())
    }));
    let columns = vec![Align::Left, Align::Right, Align::Left];
    let mut grid = Grid::new(columns, Vec::new());
    for (name, times, meaning) in classes {
        grid.line(vec![format!("  {name}"), count(times), meaning.to_owned()]);
    }
    text.push_str(&grid.render());
    text
}

fn rates(result: &LoadResult) -> String {
    let window = &result.measured;
    let (Some(offered), Some(achieved)) = (rates::offered(window), rates::achieved(window)) else {
        return line("rates", "none: the measured window has no length");
    };
    let mut text = String::new();
    match &result.setup.kind {
        LoopKind::Closed { .. } => {
            text.push_str(&line(
                "achieved",
                &format!(
                    "{}/s (closed loop: the offered rate is the same)",
                    three_digits(achieved)
                ),
            ));
        }
        LoopKind::Open { .. } => {
            let share = match offered > 0.0 {
                true => format!(" ({} of the offered)", percent(achieved / offered)),
                false => String::new(),
            };
            text.push_str(&line("offered", &format!("{}/s", three_digits(offered))));
            text.push_str(&line(
                "achieved",
                &format!("{}/s{share}", three_digits(achieved)),
            ));
        }
    }
    let per_second = |rate: Option<f64>| bytes(rate.unwrap_or(0.0));
    text.push_str(&line(
        "goodput",
        &format!(
            "{}/s of useful content, in {}/s of responses ({} Mbit/s)",
            per_second(rates::goodput(window)),
            per_second(rates::throughput(window)),
            three_digits(8.0 * rates::throughput(window).unwrap_or(0.0) / 1e6),
        ),
    ));
    let bytes = &window.bytes;
    text.push_str(&line(
        "sent",
        &format!(
            "{} B of headers, {} B of content",
            count(bytes.request_heads.0),
            count(bytes.request_bodies.0)
        ),
    ));
    text.push_str(&line(
        "received",
        &format!(
            "{} B of headers, {} B of bodies with {} B of content",
            count(bytes.response_heads.0),
            count(bytes.response_bodies.0),
            count(bytes.content.0)
        ),
    ));
    text.push_str(&protocol_screen::lines(window));
    text.push_str(&load_factor(result));
    text
}

fn load_factor(result: &LoadResult) -> String {
    let window = &result.measured;
    let Some(exchanges) = rates::load_factor(window) else {
        return String::new();
    };
    let pages = rates::page_load_factor(window);
    let mut value = match pages {
        Some(pages) => format!(
            "{} exchanges, {} pages in flight on average",
            three_digits(exchanges),
            three_digits(pages)
        ),
        None => format!("{} exchanges in flight on average", three_digits(exchanges)),
    };
    if let LoopKind::Closed { users } = result.setup.kind {
        value.push_str(&format!(", {}", counted(u64::from(users), "user")));
    }
    let mut text = line("load factor", &format!("{value} (Little's Load Factor)"));
    if let Some(time) = result.user_time {
        let value = format!(
            "{} busy and {} pausing, of {} with up to {} (Little's law, within {:.1} %)",
            three_digits(time.busy),
            three_digits(time.paused),
            counted(time.users as u64, "user"),
            counted(u64::from(time.slots), "page"),
            100.0 * time.tolerance
        );
        text.push_str(&line("users", &value));
    }
    text
}

fn generator(result: &LoadResult) -> String {
    let generator = &result.generator;
    let cpu = match rates::cpu_per_exchange(result) {
        Some((user, system)) => format!(
            "CPU {} an exchange ({} user, {} system)",
            time(user + system),
            time(user),
            time(system)
        ),
        None => format!(
            "CPU {} and no exchange ended",
            time(generator.cpu_user + generator.cpu_system)
        ),
    };
    let mut facts = vec![cpu];
    let busy_waited = generator.busy_waited();
    if !busy_waited.is_zero() {
        let all = generator.cpu_user + generator.cpu_system;
        let share = busy_waited.as_secs_f64() / all.as_secs_f64().max(1e-9);
        facts.push(format!("{} of it busy-waiting", percent(share.min(1.0))));
    }
    let busiest = generator.workers.iter().map(|worker| worker.busy);
    if let Some(busy) = busiest.max_by(f64::total_cmp) {
        facts.push(format!("busiest thread {}", percent(busy)));
    }
    let most = |a: &WorkerHealth, b: &WorkerHealth| a.rested.total_cmp(&b.rested);
    if let Some(worker) = generator.workers.iter().copied().max_by(most)
        && worker.rested > 0.0
    {
        let effect = worker.rest_latency_ratio.map_or(String::new(), |effect| {
            format!(" (mean latency {effect:.2} times that without delays)")
        });
        facts.push(format!(
            "wake-ups delayed {}{effect}",
            percent(worker.rested)
        ));
    }
    if let Some(turn) = generator.workers.iter().map(|w| w.longest_turn).max() {
        facts.push(format!("longest turn {}", time(turn)));
    }
    if let Some(lag) = result.measured.latency.send_lag.quantile(0.99) {
        facts.push(format!("send lag p99 {}", time(lag)));
    }
    facts.push(format!("memory {}", bytes(generator.peak_memory.as_f64())));
    let (open, limit) = generator.descriptors;
    facts.push(format!("descriptors {} of {}", count(open), count(limit)));
    if generator.ports_exhausted > 0 {
        facts.push(format!(
            "no local port for {}",
            counted(generator.ports_exhausted, "connection")
        ));
    }
    facts.push(format!("steal {}", percent(generator.steal)));
    line("generator", &facts.join(", "))
}

/// Warm-up and drain, which the other figures exclude.
fn other_windows(result: &LoadResult) -> String {
    let mut text = String::new();
    for (name, window) in [("warm-up", &result.warm_up), ("drain", &result.drain)] {
        let Some(window) = window else { continue };
        let counts = &window.counts;
        let median = window.latency.corrected.quantile(0.5);
        let mut facts = vec![
            time(window.duration),
            format!("{} planned", count(counts.planned)),
            format!(
                "{} ended",
                count(window.ended.completed + window.ended.failed)
            ),
            counted(counts.errors() + counts.unfinished, "error"),
            counted(counts.connected, "connection"),
        ];
        facts.extend(median.map(|median| format!("median {}", time(median))));
        text.push_str(&line(
            name,
            &format!("{} (not in the figures)", facts.join(", ")),
        ));
    }
    text
}

fn settings(result: &LoadResult) -> String {
    let setup = &result.setup;
    let defaults: Vec<String> = setup
        .defaults
        .iter()
        .map(|(setting, value)| format!("{setting} {value}"))
        .collect();
    let defaults = match defaults.is_empty() {
        true => "none: every setting was given".to_owned(),
        false => defaults.join(", "),
    };
    let mut text = line("by default", &defaults);
    let machine: Vec<String> = setup
        .machine
        .iter()
        .map(|(fact, value)| format!("{fact} {value}"))
        .collect();
    if !machine.is_empty() {
        text.push_str(&line("machine", &machine.join(", ")));
    }
    text.push_str(&line("command", &setup.command.join(" ")));
    text
}
