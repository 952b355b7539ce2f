//! The files in an HTTP Archive (HAR 1.2), as browsers save it with contents.
//!
//! What counts are GET requests to one host that were answered with 200 and whose content is in the
//! archive. An archive is one JSON text and is read whole.
//!
//! Contents in archives have no content coding any more, and texts are in UTF-8 whatever they were
//! sent in. So the entity tag of a coded response is not that of its content, and is left out, and a
//! media type's charset is made to tell the truth.

use std::collections::HashSet;
use std::sync::Arc;

use fathometer_http::driver::FileKind;
use fathometer_http::origin::date::parse_date;
use fathometer_http::package::{self, Attributes, Entry};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;

use super::pack::is_text;
use super::source::{Item, Known};
use super::{PackageError, name};

/// What cannot stand in a request target, and browsers escape.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\');

/// A file of an archive.
#[derive(Debug, Clone)]
pub struct Resource {
    /// What is known of it.
    pub entry: Entry,
    /// Its octets.
    pub content: Arc<[u8]>,
}

#[derive(Deserialize)]
struct Archive {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Exchange>,
}

#[derive(Deserialize)]
struct Exchange {
    request: Request,
    response: Response,
}

#[derive(Deserialize)]
struct Request {
    method: String,
    url: String,
}

#[derive(Deserialize)]
struct Response {
    status: i64,
    #[serde(default)]
    headers: Vec<Header>,
    #[serde(default)]
    content: Content,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Content {
    mime_type: String,
    text: Option<String>,
    encoding: Option<String>,
}

/// The files of an archive that came from `host`, by default that of the first request; what a page
/// cannot be shown without first, otherwise in the archive's order.
pub fn read(shown: &str, text: &[u8], host: Option<&str>) -> Result<Known, PackageError> {
    // Some browsers begin the file with a byte order mark.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let archive: Archive = serde_json::from_slice(text).map_err(|error| {
        PackageError::Source(format!(
            "{shown} is no HTTP archive: {error}; give a folder, or a HAR file that a browser saved with contents"
        ))
    })?;
    let first = archive
        .log
        .entries
        .iter()
        .find_map(|exchange| split(&exchange.request.url));
    let host = match (host, first) {
        (Some(host), _) => host.to_ascii_lowercase(),
        (None, Some((host, _))) => host.to_ascii_lowercase(),
        (None, None) => {
            return Err(PackageError::Source(format!(
                "{shown} has no request of HTTP in it"
            )));
        }
    };
    let mut critical = Vec::new();
    let mut others = Vec::new();
    let mut left_out = Vec::new();
    let mut seen = HashSet::new();
    for exchange in archive.log.entries {
        let url = exchange.request.url.clone();
        let is_first = critical.is_empty() && others.is_empty();
        match resource(exchange, &host, is_first) {
            Ok(resource) => {
                if !seen.insert(resource.entry.name.clone()) {
                    continue;
                }
                let list = match resource.entry.critical {
                    true => &mut critical,
                    false => &mut others,
                };
                list.push(Item::InMemory(Box::new(resource)));
            }
            Err(why) => left_out.push(format!("{}: {why}", shortened(&url))),
        }
    }
    critical.extend(others);
    if critical.is_empty() {
        return Err(PackageError::Source(format!(
            "{shown} has no content from {host}: save it with contents (in Chromium \"Save all as HAR with content\"), or give another --host"
        )));
    }
    Ok(Known::new(critical, left_out))
}

