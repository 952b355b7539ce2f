//! The results of a study: what it defines, estimated from a run.

use super::StudyData;
use crate::claims::{self, ClaimResult};
use crate::closeness::{Closeness, closeness};
use crate::inputs::Inputs;
use crate::run::Run;
use crate::statistics::Intervals;
use crate::sweep::{self, CurveResult};
use crate::tables::{self, TableResult};

impl StudyData {
    /// Every table in every era of a run.
    pub fn table_results(&self, run: &Run, intervals: Intervals) -> Vec<TableResult> {
        tables::build(self.inputs(run, intervals), &self.tables, &self.layouts)
    }

    /// Every curve in every era of a run.
    pub fn curve_results(&self, run: &Run, intervals: Intervals) -> Vec<CurveResult> {
        sweep::build(self.inputs(run, intervals), &self.curves)
    }

    /// The verdicts on the claims in every era of a run.
    pub fn claim_results(&self, run: &Run, intervals: Intervals) -> Vec<ClaimResult> {
        claims::judge(
            self.inputs(run, intervals),
            &self.claims,
            &self.published_claims,
        )
    }

    /// The comparisons of tables with the published figures.
    pub fn closeness_results(&self, tables: &[TableResult]) -> Vec<Closeness> {
        closeness(&self.acceptance, &self.explanations, tables)
    }

    fn inputs<'a>(&'a self, run: &'a Run, intervals: Intervals) -> Inputs<'a> {
        Inputs {
            run,
            factors: &self.factors,
            metrics: &self.metrics,
            published: &self.published,
            intervals,
        }
    }
}
