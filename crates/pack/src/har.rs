//! The files of an HTTP Archive (HAR 1.2), as saved by browsers with contents.
//!
//! Only GET requests to one host with status 200 and with their content in the archive are used. An archive is
//! one JSON text, which is read exchange by exchange. Contents are spooled to a temporary file, because
//! critical files come first. Only one content is in memory at a time.
//!
//! Contents in archives are already decoded, and texts are in UTF-8 whatever their charset was. The entity tag
//! of a coded response is therefore left out, because it belongs to the coded form, and the charset of a media
//! type is corrected.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufReader, Cursor, Read};

use fathometer_http::driver::FileKind;
use fathometer_http::origin::date::parse_date;
use fathometer_package::{self as package, Attributes, Entry};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::pack::is_text;
use super::source::{Item, Known};
use super::spool::{Spool, Spooled};
use super::{PackageError, name};

/// Characters that a request target cannot contain, and that browsers escape.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\');

/// A file of an archive.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Its entry in the package.
    pub entry: Entry,
    /// Its content.
    pub content: Spooled,
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

/// The files of an archive from `host`, by default the host of the first request. Files that are critical for a
/// page come first, the others in the archive's order.
pub fn read(shown: &str, mut text: impl Read, host: Option<&str>) -> Result<Known, PackageError> {
    let mut collector = Collector {
        host: host.map(str::to_ascii_lowercase),
        spool: Spool::new()?,
        critical: Vec::new(),
        others: Vec::new(),
        left_out: Vec::new(),
        seen: HashSet::new(),
        failure: None,
    };
    let read = without_mark(&mut text).map_err(serde_json::Error::io);
    let read = read.and_then(|start| {
        let text = BufReader::with_capacity(1 << 16, start.chain(text));
        let mut json = serde_json::Deserializer::from_reader(text);
        let top = Member {
            name: "log",
            then: Member {
                name: "entries",
                then: Exchanges(&mut collector),
            },
        };
        top.deserialize(&mut json)?;
        json.end()
    });
    if let Some(failure) = collector.failure {
        return Err(failure);
    }
    read.map_err(|error| {
        PackageError::Source(format!(
            "{shown} is no HTTP archive: {error}; give a folder, or a HAR file that a browser saved with contents"
        ))
    })?;
    let Some(host) = collector.host else {
        return Err(PackageError::Source(format!(
            "{shown} has no request of HTTP in it"
        )));
    };
    let mut files = collector.critical;
    files.extend(collector.others);
    if files.is_empty() {
        return Err(PackageError::Source(format!(
            "{shown} has no content from {host}: save it with contents (in Chromium \"Save all as HAR with content\"), or give another --host"
        )));
    }
    Ok(Known::new(files, collector.left_out))
}

/// Reads the first bytes of a text and drops the byte order mark that some browsers write.
fn without_mark(text: &mut impl Read) -> io::Result<Cursor<Vec<u8>>> {
    let mut start = Vec::new();
    text.by_ref().take(3).read_to_end(&mut start)?;
    if start == b"\xef\xbb\xbf" {
        start.clear();
    }
    Ok(Cursor::new(start))
}

/// The files collected so far.
struct Collector {
    host: Option<String>,
    spool: Spool,
    critical: Vec<Item>,
    others: Vec<Item>,
    left_out: Vec<String>,
    seen: HashSet<String>,
    failure: Option<PackageError>,
}

impl Collector {
    fn take(&mut self, exchange: Exchange) -> Result<(), PackageError> {
        let url = exchange.request.url.clone();
        if self.host.is_none() {
            self.host = split(&url).map(|(host, _)| host.to_ascii_lowercase());
        }
        let is_first = self.critical.is_empty() && self.others.is_empty();
        let host = self.host.as_deref().unwrap_or_default();
        match resource(exchange, host, is_first) {
            Ok((entry, content)) => {
                if !self.seen.insert(entry.name.clone()) {
                    return Ok(());
                }
                let list = match entry.critical {
                    true => &mut self.critical,
                    false => &mut self.others,
                };
                let content = self.spool.push(&content)?;
                list.push(Item::Spooled(Box::new(Resource { entry, content })));
            }
            Err(why) => self.left_out.push(format!("{}: {why}", shortened(&url))),
        }
        Ok(())
    }
}

/// Reads a required member of a JSON object and skips the others.
struct Member<S> {
    name: &'static str,
    then: S,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Member<S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Member<S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with {:?}", self.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut then = Some(self.then);
        while let Some(name) = map.next_key::<String>()? {
            match then.take_if(|_| name == self.name) {
                Some(seed) => {
                    map.next_value_seed(seed)?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match then {
            None => Ok(()),
            Some(_) => Err(de::Error::missing_field(self.name)),
        }
    }
}

/// Reads the exchanges of an archive; each is processed before the next is read.
struct Exchanges<'c>(&'c mut Collector);

impl<'de> DeserializeSeed<'de> for Exchanges<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Exchanges<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of exchanges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut exchanges: A) -> Result<(), A::Error> {
        while let Some(exchange) = exchanges.next_element::<Exchange>()? {
            if let Err(failure) = self.0.take(exchange) {
                self.0.failure = Some(failure);
                return Err(de::Error::custom("it could not be kept"));
            }
        }
        Ok(())
    }
}

/// The file of an exchange, or the reason why there is none.
fn resource(exchange: Exchange, host: &str, is_first: bool) -> Result<(Entry, Vec<u8>), String> {
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
    let entry = Entry {
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
    };
    Ok((entry, octets))
}

/// Splits a URL into host with port, and the part after the slash, without a fragment.
fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"))?;
    let rest = rest.split('#').next()?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    Some((host, target.strip_prefix('/').unwrap_or(target)))
}

/// The media type, if it is valid in a field, with the charset that the text has now.
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

/// Decodes base64 (RFC 4648 section 4); line breaks are skipped.
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
        let known = read("a.har", &text[..], None).unwrap();
        assert_eq!(known.left_out.len(), 4, "{:?}", known.left_out);
        let files: Vec<_> = known
            .into_items()
            .map(|item| match item {
                Item::Spooled(resource) => *resource,
                Item::OnDisk { .. } => panic!("on disk"),
            })
            .collect();
        let names: Vec<&str> = files.iter().map(|file| &file.entry.name[..]).collect();
        assert_eq!(names, ["index.html", "style.css", "x/logo.gif?v=1"]);
        let page = &files[0].entry;
        let content = |file: &Resource| {
            let mut room = vec![0; 100];
            let read = file.content.read_at(&mut room, 0).unwrap();
            room.truncate(read);
            room
        };
        assert_eq!(content(&files[0]), "<p>ü".as_bytes());
        assert_eq!(page.media_type.as_deref(), Some("text/html; charset=utf-8"));
        assert_eq!(page.etag.as_deref(), Some("\"1-2\""));
        assert_eq!(page.last_modified, Some(867_801_600));
        assert!(page.critical && files[1].entry.critical && !files[2].entry.critical);
        assert!(!page.attributes.binary && files[2].entry.attributes.binary);
        assert_eq!(content(&files[2]), b"GIF89a");
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
