//! The contents of an archive's responses, if the browser saved them.

use std::collections::HashSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;

use super::json::{Node, Text};
use crate::fault::{Fault, found};

/// A response in the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The URL of the request.
    pub url: String,
    /// The media type in lower case and without parameters, as in `text/html`; empty if the archive does not
    /// give it.
    pub media_type: String,
    /// The content of the response, or the reason why the archive has none.
    pub body: Body,
}

/// The content of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The content, without content coding. Text is in UTF-8, regardless of its encoding on the wire.
    Whole(Vec<u8>),
    /// The archive does not contain all of the response's content. The text is the reason.
    Missing(String),
    /// The response is not a file, because of its method, status or scheme. The text is the reason.
    NoFile(String),
}

/// The length in bytes of the byte order mark, which browsers remove from a text.
const BYTE_ORDER_MARK: usize = 3;

/// Calls `each` for each response, in the order of the archive. If several responses have the same URL, the responses
/// after the first complete response are omitted.
///
/// One entry is decoded at a time, so memory is needed only for the text of the archive.
///
/// # Errors
///
/// If the text is not an HTTP archive; [`Fault`] states the position.
pub fn bodies(text: &str, mut each: impl FnMut(Response)) -> Result<(), Fault> {
    let text = Text(text.strip_prefix('\u{feff}').unwrap_or(text));
    let log = text.members("log", text.members("", text.whole()?)?.member("log")?)?;
    let entries: Vec<&RawValue> = text.decode("log.entries", log.member("entries")?, "an array")?;
    if entries.is_empty() {
        return Err(Fault::in_value(
            "log.entries",
            "expected at least one request",
        ));
    }
    let mut complete = HashSet::new();
    for (n, entry) in entries.into_iter().enumerate() {
        let path = format!("log.entries[{n}]");
        let value = text.decode(&path, entry, "a value")?;
        let response = read(&Node {
            value: &value,
            path,
        })?;
        if complete.contains(&response.url) {
            continue;
        }
        if let Body::Whole(_) = response.body {
            complete.insert(response.url.clone());
        }
        each(response);
    }
    Ok(())
}

fn read(entry: &Node<'_>) -> Result<Response, Fault> {
    let request = entry.member("request")?;
    let url = request.member("url")?.text()?;
    let method = request.member("method")?.text()?;
    let response = entry.member("response")?;
    let status = response.member("status")?;
    let Some(status) = status.value.as_u64() else {
        return Err(status.expected("a status"));
    };
    let content = response.optional("content");
    let media_type = content
        .as_ref()
        .and_then(|content| content.optional("mimeType"));
    let media_type = media_type.and_then(|kind| kind.value.as_str());
    let essence = media_type.unwrap_or_default().split(';').next();
    let body = match (method, status) {
        _ if !url.starts_with("http://") && !url.starts_with("https://") => {
            Body::NoFile("its URL is neither http nor https".to_owned())
        }
        ("GET", 200) => match &content {
            Some(content) => body(content)?,
            None => Body::Missing("the archive does not contain its content".to_owned()),
        },
        ("GET", 206) => Body::Missing("it is only a part of a file (status 206)".to_owned()),
        ("GET", 304) => Body::Missing("the browser had cached it (status 304)".to_owned()),
        ("GET", 0) => Body::Missing("the request was aborted".to_owned()),
        ("GET", status) => Body::NoFile(format!("its status is {status}")),
        (method, _) => Body::NoFile(format!("its method is {}", found(method))),
    };
    Ok(Response {
        url: url.to_owned(),
        media_type: essence.unwrap_or_default().trim().to_ascii_lowercase(),
        body,
    })
}

