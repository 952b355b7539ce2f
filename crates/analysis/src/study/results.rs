//! The results of a study: its tables, curves and claims, estimated from a run.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::StudyData;
use crate::claims::{self, ClaimResult, Verdict};
use crate::closeness::{Closeness, closeness};
use crate::inputs::Inputs;
use crate::run::Run;
use crate::statistics::{Estimate, Intervals};
use crate::sweep::{self, CurveResult};
use crate::tables::{self, TableResult};

impl StudyData {
    /// Every table in every era of a run.
    pub fn table_results(&self, run: &Run, intervals: Intervals) -> Vec<TableResult> {
        let used = RefCell::default();
        tables::build(
            self.inputs(run, intervals, &used),
            &self.tables,
            &self.layouts,
        )
    }

    /// Every curve in every era of a run.
    pub fn curve_results(&self, run: &Run, intervals: Intervals) -> Vec<CurveResult> {
        let used = RefCell::default();
        sweep::build(self.inputs(run, intervals, &used), &self.curves)
    }

    /// The verdicts on the claims in every era of a run.
    pub fn claim_results(&self, run: &Run, intervals: Intervals) -> Vec<ClaimResult> {
        let used = RefCell::default();
        claims::judge(
            self.inputs(run, intervals, &used),
            &self.claims,
            &self.published_claims,
        )
    }

    /// The comparisons of tables with the published figures.
    pub fn closeness_results(&self, tables: &[TableResult]) -> Vec<Closeness> {
        closeness(&self.acceptance, &self.explanations, tables)
    }

    /// The undecided verdicts of a run, and the figures in tables with insufficient precision. A figure is precise if
    /// its interval extends to each side by at most `precision`, as a share of the figure.
    pub fn open(&self, run: &Run, intervals: Intervals, precision: Option<f64>) -> Open {
        let mut open = Open::default();
        for claim in self.claim_results(run, intervals) {
            let undecided = claim
                .eras
                .iter()
                .filter(|era| era.verdict == Verdict::Undecided);
            for era in undecided {
                open.verdicts += 1;
                let parts = era
                    .parts
                    .iter()
                    .filter(|part| part.counts && part.is_open());
                open.cells.extend(parts.flat_map(|part| &part.cells));
            }
        }
        if let Some(precision) = precision {
            let used = RefCell::default();
            let inputs = self.inputs(run, intervals, &used);
            for (cells, estimate) in tables::figures(inputs, &self.tables, &self.layouts) {
                if !is_precise(&estimate, precision) {
                    open.figures += 1;
                    open.cells.extend(cells);
                }
            }
        }
        open
    }

    fn inputs<'a>(
        &'a self,
        run: &'a Run,
        intervals: Intervals,
        used: &'a RefCell<BTreeSet<usize>>,
    ) -> Inputs<'a> {
        Inputs {
            run,
            factors: &self.factors,
            metrics: &self.metrics,
            published: &self.published,
            intervals,
            used,
        }
    }
}

/// The results that more replicates could still decide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Open {
    /// The indices in [`Run::cells`] of the cells that need more replicates.
    pub cells: BTreeSet<usize>,
    /// The number of undecided verdicts on claims; each era counts separately.
    pub verdicts: usize,
    /// The number of figures of tables that are less precise than required.
    pub figures: usize,
}

/// Whether an estimate's interval extends to each side by at most this share of the estimate.
fn is_precise(estimate: &Estimate, precision: f64) -> bool {
    estimate.interval.is_some_and(|interval| {
        let half = (interval.high - estimate.value).max(estimate.value - interval.low);
        half <= precision * estimate.value.abs()
    })
}
