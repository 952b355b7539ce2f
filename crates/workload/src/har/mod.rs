//! Replay of an HTTP Archive (HAR 1.2), as browsers save it.
//!
//! The archive's pages become one session: each page with the requests that refer to it, in the order
//! in which they started, and after it the pause until the next page started. Entries that refer to
//! no page make one of their own, or all of them one when the archive has no pages.
//!
//! Requests go to one host: that of the archive's first request unless another is asked for. Requests
//! to other hosts are left out and counted. Where the browser noted which file made it ask
//! (`_initiator`), that is the dependency; otherwise the page's first request is.
//!
//! Entries without a request to the server are skipped and counted by their reason: responses from the browser's cache,
//! aborted requests, `data:`, `blob:` and WebSocket URLs. A request that was answered 304 is replayed without its
//! condition, which a note counts.
//!
//! Sizes are those of the decoded contents (`response.content.size`), of responses with status 200.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::Value;

use crate::fault::{Fault, Place, found};
use crate::plan::{Choice, Script, TargetId};
use crate::synthetic::type_of;
use crate::workload::{Builder, Workload, is_origin_form, is_token};

/// The longest pause between two pages that is believed: a year.
const LONGEST_PAUSE: Duration = Duration::from_secs(365 * 86_400);

/// The workload of an archive. `host` is the host and, where the URL has one, the port whose requests
/// are made; `None`: that of the first request.
pub fn parse(name: &str, text: &str, host: Option<&str>) -> Result<Workload, Fault> {
    // Some browsers begin the file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let json: Value = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let what = message.split(" at line ").next().unwrap_or_default();
        Fault {
            place: Place::Line {
                line: error.line(),
                column: error.column().max(1),
            },
            message: format!("expected JSON: {what}"),
        }
    })?;
    let log = Node::root(&json).member("log")?;
    let entries = log.member("entries")?.elements()?;
    let first_url = match entries.first() {
        Some(first) => Url::of(&first.member("request")?.member("url")?)?,
        None => {
            return Err(Fault::in_value(
                "log.entries",
                "expected at least one request",
            ));
        }
    };
    let host = host.unwrap_or(first_url.host).to_ascii_lowercase();
    // By when they started, and as the archive has them where that is alike.
    let mut requests = Vec::with_capacity(entries.len());
    let mut elsewhere = 0;
    let mut skipped: BTreeMap<String, u64> = BTreeMap::new();
    for entry in &entries {
        match Request::read(entry, &host)? {
            Read::Replayed(request) => requests.push(request),
            Read::OtherHost => elsewhere += 1,
            Read::Skipped(reason) => *skipped.entry(reason.to_owned()).or_default() += 1,
        }
    }
    if requests.is_empty() {
        return Err(Fault::in_value(
            "log.entries",
            match skipped.values().sum::<u64>() {
                0 => format!("expected a request to the host {host}, found {elsewhere} to others"),
                others => format!(
                    "expected a request to the host {host}, found {elsewhere} to others and {others} that are no \
                     requests to replay ({})",
                    counted(&skipped)
                ),
            },
        ));
    }
    requests.sort_by_key(|request| request.started);

    let mut builder = Builder::default();
    for request in &requests {
        let size = match (request.method, request.status, request.size) {
            ("GET", 200, size) => size,
            // There is a file, but this is not its size.
            ("GET", 304, _) => None,
            _ => continue,
        };
        builder.add_file(&request.path, request.content_type(), size);
    }
    let conditional = requests
        .iter()
        .filter(|request| request.status == 304)
        .count();
    if conditional > 0 {
        builder.notes.push(format!(
            "{conditional} requests were answered 304: they are replayed without their condition, so a server sends the \
             whole content"
        ));
    }
    let starts = page_starts(&log)?;
    let script = script(&mut builder, &requests, &starts)?;
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
            "{elsewhere} requests to other hosts than {host} are left out"
        ));
    }
    Ok(builder.finish(name, Choice::Scripts([script].into()), None))
}

fn counted(skipped: &BTreeMap<String, u64>) -> String {
    let each = skipped
        .iter()
        .map(|(reason, n)| format!("{n} with {reason}"));
    each.collect::<Vec<String>>().join(", ")
}

/// When each page started, by its name.
fn page_starts(log: &Node<'_>) -> Result<HashMap<String, Duration>, Fault> {
    let mut starts = HashMap::new();
    if let Some(pages) = log.optional("pages") {
        for page in pages.elements()? {
            let id = page.member("id")?.text()?.to_owned();
            starts.insert(id, instant(&page.member("startedDateTime")?)?);
        }
    }
    Ok(starts)
}

