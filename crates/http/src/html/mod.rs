//! Finding references in HTML.
