//! The inputs of tables, curves and claims: a run, and the data of its study.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

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
    /// The metrics that the study measures, by name.
    pub(crate) metrics: &'a BTreeMap<String, String>,
    /// The published figures.
    pub(crate) published: &'a Published,
    /// The method of the intervals.
    pub(crate) intervals: Intervals,
    /// The indices in [`Run::cells`] of the cells that were used.
    pub(crate) used: &'a RefCell<BTreeSet<usize>>,
}

impl<'a> Inputs<'a> {
    /// The only cell that a selection matches, as [`Selection::resolve`] defines it.
    pub(crate) fn cell(&self, selection: &Selection) -> Result<&'a Cell, Unresolved> {
        let cell = selection.resolve(self.run, self.factors);
        if let Ok(cell) = cell {
            self.note(cell);
        }
        cell
    }

    /// Every cell that a selection matches.
    pub(crate) fn cells(&self, selection: &Selection) -> impl Iterator<Item = &'a Cell> {
        let inputs = *self;
        selection
            .matching(self.run, self.factors)
            .inspect(move |cell| inputs.note(cell))
    }

    fn note(&self, cell: &Cell) {
        let place = self
            .run
            .cells
            .iter()
            .position(|other| std::ptr::eq(other, cell));
        self.used.borrow_mut().extend(place);
    }

    /// Clears the set of used cells.
    pub(crate) fn forget(&self) {
        self.used.borrow_mut().clear();
    }

    /// The cells that were used since [`Inputs::forget`].
    pub(crate) fn looked_up(&self) -> BTreeSet<usize> {
        self.used.borrow().clone()
    }
}
