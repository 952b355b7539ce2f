//! Time stamps in the archive: ISO 8601 with a time zone.

use std::time::Duration;

use fathometer_model::calendar;

use super::json::Node;
use crate::fault::Fault;

/// Parses an ISO 8601 time stamp with a time zone, such as `2024-05-01T10:20:30.125Z`, into the time since the
/// Unix epoch.
pub(super) fn instant(node: &Node<'_>) -> Result<Duration, Fault> {
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
    let days = calendar::days(year, month, day)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanoseconds))
}

fn number(text: &str) -> Option<i64> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_read_in_any_zone() {
        let seconds = |text| since_epoch(text).map(|time| time.as_secs_f64());
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(
            seconds("2009-07-24T19:20:30.45+01:00"),
            Some(1_248_459_630.45)
        );
        assert_eq!(
            seconds("2009-07-24T19:20:30.45+0100"),
            Some(1_248_459_630.45)
        );
        for wrong in [
            "",
            "T",
            "2009-07-24T19:20:30",
            "2009-02-30T00:00:00Z",
            "2009-07-24T19:20:30.x5Z",
            "2009-07-24T19:20:30+ä0",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
