//! What tables, curves and claims are estimated from: a run, and the data of its study that they share.

use std::collections::BTreeMap;

use crate::published::Published;
use crate::run::{Cell, Run};
use crate::selection::{Factor, Selection, Unresolved};
use crate::statistics::Intervals;

/// The inputs of every estimate.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// The run.
    pub(crate) run: &'a Run,
    /// The factors that the study varies.
    pub(crate) factors: &'a BTreeMap<String, Factor>,
    /// The metrics that it measures, by name.
    pub(crate) metrics: &'a BTreeMap<String, String>,
    /// The published figures.
    pub(crate) published: &'a Published,
    /// The method of the intervals.
    pub(crate) intervals: Intervals,
}

impl<'a> Inputs<'a> {
    /// The one cell that a selection matches, as [`Selection::resolve`] defines it.
    pub(crate) fn cell(&self, selection: &Selection) -> Result<&'a Cell, Unresolved> {
        selection.resolve(self.run, self.factors)
    }

    /// Every cell that a selection matches.
    pub(crate) fn cells(&self, selection: &Selection) -> impl Iterator<Item = &'a Cell> {
        selection.matching(self.run, self.factors)
    }
}
