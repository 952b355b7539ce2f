//! Parses durations in profiles: `45ms`, `0.15 ms`, `2s`, `500us`, `20ns`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serializer};

const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// Parses a number with a unit, in exact decimal arithmetic, to the nanosecond.
fn parse(text: &str) -> Option<Duration> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let digits = compact.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = compact.split_at(digits);
    let &(_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let mut nanos = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.chars() {
        if place % 10 != 0 {
            return None;
        }
        place /= 10;
        nanos = nanos.checked_add(u64::from(digit.to_digit(10)?) * place)?;
    }
    Some(Duration::from_nanos(nanos))
}

pub(crate) fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (unit, scale) = UNITS
        .into_iter()
        .rev()
        .find(|&(_, scale)| nanos >= u128::from(scale))
        .unwrap_or(("ms", 1_000_000));
    let (whole, rest) = (nanos / u128::from(scale), nanos % u128::from(scale));
    if rest == 0 {
        return format!("{whole}{unit}");
    }
    let width = scale.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

pub(crate) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*value))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{text:?} is not a duration: write a number and a unit (ns, us, ms, s), as in 45ms"
        ))
    })
}

/// Parses the duration of an optional key.
pub(crate) mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        struct Text(#[serde(with = "super")] Duration);
        Ok(Some(Text::deserialize(deserializer)?.0))
    }
}

/// The schema of a duration in a file.
pub(crate) struct DurationText;

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number and a unit, as in \"0.15ms\".",
            "type": "string",
            "pattern": "^[0-9]+(\\.[0-9]+)?\\s*(ns|us|ms|s)$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_exactly() {
        for (text, nanos) in [
            ("45ms", 45_000_000),
            ("0.15 ms", 150_000),
            ("2s", 2_000_000_000),
            ("500us", 500_000),
            ("0.000000001s", 1),
            ("0ms", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in [
            "", "45", "ms", ".5ms", "5.ms", "-1ms", "1.2.3ms", "0.5ns", "1 h",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["45ms", "150us", "2s", "1.5s", "13.055556ms", "7ns", "0ms"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
    }
}
