//! Replay of an access log in the Common or the Combined Log Format.
//!
//! ```text
//! 192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /logo.gif HTTP/1.0" 200 2326 "referer" "agent"
//! ```
//!
//! Each request becomes a session of one page with one file. The session begins at the logged instant, relative to the
//! first request of the log. Time stamps are whole seconds: the *n* requests of one second are spread evenly over it in
//! the order of the log, the first at its start. Lines need not be in chronological order, because servers write a line
//! when the request ends.
//!
//! A line that cannot be replayed is skipped and counted by its reason: connections without a request (`"-"
//! 408`), TLS on a cleartext port, `OPTIONS *`, CONNECT, targets with spaces or with bytes beyond ASCII, a
//! missing status, and a truncated last line. Servers escape quotes, backslashes and other bytes in a request
//! line (`\"`, `\x22`); these escapes are decoded.
//!
//! A log does not contain the contents of requests, so a POST is sent without content. The size of a file is taken from
//! responses with status 200; if they differ, the largest is used. Requests without such a response keep their position
//! in the plan, but the site has no file for them.

use std::borrow::Cow;
use std::time::Duration;

use fathometer_model::calendar;

use crate::builder::Builder;
use crate::fault::{Fault, found};
use crate::plan::{Choice, PageId, TargetId};
use crate::synthetic::type_of;
use crate::target::{is_origin_form, is_token};
use crate::workload::Workload;

/// Parses a log into a workload. Lines that cannot be replayed are skipped and counted; if all lines are
/// skipped, an error is returned.
pub fn parse(name: &str, text: &str) -> Result<Workload, Fault> {
    let mut requests = Vec::new();
    let mut builder = Builder::default();
    let mut first: Option<Fault> = None;
    let lines = text.lines().count();
    for (line, content) in text.lines().enumerate() {
        if content.trim().is_empty() {
            continue;
        }
        match entry(content) {
            Ok(entry) => requests.push(entry),
            Err(error) => {
                let is_cut = line + 1 == lines && !text.ends_with('\n');
                let reason = match error.reason {
                    // A truncated last line is counted as truncated, regardless of its error.
                    _ if is_cut => "a truncated last line",
                    reason => reason,
                };
                *builder.skipped.entry(reason.to_owned()).or_default() += 1;
                first.get_or_insert_with(|| {
                    Fault::in_line(line, content, error.offset, error.message)
                });
            }
        }
    }
    let skipped: u64 = builder.skipped.values().sum();
    if requests.is_empty() {
        return Err(match first {
            None => Fault::whole("the log has no request: expected at least one"),
            Some(mut fault) => {
                fault.message = format!(
                    "none of the {skipped} lines can be replayed; the first error: {}",
                    fault.message
                );
                fault
            }
        });
    }
    if let Some(first) = first {
        let reasons = builder.skipped.iter();
        let reasons: Vec<String> = reasons
            .map(|(what, n)| format!("{n} with {what}"))
            .collect();
        builder.notes.push(format!(
            "{skipped} lines are skipped: {}; the first: {first}",
            reasons.join(", ")
        ));
    }
    // The sort is stable, so requests of the same second remain in the order of the log.
    requests.sort_by_key(|request| request.second);

    for request in &requests {
        let has_file = match (request.method, request.status) {
            ("GET", 200) => Some(request.bytes),
            // The file exists, but the logged size is not the file's size.
            ("GET", 206 | 304) | ("HEAD", 200 | 304) => Some(None),
            _ => None,
        };
        if let Some(size) = has_file {
            builder.add_file(&request.path, type_of(&request.path), size);
        }
    }
    let targets: Vec<TargetId> = requests
        .iter()
        .map(|request| builder.target(request.method, &request.path, None))
        .collect();
    for target in 0..builder.targets.len() as u32 {
        builder.pages.push(&[TargetId(target)]);
    }
    let sequence: Vec<PageId> = targets.iter().map(|target| PageId(target.0)).collect();

    let with_content = requests
        .iter()
        .filter(|request| matches!(request.method, "POST" | "PUT" | "PATCH"))
        .count();
    if with_content > 0 {
        builder.notes.push(format!(
            "{with_content} requests had content that the log does not contain; they are sent without content"
        ));
    }
    builder.notes.push(
        "time stamps are whole seconds: the requests of each second are spread evenly over that second".to_owned(),
    );
    let instants = instants(&requests);
    let choice = Choice::Sequence(sequence.into());
    Ok(builder.finish(name, choice, Some(instants.into())))
}

