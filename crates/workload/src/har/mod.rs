//! Replay of an HTTP Archive (HAR 1.2), as saved by browsers.
//!
//! The archive's pages become one session. Each page has the requests that refer to it, in the order in which
//! they started, and a pause until the next page started. Each entry without a page becomes its own page; if
//! the archive has no pages, all entries together form one.
//!
//! Requests go to one host: that of the archive's first request over HTTP, unless another is given. Requests
//! to other hosts are left out and counted. If the browser recorded which file caused a request
//! (`_initiator`), the request depends on that file; otherwise on the page's first request.
//!
//! Entries without a request to the server are skipped and counted by their reason: responses from the
//! browser's cache, aborted requests, `data:`, `blob:` and WebSocket URLs. A request with a 304 response is
//! replayed without its condition; a note counts these.
//!
//! Sizes are those of the decoded contents (`response.content.size`), of responses with status 200.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use fathometer_model::calendar;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::builder::Builder;
use crate::fault::{Fault, Place, found};
use crate::plan::{Choice, Script, TargetId};
use crate::synthetic::type_of;
use crate::target::{is_origin_form, is_token};
use crate::workload::Workload;

/// The longest pause between two pages that is accepted: a year.
const LONGEST_PAUSE: Duration = Duration::from_secs(365 * 86_400);

/// The largest number of requests of a page: they are numbered by 16 bits.
const MOST_REQUESTS: usize = u16::MAX as usize;

/// The workload of an archive. `host` is the host of the requests to replay and, if the URL has one, the
/// port; `None`: that of the first request over HTTP.
///
/// One entry is decoded at a time, so the memory is that of the text and of the replayed requests. A page of
/// more than 65 535 requests is rejected at the first excess request.
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
    for (n, entry) in entries.into_iter().enumerate() {
        let path = format!("log.entries[{n}]");
        let value = text.decode(&path, entry, "a value")?;
        reading.add(&Node {
            value: &value,
            path,
        })?;
    }
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
    reading.finish(name, &starts)
}

