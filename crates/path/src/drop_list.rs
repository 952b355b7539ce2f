//! Packets to drop by number.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Numbers of packets to drop, as sorted inclusive ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropList {
    ranges: Vec<(u64, u64)>,
}

impl DropList {
    /// Creates a list from inclusive ranges `(first, last)`; a range with `first` above `last` is empty.
    pub fn new(mut ranges: Vec<(u64, u64)>) -> DropList {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1.saturating_add(1) => {
                    previous.1 = previous.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        DropList { ranges: merged }
    }

    /// Whether packet number `index` is in the list.
    pub fn contains(&self, index: u64) -> bool {
        let after = self.ranges.partition_point(|(first, _)| *first <= index);
        after > 0 && self.ranges[after - 1].1 >= index
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// The schema of a list of packet numbers and ranges, such as `3` and `"10-14"`.
impl JsonSchema for DropList {
    fn schema_name() -> Cow<'static, str> {
        "DropList".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Packet numbers from 0 and ranges with both ends, as in [3, \"10-14\"].",
            "type": "array",
            "items": { "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+-[0-9]+$" },
            ] },
        })
    }
}

impl<'de> Deserialize<'de> for DropList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DropList, D::Error> {
        struct Entry(u64, u64);
        impl<'de> Deserialize<'de> for Entry {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entry, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = Entry;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a packet number from 0, or a range as in \"10-14\"")
                    }
                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Entry, E> {
                        u64::try_from(number)
                            .map(|number| Entry(number, number))
                            .map_err(|_| {
                                E::invalid_value(serde::de::Unexpected::Signed(number), &self)
                            })
                    }
                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Entry, E> {
                        Ok(Entry(number, number))
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Entry, E> {
                        text.split_once('-')
                            .and_then(|(first, last)| {
                                Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
                            })
                            .filter(|(first, last): &(u64, u64)| first <= last)
                            .map(|(first, last)| Entry(first, last))
                            .ok_or_else(|| {
                                E::invalid_value(serde::de::Unexpected::Str(text), &self)
                            })
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }
        let entries = Vec::<Entry>::deserialize(deserializer)?;
        Ok(DropList::new(
            entries
                .into_iter()
                .map(|entry| (entry.0, entry.1))
                .collect(),
        ))
    }
}

impl Serialize for DropList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.ranges
                .iter()
                .map(|(first, last)| format!("{first}-{last}")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_list_holds_exactly_its_numbers() {
        let list = DropList::new(vec![(10, 14), (3, 3), (9, 2), (14, 20)]);
        let held: Vec<u64> = (0..30).filter(|&n| list.contains(n)).collect();
        assert_eq!(held, [3, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
    }
}