/// The pages as one session.
fn script(
    builder: &mut Builder,
    requests: &[Request<'_>],
    starts: &HashMap<String, Duration>,
) -> Result<Script, Fault> {
    let mut by_page: BTreeMap<(Duration, &str), Vec<&Request<'_>>> = BTreeMap::new();
    for request in requests {
        // A page that is not listed starts with its first request; those come in order of time.
        let start = starts.get(request.page).copied();
        let start = start.or_else(|| {
            let listed = by_page.keys().find(|(_, page)| *page == request.page);
            listed.map(|&(start, _)| start)
        });
        let key = (start.unwrap_or(request.started), request.page);
        by_page.entry(key).or_default().push(request);
    }
    let mut steps = Vec::new();
    let mut pages = by_page.into_iter().peekable();
    while let Some(((start, page), requests)) = pages.next() {
        if requests.len() > usize::from(u16::MAX) {
            return Err(Fault::in_value(
                "log.entries",
                format!(
                    "expected at most 65535 requests in the page {}",
                    found(page)
                ),
            ));
        }
        let mut places: HashMap<&str, u16> = HashMap::new();
        let mut members: Vec<TargetId> = Vec::new();
        let mut named_by = Vec::new();
        for (place, request) in requests.iter().enumerate() {
            let content = request.content.as_ref().map(|text| text.as_bytes().into());
            let kind = request.content_type.map(Into::into);
            members.push(builder.target_with_type(request.method, &request.path, content, kind));
            let by = request.initiators.iter().find_map(|url| places.get(*url));
            named_by.push(by.copied().unwrap_or(0));
            places.entry(request.url).or_insert(place as u16);
        }
        let end = requests.iter().map(|request| request.ended).max();
        let pause = pages
            .peek()
            .map(|&((next, _), _)| next.saturating_sub(end.unwrap_or(start)).min(LONGEST_PAUSE));
        let id = builder.pages.push_with_dependencies(&members, &named_by);
        steps.push((id, pause.unwrap_or(Duration::ZERO)));
    }
    Ok(Script { steps })
}

/// What an entry is to a replay.
enum Read<'a> {
    Replayed(Request<'a>),
    OtherHost,
    /// Why not, after "with".
    Skipped(&'static str),
}

/// An entry of the archive.
struct Request<'a> {
    url: &'a str,
    method: &'a str,
    path: String,
    content: Option<Cow<'a, str>>,
    content_type: Option<&'a str>,
    page: &'a str,
    status: u16,
    size: Option<u64>,
    mime_type: Option<&'a str>,
    /// Since the Unix epoch.
    started: Duration,
    ended: Duration,
    /// URLs that may have made the browser ask, the likeliest first.
    initiators: Vec<&'a str>,
}

impl<'a> Request<'a> {
    fn read(entry: &Node<'a>, host: &str) -> Result<Read<'a>, Fault> {
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
        // 0 is what browsers write for a response that never came.
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
        let post = request.optional("postData");
        let content = match &post {
            Some(post) => posted(post)?,
            None => None,
        };
        let content_type = post.as_ref().and_then(|post| post.optional("mimeType"));
        Ok(Read::Replayed(Request {
            url: url_text,
            method,
            path: url.target(),
            content,
            content_type: content_type
                .and_then(|kind| kind.value.as_str())
                .filter(|kind| is_field_value(kind)),
            page: match entry.optional("pageref") {
                Some(page) => page.text()?,
                None => "",
            },
            status,
            // More than a petabyte is a slip, and -1 says that nobody knows.
            size: size
                .and_then(|size| size.value.as_u64())
                .filter(|&size| size <= 1_000_000_000_000_000),
            mime_type: mime_type.and_then(|mime_type| mime_type.value.as_str()),
            started,
            ended: started + Duration::from_secs_f64(taken.unwrap_or(0.0) / 1000.0),
            initiators: initiators(entry),
        }))
    }

    /// The type of the response among those that content can be made for.
    fn content_type(&self) -> &'static str {
        let mime_type = self.mime_type.unwrap_or_default();
        let essence = mime_type.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
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
            _ => type_of(&self.path),
        }
    }
}

/// Whether a browser noted that the response came from its cache (Chromium, Firefox, Safari).
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

/// The content of a request: as text, or made of the parameters of a form.
fn posted<'a>(post: &Node<'a>) -> Result<Option<Cow<'a, str>>, Fault> {
    if let Some(text) = post.optional("text") {
        let text = text.text()?;
        if !text.is_empty() {
            return Ok(Some(Cow::Borrowed(text)));
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
    Ok(Some(Cow::Owned(form)))
}

/// As forms are encoded (application/x-www-form-urlencoded).
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

/// Whether a text can be a field's value as it is.
fn is_field_value(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// What the browser noted about why it asked: a parser's URL, or a script's call stack.
fn initiators<'a>(entry: &Node<'a>) -> Vec<&'a str> {
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
    urls
}

/// The parts of an http URL that matter here.
struct Url<'a> {
    /// With the port, where there is one.
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

    /// The origin form. What a browser shows unencoded is encoded.
    fn target(&self) -> String {
        let mut target = String::with_capacity(self.rest.len() + 1);
        if !self.rest.starts_with('/') {
            target.push('/');
        }
        for octet in self.rest.bytes() {
            match octet {
                0x21..=0x7e => target.push(octet.into()),
                _ => target.push_str(&format!("%{octet:02X}")),
            }
        }
        target
    }
}

/// A value of the archive and its path.
struct Node<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Node<'a> {
    fn root(value: &'a Value) -> Node<'a> {
        Node {
            value,
            path: String::new(),
        }
    }

    fn optional(&self, name: &str) -> Option<Node<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(Node {
            value,
            path: self.path_to(name),
        })
    }

    fn member(&self, name: &str) -> Result<Node<'a>, Fault> {
        if !self.value.is_object() {
            return Err(match self.path.as_str() {
                "" => Fault::whole(format!(
                    "expected an object with {name:?}, found {}",
                    kind(self.value)
                )),
                _ => self.expected("an object"),
            });
        }
        self.optional(name)
            .ok_or_else(|| Fault::in_value(self.path_to(name), "expected a value, found none"))
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

    fn path_to(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
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

/// The time since the Unix epoch of a stamp of ISO 8601 with a zone: `2024-05-01T10:20:30.125Z`.
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
    let days = crate::calendar::days(year, month, day)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanoseconds))
}

fn number(text: &str) -> Option<i64> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|octet| octet.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