/// The content of the entries read so far.
#[derive(Default)]
struct Reading {
    /// In lower case. `None` until the first request over HTTP.
    host: Option<String>,
    requests: Vec<Request>,
    of_page: HashMap<Rc<str>, usize>,
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
        let of_page = self.of_page.entry(request.page.clone()).or_default();
        *of_page += 1;
        if *of_page > MOST_REQUESTS {
            return Err(Fault::in_value(
                "log.entries",
                format!(
                    "expected at most {MOST_REQUESTS} requests in the page {}",
                    found(&request.page)
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
        // Sorted by start time; requests with equal times stay in the order of the archive.
        self.requests.sort_by_key(|request| request.started);

        let mut builder = Builder::default();
        for request in &self.requests {
            let size = match (&*request.method, request.status, request.size) {
                ("GET", 200, size) => size,
                // The file exists, but this is not its size.
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
        let script = script(&mut builder, &self.requests, starts);
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

/// Texts that many requests share, such as the URLs of their call stacks, each stored once.
#[derive(Default)]
struct Texts(HashSet<Rc<str>>);

impl Texts {
    fn shared(&mut self, text: &str) -> Rc<str> {
        if let Some(kept) = self.0.get(text) {
            return kept.clone();
        }
        let kept: Rc<str> = text.into();
        self.0.insert(kept.clone());
        kept
    }
}

fn counted(skipped: &BTreeMap<String, u64>) -> String {
    let each = skipped
        .iter()
        .map(|(reason, n)| format!("{n} with {reason}"));
    each.collect::<Vec<String>>().join(", ")
}

/// The start time of each page, by its name.
fn page_starts(pages: &Node<'_>) -> Result<HashMap<String, Duration>, Fault> {
    let mut starts = HashMap::new();
    for page in pages.elements()? {
        let id = page.member("id")?.text()?.to_owned();
        starts.insert(id, instant(&page.member("startedDateTime")?)?);
    }
    Ok(starts)
}

/// The pages as one session.
fn script(
    builder: &mut Builder,
    requests: &[Request],
    starts: &HashMap<String, Duration>,
) -> Script {
    let mut by_page: BTreeMap<(Duration, &str), Vec<&Request>> = BTreeMap::new();
    // A page that is not listed starts with its first request; requests are in order of time.
    let mut first: HashMap<&str, Duration> = HashMap::new();
    for request in requests {
        let page = &*request.page;
        let first = *first.entry(page).or_insert(request.started);
        let start = starts.get(page).copied().unwrap_or(first);
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

/// The role of an entry in a replay.
enum Read {
    Replayed(Request),
    OtherHost,
    /// The reason for skipping it, after "with".
    Skipped(&'static str),
}

/// An entry of the archive that is replayed.
struct Request {
    url: Rc<str>,
    method: Rc<str>,
    path: String,
    content: Option<String>,
    content_type: Option<Rc<str>>,
    page: Rc<str>,
    status: u16,
    size: Option<u64>,
    /// The type of the response, among the types for which content can be generated.
    response_type: &'static str,
    /// Time since the Unix epoch.
    started: Duration,
    ended: Duration,
    /// URLs that may have caused the request, the most likely first.
    initiators: Vec<Rc<str>>,
}

impl Request {
    /// `host` is set to that of the first request over HTTP if it is not known yet.
    fn read(entry: &Node<'_>, host: &mut Option<String>, texts: &mut Texts) -> Result<Read, Fault> {
        let request = entry.member("request")?;
        let url_node = request.member("url")?;
        let url_text = url_node.text()?;
        if !url_text.starts_with("http://") && !url_text.starts_with("https://") {
            return Ok(Read::Skipped(match url_text.split(':').next() {
                Some("data") => "a data: URL",
                Some("blob") => "a blob: URL",
                Some("ws" | "wss") => "a ws: or wss: URL (WebSocket)",
                _ => "a URL of another scheme than http and https",
            }));
        }
        let url = Url::of(&url_node)?;
        let host = host.get_or_insert_with(|| url.host.to_ascii_lowercase());
        if !url.host.eq_ignore_ascii_case(host) {
            return Ok(Read::OtherHost);
        }
        let method_node = request.member("method")?;
        let method = method_node.text()?;
        if !is_token(method) {
            return Err(method_node.expected("a method"));
        }
        let started = instant(&entry.member("startedDateTime")?)?;
        let taken = entry.optional("time").and_then(|time| time.value.as_f64());
        let taken = taken.filter(|milliseconds| (0.0..1e12).contains(milliseconds));
        let response = entry.member("response")?;
        let status_node = response.member("status")?;
        // Browsers write 0 for a missing response.
        let status = match status_node.value.as_u64().map(u16::try_from) {
            Some(Ok(status @ 0..=999)) => status,
            _ => return Err(status_node.expected("a status")),
        };
        if status == 0 {
            return Ok(Read::Skipped("no response (aborted)"));
        }
        if is_from_cache(entry) {
            return Ok(Read::Skipped("a response from the browser's cache"));
        }
        let content = response.optional("content");
        let content = content.as_ref();
        let size = content.and_then(|content| content.optional("size"));
        let mime_type = content.and_then(|content| content.optional("mimeType"));
        let mime_type = mime_type.and_then(|mime_type| mime_type.value.as_str());
        let post = request.optional("postData");
        let content = match &post {
            Some(post) => posted(post)?,
            None => None,
        };
        let content_type = post.as_ref().and_then(|post| post.optional("mimeType"));
        let path = url.target();
        Ok(Read::Replayed(Request {
            url: texts.shared(url_text),
            method: texts.shared(method),
            content,
            content_type: content_type
                .and_then(|kind| kind.value.as_str())
                .filter(|kind| is_field_value(kind))
                .map(|kind| texts.shared(kind)),
            page: match entry.optional("pageref") {
                Some(page) => texts.shared(page.text()?),
                None => texts.shared(""),
            },
            status,
            // More than a petabyte is taken as an error, and -1 means that the browser did not know the size.
            size: size
                .and_then(|size| size.value.as_u64())
                .filter(|&size| size <= 1_000_000_000_000_000),
            response_type: response_type(mime_type, &path),
            path,
            started,
            ended: started + Duration::from_secs_f64(taken.unwrap_or(0.0) / 1000.0),
            initiators: initiators(entry, texts),
        }))
    }
}

/// The type of a response, among those for which content can be generated.
fn response_type(mime_type: Option<&str>, path: &str) -> &'static str {
    let essence = mime_type.unwrap_or_default().split(';').next();
    match essence
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
        .as_str()
    {
        "text/html" | "application/xhtml+xml" => "text/html",
        "text/css" => "text/css",
        "text/javascript" | "application/javascript" | "application/x-javascript" => {
            "text/javascript"
        }
        "application/json" | "application/manifest+json" => "application/json",
        "text/plain" => "text/plain",
        "image/svg+xml" => "image/svg+xml",
        "image/gif" => "image/gif",
        "image/png" => "image/png",
        "image/jpeg" | "image/jpg" => "image/jpeg",
        "image/webp" => "image/webp",
        "image/avif" => "image/avif",
        "font/woff2" | "application/font-woff2" => "font/woff2",
        _ => type_of(path),
    }
}

/// Whether a browser recorded that the response came from its cache (Chromium, Firefox, Safari).
fn is_from_cache(entry: &Node<'_>) -> bool {
    ["_fromCache", "_fromDiskCache", "_servedFromCache"]
        .iter()
        .any(|name| {
            let noted = entry.optional(name);
            noted.is_some_and(|noted| match noted.value {
                Value::Bool(is_cached) => *is_cached,
                Value::String(which) => !which.is_empty(),
                _ => false,
            })
        })
}

/// The content of a request: as text, or built from the parameters of a form.
fn posted(post: &Node<'_>) -> Result<Option<String>, Fault> {
    if let Some(text) = post.optional("text") {
        let text = text.text()?;
        if !text.is_empty() {
            return Ok(Some(text.to_owned()));
        }
    }
    let Some(parameters) = post.optional("params") else {
        return Ok(None);
    };
    let mut form = String::new();
    for parameter in parameters.elements()? {
        if !form.is_empty() {
            form.push('&');
        }
        encode(parameter.member("name")?.text()?, &mut form);
        if let Some(value) = parameter.optional("value") {
            form.push('=');
            encode(value.text()?, &mut form);
        }
    }
    Ok(Some(form))
}

/// Appends `text` in the encoding of forms (application/x-www-form-urlencoded).
fn encode(text: &str, form: &mut String) {
    for byte in text.bytes() {
        match byte {
            b' ' => form.push('+'),
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'*' => {
                form.push(byte.into());
            }
            _ => form.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// Whether a text is valid as a field's value.
fn is_field_value(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The cause of the request as recorded by the browser: a parser's URL, or a script's call stack. Each URL
/// once.
fn initiators(entry: &Node<'_>, texts: &mut Texts) -> Vec<Rc<str>> {
    let Some(initiator) = entry.value.get("_initiator") else {
        return Vec::new();
    };
    let mut urls: Vec<&str> = initiator
        .get("url")
        .and_then(Value::as_str)
        .into_iter()
        .collect();
    let mut stack = initiator.get("stack");
    while let Some(calls) = stack {
        let frames = calls.get("callFrames").and_then(Value::as_array);
        for frame in frames.into_iter().flatten() {
            urls.extend(frame.get("url").and_then(Value::as_str));
        }
        stack = calls.get("parent");
    }
    let mut seen = HashSet::new();
    urls.retain(|url| seen.insert(*url));
    urls.into_iter().map(|url| texts.shared(url)).collect()
}

/// The parts of an http URL that are used.
struct Url<'a> {
    /// With the port, if there is one.
    host: &'a str,
    /// From the first slash, or empty.
    rest: &'a str,
}

impl<'a> Url<'a> {
    fn of(node: &Node<'a>) -> Result<Url<'a>, Fault> {
        let text = node.text()?;
        let after = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"))
            .ok_or_else(|| node.expected("an http or https URL"))?;
        let without_fragment = after.split('#').next().unwrap_or_default();
        let end = without_fragment
            .find(['/', '?'])
            .unwrap_or(without_fragment.len());
        let (authority, rest) = without_fragment.split_at(end);
        let host = authority.rsplit('@').next().unwrap_or_default();
        let url = Url { host, rest };
        if host.is_empty() || !is_origin_form(&url.target()) {
            return Err(node.expected("an http or https URL"));
        }
        Ok(url)
    }

    /// The origin form. Characters that browsers show unencoded are encoded.
    fn target(&self) -> String {
        let mut target = String::with_capacity(self.rest.len() + 1);
        if !self.rest.starts_with('/') {
            target.push('/');
        }
        for byte in self.rest.bytes() {
            match byte {
                0x21..=0x7e => target.push(byte.into()),
                _ => target.push_str(&format!("%{byte:02X}")),
            }
        }
        target
    }
}

/// The archive's text; its values are decoded when needed.
#[derive(Clone, Copy)]
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// The whole text: JSON, whose syntax is checked to the end.
    fn whole(self) -> Result<&'a RawValue, Fault> {
        serde_json::from_str(self.0).map_err(|error| self.fault(0, &error))
    }

    /// The members of the object at `path`.
    fn members(self, path: &'static str, of: &'a RawValue) -> Result<Members<'a>, Fault> {
        if !of.get().starts_with('{') {
            let found = kind(&self.decode(path, of, "a value")?);
            return Err(match path {
                "" => Fault::whole(format!("expected an object with \"log\", found {found}")),
                _ => Fault::in_value(path, format!("expected an object, found {found}")),
            });
        }
        let values = self.decode(path, of, "an object")?;
        Ok(Members { path, values })
    }

    /// Decodes a value as a Rust type. Invalid JSON within it, such as half a surrogate pair, is reported
    /// with its line.
    fn decode<T: serde::Deserialize<'a>>(
        self,
        path: &str,
        raw: &'a RawValue,
        what: &str,
    ) -> Result<T, Fault> {
        serde_json::from_str(raw.get()).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => {
                let found = serde_json::from_str(raw.get()).map(|value| kind(&value));
                let found = found.unwrap_or_else(|_| "another value".to_owned());
                Fault::in_value(path, format!("expected {what}, found {found}"))
            }
            _ => self.fault(
                raw.get().as_ptr() as usize - self.0.as_ptr() as usize,
                &error,
            ),
        })
    }

    /// A syntax error in the part of the text that begins at the byte `from`.
    fn fault(self, from: usize, error: &serde_json::Error) -> Fault {
        let before = &self.0[..from];
        let lines = before.bytes().filter(|&byte| byte == b'\n').count();
        let on_its_line = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let column = match error.line() {
            1 => on_its_line + error.column(),
            _ => error.column(),
        };
        let message = error.to_string();
        let what = message.split(" at line ").next().unwrap_or_default();
        Fault {
            place: Place::Line {
                line: lines + error.line(),
                column: column.max(1),
            },
            message: format!("expected JSON: {what}"),
        }
    }
}

/// The members of an object, not decoded yet.
struct Members<'a> {
    path: &'static str,
    values: HashMap<String, &'a RawValue>,
}

impl<'a> Members<'a> {
    fn optional(&self, name: &str) -> Option<&'a RawValue> {
        let value = self.values.get(name).copied();
        value.filter(|value| value.get() != "null")
    }

    fn member(&self, name: &str) -> Result<&'a RawValue, Fault> {
        let path = match self.path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        self.optional(name)
            .ok_or_else(|| Fault::in_value(path, "expected a value, found none"))
    }
}

/// A value of the archive and its path.
struct Node<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Node<'a> {
    fn optional(&self, name: &str) -> Option<Node<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Node {
            value,
            path: format!("{}.{name}", self.path),
        })
    }

    fn member(&self, name: &str) -> Result<Node<'a>, Fault> {
        if !self.value.is_object() {
            return Err(self.expected("an object"));
        }
        self.optional(name).ok_or_else(|| {
            Fault::in_value(
                format!("{}.{name}", self.path),
                "expected a value, found none",
            )
        })
    }

