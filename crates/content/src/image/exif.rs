//! The orientation in EXIF metadata (Exif 2.32, section 4.6.4), which has the format of TIFF.

/// The tag of the orientation.
const ORIENTATION: u16 = 0x0112;
/// The value for an upright image.
const UPRIGHT: u16 = 1;
/// The size of an entry in bytes: tag, type, count and value.
const ENTRY: usize = 12;

/// Returns whether the metadata may rotate or mirror the image: the orientation is not upright, or cannot be read.
pub(super) fn turns(tiff: &[u8]) -> bool {
    orientation(tiff) != Some(UPRIGHT)
}

/// Returns the orientation; upright if it is not stated. `None` if the directory is damaged.
fn orientation(tiff: &[u8]) -> Option<u16> {
    let is_little = match tiff.get(..4)? {
        b"II\x2a\0" => true,
        b"MM\0\x2a" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(match is_little {
            true => u16::from_le_bytes(bytes),
            false => u16::from_be_bytes(bytes),
        })
    };
    let long = |at: usize| {
        let bytes = tiff.get(at..at + 4)?.try_into().ok()?;
        Some(match is_little {
            true => u32::from_le_bytes(bytes),
            false => u32::from_be_bytes(bytes),
        })
    };
    let directory = usize::try_from(long(4)?).ok()?;
    for entry in 0..usize::from(short(directory)?) {
        let at = directory.checked_add(2 + entry * ENTRY)?;
        if short(at)? == ORIENTATION {
            return short(at.checked_add(8)?);
        }
    }
    Some(UPRIGHT)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates metadata with a resolution unit and this orientation.
    pub fn tiff(orientation: u16) -> Vec<u8> {
        let mut tiff = b"MM\0\x2a\0\0\0\x08\0\x02".to_vec();
        for (tag, value) in [(0x0128_u16, 2_u16), (ORIENTATION, orientation)] {
            tiff.extend(tag.to_be_bytes());
            tiff.extend(b"\0\x03\0\0\0\x01");
            tiff.extend(value.to_be_bytes());
            tiff.extend(b"\0\0");
        }
        tiff.extend(b"\0\0\0\0");
        tiff
    }

    #[test]
    fn metadata_turns_an_image_unless_it_is_surely_upright() {
        assert!(!turns(&tiff(1)));
        for orientation in [0, 2, 6, 8, 9] {
            assert!(turns(&tiff(orientation)), "{orientation}");
        }
        // Little-endian metadata, without an orientation.
        assert!(!turns(b"II\x2a\0\x08\0\0\0\0\0\0\0\0\0"));
        let upright = tiff(1);
        for length in 0..upright.len() - 6 {
            assert!(turns(&upright[..length]), "cut off at {length}");
        }
        assert!(turns(b"II\x2a\0\xff\xff\xff\xff"));
        assert!(turns(b"Exif\0\0MM\0\x2a"));
    }
}
