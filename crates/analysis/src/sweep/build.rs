//! Finds a curve's cells in a run, and estimates its points.

use super::family::{is_family, members};
use super::shape::slope;
use super::{
    Curve, CurvePoint, CurveResult, Fit, LeftOutLevel, Line, NoCurve, Panel, PanelResult,
    PublishedLine, levels,
};
use crate::inputs::Inputs;
use crate::machines::{self, Matched};
use crate::resolution::{quotient, resolution};
use crate::run::{Cell, CellState};
use crate::selection::{Selection, differing_factors, number};
use crate::statistics::{Scale, Sides, indices, mean, mean_at};

/// Builds every curve in every era of the run, ordered by curve and then by era. Curves without measured points
/// are included ([`CurveResult::is_measured`]).
pub(crate) fn build(inputs: Inputs<'_>, curves: &[Curve]) -> Vec<CurveResult> {
    let eras = inputs.run.levels("era");
    let builder = Builder { inputs };
    curves
        .iter()
        .flat_map(|curve| eras.iter().map(move |era| (curve, era)))
        .map(|(curve, era)| builder.curve(curve, era))
        .collect()
}

struct Builder<'a> {
    inputs: Inputs<'a>,
}

impl Builder<'_> {
    fn curve(&self, curve: &Curve, era: &str) -> CurveResult {
        let published = curve.published.iter().map(|note| {
            let figures = self.inputs.published.of_metric(&note.metric);
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
            logarithmic: curve.logarithmic,
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
        let series = &self.inputs.factors[&curve.series].levels;
        let mut left_out = Vec::new();
        let lines = series.iter().enumerate().filter_map(|(place, level)| {
            let selection = curve.select.clone().at("era", era);
            let selection = selection.with(&panel.select).at(&curve.series, level);
            let points = match is_family(&panel.metric) {
                true => self.distribution(&selection, &panel.metric),
                false => {
                    let (points, without) = self.points(&selection, &curve.along, panel);
                    left_out.extend(without.into_iter().map(|point| LeftOutLevel {
                        series: level.clone(),
                        level: point.level,
                        remark: point.remark,
                    }));
                    points
                }
            };
            let cells = || {
                let levels = levels(&self.inputs, &selection, &curve.along);
                levels.map_or_else(|_: NoCurve| Vec::new(), |levels| levels.cells)
            };
            let per = panel.per.as_ref();
            let fit = per.and_then(|per| self.fit(&cells(), per, &panel.metric));
            let knee = panel.knee.as_ref().and_then(|knee| {
                let (xs, ys): (Vec<f64>, Vec<f64>) = cells()
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
                fit,
            })
        });
        let lines = lines.collect();
        let along = match is_family(&panel.metric) {
            true => &panel.metric,
            false => panel.per.as_ref().unwrap_or(&curve.along),
        };
        PanelResult {
            title: panel.title.clone(),
            metric: panel.metric.clone(),
            unit: panel.unit.clone(),
            along: along.clone(),
            identity: panel.identity,
            lines,
            left_out,
        }
    }

    /// One point for each level of the factor, in ascending order along the axis. INVALID cells without a position on
    /// the axis follow.
    fn points(
        &self,
        selection: &Selection,
        along: &str,
        panel: &Panel,
    ) -> (Vec<CurvePoint>, Vec<CurvePoint>) {
        let mut cells: Vec<(f64, &Cell)> = self
            .inputs
            .cells(selection)
            .filter_map(|cell| Some((number(cell.key.level(along)?)?, cell)))
            .collect();
        cells.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (mut points, mut without) = (Vec::new(), Vec::new());
        for at in cells.chunk_by(|(a, _), (b, _)| a == b) {
            let Some(mut point) = self.point(at, &panel.metric) else {
                continue;
            };
            let Some(per) = &panel.per else {
                points.push(point);
                continue;
            };
            match mean_of(at[0].1, per) {
                Some(x) => {
                    point.x = x;
                    points.push(point);
                }
                None if point.estimate.is_none() => without.push(point),
                // The valid replicates lack the metric of the horizontal axis.
                None => {}
            }
        }
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        (points, without)
    }

    /// One point for each step of a cell's distribution.
    fn distribution(&self, selection: &Selection, family: &str) -> Vec<CurvePoint> {
        let cells: Vec<&Cell> = self.inputs.cells(selection).collect();
        if cells.is_empty() {
            return Vec::new();
        }
        members(self.inputs.metrics, family)
            .into_iter()
            .filter_map(|(step, metric)| {
                let at: Vec<(f64, &Cell)> = cells.iter().map(|cell| (step, *cell)).collect();
                self.point(&at, metric)
            })
            .collect()
    }

    /// The straight line through the means of the cells; `None` with fewer than two cells that have both metrics in the
    /// same replicates.
    fn fit(&self, cells: &[(f64, &Cell)], per: &str, metric: &str) -> Option<Fit> {
        let info = &self.inputs.run.info;
        let mut numbers: Vec<Vec<u32>> = Vec::new();
        let mut both: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
        for (_, cell) in cells {
            let (at, xs): (Vec<u32>, Vec<f64>) = cell.values(per).into_iter().unzip();
            let (of, ys): (Vec<u32>, Vec<f64>) = cell.values(metric).into_iter().unzip();
            if !at.is_empty() && at == of {
                numbers.push(at);
                both.push((xs, ys));
            }
        }
        if let Some(shared) = machines::shared(info, &numbers) {
            for (numbers, (xs, ys)) in numbers.iter_mut().zip(&mut both) {
                machines::keep(&shared, numbers, xs);
                machines::keep(&shared, numbers, ys);
                numbers.clone_from(&shared);
            }
        }
        // The samples are indices of replicates in each cell. They are the same for both metrics.
        let places: Vec<Vec<f64>> = numbers.iter().map(|n| indices(n.len())).collect();
        let sides = Sides::of(&numbers);
        let means = |drawn: &[&[f64]]| -> (Vec<f64>, Vec<f64>) {
            let points = both.iter().zip(drawn);
            points
                .map(|((xs, ys), places)| (mean_at(xs, places), mean_at(ys, places)))
                .unzip()
        };
        let samples: Vec<&[f64]> = places.iter().map(Vec::as_slice).collect();
        let (xs, ys) = means(&samples);
        let slope_of = |drawn: &[&[f64]]| {
            let (xs, ys) = means(drawn);
            slope(&xs, &ys)
        };
        let machines = machines::machines(info, numbers.first()?);
        let intervals = self.inputs.intervals.on(&machines);
        let slope = intervals.statistic(&samples, sides, Scale::Linear, quotient(), &slope_of)?;
        let slope = slope.estimate;
        slope.value.is_finite().then(|| Fit {
            intercept: mean(&ys) - slope.value * mean(&xs),
            slope,
        })
    }

    /// The point of the cells at one level. Several cells at one level make the point ambiguous. `None` if the cell
    /// lacks the metric.
    fn point(&self, cells: &[(f64, &Cell)], metric: &str) -> Option<CurvePoint> {
        let (x, cell) = cells[0];
        if cells.len() > 1 {
            let cells: Vec<&Cell> = cells.iter().map(|(_, cell)| *cell).collect();
            let factors = differing_factors(&cells).join(", ");
            return Some(CurvePoint {
                x,
                level: x,
                estimate: None,
                remark: format!("several cells differ in {factors}"),
            });
        }
        let (all, left) = (cell.replicates.len(), cell.valid().count());
        let remark = match cell.state() {
            CellState::Valid => String::new(),
            CellState::Invalid => format!("INVALID: {}", cell.reasons().join("; ")),
            // The list of all cells contains the reason.
            CellState::PartlyValid => {
                format!("{} of {all} replicates invalid and left out", all - left)
            }
        };
        let matched = Matched::of(&self.inputs.run.info, &[cell.values(metric)]);
        let intervals = self.inputs.intervals.on(&matched.machines);
        let mean = intervals.mean(&matched.samples[0], resolution(metric));
        let estimate = mean.map(|mean| mean.estimate);
        (estimate.is_some() || cell.state() == CellState::Invalid).then_some(CurvePoint {
            x,
            level: x,
            estimate,
            remark,
        })
    }
}

fn mean_of(cell: &Cell, metric: &str) -> Option<f64> {
    let values: Vec<f64> = cell.values(metric).into_iter().map(|(_, v)| v).collect();
    (!values.is_empty()).then(|| mean(&values))
}
