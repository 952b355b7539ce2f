//! Every table and figure in the papers, and the run that measured its counterpart.

use serde::Serialize;

use super::JudgedRun;
use crate::run::Run;
use crate::study::StudyData;

/// A table or figure of a paper, and its counterpart in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counterpart {
    /// The paper, as in `nielsen97`.
    pub paper: String,
    /// The number in the paper: `T4` is table 4, `F12` is figure 12.
    pub id: String,
    /// The title of the table or figure.
    pub title: String,
    /// The study's tables and curves that are the counterpart; empty if there are none.
    pub here: Vec<String>,
    /// The run that measured the counterpart. Candidates have at least 90 % of the largest number of figures that any
    /// run has. The candidate with the most replicates is used and, among equal ones, the last. Absent if no run has a
    /// figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The fewest and the most replicates of a figure in that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicates: Option<(usize, usize)>,
    /// The reason why there is no counterpart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
}

/// The figures of a table, or the points of a figure's curves, that a run measured in all eras.
#[derive(Debug)]
pub(super) struct MeasuredFigures {
    id: String,
    /// Figures of the table, or points of the curves.
    figures: usize,
    /// The fewest and the most replicates of a figure or point.
    replicates: (usize, usize),
}

/// Returns the measured figures of each table and each set of curves.
pub(super) fn measured(run: &Run, data: &StudyData) -> Vec<MeasuredFigures> {
    let intervals = run.info.intervals();
    let tables = data.table_results(run, intervals);
    let tables = tables.iter().filter_map(|table| {
        Some(MeasuredFigures {
            id: table.id.clone(),
            figures: table.figures(),
            replicates: table.replicates?,
        })
    });
    let curves = data.curve_results(run, intervals);
    let curves = curves.iter().filter_map(|curve| {
        Some(MeasuredFigures {
            id: curve.id.clone(),
            figures: curve.points().count(),
            replicates: curve.replicates()?,
        })
    });
    tables.chain(curves).collect()
}

/// Returns every table and figure in the papers, in their order.
pub(super) fn of(papers: &[(String, &StudyData)], runs: &[JudgedRun<'_>]) -> Vec<Counterpart> {
    let each = papers.iter().flat_map(|(paper, data)| {
        data.printed.iter().map(move |printed| {
            let here: Vec<String> = printed.counterparts().map(str::to_owned).collect();
            let best = best(runs.iter().filter(|run| run.study == *paper), &here);
            Counterpart {
                paper: paper.clone(),
                id: printed.id.clone(),
                title: printed.title.clone(),
                run: best.map(|(run, _)| run.name.clone()),
                replicates: best.map(|(_, found)| found.replicates),
                absent: match best {
                    Some(_) => None,
                    None => Some(
                        data.reason_for_absence(printed)
                            .unwrap_or("not measured")
                            .to_owned(),
                    ),
                },
                here,
            }
        })
    });
    each.collect()
}

/// A run is incomplete if its number of figures is less than this share of the largest number.
const COMPLETE: f64 = 0.9;

/// The complete run with the most replicates; among equal ones, the last.
fn best<'r, 'd: 'r>(
    runs: impl Iterator<Item = &'r JudgedRun<'d>>,
    ids: &[String],
) -> Option<(&'r JudgedRun<'d>, Found)> {
    let found: Vec<_> = runs
        .filter_map(|run| Some((run, figures_of(run, ids)?)))
        .collect();
    let most = found.iter().map(|(_, found)| found.figures).max()?;
    found
        .into_iter()
        .filter(|(_, found)| found.figures as f64 >= COMPLETE * most as f64)
        .max_by(|(run, found), (rival, other)| {
            let order = found.replicates.0.cmp(&other.replicates.0);
            order.then(run.started.total_cmp(&rival.started))
        })
}

/// The number of measured figures in some tables and curves of a run.
#[derive(Debug, Clone, Copy)]
struct Found {
    figures: usize,
    /// The fewest and the most replicates of a figure.
    replicates: (usize, usize),
}

/// The measured figures of these tables and curves; `None` if there are none.
fn figures_of(run: &JudgedRun<'_>, ids: &[String]) -> Option<Found> {
    let found = || run.measured.iter().filter(|one| ids.contains(&one.id));
    let fewest = found().map(|one| one.replicates.0).min()?;
    let most = found().map(|one| one.replicates.1).max()?;
    Some(Found {
        figures: found().map(|one| one.figures).sum(),
        replicates: (fewest, most),
    })
}

impl Counterpart {
    /// The number of replicates in words, as in `n = 5`.
    pub(super) fn replicates_text(&self) -> String {
        match self.replicates {
            None => String::new(),
            Some((fewest, most)) if fewest == most => format!("n = {fewest}"),
            Some((fewest, most)) => format!("n = {fewest} to {most}"),
        }
    }
}
