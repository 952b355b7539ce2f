//! A verdict for programs.
//!
//! One object: `format` (1; it changes when a member changes its meaning or goes), `named` (the
//! resource, or `null`), and the members of [`Verdict`] under their names. Resources, effects and the
//! like are words as in `disk-operations`; times are seconds; shares are from 0 to 1; what was not
//! measured is `null`. An estimate has `n`, `value` and `interval` (`low`, `high`; `null` below two
//! pairs).

use serde::{Deserialize, Serialize};

use super::{Resource, Verdict};

/// The form of the object.
pub const FORMAT: u32 = 1;

/// A verdict as it stands in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: u32,
    /// The resource that is named.
    pub named: Option<Resource>,
    /// The rest.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The object, indented, with a line end.
pub fn render(verdict: &Verdict) -> String {
    let document = Document {
        format: FORMAT,
        named: verdict.named(),
        verdict: verdict.clone(),
    };
    let text = serde_json::to_string_pretty(&document).expect("every member has a form in JSON");
    text + "\n"
}
