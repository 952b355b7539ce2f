//! The access log: one line for every response that was handed to the kernel, whether complete or cut short.
//!
//! Each loop collects its lines in its own buffer, and writes complete lines every second, when the buffer is
//! large, and at the end. Text from clients is escaped, so that each line of the log is one response and a
//! quoted field ends at its closing quote.
//!
//! To rotate the log, move the file away and reopen the log; lines that were collected before go to the new
//! file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathometer_http::h1::server::{RequestText, Served};
use fathometer_http::origin::date::format_date;
use fathometer_model::Instant;
use fathometer_sys::Clock;
use fathometer_tls::{Handshake, Resumption, Version};

use fathometer_sys::stderr::say;

/// A buffer is written when it contains this many bytes.
const FULL: usize = 64 * 1024;

/// The longest time that a line waits before it is written.
pub(crate) const FLUSH_AFTER: Duration = Duration::from_secs(1);

/// The fields of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// `host - - [time] "request line" status bytes`: the Common Log Format. The last field is the number of
    /// content bytes sent.
    Common,
    /// The fields of `Common`, then `"referer" "user agent"`.
    Combined,
    /// The fields of `Combined`, then TLS version, cipher suite, and `full` or `resumed` for the session; three
    /// times `-` without TLS.
    Tls,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFormat, String> {
        match text {
            "common" => Ok(LogFormat::Common),
            "combined" => Ok(LogFormat::Combined),
            "tls" => Ok(LogFormat::Tls),
            _ => Err("give common, combined or tls".to_owned()),
        }
    }
}

/// The destination of log lines, which all loops share.
#[derive(Debug)]
pub struct LogFile {
    file: Mutex<File>,
    /// The path of the file, for reopening it; `None`: standard output.
    path: Option<PathBuf>,
    format: LogFormat,
}

impl LogFile {
    /// Appends to a file, which is created if it is missing; `-` is standard output.
    pub fn open(path: &Path, format: LogFormat) -> io::Result<LogFile> {
        let path = (path != Path::new("-")).then(|| path.to_owned());
        let file = match &path {
            Some(path) => append_to(path)?,
            None => File::from(rustix::io::fcntl_dupfd_cloexec(io::stdout(), 0)?),
        };
        Ok(LogFile {
            file: Mutex::new(file),
            path,
            format,
        })
    }

    /// The path of the file, for reopening it; `None` for standard output.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reopens the file at its path, as log rotation requires after it has moved the file away. If the file cannot be
    /// opened, lines continue to go to the old file.
    pub fn reopen(&self) -> io::Result<()> {
        if let Some(path) = &self.path {
            let file = append_to(path)?;
            *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// The TLS session of a connection, as a line shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggedSession {
    version: Version,
    cipher_suite: &'static str,
    resumed: bool,
}

impl LoggedSession {
    /// Returns the session of a connection over TCP.
    pub fn of(handshake: &Handshake) -> LoggedSession {
        LoggedSession {
            version: handshake.version,
            cipher_suite: handshake.cipher_suite.name(),
            resumed: match handshake.resumption {
                Resumption::Full => false,
                Resumption::SessionId | Resumption::Ticket | Resumption::Psk => true,
            },
        }
    }

    /// Returns the session of a connection over QUIC, which always uses TLS 1.3 (RFC 9001 section 4.2).
    pub fn of_quic(handshake: &fathometer_quic::Handshake) -> LoggedSession {
        LoggedSession {
            version: Version::Tls13,
            cipher_suite: handshake.cipher_suite.unwrap_or("-"),
            resumed: handshake.resumed,
        }
    }
}

/// The log lines of one loop.
#[derive(Debug)]
pub(crate) struct AccessLog {
    to: Arc<LogFile>,
    /// Time since the Unix epoch at [`Instant::ZERO`].
    wall_clock: Duration,
    lines: Vec<u8>,
    count: u64,
    oldest: Instant,
    /// The number of lines that could not be written.
    lost: u64,
    second: u64,
    time: [u8; 28],
}

impl AccessLog {
    pub fn new(to: Arc<LogFile>, clock: Clock) -> AccessLog {
        AccessLog {
            to,
            wall_clock: clock.realtime_of(Instant::ZERO),
            lines: Vec::with_capacity(2 * FULL),
            count: 0,
            oldest: Instant::ZERO,
            lost: 0,
            second: 0,
            time: log_time(0),
        }
    }

    /// Sets the wall clock after a step: the time since the Unix epoch at [`Instant::ZERO`].
    pub fn set_wall_clock(&mut self, at_zero: Duration) {
        self.wall_clock = at_zero;
    }

    /// Logs a response, with the TLS session of its connection.
    pub fn note(
        &mut self,
        peer: SocketAddr,
        served: &Served,
        text: &RequestText<'_>,
        session: Option<LoggedSession>,
    ) {
        let second = (self.wall_clock + served.received.since(Instant::ZERO)).as_secs();
        if second != self.second {
            self.second = second;
            self.time = log_time(second);
        }
        if self.lines.is_empty() {
            self.oldest = served.at;
        }
        let line = &mut self.lines;
        // Writing to a vector does not fail.
        let _ = write!(line, "{} - - ", peer.ip());
        line.extend_from_slice(&self.time);
        line.push(b' ');
        quoted(line, text.line);
        let _ = write!(line, " {} {}", served.status, served.body.0);
        if self.to.format != LogFormat::Common {
            for text in [text.referer, text.user_agent] {
                line.push(b' ');
                quoted(line, text);
            }
        }
        if self.to.format == LogFormat::Tls {
            let _ = match session {
                Some(session) => write!(
                    line,
                    " {} {} {}",
                    session.version,
                    session.cipher_suite,
                    if session.resumed { "resumed" } else { "full" }
                ),
                None => write!(line, " - - -"),
            };
        }
        line.push(b'\n');
        self.count += 1;
        if self.lines.len() >= FULL {
            self.flush();
        }
    }

    /// The time until lines must be written.
    pub fn due(&self, now: Instant) -> Option<Duration> {
        (!self.lines.is_empty()).then(|| (self.oldest + FLUSH_AFTER).since(now))
    }

    /// Writes the lines if they are due.
    pub fn flush_due(&mut self, now: Instant) {
        if self.due(now).is_some_and(|due| due.is_zero()) {
            self.flush();
        }
    }

    /// Writes all lines.
    pub fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let mut file = self.to.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&self.lines) {
            if self.lost == 0 {
                say(format_args!(
                    "failed to write to the access log: {error}; lines are lost"
                ));
            }
            self.lost += self.count;
        }
        self.lines.clear();
        self.count = 0;
    }

