//! Replay of an HTTP Archive (HAR 1.2), as saved by browsers.
//!
//! The archive's pages become one session. Each page has its requests in the order in which they started, and is
//! followed by a pause until the start of the next page. Each entry without a page becomes a separate page; if the
//! archive has no pages, all entries together form one page.
//!
//! Requests go to one host: the host of the archive's first HTTP request, unless another host is given. Requests to
//! other hosts are omitted and counted. If the browser recorded the file that caused a request (`_initiator`), the
//! request depends on that file; otherwise it depends on the page's first request.
//!
//! Entries without a request to the server are skipped and counted by their reason: responses from the browser's cache,
//! aborted requests, `data:`, `blob:` and WebSocket URLs. A request with a 304 response is replayed as an unconditional
//! request; a note gives the number of these requests.
//!
//! Sizes are the sizes of the decoded contents (`response.content.size`) of responses with status 200.

mod bodies;
mod json;
mod request;
mod time_stamp;
mod url;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use serde_json::value::RawValue;

pub use self::bodies::{Body, Response, bodies};

use self::json::{Node, Text};
use self::request::{Read, Request, Texts};
use self::time_stamp::instant;
use crate::builder::Builder;
use crate::fault::{Fault, found};
use crate::plan::{Choice, MOST_MEMBERS, Script, TargetId};
use crate::workload::Workload;

/// The longest accepted pause between two pages: one year.
const LONGEST_PAUSE: Duration = Duration::from_secs(365 * 86_400);

/// Parses an archive into a workload. `host` is the host of the requests to replay, with the port if their URLs
/// have one; `None`: the host of the first HTTP request.
///
/// One entry is decoded at a time, so memory is needed only for the text and for the replayed requests. A page of more
/// than 65 535 requests is rejected when the first excess request is read.
pub fn parse(name: &str, text: &str, host: Option<&str>) -> Result<Workload, Fault> {
    // Some browsers start the file with a byte order mark.
    let text = Text(text.strip_prefix('\u{feff}').unwrap_or(text));
    let log = text.members("log", text.members("", text.whole()?)?.member("log")?)?;
    let entries: Vec<&RawValue> = text.decode("log.entries", log.member("entries")?, "an array")?;
    if entries.is_empty() {
        return Err(Fault::in_value(
            "log.entries",
            "expected at least one request",
        ));
    }
    let mut reading = Reading {
        host: host.map(str::to_ascii_lowercase),
        ..Reading::default()
    };
    let starts = match log.optional("pages") {
        Some(pages) => {
            let value = text.decode("log.pages", pages, "a value")?;
            page_starts(&Node {
                value: &value,
                path: "log.pages".to_owned(),
            })?
        }
        None => HashMap::new(),
    };
    reading.has_pages = !starts.is_empty();
    for (n, entry) in entries.into_iter().enumerate() {
        let path = format!("log.entries[{n}]");
        let value = text.decode(&path, entry, "a value")?;
        reading.add(&Node {
            value: &value,
            path,
        })?;
    }
    reading.finish(name, &starts)
}

/// The entries that were read until now.
#[derive(Default)]
struct Reading {
    /// The host, in lower case; `None` before the first HTTP request.
    host: Option<String>,
    requests: Vec<Request>,
    /// Whether the archive has pages; otherwise all requests form one page.
    has_pages: bool,
    of_page: HashMap<Option<Rc<str>>, usize>,
    elsewhere: u64,
    skipped: BTreeMap<String, u64>,
    texts: Texts,
}

impl Reading {
    fn add(&mut self, entry: &Node<'_>) -> Result<(), Fault> {
        let request = match Request::read(entry, &mut self.host, &mut self.texts)? {
            Read::Replayed(request) => request,
            Read::OtherHost => {
                self.elsewhere += 1;
                return Ok(());
            }
            Read::Skipped(reason) => {
                *self.skipped.entry(reason.to_owned()).or_default() += 1;
                return Ok(());
            }
        };
        self.has_pages |= request.page.is_some();
        let of_page = self.of_page.entry(request.page.clone()).or_default();
        *of_page += 1;
        let is_own_page = self.has_pages && request.page.is_none();
        if *of_page > MOST_MEMBERS && !is_own_page {
            let page = request.page.as_deref().unwrap_or_default();
            return Err(Fault::in_value(
                "log.entries",
                format!(
                    "expected at most {MOST_MEMBERS} requests in the page {}",
                    found(page)
                ),
            ));
        }
        self.requests.push(request);
        Ok(())
    }

