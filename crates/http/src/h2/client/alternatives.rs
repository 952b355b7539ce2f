//! Announcements of alternative services in ALTSVC frames (RFC 7838 section 4).
//!
//! A frame on a stream concerns the origin of that stream's request and names no origin. A frame on the connection
//! names the origin that it concerns. All other forms, and frames on streams that are not open, are ignored, as the RFC
//! requires. The caller decides whether the server is authoritative for the named origin.

/// The last alternative service that the server announced.
#[derive(Debug, Default)]
pub(super) struct Announcement {
    pub(super) origin: String,
    pub(super) value: String,
}

impl Announcement {
    /// Replaces the announcement. Changes nothing and returns false if the origin or the value is not ASCII.
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