/// Returns the instant of each request, relative to the start of the first request's second.
fn instants(requests: &[Entry<'_>]) -> Vec<Duration> {
    let mut instants = Vec::with_capacity(requests.len());
    let first = requests.first().map_or(0, |request| request.second);
    for second in requests.chunk_by(|a, b| a.second == b.second) {
        let start = Duration::from_secs(second[0].second.abs_diff(first));
        for n in 0..second.len() as u64 {
            instants.push(start + Duration::from_nanos(n * 1_000_000_000 / second.len() as u64));
        }
    }
    instants
}

/// The fields of a line in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry<'a> {
    /// Seconds since the Unix epoch.
    second: i64,
    method: &'a str,
    path: Cow<'a, str>,
    status: u16,
    bytes: Option<u64>,
}

/// The error for a line that cannot be replayed.
#[derive(Debug, PartialEq, Eq)]
struct Error {
    offset: usize,
    message: String,
    /// The reason by which lines are counted; in messages, the reason follows "with".
    reason: &'static str,
}

impl Error {
    fn new(offset: usize, message: String, reason: &'static str) -> Error {
        Error {
            offset,
            message,
            reason,
        }
    }
}

const OTHER_FORM: &str = "an unknown log format";

/// A reading position in a line.
struct Cursor<'a> {
    content: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.content[self.at..]
    }

    fn expected(&self, what: &str) -> Error {
        let word = self.rest().split_whitespace().next().unwrap_or_default();
        let found = match word {
            "" => "the end of the line".to_owned(),
            word => found(word),
        };
        Error::new(
            self.at,
            format!("expected {what}, found {found}"),
            OTHER_FORM,
        )
    }

    /// Returns the bytes up to the next space, and skips the space.
    fn word(&mut self, what: &str) -> Result<&'a str, Error> {
        let end = self.rest().find(' ').unwrap_or(self.rest().len());
        if end == 0 {
            return Err(self.expected(what));
        }
        let word = &self.rest()[..end];
        self.at += end;
        self.at += usize::from(self.rest().starts_with(' '));
        Ok(word)
    }

    /// Returns the bytes between two delimiters, and skips the space after the second delimiter.
    fn between(&mut self, open: char, close: char, what: &str) -> Result<(usize, &'a str), Error> {
        if !self.rest().starts_with(open) {
            return Err(self.expected(what));
        }
        let start = self.at + 1;
        let mut escaped = false;
        let end = self.content[start..].find(|letter| {
            // An escaped quote does not end the request: servers write quotes in requests as `\"`.
            let closes = letter == close && !escaped;
            escaped = letter == '\\' && !escaped;
            closes
        });
        let Some(end) = end else {
            return Err(Error::new(
                self.at,
                format!("expected {what} that ends with {close}, found the end of the line"),
                OTHER_FORM,
            ));
        };
        self.at = start + end + 1;
        self.at += usize::from(self.rest().starts_with(' '));
        Ok((start, &self.content[start..start + end]))
    }
}

fn entry(content: &str) -> Result<Entry<'_>, Error> {
    let mut cursor = Cursor { content, at: 0 };
    cursor.word("a host")?;
    cursor.word("an identity or -")?;
    // User names may contain spaces: the time stamp starts at the next bracket.
    match cursor.rest().find('[') {
        Some(bracket) if bracket > 0 => cursor.at += bracket,
        _ => return Err(cursor.expected("a user or -, then a time stamp in [ ]")),
    }
    let (at, stamp) = cursor.between('[', ']', "a stamp")?;
    let second = seconds(stamp).ok_or_else(|| {
        Error::new(
            at,
            format!(
                "expected a time stamp like 10/Oct/2000:13:55:36 -0700, found {}",
                found(stamp)
            ),
            OTHER_FORM,
        )
    })?;
    let (at, request) = cursor.between('"', '"', "a request in quotes")?;
    let (method, path) = request_line(request).map_err(|reason| {
        let message = format!(
            "expected a request like GET / HTTP/1.1, found {}",
            found(request)
        );
        Error::new(at, message, reason)
    })?;
    let at = cursor.at;
    let status = cursor.word("a status")?;
    let status = match status.parse() {
        Ok(status @ 100..=599) if status.to_string().len() == 3 => status,
        _ => {
            return Err(Error::new(
                at,
                format!("expected a status of three digits, found {}", found(status)),
                "no status",
            ));
        }
    };
    let at = cursor.at;
    let bytes = match cursor.word("a number of bytes or -")? {
        "-" => None,
        bytes => match bytes.parse::<u64>() {
            Ok(bytes @ 0..=1_000_000_000_000_000) => Some(bytes),
            _ => {
                return Err(Error::new(
                    at,
                    format!("expected a number of bytes or -, found {}", found(bytes)),
                    OTHER_FORM,
                ));
            }
        },
    };
    // The referer and agent of the Combined Log Format must be complete if present. Server-specific fields may
    // follow.
    if cursor.rest().starts_with('"') {
        cursor.between('"', '"', "a referer in quotes")?;
        cursor.between('"', '"', "an agent in quotes")?;
    }
    Ok(Entry {
        second,
        method,
        path,
        status,
        bytes,
    })
}

