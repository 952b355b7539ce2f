//! All results of a run, computed once, so that the terminal, the report and the JSON summary show the same
//! figures.

use std::path::Path;

use serde::Serialize;

use crate::Error;
use crate::claims::ClaimResult;
use crate::closeness::Closeness;
use crate::equal_cells::EqualCells;
use crate::machine_differences::{self, MachineDifference};
use crate::run::{CellState, Run};
use crate::statistics::Intervals;
use crate::study::StudyData;
use crate::sweep::CurveResult;
use crate::tables::TableResult;

/// The smallest number of replicates for narrow intervals: shorter than twice the intervals of many replicates.
const ENOUGH: usize = 5;

/// A run, read and evaluated against its study.
#[derive(Debug, Clone, PartialEq)]
pub struct Digest<'a> {
    /// The study.
    pub study: &'a StudyData,
    /// The run.
    pub run: Run,
    /// The method of the intervals.
    pub intervals: Intervals,
    /// The validity of the run.
    pub validity: ValiditySummary,
    /// Every table in every era.
    pub tables: Vec<TableResult>,
    /// Every curve in every era.
    pub curves: Vec<CurveResult>,
    /// Our figures, compared with the published figures.
    pub closeness: Vec<Closeness>,
    /// The claims.
    pub claims: Vec<ClaimResult>,
    /// The differences between the machines; empty in a run of one machine.
    pub machine_differences: Vec<MachineDifference>,
    /// The A/A tests; `None` if the run has no equal cells.
    pub equal_cells: Option<EqualCells>,
}

impl<'a> Digest<'a> {
    /// Reads a run and evaluates it. The result depends only on the folder and the study, and not on time or machine.
    ///
    /// # Errors
    /// When the run cannot be read.
    pub fn of(run_folder: &Path, study: &'a StudyData) -> Result<Digest<'a>, Error> {
        let run = Run::load(run_folder)?;
        let intervals = run.info.intervals();
        let tables = study.table_results(&run, intervals);
        Ok(Digest {
            validity: ValiditySummary::of(&run),
            machine_differences: machine_differences::of_run(&run),
            equal_cells: EqualCells::of(&run, intervals),
            closeness: study.closeness_results(&tables),
            claims: study.claim_results(&run, intervals),
            curves: study.curve_results(&run, intervals),
            study,
            run,
            intervals,
            tables,
        })
    }

    /// The eras of the run.
    pub fn eras(&self) -> Vec<String> {
        self.run.levels("era")
    }

    /// The number of replicates of each interval that judges a claim.
    fn replicates_of_claims(&self) -> impl Iterator<Item = usize> {
        let verdicts = self.claims.iter().flat_map(|claim| &claim.eras);
        let parts = verdicts.flat_map(|verdict| &verdict.parts);
        parts
            .filter(|part| part.interval.is_some())
            .map(|part| part.n)
    }

    /// The coverage of the intervals that judge claims, in words; `None` when there is no interval.
    pub fn coverage_of_claims(&self) -> Option<String> {
        self.replicates_of_claims().next()?;
        Some(self.level_text())
    }

    /// The coverage of the intervals of tables, in words; `None` when there is no interval.
    pub fn coverage_of_tables(&self) -> Option<String> {
        let tables = self.tables.iter().filter_map(|table| table.replicates);
        let has_interval = tables.into_iter().any(|(_, most)| most > 1);
        has_interval.then(|| self.level_text())
    }

    fn level_text(&self) -> String {
        let percent = 100.0 * self.intervals.level;
        match (percent - percent.round()).abs() < 0.05 {
            true => format!("{percent:.0} %"),
            false => format!("{percent:.1} %"),
        }
    }

    /// A warning that verdicts use few replicates, so that only large effects can be decided; `None` if the replicates
    /// suffice.
    pub fn coverage_caveat(&self) -> Option<String> {
        let fewest = self.replicates_of_claims().min()?;
        // An interval extends 3.2 standard errors to each side with four replicates, and 12.7 with two.
        if fewest >= ENOUGH {
            return None;
        }
        Some(format!(
            "Some verdicts have only {fewest} replicates: their intervals are wide, and more replicates would decide \
             more of them (--replicates {ENOUGH} or more)."
        ))
    }

    /// The measured tables with this id, one for each era.
    pub fn measured_tables(&self, id: &str) -> Vec<&TableResult> {
        self.tables
            .iter()
            .filter(|table| table.id == id && table.is_measured())
            .collect()
    }

    /// The curves with at least one measured point.
    pub fn measured_curves(&self) -> impl Iterator<Item = &CurveResult> {
        self.curves.iter().filter(|curve| curve.is_measured())
    }

    /// The tables of the study that the run did not measure, with the reason.
    pub fn unmeasured_tables(&self) -> Vec<(&str, &str)> {
        self.study
            .tables
            .iter()
            .filter(|table| self.measured_tables(&table.id).is_empty())
            .map(|table| {
                let reason = table
                    .absent
                    .as_deref()
                    .unwrap_or("not measured in this run");
                (table.id.as_str(), reason)
            })
            .collect()
    }
}

/// The validity of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ValiditySummary {
    /// Replicates recorded.
    pub replicates: usize,
    /// Planned replicates of the run.
    pub replicates_planned: Option<u64>,
    /// Invalid replicates.
    pub replicates_invalid: usize,
    /// Replicates that were repeated because an earlier attempt was invalid.
    pub replicates_repeated: usize,
    /// Cells recorded.
    pub cells: usize,
    /// Cells with some invalid replicates.
    pub cells_partly_valid: usize,
    /// Cells whose replicates are all invalid.
    pub cells_invalid: usize,
    /// The largest 99th percentile of lateness over all replicates, in milliseconds.
    pub lateness_p99_ms: f64,
    /// The largest lateness of any packet, in milliseconds.
    pub lateness_max_ms: f64,
    /// Unrequested drops: packets that the path dropped although no loss was configured.
    pub unasked_drops: u64,
    /// Packets that the path carried.
    pub packets: u64,
}

impl ValiditySummary {
    fn of(run: &Run) -> ValiditySummary {
        let count = |state: CellState| run.cells.iter().filter(|c| c.state() == state).count();
        let ways = || run.replicates().flat_map(|r| [&r.path.up, &r.path.down]);
        let milliseconds = |nanos: Option<u64>| nanos.unwrap_or(0) as f64 / 1e6;
        ValiditySummary {
            replicates: run.replicates().count(),
            replicates_planned: run.info.replicates_planned,
            replicates_invalid: run.replicates().filter(|r| !r.validity.is_valid()).count(),
            replicates_repeated: run.repeated,
            cells: run.cells.len(),
            cells_partly_valid: count(CellState::PartlyValid),
            cells_invalid: count(CellState::Invalid),
            lateness_p99_ms: milliseconds(ways().map(|way| way.lateness_p99_ns).max()),
            lateness_max_ms: milliseconds(ways().map(|way| way.lateness_max_ns).max()),
            unasked_drops: ways().map(|way| way.unasked_drops).sum(),
            packets: ways().map(|way| way.packets_out).sum(),
        }
    }

    /// Number of valid replicates.
    pub fn replicates_valid(&self) -> usize {
        self.replicates - self.replicates_invalid
    }

    /// Whether the run has all planned replicates; also true if the plan is not recorded.
    pub fn is_complete(&self) -> bool {
        self.replicates_planned
            .is_none_or(|planned| self.replicates as u64 >= planned)
    }
}
