//! What a retrieval lacks: files that were refused, and references that were not followed.

use std::collections::HashMap;

use fathometer_http::driver::{MOST_FILES, PageList, Retrieval};
use fathometer_model::Outcome;

/// Number of refused targets that the screen lists.
const LISTED: usize = 20;

/// What a retrieval lacks.
pub(super) struct Missing<'r> {
    /// Files for which the server sent a status other than success: target and status.
    pub(super) refused: Vec<(&'r str, u16)>,
    /// The status of the page itself, if it is one of these.
    pub(super) page_status: Option<u16>,
    /// References that were not followed because there were too many.
    pub(super) left_out: u32,
    /// Whether nothing is missing.
    pub(super) complete: bool,
}

impl<'r> Missing<'r> {
    pub(super) fn of(retrieval: &'r Retrieval, list: Option<&PageList>) -> Missing<'r> {
        // The target of a bundle request is not a file, unless the list names it too.
        let is_file = |target: &str| {
            list.is_none_or(|list| target != list.folder || list.files.iter().any(|f| f == target))
        };
        let exchanges = retrieval.exchanges.iter().enumerate();
        let complete = exchanges.filter(|(_, exchange)| {
            exchange.outcome == Outcome::Complete && is_file(&exchange.target)
        });
        // The last response decides: a file may be requested again, in parts, or after a HEAD.
        let last: HashMap<&str, (usize, Option<u16>)> = complete
            .map(|(place, exchange)| (exchange.target.as_str(), (place, exchange.status)))
            .collect();
        let mut refused: Vec<(usize, &str, u16)> = last
            .into_iter()
            .filter_map(|(target, (place, status))| {
                let status = status.filter(|status| !is_success(*status))?;
                Some((place, target, status))
            })
            .collect();
        refused.sort_unstable();
        let base = retrieval.exchanges.first();
        let base = base.filter(|base| base.named_by.is_none());
        let page_status = base.and_then(|base| {
            let found = refused.iter().find(|(_, target, _)| *target == base.target);
            found.map(|(_, _, status)| *status)
        });
        let left_out = retrieval.counters.references_left_out;
        Missing {
            page_status,
            left_out,
            complete: retrieval.failures.is_empty()
                && refused.is_empty()
                && left_out == 0
                && retrieval.milestones.page_complete.is_some(),
            refused: refused
                .into_iter()
                .map(|(_, target, status)| (target, status))
                .collect(),
        }
    }

    pub(super) fn warn(&self) {
        for (target, status) in self.refused.iter().take(LISTED) {
            let advice = match status {
                300..=399 => "; redirections are not followed, fetch the other URL",
                _ => "",
            };
            eprintln!("{target}: the server answered {status}{advice}");
        }
        if let Some(more @ 1..) = self.refused.len().checked_sub(LISTED) {
            eprintln!("and {more} more (--json lists them all)");
        }
        if self.left_out > 0 {
            eprintln!(
                "{} references were not followed: at most {MOST_FILES} files of one page are fetched",
                self.left_out
            );
        }
    }
}

/// Whether the status means that the file was received or is current.
fn is_success(status: u16) -> bool {
    matches!(status, 200..=299 | 304)
}