    fn finish(mut self, name: &str, starts: &HashMap<String, Duration>) -> Result<Workload, Fault> {
        let (elsewhere, skipped) = (self.elsewhere, self.skipped);
        let host = match &self.host {
            Some(host) if !self.requests.is_empty() => host,
            host => return Err(nothing_to_replay(host.as_deref(), elsewhere, &skipped)),
        };
        // The sort is by start time and is stable, so requests with equal times remain in the order of the archive.
        self.requests.sort_by_key(|request| request.started);

        let mut builder = Builder::default();
        for request in &self.requests {
            let size = match (&*request.method, request.status, request.size) {
                ("GET", 200, size) => size,
                // The file exists, but the response does not contain the file's size.
                ("GET", 304, _) => None,
                _ => continue,
            };
            builder.add_file(&request.path, request.response_type, size);
        }
        let conditional = self
            .requests
            .iter()
            .filter(|request| request.status == 304)
            .count();
        if conditional > 0 {
            builder.notes.push(format!(
                "{conditional} requests were answered 304: they are replayed without their condition, so the server \
                 sends the complete content"
            ));
        }
        let script = script(&mut builder, &self.requests, starts, self.has_pages);
        if !skipped.is_empty() {
            builder
                .notes
                .push(format!("entries are skipped: {}", counted(&skipped)));
        }
        builder.skipped = skipped;
        if elsewhere > 0 {
            let reason = "a URL of another host".to_owned();
            builder.skipped.insert(reason, elsewhere);
            builder.notes.push(format!(
                "{elsewhere} requests to hosts other than {host} are omitted"
            ));
        }
        Ok(builder.finish(name, Choice::Scripts([script].into()), None))
    }
}

fn nothing_to_replay(host: Option<&str>, elsewhere: u64, skipped: &BTreeMap<String, u64>) -> Fault {
    let to = match host {
        Some(host) => format!("to the host {host}"),
        None => "over http or https".to_owned(),
    };
    Fault::in_value(
        "log.entries",
        match skipped.values().sum::<u64>() {
            0 => format!("expected a request {to}, found {elsewhere} to others"),
            others => format!(
                "expected a request {to}, found {elsewhere} to others and {others} that cannot be replayed ({})",
                counted(skipped)
            ),
        },
    )
}

fn counted(skipped: &BTreeMap<String, u64>) -> String {
    let each = skipped
        .iter()
        .map(|(reason, n)| format!("{n} with {reason}"));
    each.collect::<Vec<String>>().join(", ")
}

/// Returns the start time of each page, by its name.
fn page_starts(pages: &Node<'_>) -> Result<HashMap<String, Duration>, Fault> {
    let mut starts = HashMap::new();
    for page in pages.elements()? {
        let id = page.member("id")?.text()?.to_owned();
        starts.insert(id, instant(&page.member("startedDateTime")?)?);
    }
    Ok(starts)
}

/// The identity of a page: a page of the archive, or the page of requests without a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PageKey<'a> {
    Named(&'a str),
    /// The page of a single request, by its index.
    Own(usize),
    /// The page of all requests of an archive without pages.
    Whole,
}

/// Converts the pages into one session.
fn script(
    builder: &mut Builder,
    requests: &[Request],
    starts: &HashMap<String, Duration>,
    has_pages: bool,
) -> Script {
    let mut by_page: BTreeMap<(Duration, PageKey<'_>), Vec<&Request>> = BTreeMap::new();
    // A page that the archive does not list starts with its first request. The requests are in chronological order.
    let mut first: HashMap<PageKey<'_>, Duration> = HashMap::new();
    for (index, request) in requests.iter().enumerate() {
        let (page, listed) = match request.page.as_deref() {
            Some(page) => (PageKey::Named(page), starts.get(page)),
            None if has_pages => (PageKey::Own(index), None),
            None => (PageKey::Whole, None),
        };
        let first = *first.entry(page).or_insert(request.started);
        let start = listed.copied().unwrap_or(first);
        by_page.entry((start, page)).or_default().push(request);
    }
    let mut steps = Vec::new();
    let mut pages = by_page.into_iter().peekable();
    while let Some(((start, _), requests)) = pages.next() {
        let mut places: HashMap<&str, u16> = HashMap::new();
        let mut members: Vec<TargetId> = Vec::new();
        let mut named_by = Vec::new();
        for (place, request) in requests.iter().enumerate() {
            let content = request.content.as_ref().map(|text| text.as_bytes().into());
            let kind = request.content_type.as_deref().map(Into::into);
            members.push(builder.target_with_type(&request.method, &request.path, content, kind));
            let by = request.initiators.iter().find_map(|url| places.get(&**url));
            named_by.push(by.copied().unwrap_or(0));
            places.entry(&request.url).or_insert(place as u16);
        }
        let end = requests.iter().map(|request| request.ended).max();
        let pause = pages
            .peek()
            .map(|&((next, _), _)| next.saturating_sub(end.unwrap_or(start)).min(LONGEST_PAUSE));
        let id = builder.pages.push_with_dependencies(&members, &named_by);
        steps.push((id, pause.unwrap_or(Duration::ZERO)));
    }
    Script { steps }
}

#[cfg(test)]
mod tests;
