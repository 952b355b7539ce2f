//! The tables and figures in a paper, and their counterparts in the study.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{StudyData, TABLES};
use crate::Error;

/// A table or figure of the paper, and its counterpart in the study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The paper's number: `T4` is table 4, `F12` is figure 12.
    pub id: String,
    /// The title of the table or figure.
    pub title: String,
    /// The tables and curves of the study that are the counterpart. Empty: the table or curve with this identifier.
    #[serde(default)]
    pub here: Vec<String>,
    /// The reason why the study has no counterpart.
    pub absent: Option<String>,
}

impl Printed {
    /// The identifiers of the counterparts.
    pub(crate) fn counterparts(&self) -> impl Iterator<Item = &str> {
        let own = self.here.is_empty() && self.absent.is_none();
        let here = self.here.iter().map(String::as_str);
        here.chain(own.then_some(self.id.as_str()))
    }
}

impl StudyData {
    /// The reason why the study has no counterpart: the stated reason or, for a counterpart table that is absent, the
    /// reason of that table.
    pub(crate) fn reason_for_absence<'a>(&'a self, printed: &'a Printed) -> Option<&'a str> {
        let of_table = || {
            let mut tables = printed.counterparts().filter_map(|id| self.table(id));
            tables.find_map(|table| table.absent.as_deref())
        };
        printed.absent.as_deref().or_else(of_table)
    }

    pub(super) fn check_printed(&self, printed: &Printed) -> Result<(), Error> {
        let place = format!("printed {:?}", printed.id);
        if printed.absent.is_some() && !printed.here.is_empty() {
            let message =
                format!("{place}: must have either counterparts or a reason why it is absent");
            return Err(Error::study(TABLES, message));
        }
        let tables = self.tables.iter().map(|table| table.id.as_str());
        let known = tables.chain(self.curves.iter().map(|curve| curve.id.as_str()));
        for id in printed.counterparts() {
            super::check::known_word(TABLES, &place, "table or curve", id, known.clone())?;
        }
        Ok(())
    }
}
