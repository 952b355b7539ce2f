//! The static table (RFC 7541 appendix A).

use super::fixed::Fixed;

/// The number of fields in the static table. Larger indices refer to the dynamic table.
pub(super) const LENGTH: u64 = 61;

/// The fields, at positions that are one less than their indices.
pub(super) static FIELDS: Fixed<61, 128> = Fixed::new([
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::fixed::FixedMatch;
    use crate::hpack::hash;

    #[test]
    fn every_field_is_found_at_its_index() {
        for place in 0..61 {
            let (name, value) = FIELDS.field(place).unwrap();
            let hash = hash::of(name.as_bytes());
            let found = FIELDS.find(hash, name.as_bytes(), value.as_bytes());
            assert_eq!(found, FixedMatch::Field(place));
        }
        assert_eq!(FIELDS.field(61), None);
        let find = |name: &str| FIELDS.find(hash::of(name.as_bytes()), name.as_bytes(), b"other");
        assert_eq!(find(":status"), FixedMatch::Name(7));
        assert_eq!(find("www-authenticate"), FixedMatch::Name(60));
        assert_eq!(find("x-other"), FixedMatch::None);
        assert_eq!(find(""), FixedMatch::None);
    }
}
