//! What a retrieval does besides its connection policy.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Bytes, ContentCoding};

use super::bundle::PageList;
use super::graph::PageGraph;
use super::kind::Priorities;
use super::policy::Policy;
use crate::h1::client::{Limits, Timeouts};

/// Everything about a retrieval that is not the connection policy. The default is the paper's
/// HTTP/1.1 robot: 1024 octets of output buffer flushed explicitly, validation by entity tag, no
/// content coding, requests of about 190 octets (170 to fetch a file of the Microscape page, 35 more
/// to validate it), a careful close.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The `Host` field, which also says which references are on the page's own origin. Where a policy
    /// spreads files over hosts, the names of the others are made of it (`s1.` in front of it).
    pub host: String,
    /// When pipelined requests leave. Without pipelining every request leaves at once.
    pub flush: Flush,
    /// How a revisit asks whether its copies are current.
    pub revalidation: Revalidation,
    /// Content codings offered in `Accept-Encoding`, best first. Not offered for images, whose
    /// formats are compressed by themselves.
    pub accept_encoding: Vec<ContentCoding>,
    /// Further request fields, in order, after `Host`.
    pub headers: Vec<(String, String)>,
    /// How many octets of each image [`Policy::ranges`](super::Policy::ranges) fetches first; at
    /// least 1.
    pub first_range: Bytes,
    /// Whether a revisit with ranges sends `If-Range` along with `If-None-Match` and `Range`, as the
    /// paper words it. By RFC 9110 section 13.1.5 a changed file then comes whole; without it (the
    /// default) a changed file sends its first octets alone, which is the purpose. The rest is
    /// always asked for with `If-Range`.
    pub if_range_on_revisit: bool,
    /// What is said of the urgency of requests (RFC 9218), and which go first where they wait.
    pub priorities: Priorities,
    /// The files to retrieve, if they make no page. The base file is then not looked at: all are asked
    /// for at once, or in a bundle with the list's folder.
    pub list: Option<Arc<PageList>>,
    /// What files name that no scanner finds; empty for a page whose HTML names them all.
    pub graph: Arc<PageGraph>,
    /// How long a browser would execute each script before what it names is asked for and before the
    /// page can be complete. Scripts are executed one after another.
    pub script_time: Duration,
    /// Whether preloads (`Link` with `rel=preload`, of an interim 103 or of a final head) are followed.
    pub preloads: bool,
    /// What HTTP/2 says at the start of a connection.
    pub http2: Http2Windows,
    /// How a connection that has done its work is closed.
    pub close: CloseManner,
    /// Limits on responses.
    pub limits: Limits,
    /// Time limits of exchanges.
    pub timeouts: Timeouts,
    /// The longest wait for a connection to be established; `None` waits for ever.
    pub connect_timeout: Option<Duration>,
    /// The same for a connection to an alternative service, in place of which the origin itself can be
    /// asked.
    pub service_timeout: Duration,
    /// How long persistent connections are kept when the page is complete, as a browser would keep
    /// them for the next page.
    pub idle_wait: Duration,
    /// How long a careful close waits for the server's end before it closes regardless.
    pub close_wait: Duration,
    /// How often a file is asked for again when a connection ends before it answers anything, or
    /// within the answer. (A connection that answered something before it ended was useful: asking
    /// again for what it left unanswered is not counted.)
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
    /// The names of the hosts that a policy spreads a page's files over; the base file is on the first.
    pub fn host_names(&self, policy: &Policy) -> Vec<String> {
        let others = (1..policy.hosts).map(|number| format!("s{number}.{}", self.host));
        std::iter::once(self.host.clone()).chain(others).collect()
    }
}

/// The room that a client of HTTP/2 gives its server, in octets. The default is what browsers of today
/// give: enough that it never limits a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Http2Windows {
    /// What may be under way on each stream; at most 2^31 - 1.
    pub stream_window: u32,
    /// What may be under way on a connection; from 65 535 to 2^31 - 1.
    pub connection_window: u32,
    /// The table that response fields are compressed with.
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

/// When buffered requests of a pipeline leave (the paper, section "Buffer Tuning").
///
/// Whatever the levels: when the buffer holds `buffer` octets, exactly these leave, so that one
/// write may end within a request; and when the pipeline can take no further request, the buffer
/// leaves as it is. As text: `explicit`, `timer-0ms`, `timer-50ms`, `timer-1000ms` (any number) and
/// `buffer`, all with a buffer of 1024 octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    /// Whether the client flushes by what it knows: right after the request for the base file, and
    /// when no further request can come up (the HTML is scanned to its end and no first part of an
    /// image is awaited).
    pub explicit: bool,
    /// How long octets stay in the buffer at most.
    pub timer: Option<Duration>,
    /// The size of the buffer; at least 1.
    pub buffer: Bytes,
}

impl Flush {
    /// The buffer of the paper's robot.
    pub const BUFFER: Bytes = Bytes(1024);

    /// The paper's final client: explicit, with a timer of 50 ms to fall back on. Text `explicit`.
    pub const EXPLICIT: Flush = Flush {
        explicit: true,
        timer: Some(Duration::from_millis(50)),
        buffer: Flush::BUFFER,
    };

    /// Buffer and timer alone, as in the paper's first clients (1 s, later 50 ms): even the request
    /// for the base file waits for the timer. Zero flushes when the input at hand has been dealt
    /// with. Text `timer-<n>ms`.
    pub const fn timer(after: Duration) -> Flush {
        Flush {
            explicit: false,
            timer: Some(after),
            buffer: Flush::BUFFER,
        }
    }

    /// No timer. A request smaller than the buffer would never leave, so this one also flushes at the
    /// end of the known requests: after the one for the base file, and when no further can come up.
    /// Unlike `explicit` it has nothing to fall back on in between. Text `buffer`.
    pub const BUFFER_ONLY: Flush = Flush {
        explicit: false,
        timer: None,
        buffer: Flush::BUFFER,
    };

    /// Whether the client flushes when it knows that nothing further can come.
    pub(super) fn at_the_end(self) -> bool {
        self.explicit || self.timer.is_none()
    }
}

impl Default for Flush {
    fn default() -> Flush {
        Flush::EXPLICIT
    }
}

/// Why a flush policy's text was not understood.
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

/// What [`FromStr`] reads; a buffer of another size is not told.
impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.explicit, self.timer) {
            (true, _) => f.write_str("explicit"),
            (false, None) => f.write_str("buffer"),
            (false, Some(timer)) => write!(f, "timer-{}ms", timer.as_millis()),
        }
    }
}

/// How a revisit asks whether its copies are current.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Revalidation {
    /// Conditional GET by entity tag (`If-None-Match`); by date for a file that has no tag.
    #[default]
    EntityTag,
    /// Conditional GET by date (`If-Modified-Since`), all that HTTP/1.0 knows.
    Date,
    /// The paper's HTTP/1.0 client, which has no persistent cache: a plain GET for the base file and
    /// HEAD for every embedded one. One whose validators have changed is fetched.
    Head,
}

/// How a connection that has done its work is closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CloseManner {
    /// The client ends its side and waits for the server's end (for
    /// [`Options::close_wait`] at most) before it lets go of the socket.
    #[default]
    Half,
    /// Both sides at once, as a careless client does.
    Full,
}

/// Whether the client has been there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visit {
    /// The cache is not asked: everything is fetched.
    First,
    /// Everything in the cache is validated; what is not in it is fetched.
    Revalidate,
    /// The client goes on to a further page of the same session: the page itself is validated or
    /// fetched, and what the cache has of its files is used without asking.
    Session,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_policies_read_what_they_write() {
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