/// Returns the method and the target (in origin form) of a request line. The error is the reason why `text` is not a
/// request line. A request line of HTTP/0.9 has no version.
fn request_line(text: &str) -> Result<(&str, Cow<'_, str>), &'static str> {
    if matches!(text, "-" | "") {
        return Err("no request (\"-\")");
    }
    // A TLS handshake record begins with content type 22 and version 3.x.
    if ["\\x16\\x03", "\u{16}\u{3}"]
        .iter()
        .any(|hello| text.starts_with(hello))
    {
        return Err("TLS on a cleartext port");
    }
    let mut words = text.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next());
    let Some(target) = target else {
        return Err("not an HTTP request line");
    };
    if !is_token(method) {
        return Err("not an HTTP request line");
    }
    if method == "CONNECT" {
        return Err("CONNECT");
    }
    if target == "*" {
        return Err("OPTIONS *");
    }
    let rest: Vec<&str> = words.collect();
    match rest.as_slice() {
        [] => {}
        [version] if version.starts_with("HTTP/") => {}
        [.., last] if last.starts_with("HTTP/") => return Err("a target with spaces"),
        _ => return Err("not an HTTP request line"),
    }
    let path = match target.split_once("://") {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
        {
            rest.find('/').map_or("/", |slash| &rest[slash..])
        }
        _ => target,
    };
    let path = unescaped(path);
    if is_origin_form(&path) {
        return Ok((method, path));
    }
    // The target contains characters that a client must not send unencoded, or bytes that the log has lost.
    Err(match path.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => "a target that is not a path",
        false => "a target with spaces, control bytes or bytes beyond ASCII",
    })
}

/// Decodes a log's escapes in a request target: a backslash before a quote or another backslash, and bytes as `\xhh`.
/// Non-ASCII bytes are replaced by a character that is invalid in a target.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        plain.push_str(&rest[..place]);
        let escape = &rest[place + 1..];
        let hex = escape.strip_prefix('x').and_then(|digits| digits.get(..2));
        let hex = hex.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = match (byte, escape.chars().next()) {
            (Some(byte), _) => {
                plain.push(match byte.is_ascii() {
                    true => byte.into(),
                    false => char::REPLACEMENT_CHARACTER,
                });
                &escape[3..]
            }
            (None, Some(letter @ ('"' | '\\'))) => {
                plain.push(letter);
                &escape[1..]
            }
            // An escaped control character, such as `
            // ` or `\t`.
            (None, Some('b' | 'n' | 'r' | 't' | 'v')) => {
                plain.push('\u{1}');
                &escape[1..]
            }
            _ => {
                plain.push('\\');
                escape
            }
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Converts the time stamp `stamp`, such as `10/Oct/2000:13:55:36 -0700`, into seconds since the Unix epoch.
fn seconds(stamp: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (time, zone) = stamp.split_once(' ')?;
    let (date, clock) = time.split_once(':')?;
    let mut date = date.split('/');
    let (day, month, year) = (date.next()?, date.next()?, date.next()?);
    let month = MONTHS.iter().position(|&name| name == month)? as i64 + 1;
    let mut clock = clock.split(':');
    let (hour, minute, second) = (clock.next()?, clock.next()?, clock.next()?);
    if date.next().is_some() || clock.next().is_some() || !zone.is_ascii() || zone.len() != 5 {
        return None;
    }
    let sign = match &zone[..1] {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let offset = number(&zone[1..3], 0..=23)? * 3600 + number(&zone[3..], 0..=59)? * 60;
    let days = calendar::days(number(year, 1970..=9999)?, month, number(day, 1..=31)?)?;
    let time =
        number(hour, 0..=23)? * 3600 + number(minute, 0..=59)? * 60 + number(second, 0..=60)?;
    Some(days * 86_400 + time - sign * offset)
}

fn number(text: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten()?;
    range.contains(&number).then_some(number)
}

#[cfg(test)]
mod tests;
