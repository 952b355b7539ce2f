//! Checks values of a manifest before Kubernetes does. The errors state the valid form.

use std::fmt;
use std::str::FromStr;

/// The longest label of a DNS name (RFC 1035 section 2.3.4).
const LONGEST_LABEL: usize = 63;

/// A name that is a DNS label (RFC 1035 section 2.3.1), as a Service requires: lower-case letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

/// An amount of a resource: `500m` or `2` processors, `512Mi` of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity(String);

/// The error for an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(&'static str);

impl Name {
    /// Whether the host name of each pod, `NAME-INDEX`, is a DNS label if the Job has this number of pods.
    pub fn fits(&self, pods: u32) -> bool {
        let digits = pods
            .saturating_sub(1)
            .checked_ilog10()
            .map_or(1, |log| log as usize + 1);
        self.0.len() + 1 + digits <= LONGEST_LABEL
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Name, InvalidValue> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_label = text.bytes().all(inner)
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-')
            && text.len() <= LONGEST_LABEL;
        match is_label {
            true => Ok(Name(text.to_owned())),
            false => Err(InvalidValue(
                "write at most 63 lower-case letters, digits and hyphens, a letter first and no hyphen last",
            )),
        }
    }
}

impl FromStr for Quantity {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Quantity, InvalidValue> {
        let units = ["m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"];
        let letters = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &text[..text.len() - letters.len()];
        let amount = number.parse::<f64>().is_ok_and(|amount| amount > 0.0);
        let is_plain = number.starts_with(|c: char| c.is_ascii_digit()) && !number.ends_with('.');
        match amount && is_plain && (letters.is_empty() || units.contains(&letters)) {
            true => Ok(Quantity(text.to_owned())),
            false => Err(InvalidValue(
                "write an amount as Kubernetes does: 2 or 500m processors, 512Mi of memory",
            )),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels_with_room_for_an_index() {
        for good in ["a", "fathometer", "load-2"] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for bad in ["", "A", "2a", "a-", "a.b", "a_b", "ä", &"a".repeat(64)] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
        let name: Name = "a".repeat(61).parse().unwrap();
        assert!(name.fits(1) && name.fits(10) && !name.fits(11));
    }

    #[test]
    fn quantities_are_numbers_with_a_unit_of_kubernetes() {
        for good in ["1", "0.5", "500m", "512Mi", "2Gi", "1e"] {
            assert_eq!(good.parse::<Quantity>().is_ok(), good != "1e", "{good}");
        }
        for bad in [
            "", "0", "Mi", "-1", "1.", ".5", "1.2.3", "512MB", "1 Gi", "inf",
        ] {
            assert!(bad.parse::<Quantity>().is_err(), "{bad}");
        }
    }
}
