//! Options of a retrieval other than its connection policy.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Bytes, ContentCoding};

use super::bundle::PageList;
use super::graph::PageGraph;
use super::kind::Priorities;
use super::policy::Policy;
use crate::exchange::{Limits, Timeouts};

/// All options of a retrieval except the connection policy. The defaults are the options of the paper's HTTP/1.1 robot:
/// an output buffer of 1024 bytes that is flushed explicitly, validation by entity tag, no content coding, and a
/// half-close. Its requests have about 190 bytes: 170 to fetch a file of the Microscape page, and 35 more to validate
/// the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The `Host` field, which also defines the page's own origin for references. If a policy spreads files
    /// over several hosts, the names of the other hosts are this name with a prefix (`s1.`).
    pub host: String,
    /// The rule for sending pipelined requests. Without pipelining every request is sent at once.
    pub flush: Flush,
    /// The method of validating cached files on a revisit.
    pub revalidation: Revalidation,
    /// Content codings offered in `Accept-Encoding`, best first. Not offered for images, whose formats are
    /// already compressed.
    pub accept_encoding: Vec<ContentCoding>,
    /// Further request fields, in order, after `Host`.
    pub headers: Vec<(String, String)>,
    /// The number of bytes of each image that [`Policy::ranges`](super::Policy::ranges) fetches first; at least
    /// 1.
    pub first_range: Bytes,
    /// Whether a revisit with ranges sends `If-Range` along with `If-None-Match` and `Range`, as in the paper's text.
    /// By RFC 9110 section 13.1.5 a changed file is then sent completely. Without it (the default) the server sends
    /// only the first bytes of a changed file, which is the purpose of ranges. The remaining bytes are requested with
    /// `If-Range` if the copy has a strong validator.
    pub if_range_on_revisit: bool,
    /// The priorities sent with requests (RFC 9218), which also order waiting requests.
    pub priorities: Priorities,
    /// The files to retrieve, if they are not the files of a page. The base file is then ignored: all files are
    /// requested at once, or in a bundle from the list's folder.
    pub list: Option<Arc<PageList>>,
    /// References that are not found in HTML; empty for a page whose HTML names all its files.
    pub graph: Arc<PageGraph>,
    /// Simulated execution time of each script. The files that a script names are requested after its execution, and
    /// the page is complete only after all scripts were executed. Scripts are executed one after another.
    pub script_time: Duration,
    /// Whether preloads (`Link` with `rel=preload`, in an interim 103 or in a final head) are followed.
    pub preloads: bool,
    /// The HTTP/2 settings and windows.
    pub http2: Http2Windows,
    /// The method of closing a finished connection.
    pub close: CloseManner,
    /// Limits on responses.
    pub limits: Limits,
    /// Time limits of exchanges.
    pub timeouts: Timeouts,
    /// The longest time to establish a connection; `None` sets no limit.
    pub connect_timeout: Option<Duration>,
    /// The longest time to establish a connection to an alternative service; after that the origin itself is
    /// used.
    pub service_timeout: Duration,
    /// The time for which persistent connections stay open after the page is complete, as a browser keeps them for the
    /// next page.
    pub idle_wait: Duration,
    /// The longest wait for the server's close after a half-close. After this time the socket is closed.
    pub close_wait: Duration,
    /// The maximum number of retries for a file whose connection ends before or during the response. (If the connection
    /// delivered a response before it ended, retries of its unanswered requests are not counted.)
    pub retries: u16,
}

impl Default for Options {
    fn default() -> Options {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Options {
            host: "www.microscape.test".to_owned(),
            flush: Flush::default(),
            revalidation: Revalidation::EntityTag,
            accept_encoding: Vec::new(),
            headers: vec![
                field("Accept", "text/html, image/gif, image/jpeg, */*;q=0.3"),
                field("Accept-Language", "en"),
                field("User-Agent", "Fathometer/0.1 (measuring robot)"),
            ],
            first_range: Bytes(512),
            if_range_on_revisit: false,
            priorities: Priorities::default(),
            list: None,
            graph: Arc::default(),
            script_time: Duration::ZERO,
            preloads: true,
            http2: Http2Windows::default(),
            close: CloseManner::Half,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            connect_timeout: Some(Duration::from_secs(60)),
            service_timeout: Duration::from_secs(4),
            idle_wait: Duration::ZERO,
            close_wait: Duration::from_secs(2),
            retries: 3,
        }
    }
}

impl Options {
    /// The names of the hosts over which a policy spreads a page's files; the base file is on the first host.
    pub fn host_names(&self, policy: &Policy) -> Vec<String> {
        let others = (1..policy.hosts).map(|number| format!("s{number}.{}", self.host));
        std::iter::once(self.host.clone()).chain(others).collect()
    }
}

/// The receive windows and the header table of an HTTP/2 client, in bytes. The defaults are the values of current
/// browsers, which are large enough for any page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Http2Windows {
    /// The window of each stream; at most 2^31 - 1.
    pub stream_window: u32,
    /// The window of a connection; from 65 535 to 2^31 - 1.
    pub connection_window: u32,
    /// The largest dynamic table for the compression of response fields.
    pub header_table: u32,
}

impl Default for Http2Windows {
    fn default() -> Http2Windows {
        Http2Windows {
            stream_window: 6 << 20,
            connection_window: 15 << 20,
            header_table: 65_536,
        }
    }
}