/// The file that an exchange brought, or why there is none.
fn resource(exchange: Exchange, host: &str, is_first: bool) -> Result<Resource, String> {
    let (its_host, target) = split(&exchange.request.url).ok_or("it is not HTTP")?;
    if !its_host.eq_ignore_ascii_case(host) {
        return Err(format!("it is of another host than {host}"));
    }
    let Response {
        status,
        headers,
        content,
    } = exchange.response;
    if exchange.request.method != "GET" || status != 200 {
        return Err(format!(
            "{} was answered with {status}",
            exchange.request.method
        ));
    }
    let mut name = utf8_percent_encode(target, ESCAPED).to_string();
    if name.is_empty() || name.starts_with('?') || name.ends_with('/') {
        let query = name.find('?').unwrap_or(name.len());
        name.insert_str(query, "index.html");
    }
    if let Err(error) = package::name::check(name.as_bytes()) {
        return Err(format!("no file of a package has such a name, it {error}"));
    }
    if name::to_path(&name).is_none() {
        return Err("no file has such a name".to_owned());
    }
    let text = content.text.ok_or("its content is not in the archive")?;
    let octets = match content.encoding.as_deref() {
        None | Some("") => text.into_bytes(),
        Some("base64") => base64(text.as_bytes()).ok_or("its content is not in base64")?,
        Some(other) => return Err(format!("its content is in {other}, which is not known")),
    };
    let field = |name: &str| {
        let mut fields = headers.iter();
        let field = fields.find(|header| header.name.eq_ignore_ascii_case(name));
        field.map(|header| header.value.trim())
    };
    let was_text = content.encoding.is_none();
    let media_type = media_type(&content.mime_type, was_text);
    let kind = FileKind::of_content_type(media_type.as_deref().unwrap_or_default());
    let coded = field("content-encoding").is_some_and(|coding| coding != "identity");
    let etag = field("etag").filter(|tag| !coded && is_tag(tag));
    Ok(Resource {
        entry: Entry {
            name,
            size: Some(octets.len() as u64),
            etag: etag.map(str::to_owned),
            last_modified: field("last-modified").and_then(|date| parse_date(date.as_bytes())),
            attributes: Attributes {
                binary: !media_type.as_deref().is_some_and(is_text),
                ..Attributes::default()
            },
            critical: is_first || kind.is_critical(),
            media_type,
            ..Entry::default()
        },
        content: octets.into(),
    })
}

/// Host and port, and what follows the slash behind them, without a fragment.
fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))?;
    let rest = rest.split('#').next()?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    Some((host, target.strip_prefix('/').unwrap_or(target)))
}

/// What a field could carry, with the charset that a text has by now.
fn media_type(written: &str, is_utf8: bool) -> Option<String> {
    let written = written.trim();
    if written.is_empty()
        || written.len() > 200
        || !written.bytes().all(|b| matches!(b, b' '..=b'~'))
    {
        return None;
    }
    let charset = written.to_ascii_lowercase().find("charset=");
    match charset {
        Some(at) if is_utf8 => {
            let behind = written[at..]
                .find(';')
                .map_or("", |end| &written[at + end..]);
            Some(format!("{}charset=utf-8{behind}", &written[..at]))
        }
        _ => Some(written.to_owned()),
    }
}

fn is_tag(tag: &str) -> bool {
    let opaque = tag.strip_prefix("W/").unwrap_or(tag);
    tag.len() <= 255
        && opaque.len() >= 2
        && opaque.starts_with('"')
        && opaque.ends_with('"')
        && opaque[1..opaque.len() - 1]
            .bytes()
            .all(|byte| matches!(byte, b'!' | b'#'..=b'~'))
}

/// RFC 4648 section 4; line breaks between the digits are passed over.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut digits, mut padding) = (0u32, 0, 0);
    for &byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            b'\r' | b'\n' => continue,
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        word = word << 6 | u32::from(digit);
        digits += 1;
        if digits == 4 {
            octets.extend_from_slice(&word.to_be_bytes()[1..]);
            (word, digits) = (0, 0);
        }
    }
    match (digits, padding) {
        (0, 0) => {}
        (2, 0 | 2) => octets.push((word >> 4) as u8),
        (3, 0 | 1) => octets.extend_from_slice(&(word >> 2).to_be_bytes()[2..]),
        _ => return None,
    }
    Some(octets)
}

