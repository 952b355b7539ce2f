//! A hash that shows whether all ranks run the same plan.

use std::fmt::{self, Debug, Write as _};

use ring::digest::{Context, SHA256};

struct Digest(Context);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// Returns the SHA-256 of the `Debug` text of values. In the same build, equal values have equal hashes.
pub fn hash(values: &[&dyn Debug]) -> [u8; 32] {
    let mut digest = Digest(Context::new(&SHA256));
    for value in values {
        // Writing to a digest never fails.
        let _ = writeln!(digest, "{value:?}");
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(digest.0.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_hashes_and_others_do_not() {
        assert_eq!(hash(&[&1, &"a"]), hash(&[&1, &"a"]));
        assert_ne!(hash(&[&1, &"a"]), hash(&[&"a", &1]));
        assert_ne!(hash(&[&1.5]), hash(&[&1.25]));
    }
}