    /// The number of lines that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// Returns the time in the log format and in UTC: `[10/Oct/2000:13:55:36 +0000]`.
fn log_time(second: u64) -> [u8; 28] {
    let date = format_date(second);
    let mut time = *b"[00/Jan/1970:00:00:00 +0000]";
    time[1..3].copy_from_slice(&date[5..7]);
    time[4..7].copy_from_slice(&date[8..11]);
    time[8..12].copy_from_slice(&date[12..16]);
    time[13..21].copy_from_slice(&date[17..25]);
    time
}

/// Writes text in quotes. Quotes, backslashes and bytes that are not printable ASCII are written as `\xHH`;
/// empty text as `"-"`.
fn quoted(line: &mut Vec<u8>, text: &[u8]) {
    line.push(b'"');
    if text.is_empty() {
        line.push(b'-');
    }
    for &byte in text {
        if matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\' {
            line.push(byte);
        } else {
            let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
            line.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use fathometer_http::origin::Method;
    use fathometer_model::Bytes;

    use super::*;

    #[test]
    fn data_of_clients_cannot_end_its_quotes_in_the_log() {
        let mut line = Vec::new();
        quoted(&mut line, b"GET /\"a\\b\x1b[2J\r\n\xff HTTP/1.1");
        assert_eq!(line, br#""GET /\x22a\x5Cb\x1B[2J\x0D\x0A\xFF HTTP/1.1""#);
        line.clear();
        quoted(&mut line, b"");
        assert_eq!(line, b"\"-\"");
    }

    #[test]
    fn a_line_over_quic_has_the_session_of_its_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = Arc::new(LogFile::open(&path, LogFormat::Tls).unwrap());
        let mut log = AccessLog::new(file, Clock::start());
        let handshake = fathometer_quic::Handshake {
            cipher_suite: Some("TLS_AES_128_GCM_SHA256"),
            resumed: true,
            ..fathometer_quic::Handshake::default()
        };
        let served = Served {
            method: Method::Get,
            file: None,
            target_hash: 0,
            status: 200,
            request_head: Bytes(0),
            request_body: Bytes(0),
            head: Bytes(0),
            body: Bytes(0),
            received: Instant::ZERO,
            at: Instant::ZERO,
        };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let text = RequestText::default();
        log.note(
            peer,
            &served,
            &text,
            Some(LoggedSession::of_quic(&handshake)),
        );
        log.note(peer, &served, &text, None);
        log.flush();
        let lines = std::fs::read_to_string(&path).unwrap();
        let ends: Vec<&str> = lines
            .lines()
            .filter_map(|line| line.split_once("\"-\" \"-\" "))
            .map(|(_, end)| end)
            .collect();
        assert_eq!(ends, ["1.3 TLS_AES_128_GCM_SHA256 resumed", "- - -"]);
    }

    #[test]
    fn times_are_those_of_the_common_log_format() {
        assert_eq!(&log_time(784_111_777), b"[06/Nov/1994:08:49:37 +0000]");
    }
}