fn shortened(url: &str) -> String {
    match url.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &url[..end]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "what the macro makes is nobody else's"
    )]
    fn archive(entries: serde_json::Value) -> Vec<u8> {
        serde_json::json!({ "log": { "version": "1.2", "entries": entries } })
            .to_string()
            .into_bytes()
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "what the macro makes is nobody else's"
    )]
    fn exchange(url: &str, content: serde_json::Value) -> serde_json::Value {
        serde_json::json!({
            "request": { "method": "GET", "url": url },
            "response": {
                "status": 200,
                "headers": [
                    { "name": "ETag", "value": "\"1-2\"" },
                    { "name": "last-modified", "value": "Wed, 02 Jul 1997 00:00:00 GMT" },
                ],
                "content": content,
            },
        })
    }

    #[test]
    fn contents_come_with_what_the_response_said_of_them() {
        let text = archive(serde_json::json!([
            exchange(
                "http://a.example/",
                serde_json::json!({
                "mimeType": "text/html; charset=ISO-8859-1", "text": "<p>ü" })
            ),
            exchange(
                "http://a.example/x/logo.gif?v=1#f",
                serde_json::json!({
                "mimeType": "image/gif", "text": "R0lGODlh", "encoding": "base64" })
            ),
            exchange(
                "http://A.example/style.css",
                serde_json::json!({
                "mimeType": "text/css", "text": "p{}" })
            ),
            exchange(
                "http://a.example/style.css",
                serde_json::json!({ "text": "again" })
            ),
            exchange("http://b.example/other", serde_json::json!({ "text": "x" })),
            exchange(
                "http://a.example/lost",
                serde_json::json!({ "mimeType": "image/png" })
            ),
            exchange(
                "http://a.example/..%2f/a//b",
                serde_json::json!({ "text": "x" })
            ),
            exchange("data:,x", serde_json::json!({ "text": "x" })),
        ]));
        let known = read("a.har", &text, None).unwrap();
        assert_eq!(known.left_out.len(), 4, "{:?}", known.left_out);
        let files: Vec<_> = known
            .into_items()
            .map(|item| match item {
                Item::InMemory(resource) => *resource,
                Item::OnDisk { .. } => panic!("on disk"),
            })
            .collect();
        let names: Vec<&str> = files.iter().map(|file| &file.entry.name[..]).collect();
        assert_eq!(names, ["index.html", "style.css", "x/logo.gif?v=1"]);
        let page = &files[0].entry;
        assert_eq!(&*files[0].content, "<p>ü".as_bytes());
        assert_eq!(page.media_type.as_deref(), Some("text/html; charset=utf-8"));
        assert_eq!(page.etag.as_deref(), Some("\"1-2\""));
        assert_eq!(page.last_modified, Some(867_801_600));
        assert!(page.critical && files[1].entry.critical && !files[2].entry.critical);
        assert!(!page.attributes.binary && files[2].entry.attributes.binary);
        assert_eq!(&*files[2].content, b"GIF89a");
    }

    #[test]
    fn what_is_no_archive_is_told() {
        let told = |text: &[u8]| read("a.har", text, None).unwrap_err().to_string();
        assert!(told(b"<html>").contains("no HTTP archive"));
        assert!(told(&archive(serde_json::json!([]))).contains("no request"));
        let without = archive(serde_json::json!([exchange(
            "http://a/",
            serde_json::json!({})
        )]));
        assert!(
            told(&without).contains("with contents"),
            "{}",
            told(&without)
        );
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, octets) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9v\r\nYmE", "fooba"),
        ] {
            assert_eq!(
                base64(text.as_bytes()).unwrap(),
                octets.as_bytes(),
                "{text}"
            );
        }
        for text in ["Z", "Zm9vY", "Zg=", "Zg==Zg==", "Zm9*", "Zm9v="] {
            assert_eq!(base64(text.as_bytes()), None, "{text}");
        }
    }
}
