//! Announcements of alternative services in ALTSVC frames (RFC 7838 section 4).
//!
//! A frame on a stream concerns the origin of its request and names no origin. A frame on the connection names
//! the origin that it concerns. All other forms are ignored, as the RFC requires, and so is a frame on a stream
//! that is not open. The caller decides whether the server is an authority for the origin that it names.

/// The last announcement.
#[derive(Debug, Default)]
pub(super) struct Announcement {
    pub(super) origin: String,
    pub(super) value: String,
}

impl Announcement {
    /// Replaces the announcement; returns whether it is one: both texts are ASCII by their grammar.
    pub(super) fn set(&mut self, origin: &[u8], value: &[u8]) -> bool {
        let (Ok(origin), Ok(value)) = (str::from_utf8(origin), str::from_utf8(value)) else {
            return false;
        };
        if !origin.is_ascii() || !value.is_ascii() {
            return false;
        }
        self.origin.clear();
        self.origin.push_str(origin);
        self.value.clear();
        self.value.push_str(value);
        true
    }
}
