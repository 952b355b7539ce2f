//! The files that a retrieval lacks: files that were refused, and references that were not followed.

use std::collections::HashMap;

use fathometer_model::Outcome;

use super::{PageList, Retrieval};

/// The files that a retrieval lacks.
#[derive(Debug)]
pub struct Missing<'r> {
    /// The files for which the server sent a status other than success: target and status.
    pub refused: Vec<(&'r str, u16)>,
    /// The status of the page itself, if the page was refused.
    pub page_status: Option<u16>,
    /// References that were not followed because there were too many.
    pub left_out: u32,
    /// Whether the retrieval has all files.
    pub complete: bool,
}

impl<'r> Missing<'r> {
    /// Returns the files of a page, or of a list, that a retrieval lacks.
    pub fn of(retrieval: &'r Retrieval, list: Option<&PageList>) -> Missing<'r> {
        // The target of a bundle request is not a file, unless the list names it too.
        let is_file = |target: &str| {
            list.is_none_or(|list| target != list.folder || list.files.iter().any(|f| f == target))
        };
        let exchanges = retrieval.exchanges.iter().enumerate();
        let complete = exchanges.filter(|(_, exchange)| {
            exchange.outcome == Outcome::Complete && is_file(&exchange.target)
        });
        // The last response counts: a file may be requested again, in parts, or after a HEAD.
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
}

/// Whether the status means that the file was received, or that the copy is current.
fn is_success(status: u16) -> bool {
    matches!(status, 200..=299 | 304)
}
