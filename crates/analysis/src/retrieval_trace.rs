//! Page retrievals of a run for other programs: as a Chrome trace (Perfetto, the performance panel of Chromium) and as an HTTP
//! archive (HAR 1.2).
//!
//! Both contain the records in `exchanges.ndjson` and `connections.ndjson`. Times in a replicate count from its origin;
//! the archive adds the wall-clock time at which the replicate started.

use std::collections::BTreeMap;
use std::path::Path;

use fathometer_model::{ConnectionRecord, ExchangeRecord, Instant, ReplicateRecord, calendar};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Error;
use crate::run::{Cell, Run, malformed, read, stays_inside};

/// The exchanges of one replicate.
pub(crate) struct Retrieval<'a> {
    /// The name of the cell.
    pub(crate) name: String,
    /// The replicate.
    pub(crate) replicate: &'a ReplicateRecord,
    /// The exchanges in the order of the file.
    pub(crate) exchanges: Vec<ExchangeRecord>,
    /// The connections by number.
    pub(crate) connections: BTreeMap<u32, ConnectionRecord>,
}

/// Returns a trace in the [Trace Event
/// Format](https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). For each cell it contains
/// the first valid replicate with recorded exchanges, as a process. Overlapping exchanges of a connection are on
/// separate threads, because the slices of a thread must be nested.
///
/// # Errors
/// When the records of a replicate cannot be read.
pub fn chrome_trace(run: &Run) -> Result<String, Error> {
    let mut events = Vec::new();
    for (process, retrieval) in retrievals(run)?.iter().enumerate() {
        let name = |kind: &str, thread: usize, name: &str| json!({"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}});
        events.push(name("process_name", 0, &retrieval.name));
        let mut threads = 0;
        for (&number, connection) in &retrieval.connections {
            let mut slice = |thread: usize, name: &str, from: Instant, to: Instant, args: Value| {
                events.push(json!({
                    "ph": "X", "cat": "http", "name": name, "pid": process, "tid": thread,
                    "ts": micros(from), "dur": micros(to) - micros(from), "args": args,
                }));
            };
            let first = threads;
            if let Some(established) = connection.established {
                slice(first, "connect", connection.opened, established, json!({}));
            }
            // The time from which each thread of the connection is free.
            let mut free = vec![connection.established.unwrap_or(connection.opened)];
            for exchange in retrieval
                .exchanges
                .iter()
                .filter(|e| e.connection == number)
            {
                let (Some(sent), Some(last)) = (exchange.sent, exchange.last_byte) else {
                    continue;
                };
                let lane = free
                    .iter()
                    .position(|&free| free <= sent)
                    .unwrap_or_else(|| {
                        free.push(Instant::ZERO);
                        free.len() - 1
                    });
                free[lane] = last;
                let title = format!("{} {}", exchange.method, exchange.target);
                let details = json!({
                    "status": exchange.status,
                    "queued_ms": millis(exchange.planned, Some(sent)),
                    "request_bytes": exchange.request_head.0 + exchange.request_body.0,
                    "response_bytes": exchange.response_head.0 + exchange.response_body.0,
                    "named_by": exchange.named_by, "pushed": exchange.pushed,
                });
                slice(first + lane, &title, sent, last, details);
                if let Some(byte) = exchange.first_byte {
                    slice(first + lane, "wait", sent, byte, json!({}));
                    slice(first + lane, "receive", byte, last, json!({}));
                }
            }
            for lane in 0..free.len() {
                let label = match lane {
                    0 => format!("connection {number}"),
                    _ => format!("connection {number}, exchange {} at once", lane + 1),
                };
                events.push(name("thread_name", first + lane, &label));
            }
            threads += free.len();
        }
    }
    Ok(json!({"displayTimeUnit": "ms", "traceEvents": events}).to_string())
}

/// Returns an HTTP archive ([HAR 1.2](http://www.softwareishard.com/blog/har-12-spec/)). For each cell it contains the
/// first valid replicate with recorded exchanges, as a page. Header fields and contents are not recorded, so the
/// archive has only their lengths.
///
/// # Errors
/// When the records of a replicate cannot be read.
pub fn http_archive(run: &Run) -> Result<String, Error> {
    let (mut pages, mut entries) = (Vec::new(), Vec::new());
    for (number, retrieval) in retrievals(run)?.iter().enumerate() {
        let id = format!("page_{number}");
        let at = |instant: Instant| date(retrieval.replicate.started, instant);
        let ends = retrieval.exchanges.iter().filter_map(|e| e.last_byte);
        let start = retrieval.connections.values().map(|c| c.opened).min();
        let start = start.unwrap_or(Instant::ZERO);
        pages.push(json!({
            "id": id, "title": retrieval.name, "startedDateTime": at(start),
            "pageTimings": {"onContentLoad": -1, "onLoad": millis(start, ends.max())},
        }));
        for exchange in &retrieval.exchanges {
            let connection = retrieval.connections.get(&exchange.connection);
            entries.push(entry(&id, exchange, connection, &at));
        }
    }
    let version = &run.info.version;
    let log = json!({
        "version": "1.2", "creator": {"name": "fathometer", "version": version},
        "pages": pages, "entries": entries,
    });
    Ok(json!({"log": log}).to_string())
}

/// One entry of the archive. HAR requires -1 for unknown lengths, but forbids it for `send`, `wait` and `receive`. So
/// these are 0 if the exchange failed before that phase.
fn entry(
    page: &str,
    exchange: &ExchangeRecord,
    connection: Option<&ConnectionRecord>,
    at: &dyn Fn(Instant) -> String,
) -> Value {
    let protocol = connection
        .and_then(|c| c.protocol.as_deref())
        .unwrap_or("http/1.1");
    let scheme = match connection.is_some_and(|c| c.tls.is_some()) {
        true => "https",
        false => "http",
    };
    let host = connection
        .and_then(|c| c.host.as_deref())
        .unwrap_or("origin.test");
    let sent = exchange.sent.unwrap_or(exchange.planned);
    let first = exchange.first_byte.or(exchange.last_byte).unwrap_or(sent);
    let last = exchange.last_byte.unwrap_or(first);
    let content = exchange.response_body.0;
    json!({
        "pageref": page,
        "startedDateTime": at(exchange.planned),
        "time": millis(exchange.planned, Some(last)),
        "request": {
            "method": exchange.method, "url": format!("{scheme}://{host}{}", exchange.target),
            "httpVersion": protocol, "cookies": [], "headers": [], "queryString": [],
            "headersSize": exchange.request_head.0, "bodySize": exchange.request_body.0,
        },
        "response": {
            "status": exchange.status.unwrap_or(0), "statusText": "", "httpVersion": protocol,
            "cookies": [], "headers": [], "redirectURL": "",
            "content": {"size": content, "mimeType": ""},
            "headersSize": exchange.response_head.0, "bodySize": content,
        },
        "cache": {},
        "timings": {
            "blocked": millis(exchange.planned, Some(sent)), "dns": -1, "connect": -1, "send": 0,
            "wait": millis(sent, Some(first)), "receive": millis(first, Some(last)), "ssl": -1,
        },
        "connection": exchange.connection.to_string(),
    })
}

/// Returns the first valid replicate of each cell with recorded exchanges, and reads its records.
pub(crate) fn retrievals(run: &Run) -> Result<Vec<Retrieval<'_>>, Error> {
    kept(run)
        .map(|(cell, replicate)| {
            let folder = run.folder.join(&replicate.folder);
            let connections: Vec<ConnectionRecord> = records(&folder.join("connections.ndjson"))?;
            Ok(Retrieval {
                name: format!("{}, {}", cell.block, run.name(cell)),
                replicate,
                exchanges: records(&folder.join("exchanges.ndjson"))?,
                connections: connections.into_iter().map(|c| (c.connection, c)).collect(),
            })
        })
        .collect()
}

/// The cells with recorded exchanges, each with its first valid replicate that has them.
pub(crate) fn kept(run: &Run) -> impl Iterator<Item = (&Cell, &ReplicateRecord)> {
    run.cells.iter().filter_map(|cell| {
        let replicate = cell.valid().find(|replicate| {
            let inner = Path::new(&replicate.folder);
            stays_inside(inner) && run.folder.join(inner).join("exchanges.ndjson").is_file()
        })?;
        Some((cell, replicate))
    })
}

/// The files of replicates that waterfalls use, relative to the run's folder: the records and, if there is one, the
/// capture at the server's end of the path.
pub fn sources(run: &Run) -> Vec<String> {
    const NAMES: [&str; 3] = ["exchanges.ndjson", "connections.ndjson", "taps.pcapng"];
    let files = kept(run)
        .flat_map(|(_, replicate)| NAMES.map(|name| format!("{}/{name}", replicate.folder)));
    files
        .filter(|file| run.folder.join(file).is_file())
        .collect()
}

/// All complete records of a file, one per line.
fn records<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Error> {
    let text = read(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().enumerate();
    lines
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|error| malformed(path, index + 1, &error))
        })
        .collect()
}

/// Microseconds since the origin.
fn micros(instant: Instant) -> f64 {
    instant.as_nanos() as f64 / 1e3
}

/// Milliseconds from one instant to another; -1 if the second instant is absent.
fn millis(from: Instant, to: Option<Instant>) -> f64 {
    to.map_or(-1.0, |to| (micros(to) - micros(from)) / 1e3)
}

/// An instant of a replicate as UTC in the format of RFC 3339, with microseconds. `started` is the start of the
/// replicate, in seconds since the Unix epoch.
fn date(started: f64, instant: Instant) -> String {
    let micros = (started * 1e6) as u64 + instant.as_nanos() / 1_000;
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (year, month, day) = calendar::date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_rfc_3339() {
        // Expected values from GNU date -u -d @951782400.25 --iso-8601=ns.
        let half = Instant::from_nanos(500_000_000);
        assert_eq!(date(951_782_399.75, half), "2000-02-29T00:00:00.250000Z");
    }
}