/// The rule for sending the buffered requests of a pipeline (the paper, section "Buffer Tuning").
///
/// In all variants, when the buffer contains `buffer` bytes, exactly these bytes are sent; a write may thus end within
/// a request. When the pipeline accepts no further request, a partly filled buffer is sent too. Text forms: `explicit`,
/// `timer-0ms`, `timer-50ms`, `timer-1000ms` (any number) and `buffer`, all with a buffer of 1024 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    /// Whether the client flushes explicitly: right after the request for the base file, and when no further
    /// request is possible (the HTML is completely scanned and no first part of an image is outstanding).
    pub explicit: bool,
    /// The longest time for which bytes stay in the buffer.
    pub timer: Option<Duration>,
    /// The size of the buffer; at least 1.
    pub buffer: Bytes,
}

impl Flush {
    /// The buffer of the paper's robot.
    pub const BUFFER: Bytes = Bytes(1024);

    /// The paper's final client: explicit flushes, with a timer of 50 ms as a fallback. Text form: `explicit`.
    pub const EXPLICIT: Flush = Flush {
        explicit: true,
        timer: Some(Duration::from_millis(50)),
        buffer: Flush::BUFFER,
    };

    /// Flushes by buffer size and timer only, as the paper's first clients did (1 s, later 50 ms): even the
    /// request for the base file waits for the timer. With 0 ms, the buffer is flushed when the current input
    /// has been processed. Text form: `timer-<n>ms`.
    pub const fn timer(after: Duration) -> Flush {
        Flush {
            explicit: false,
            timer: Some(after),
            buffer: Flush::BUFFER,
        }
    }

    /// No timer. Without further flushes, a request smaller than the buffer would never be sent. Therefore the
    /// buffer is also flushed after the request for the base file and when no further request is possible. Unlike
    /// `explicit`, there is no timer as a fallback. Text form: `buffer`.
    pub const BUFFER_ONLY: Flush = Flush {
        explicit: false,
        timer: None,
        buffer: Flush::BUFFER,
    };

    /// Whether the client flushes when no further request is possible.
    pub(super) fn at_the_end(self) -> bool {
        self.explicit || self.timer.is_none()
    }
}

impl Default for Flush {
    fn default() -> Flush {
        Flush::EXPLICIT
    }
}

/// The error for a text that is not a flush policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a flush policy: write explicit, buffer or timer-<n>ms, as in timer-50ms")]
pub struct ParseFlushError {
    text: String,
}

impl FromStr for Flush {
    type Err = ParseFlushError;

    fn from_str(text: &str) -> Result<Flush, ParseFlushError> {
        match text {
            "explicit" => return Ok(Flush::EXPLICIT),
            "buffer" => return Ok(Flush::BUFFER_ONLY),
            _ => {}
        }
        text.strip_prefix("timer-")
            .and_then(|rest| rest.strip_suffix("ms"))
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u32>().ok())
            .map(|millis| Flush::timer(Duration::from_millis(u64::from(millis))))
            .ok_or_else(|| ParseFlushError {
                text: text.to_owned(),
            })
    }
}

/// The text form that [`FromStr`] reads; the buffer size is not shown.
impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.explicit, self.timer) {
            (true, _) => f.write_str("explicit"),
            (false, None) => f.write_str("buffer"),
            (false, Some(timer)) => write!(f, "timer-{}ms", timer.as_millis()),
        }
    }
}

/// The method of validating cached files on a revisit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Revalidation {
    /// Conditional GET by entity tag (`If-None-Match`); by date for a file without a tag.
    #[default]
    EntityTag,
    /// Conditional GET by date (`If-Modified-Since`), the only conditional GET of HTTP/1.0.
    Date,
    /// The paper's HTTP/1.0 client, which has no persistent cache: a plain GET for the base file and HEAD for
    /// every embedded file. A file whose validators have changed is fetched.
    Head,
}

/// The method of closing a finished connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CloseManner {
    /// A half-close: the client closes its side and waits for the server's close (for at most
    /// [`Options::close_wait`]) before it closes the socket.
    #[default]
    Half,
    /// The client closes both sides at once.
    Full,
}

/// Whether the client has visited the page before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visit {
    /// The cache is not used: everything is fetched.
    First,
    /// Everything in the cache is validated; other files are fetched.
    Revalidate,
    /// The client visits a further page of the same session: the page itself is validated or fetched, and
    /// cached files are used without validation.
    Session,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_flush_policies_are_parsed_back() {
        for text in [
            "explicit",
            "buffer",
            "timer-0ms",
            "timer-50ms",
            "timer-1000ms",
        ] {
            assert_eq!(text.parse::<Flush>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "timer",
            "timer-ms",
            "timer-5",
            "timer-+5ms",
            "timer-99999999999ms",
        ] {
            let error = text.parse::<Flush>().unwrap_err().to_string();
            assert!(error.contains("timer-50ms"), "{error}");
        }
    }

    #[test]
    fn only_flushes_without_explicit_and_with_timer_ignore_the_end() {
        assert!(Flush::EXPLICIT.at_the_end() && Flush::BUFFER_ONLY.at_the_end());
        assert!(!Flush::timer(Duration::ZERO).at_the_end());
    }
}
