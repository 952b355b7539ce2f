//! Dates in the formats of HTTP (RFC 9110 section 5.6.7), in fixed buffers.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// The length of a date in the preferred format: `Mon, 24 Mar 1997 20:19:34 GMT`.
pub const DATE_LENGTH: usize = 29;

/// 9999-12-31T23:59:59Z, the last second that the format can represent.
const LAST_SECOND: u64 = 253_402_300_799;

/// Formats a time in seconds since the Unix epoch in the preferred format. Times after the year 9999 are formatted as
/// the last second of that year.
pub fn format_date(second: u64) -> [u8; DATE_LENGTH] {
    let time = UNIX_EPOCH + Duration::from_secs(second.min(LAST_SECOND));
    let mut text = [b' '; DATE_LENGTH];
    // The buffer has the length of the format, so the text is never truncated.
    let _ = write!(&mut text[..], "{}", httpdate::HttpDate::from(time));
    text
}

/// Parses a date in any of the three formats of HTTP; returns seconds since the Unix epoch. Text after a semicolon is
/// ignored, because browsers of the 1990s appended `; length=1234`.
pub fn parse_date(text: &[u8]) -> Option<u64> {
    let date = text.split(|&byte| byte == b';').next()?.trim_ascii();
    let time = httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()?;
    time.duration_since(UNIX_EPOCH)
        .ok()
        .map(|since| since.as_secs())
}

/// The formatted current time, updated only when the second changes.
#[derive(Debug, Clone)]
pub struct DateText {
    second: u64,
    text: [u8; DATE_LENGTH],
}

impl Default for DateText {
    fn default() -> DateText {
        DateText {
            second: 0,
            text: *b"Thu, 01 Jan 1970 00:00:00 GMT",
        }
    }
}

impl DateText {
    /// Returns the date for a time in seconds since the Unix epoch.
    pub fn at(&mut self, second: u64) -> &[u8; DATE_LENGTH] {
        if second != self.second {
            self.text = format_date(second);
            self.second = second;
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_all_three_formats_are_parsed_back() {
        let second = 784_111_777;
        assert_eq!(&format_date(second), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 GMT; length=43008",
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(second), "{text}");
        }
        for text in ["", "0", "yesterday", "Sun, 06 Nov 1994 08:49:37 CET"] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
        assert_eq!(&format_date(u64::MAX)[12..16], b"9999");
    }

    #[test]
    fn the_cached_text_follows_the_second() {
        let mut text = DateText::default();
        for second in [0, 1, 1, 784_111_777, 0] {
            assert_eq!(*text.at(second), format_date(second));
        }
    }
}
