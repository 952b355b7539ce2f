//! A verdict as JSON.
//!
//! The output is one object: `format` (1; it changes when the meaning of a member changes or a member is
//! removed), `named` (the resource, or `null`), and the members of [`Verdict`] under their names. Resources,
//! effects and similar values are words such as `disk-operations`. Times are in seconds, and shares are between
//! 0 and 1. A value that was not measured is `null`. An estimate has `n`, `value` and `interval` (`low`, `high`;
//! `null` with fewer than two pairs).

use serde::{Deserialize, Serialize};

use super::{Resource, Verdict};

/// The version of the object's format.
pub const FORMAT: u32 = 1;

/// A verdict in the form in which it is written to a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: u32,
    /// The resource that the verdict names.
    pub named: Option<Resource>,
    /// All other members.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The object as indented JSON, with a line end.
pub fn render(verdict: &Verdict) -> String {
    let document = Document {
        format: FORMAT,
        named: verdict.named(),
        verdict: verdict.clone(),
    };
    let text = serde_json::to_string_pretty(&document).expect("every member has a form in JSON");
    text + "\n"
}
