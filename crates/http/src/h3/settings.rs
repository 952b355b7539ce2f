//! Settings (RFC 9114 section 7.2.4, RFC 9204 section 5).

use super::error::Fault;
use super::frame::{self, FrameType};
use super::varint;

/// The settings that each side sends once, at the start of its control stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// The maximum size of a field section in bytes, plus 32 for each field; `None`: no limit.
    pub max_field_section_size: Option<u64>,
    /// The maximum dynamic table of this side's decoder, in bytes; 0: no table.
    pub qpack_max_table_capacity: u64,
    /// The maximum number of streams that may wait for entries of the dynamic table.
    pub qpack_blocked_streams: u64,
}

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;

/// The maximum number of settings in one frame. Three are defined here; extensions and reserved settings may add more.
const MOST: usize = 64;

impl Settings {
    /// Reads the payload of a SETTINGS frame.
    pub(super) fn read(mut payload: &[u8]) -> Result<Settings, Fault> {
        let mut settings = Settings::default();
        let mut seen = [0; MOST];
        let mut count = 0;
        while !payload.is_empty() {
            let id = varint::take(&mut payload).ok_or(Fault::MalformedFrame)?;
            let value = varint::take(&mut payload).ok_or(Fault::MalformedFrame)?;
            if seen[..count].contains(&id) {
                return Err(Fault::BadSettings);
            }
            *seen.get_mut(count).ok_or(Fault::Flood)? = id;
            count += 1;
            match id {
                QPACK_MAX_TABLE_CAPACITY => settings.qpack_max_table_capacity = value,
                MAX_FIELD_SECTION_SIZE => settings.max_field_section_size = Some(value),
                QPACK_BLOCKED_STREAMS => settings.qpack_blocked_streams = value,
                // These HTTP/2 settings are reserved in HTTP/3.
                0x0 | 0x2..=0x5 => return Err(Fault::BadSettings),
                _ => {}
            }
        }
        Ok(settings)
    }

    /// Appends a SETTINGS frame. If `reserved` is given, the frame also contains one reserved setting.
    pub(super) fn write(&self, reserved: Option<u64>, out: &mut Vec<u8>) {
        let mut pairs = [(0, 0); 4];
        let mut count = 0;
        let mut add = |id, value| {
            pairs[count] = (id, value);
            count += 1;
        };
        if self.qpack_max_table_capacity > 0 {
            add(QPACK_MAX_TABLE_CAPACITY, self.qpack_max_table_capacity);
        }
        if let Some(size) = self.max_field_section_size {
            add(MAX_FIELD_SECTION_SIZE, size);
        }
        if self.qpack_blocked_streams > 0 {
            add(QPACK_BLOCKED_STREAMS, self.qpack_blocked_streams);
        }
        if let Some(number) = reserved {
            add(frame::reserved(number), number);
        }
        let bytes = |&(id, value): &(u64, u64)| varint::length(id) + varint::length(value);
        let length = pairs[..count].iter().map(bytes).sum::<usize>();
        frame::write_header(FrameType::SETTINGS, length as u64, out);
        for &(id, value) in &pairs[..count] {
            varint::write(id, out);
            varint::write(value, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_settings_are_read_back() {
        for settings in [
            Settings::default(),
            Settings {
                max_field_section_size: Some(65_536),
                qpack_max_table_capacity: 4096,
                qpack_blocked_streams: 16,
            },
        ] {
            for reserved in [None, Some(7)] {
                let mut out = Vec::new();
                settings.write(reserved, &mut out);
                assert_eq!((out[0], usize::from(out[1])), (4, out.len() - 2));
                assert_eq!(Settings::read(&out[2..]), Ok(settings));
            }
        }
    }

    #[test]
    fn invalid_settings_are_refused() {
        for (payload, fault) in [
            (&[1][..], Fault::MalformedFrame),
            (&[0x40], Fault::MalformedFrame),
            (&[1, 0x40], Fault::MalformedFrame),
            (&[1, 0, 1, 0], Fault::BadSettings),
            (&[0x21, 0, 0x21, 0], Fault::BadSettings),
            (&[2, 0], Fault::BadSettings),
            (&[5, 0], Fault::BadSettings),
            (&[0, 0], Fault::BadSettings),
        ] {
            assert_eq!(Settings::read(payload), Err(fault), "{payload:?}");
        }
        let many: Vec<u8> = (0..65).flat_map(|id| [0x41, id, 0]).collect();
        assert_eq!(Settings::read(&many), Err(Fault::Flood));
        assert!(Settings::read(&many[..64 * 3]).is_ok());
    }
}
