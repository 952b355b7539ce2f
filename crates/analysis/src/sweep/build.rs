//! Looks a curve's cells up in a run, and estimates them.

use super::{
    Curve, CurvePoint, CurveResult, Line, NoCurve, Panel, PanelResult, PublishedLine, number,
};
use crate::run::{Cell, CellState, Run};
use crate::statistics::{Bootstrap, mean};
use crate::study::StudyData;

/// Every curve of a study in every era of a run, in the order of the study, then of the eras. A curve
/// with nothing measured is among them ([`CurveResult::is_measured`]).
pub fn build(run: &Run, study: &StudyData, bootstrap: &Bootstrap) -> Vec<CurveResult> {
    let eras = run.levels("era");
    let builder = Builder {
        run,
        study,
        bootstrap,
    };
    study
        .curves
        .iter()
        .flat_map(|curve| eras.iter().map(move |era| (curve, era)))
        .map(|(curve, era)| builder.curve(curve, era))
        .collect()
}

struct Builder<'a> {
    run: &'a Run,
    study: &'a StudyData,
    bootstrap: &'a Bootstrap,
}

impl Builder<'_> {
    fn curve(&self, curve: &Curve, era: &str) -> CurveResult {
        let published = curve.published.iter().map(|note| {
            let figures = self.study.published.of_metric(&note.metric);
            PublishedLine {
                text: note.text.clone(),
                unit: figures.first().map_or(String::new(), |f| f.unit.clone()),
                figures: figures
                    .into_iter()
                    .filter_map(|figure| Some((figure.variant.clone(), figure.value?)))
                    .collect(),
                line: note.line,
            }
        });
        CurveResult {
            id: curve.id.clone(),
            title: curve.title.clone(),
            era: era.to_owned(),
            along: curve.along.clone(),
            axis: curve.axis.clone(),
            caption: curve.caption.clone(),
            note: curve.note.clone(),
            of_the_paper: curve.of_the_paper,
            panels: curve
                .panels
                .iter()
                .map(|panel| self.panel(curve, panel, era))
                .collect(),
            published: published.collect(),
        }
    }

    fn panel(&self, curve: &Curve, panel: &Panel, era: &str) -> PanelResult {
        let series = &self.study.factors[&curve.series].levels;
        let lines = series.iter().enumerate().filter_map(|(place, level)| {
            let selection = curve.select.clone().at("era", era);
            let selection = selection.with(&panel.select).at(&curve.series, level);
            let mut cells: Vec<(f64, &Cell)> = selection
                .matching(self.run, &self.study.factors)
                .filter_map(|cell| Some((number(cell.key.level(&curve.along)?)?, cell)))
                .collect();
            cells.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            let points: Vec<CurvePoint> = cells
                .chunk_by(|(a, _), (b, _)| a == b)
                .filter_map(|at| self.point(at, &panel.metric))
                .collect();
            let knee = panel.knee.as_ref().and_then(|knee| {
                let levels = super::levels(self.run, self.study, &selection, &curve.along);
                let cells = levels.map_or_else(|_: NoCurve| Vec::new(), |levels| levels.cells);
                let (xs, ys): (Vec<f64>, Vec<f64>) = cells
                    .into_iter()
                    .filter_map(|(x, cell)| Some((x, mean_of(cell, &knee.of)?)))
                    .unzip();
                knee.rule.find(&xs, &ys)
            });
            (!points.is_empty()).then(|| Line {
                series: level.clone(),
                place,
                points,
                knee,
            })
        });
        PanelResult {
            title: panel.title.clone(),
            metric: panel.metric.clone(),
            unit: panel.unit.clone(),
            identity: panel.identity,
            lines: lines.collect(),
        }
    }

    /// The point of the cells at one level, of which there should be one; `None` when it does not
    /// have the metric.
    fn point(&self, cells: &[(f64, &Cell)], metric: &str) -> Option<CurvePoint> {
        let (x, cell) = cells[0];
        if cells.len() > 1 {
            let cells: Vec<&Cell> = cells.iter().map(|(_, cell)| *cell).collect();
            let factors = crate::study::differing_factors(&cells).join(", ");
            return Some(CurvePoint {
                x,
                estimate: None,
                remark: format!("several cells differ in {factors}"),
            });
        }
        let (all, left) = (cell.replicates.len(), cell.valid().count());
        let reasons = cell.reasons().join("; ");
        let remark = match cell.state() {
            CellState::Valid => String::new(),
            CellState::Invalid => format!("INVALID: {reasons}"),
            CellState::PartlyValid => {
                let out = all - left;
                format!("{out} of {all} replicates invalid and left out: {reasons}")
            }
        };
        let values: Vec<f64> = cell.values(metric).into_iter().map(|(_, v)| v).collect();
        let estimate = self.bootstrap.mean(&values);
        (estimate.is_some() || cell.state() == CellState::Invalid).then_some(CurvePoint {
            x,
            estimate,
            remark,
        })
    }
}

fn mean_of(cell: &Cell, metric: &str) -> Option<f64> {
    let values: Vec<f64> = cell.values(metric).into_iter().map(|(_, v)| v).collect();
    (!values.is_empty()).then(|| mean(&values))
}