fn body(content: &Node<'_>) -> Result<Body, Fault> {
    let size = content
        .optional("size")
        .and_then(|size| size.value.as_u64());
    let text = match content.optional("text") {
        Some(text) => text.text()?,
        None if size == Some(0) => "",
        None => {
            let why = "the archive does not contain its content: save the archive with content";
            return Ok(Body::Missing(why.to_owned()));
        }
    };
    let (bytes, left_out) = match content.optional("encoding") {
        None => (text.as_bytes().to_vec(), BYTE_ORDER_MARK),
        Some(encoding) if encoding.text()? == "base64" => match BASE64_STANDARD.decode(text) {
            Ok(bytes) => (bytes, 0),
            Err(_) => return Ok(Body::Missing("its content is not base64".to_owned())),
        },
        Some(encoding) => {
            let encoding = found(encoding.text()?);
            let why = format!("its content has the unknown encoding {encoding}");
            return Ok(Body::Missing(why));
        }
    };
    // Browsers truncate long contents. The conversion to UTF-8 may have made a text longer.
    if let Some(size) = size
        && ((bytes.len() + left_out) as u64) < size
    {
        let has = bytes.len();
        return Ok(Body::Missing(format!(
            "the archive contains only {has} of its {size} bytes"
        )));
    }
    Ok(Body::Whole(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an archive of these entries: method, URL, status and content.
    fn archive(entries: &[(&str, &str, u16, &str)]) -> String {
        let entries: Vec<String> = entries
            .iter()
            .map(|(method, url, status, content)| {
                format!(
                    r#"{{"request": {{"method": "{method}", "url": "{url}"}},
                        "response": {{"status": {status}, "content": {content}}}}}"#
                )
            })
            .collect();
        format!(r#"{{"log": {{"entries": [{}]}}}}"#, entries.join(","))
    }

    fn of(entries: &[(&str, &str, u16, &str)]) -> Vec<Response> {
        let mut responses = Vec::new();
        bodies(&archive(entries), |response| responses.push(response)).unwrap();
        responses
    }

    fn one(content: &str) -> Body {
        of(&[("GET", "http://a/", 200, content)]).remove(0).body
    }

    #[test]
    fn texts_and_base64_are_contents() {
        let html = r#"{"size": 4, "mimeType": "Text/HTML; charset=utf-8", "text": "<p>é"}"#;
        let responses = of(&[("GET", "https://a/x", 200, html)]);
        assert_eq!(responses[0].media_type, "text/html");
        assert_eq!(responses[0].body, Body::Whole("<p>é".as_bytes().to_vec()));
        for (coded, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("+//+", &[0xfb, 0xff, 0xfe]),
        ] {
            let content = format!(r#"{{"encoding": "base64", "text": "{coded}"}}"#);
            assert_eq!(one(&content), Body::Whole(bytes.to_vec()), "{coded}");
        }
        assert_eq!(one(r#"{"size": 0}"#), Body::Whole(vec![]));
        // The content does not include the byte order mark.
        assert_eq!(one(r#"{"size": 4, "text": "x"}"#), Body::Whole(vec![b'x']));
    }

    #[test]
    fn a_content_that_is_not_complete_is_missing() {
        for content in [
            r#"{"size": 10, "mimeType": "image/gif"}"#,
            r#"{"size": 10, "text": "cut"}"#,
            r#"{"size": 4, "encoding": "base64", "text": "Zm9v"}"#,
            r#"{"encoding": "base64", "text": "Zg="}"#,
            r#"{"encoding": "base64", "text": "Z==="}"#,
            r#"{"encoding": "base64", "text": "Zm9-"}"#,
            r#"{"encoding": "base64", "text": "=Zg="}"#,
            r#"{"encoding": "rot13", "text": "x"}"#,
        ] {
            assert!(matches!(one(content), Body::Missing(_)), "{content}");
        }
    }

    #[test]
    fn other_methods_and_statuses_are_no_files_and_the_first_complete_response_counts() {
        let text = |text: &str| format!(r#"{{"text": "{text}"}}"#);
        let (a, b) = (text("a"), text("b"));
        let responses = of(&[
            ("POST", "http://a/1", 200, &a),
            ("GET", "http://a/2", 404, &a),
            ("GET", "data:,x", 200, &a),
            ("GET", "http://a/3", 304, "{}"),
            ("GET", "http://a/3", 200, &a),
            ("GET", "http://a/3", 200, &b),
        ]);
        let no_files = responses[..3].iter();
        assert!(
            no_files
                .clone()
                .all(|one| matches!(one.body, Body::NoFile(_)))
        );
        assert!(matches!(responses[3].body, Body::Missing(_)));
        assert_eq!(responses[4].body, Body::Whole(vec![b'a']));
        assert_eq!(responses.len(), 5);
    }

    #[test]
    fn another_text_is_an_error_with_its_place() {
        for (text, place) in [
            ("{}", "log"),
            (r#"{"log": {"entries": []}}"#, "log.entries"),
            (r#"{"log": {"entries": [{}]}}"#, "log.entries[0].request"),
            ("[", "line 1"),
        ] {
            let fault = bodies(text, |_| {}).unwrap_err().to_string();
            assert!(fault.contains(place), "{fault}");
        }
    }
}