    fn elements(&self) -> Result<Vec<Node<'a>>, Fault> {
        let elements = self
            .value
            .as_array()
            .ok_or_else(|| self.expected("an array"))?;
        Ok(elements
            .iter()
            .enumerate()
            .map(|(n, value)| Node {
                value,
                path: format!("{}[{n}]", self.path),
            })
            .collect())
    }

    fn text(&self) -> Result<&'a str, Fault> {
        self.value.as_str().ok_or_else(|| self.expected("a string"))
    }

    fn expected(&self, what: &str) -> Fault {
        let found = match self.value {
            Value::String(text) => found(text),
            other => kind(other),
        };
        Fault::in_value(&self.path, format!("expected {what}, found {found}"))
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The time since the Unix epoch of an ISO 8601 time stamp with a zone: `2024-05-01T10:20:30.125Z`.
fn instant(node: &Node<'_>) -> Result<Duration, Fault> {
    let text = node.text()?;
    since_epoch(text).ok_or_else(|| node.expected("a time like 2024-05-01T10:20:30.125Z"))
}

fn since_epoch(text: &str) -> Option<Duration> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.split('-');
    let (year, month, day) = (
        number(date.next()?)?,
        number(date.next()?)?,
        number(date.next()?)?,
    );
    let zone = time.find(['Z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.split(':');
    let (hour, minute, second) = (
        number(clock.next()?)?,
        number(clock.next()?)?,
        number(clock.next()?)?,
    );
    if date.next().is_some() || clock.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut nanoseconds = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanoseconds = nanoseconds.try_fold(0, |sum: u32, digit| {
        let digit = char::from(digit).to_digit(10)?;
        Some(sum * 10 + digit)
    })?;
    let offset = match zone {
        "Z" => 0,
        _ => {
            let (hours, minutes) = match zone[1..].split_once(':') {
                Some(parts) => parts,
                None => (zone.get(1..3)?, zone.get(3..)?),
            };
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let seconds = hours
                .checked_mul(3600)?
                .checked_add(minutes.checked_mul(60)?)?;
            if zone.starts_with('-') {
                -seconds
            } else {
                seconds
            }
        }
    };
    let days = calendar::days(year, month, day)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanoseconds))
}

fn number(text: &str) -> Option<i64> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
