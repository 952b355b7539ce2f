//! The settings of one side of a connection (RFC 9113 section 6.5, RFC 9218 section 2.1).

use super::error::{ConnectionError, Fault};
use super::flow::MAX_WINDOW;

/// Identifiers of settings.
pub mod id {
    /// `SETTINGS_HEADER_TABLE_SIZE`
    pub const HEADER_TABLE_SIZE: u16 = 0x1;
    /// `SETTINGS_ENABLE_PUSH`
    pub const ENABLE_PUSH: u16 = 0x2;
    /// `SETTINGS_MAX_CONCURRENT_STREAMS`
    pub const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    /// `SETTINGS_INITIAL_WINDOW_SIZE`
    pub const INITIAL_WINDOW_SIZE: u16 = 0x4;
    /// `SETTINGS_MAX_FRAME_SIZE`
    pub const MAX_FRAME_SIZE: u16 = 0x5;
    /// `SETTINGS_MAX_HEADER_LIST_SIZE`
    pub const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    /// `SETTINGS_NO_RFC7540_PRIORITIES`
    pub const NO_RFC7540_PRIORITIES: u16 = 0x9;
}

/// The minimum and initial value of SETTINGS_MAX_FRAME_SIZE, in bytes.
pub const MIN_FRAME_SIZE: u32 = 1 << 14;
/// The maximum value of SETTINGS_MAX_FRAME_SIZE, in bytes.
pub const MAX_FRAME_SIZE: u32 = (1 << 24) - 1;

/// The settings of one side. [`Default`] gives the initial values of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The maximum size of this side's HPACK decoder table, in bytes.
    pub header_table_size: u32,
    /// Whether this side accepts pushes.
    pub enable_push: bool,
    /// The maximum number of streams that the other side may have open; `None`: no limit.
    pub max_concurrent_streams: Option<u32>,
    /// The initial window of a new stream, in bytes; at most 2^31 − 1.
    pub initial_window_size: u32,
    /// The maximum payload of a frame, in bytes: 2^14 to 2^24 − 1.
    pub max_frame_size: u32,
    /// The maximum size of a field section before compression in bytes, plus 32 for each field; `None`: no limit.
    pub max_header_list_size: Option<u32>,
    /// Whether this side ignores the priorities of RFC 7540.
    pub no_rfc7540_priorities: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            header_table_size: 4096,
            enable_push: true,
            max_concurrent_streams: None,
            initial_window_size: 65_535,
            max_frame_size: MIN_FRAME_SIZE,
            max_header_list_size: None,
            no_rfc7540_priorities: false,
        }
    }
}

impl Settings {
    /// Applies one received setting. Unknown settings are ignored.
    pub fn apply(&mut self, id: u16, value: u32) -> Result<(), ConnectionError> {
        match id {
            id::HEADER_TABLE_SIZE => self.header_table_size = value,
            id::ENABLE_PUSH => self.enable_push = flag(value)?,
            id::MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = Some(value),
            id::INITIAL_WINDOW_SIZE if value > MAX_WINDOW => {
                return Err(Fault::BadInitialWindow.into());
            }
            id::INITIAL_WINDOW_SIZE => self.initial_window_size = value,
            id::MAX_FRAME_SIZE if !(MIN_FRAME_SIZE..=MAX_FRAME_SIZE).contains(&value) => {
                return Err(Fault::BadSetting.into());
            }
            id::MAX_FRAME_SIZE => self.max_frame_size = value,
            id::MAX_HEADER_LIST_SIZE => self.max_header_list_size = Some(value),
            id::NO_RFC7540_PRIORITIES => self.no_rfc7540_priorities = flag(value)?,
            _ => {}
        }
        Ok(())
    }

    /// The settings to send: those that differ from `before`. A limit that only `before` has is sent as the largest
    /// number.
    pub fn changes(&self, before: &Settings) -> impl Iterator<Item = (u16, u32)> + use<> {
        let known = |settings: &Settings| {
            let unlimited = |limit: Option<u32>| limit.unwrap_or(u32::MAX);
            [
                (id::HEADER_TABLE_SIZE, settings.header_table_size),
                (id::ENABLE_PUSH, settings.enable_push.into()),
                (
                    id::MAX_CONCURRENT_STREAMS,
                    unlimited(settings.max_concurrent_streams),
                ),
                (id::INITIAL_WINDOW_SIZE, settings.initial_window_size),
                (id::MAX_FRAME_SIZE, settings.max_frame_size),
                (
                    id::MAX_HEADER_LIST_SIZE,
                    unlimited(settings.max_header_list_size),
                ),
                (
                    id::NO_RFC7540_PRIORITIES,
                    settings.no_rfc7540_priorities.into(),
                ),
            ]
        };
        let (now, before) = (known(self), known(before));
        now.into_iter()
            .zip(before)
            .filter(|(now, before)| now != before)
            .map(|(now, _)| now)
    }
}

fn flag(value: u32) -> Result<bool, ConnectionError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Fault::BadSetting.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::error::ErrorCode;

    #[test]
    fn values_have_the_bounds_of_the_rfc() {
        for (id, value, code) in [
            (id::ENABLE_PUSH, 2, ErrorCode::PROTOCOL_ERROR),
            (id::NO_RFC7540_PRIORITIES, 2, ErrorCode::PROTOCOL_ERROR),
            (
                id::INITIAL_WINDOW_SIZE,
                1 << 31,
                ErrorCode::FLOW_CONTROL_ERROR,
            ),
            (id::MAX_FRAME_SIZE, (1 << 14) - 1, ErrorCode::PROTOCOL_ERROR),
            (id::MAX_FRAME_SIZE, 1 << 24, ErrorCode::PROTOCOL_ERROR),
        ] {
            let mut settings = Settings::default();
            assert_eq!(settings.apply(id, value).unwrap_err().code, code, "{id}");
            assert_eq!(settings, Settings::default());
            assert!(settings.apply(id, value - 1).is_ok() || value == (1 << 14) - 1);
        }
        let mut settings = Settings::default();
        settings.apply(0xabcd, 7).unwrap();
        assert_eq!(
            settings,
            Settings::default(),
            "unknown settings are ignored"
        );
    }

    #[test]
    fn only_settings_that_differ_from_defaults_are_sent() {
        let wanted = Settings {
            enable_push: false,
            max_concurrent_streams: Some(100),
            initial_window_size: 1 << 20,
            no_rfc7540_priorities: true,
            ..Settings::default()
        };
        let sent: Vec<_> = wanted.changes(&Settings::default()).collect();
        assert_eq!(sent.len(), 4);
        let mut read = Settings::default();
        for (id, value) in sent {
            read.apply(id, value).unwrap();
        }
        assert_eq!(read, wanted);
        assert_eq!(wanted.changes(&wanted).count(), 0);
    }
}
