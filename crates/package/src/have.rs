//! `Package-Have`: the files that a client already has, so that a package can omit them.
//!
//! The field is a byte sequence (RFC 9651 section 3.3.5) of keys of eight bytes each, in ascending order. A key
//! identifies a file in one state: it is the first part of the SHA-256 of the name, a NUL and the entity tag.

use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::digest;

/// The length of a key in bytes.
const LENGTH: usize = 8;
/// The maximum number of keys in a field. Accepted request heads cannot contain more keys.
const MOST_KEYS: usize = 16_384;

/// The key of a file in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; LENGTH]);

/// Computes the key of the file `name` with the entity tag `etag`, including its quotation marks.
pub fn key(name: &str, etag: &str) -> Key {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in [name.as_bytes(), b"\0", etag.as_bytes()] {
        context.update(part);
    }
    let mut key = [0; LENGTH];
    key.copy_from_slice(&context.finish().as_ref()[..LENGTH]);
    Key(key)
}

/// The reason why a field's value is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HaveError {
    /// The value is not a byte sequence between colons.
    #[error("the field is not a byte sequence")]
    NotBytes,
    /// The length is not a multiple of the length of a key.
    #[error("the field ends within a key")]
    PartOfKey,
    /// The keys do not ascend.
    #[error("the keys do not ascend")]
    OutOfOrder,
    /// The field has more keys than are accepted.
    #[error("the field has too many keys")]
    TooMany,
}

/// The files that a client has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// The keys in ascending order, without duplicates.
    keys: Vec<Key>,
}

impl Keys {
    /// Creates an empty list of keys.
    pub const fn none() -> Keys {
        Keys { keys: Vec::new() }
    }

    /// Parses the value of a field. A server treats an invalid value like an empty list.
    pub fn parse(value: &[u8]) -> Result<Keys, HaveError> {
        let text = match value.trim_ascii() {
            [b':', text @ .., b':'] => text,
            _ => return Err(HaveError::NotBytes),
        };
        if text.len() / 4 * 3 > MOST_KEYS * LENGTH + 3 {
            return Err(HaveError::TooMany);
        }
        let bytes = BASE64.decode(text).map_err(|_| HaveError::NotBytes)?;
        let (whole, part) = bytes.as_chunks::<LENGTH>();
        if !part.is_empty() {
            return Err(HaveError::PartOfKey);
        }
        if !whole.is_sorted_by(|one, next| one < next) {
            return Err(HaveError::OutOfOrder);
        }
        Ok(Keys {
            keys: whole.iter().copied().map(Key).collect(),
        })
    }

    /// Returns whether the client has the file `name` in the state `etag`.
    pub fn contains(&self, name: &str, etag: &str) -> bool {
        !self.keys.is_empty() && self.keys.binary_search(&key(name, etag)).is_ok()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the keys in ascending order.
    pub fn as_slice(&self) -> &[Key] {
        &self.keys
    }
}

impl FromIterator<Key> for Keys {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Keys {
        let mut keys: Vec<Key> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        Keys { keys }
    }
}

/// The value of the field.
impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<u8> = self.keys.iter().flat_map(|key| key.0).collect();
        write!(f, ":{}:", BASE64.encode(bytes))
    }
}

/// Base64 (RFC 4648 section 4), written with padding. Parsers must accept missing padding, and any value of the bits
/// after the last byte (RFC 9651 section 4.2.7).
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: impl Iterator<Item = u8>) -> Keys {
        bytes.map(|byte| Key([byte; LENGTH])).collect()
    }

    #[test]
    fn the_example_of_the_specification_has_these_keys() {
        let logo = key("logo.gif", "\"7\"");
        assert_eq!(logo.0, 0xc5c9_8079_655e_10e2_u64.to_be_bytes());
        let dot = key("img/dot.png", "W/\"2-a\"");
        assert_eq!(dot.0, 0xdeb1_eeed_bea9_bdf4_u64.to_be_bytes());
        let both: Keys = [dot, logo, dot].into_iter().collect();
        assert_eq!(both.as_slice(), [logo, dot]);
        let value = both.to_string();
        assert_eq!(value, ":xcmAeWVeEOLese7tvqm99A==:");
        let read = Keys::parse(value.as_bytes()).unwrap();
        assert_eq!(read, both);
        assert!(read.contains("logo.gif", "\"7\""));
        assert!(!read.contains("logo.gif", "\"8\""));
        assert!(!read.contains("logo.gi", "f\"7\""));
    }

    #[test]
    fn any_number_of_keys_reads_back() {
        for number in 0..=64 {
            let some = keys((0..number).rev());
            let value = some.to_string();
            assert_eq!(Keys::parse(value.as_bytes()), Ok(some.clone()), "{value}");
            let padded = format!(" {value}\t");
            assert_eq!(Keys::parse(padded.as_bytes()), Ok(some.clone()));
            let bare = value.replace('=', "");
            assert_eq!(Keys::parse(bare.as_bytes()), Ok(some), "{bare}");
        }
        assert_eq!(keys(0..0).to_string(), "::");
    }

    #[test]
    fn a_malformed_list_of_keys_is_refused() {
        for (value, error) in [
            ("", HaveError::NotBytes),
            (":", HaveError::NotBytes),
            ("xcmAeWVeEOI=", HaveError::NotBytes),
            (":xcmAeWVeEOI=", HaveError::NotBytes),
            (":xcmAeWVeE_I=:", HaveError::NotBytes),
            (":xcmAeW VeEOI=:", HaveError::NotBytes),
            (":xcmAeWVeEOI==:", HaveError::NotBytes),
            (":xcmA=WVeEOI=:", HaveError::NotBytes),
            (":x:", HaveError::NotBytes),
            (":====:", HaveError::NotBytes),
            (":xcmAeWVeEOI=:;a=1", HaveError::NotBytes),
            (":xcmAeWVe:", HaveError::PartOfKey),
            // The first value has a duplicate; the second is the example in descending order.
            (":xcmAeWVeEOLFyYB5ZV4Q4g==:", HaveError::OutOfOrder),
            (":3rHu7b6pvfTFyYB5ZV4Q4g==:", HaveError::OutOfOrder),
        ] {
            assert_eq!(Keys::parse(value.as_bytes()), Err(error), "{value}");
        }
        let most = format!(":{}:", "A".repeat((MOST_KEYS + 1) * LENGTH / 3 * 4));
        assert_eq!(Keys::parse(most.as_bytes()), Err(HaveError::TooMany));
    }
}
