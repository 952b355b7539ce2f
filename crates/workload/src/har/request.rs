//! One entry of the archive: the request to replay, or the reason why the entry is skipped.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use super::json::Node;
use super::time_stamp::instant;
use super::url::Url;
use crate::fault::Fault;
use crate::synthetic::type_of;
use crate::target::is_token;

/// Strings that many requests share, such as the URLs of their call stacks; each string is stored once.
#[derive(Default)]
pub(super) struct Texts(HashSet<Rc<str>>);

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

/// The result of reading an entry.
pub(super) enum Read {
    Replayed(Request),
    OtherHost,
    /// The reason for skipping the entry; in messages, the reason follows "with".
    Skipped(&'static str),
}

/// An entry of the archive that is replayed.
pub(super) struct Request {
    pub(super) url: Rc<str>,
    pub(super) method: Rc<str>,
    pub(super) path: String,
    pub(super) content: Option<String>,
    pub(super) content_type: Option<Rc<str>>,
    /// The page to which the request belongs, if the archive states one.
    pub(super) page: Option<Rc<str>>,
    pub(super) status: u16,
    pub(super) size: Option<u64>,
    /// The media type of the response, mapped to a type for which content can be generated.
    pub(super) response_type: &'static str,
    /// Start time since the Unix epoch.
    pub(super) started: Duration,
    pub(super) ended: Duration,
    /// URLs that may have caused the request, the most likely first.
    pub(super) initiators: Vec<Rc<str>>,
}

impl Request {
    /// Reads an entry. If `host` is not yet known, sets it to the host of the first HTTP request.
    pub(super) fn read(
        entry: &Node<'_>,
        host: &mut Option<String>,
        texts: &mut Texts,
    ) -> Result<Read, Fault> {
        let request = entry.member("request")?;
        let url_node = request.member("url")?;
        let url_text = url_node.text()?;
        if !url_text.starts_with("http://") && !url_text.starts_with("https://") {
            return Ok(Read::Skipped(match url_text.split(':').next() {
                Some("data") => "a data: URL",
                Some("blob") => "a blob: URL",
                Some("ws" | "wss") => "a ws: or wss: URL (WebSocket)",
                _ => "a URL whose scheme is neither http nor https",
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
        // Browsers write status 0 for a missing response.
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
                Some(page) => Some(page.text()?)
                    .filter(|page| !page.is_empty())
                    .map(|page| texts.shared(page)),
                None => None,
            },
            status,
            // A size above one petabyte is treated as an error. A size of -1 means that the browser did not record it.
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

/// Maps the media type of a response to a type for which content can be generated.
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

/// Returns whether the browser (Chromium, Firefox, Safari) recorded that the response came from its cache.
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

/// Returns the content of a request, from its text or from the parameters of a form.
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

/// Appends `text` in the encoding of HTML forms (application/x-www-form-urlencoded).
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

/// Returns whether a text is valid as a field value.
fn is_field_value(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns the cause of the request as recorded by the browser: a parser's URL, or the distinct URLs of a script's call
/// stack.
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
