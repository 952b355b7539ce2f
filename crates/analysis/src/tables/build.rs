//! Finds a table's cells in a run, and estimates its figures.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::{
    Column, Datum, Layout, Measured, PublishedValue, Relative, Row, RowResult, Section, Table,
    TableResult,
};
use crate::inputs::Inputs;
use crate::machines::Matched;
use crate::published::Published;
use crate::resolution::resolution;
use crate::run::CellState;
use crate::selection::{Selection, Unresolved};
use crate::statistics::{Estimate, Interval};

/// Builds every table that has a layout, in every era of the run, ordered by table and then by era. Tables
/// without measured figures are included ([`TableResult::is_measured`]).
pub(crate) fn build(inputs: Inputs<'_>, tables: &[Table], layouts: &[Layout]) -> Vec<TableResult> {
    built(inputs, tables, layouts, &RefCell::default())
}

/// An estimate, and the cells from which it is computed, as indices in the run's list of cells.
type Figure = (BTreeSet<usize>, Estimate);

/// Returns every measured figure of every table.
pub(crate) fn figures(inputs: Inputs<'_>, tables: &[Table], layouts: &[Layout]) -> Vec<Figure> {
    let figures = RefCell::default();
    built(inputs, tables, layouts, &figures);
    figures.into_inner()
}

fn built(
    inputs: Inputs<'_>,
    tables: &[Table],
    layouts: &[Layout],
    figures: &RefCell<Vec<Figure>>,
) -> Vec<TableResult> {
    let eras = inputs.run.levels("era");
    tables
        .iter()
        .filter(|table| table.layout.is_some())
        .flat_map(|table| eras.iter().map(move |era| (table, era)))
        .map(|(table, era)| {
            let builder = Builder {
                inputs,
                table,
                layout: table.layout_of(layouts),
                footnotes: Vec::new(),
                replicates: None,
                figures,
            };
            builder.table(era)
        })
        .collect()
}

struct Builder<'a> {
    inputs: Inputs<'a>,
    table: &'a Table,
    layout: &'a Layout,
    footnotes: Vec<String>,
    replicates: Option<(usize, usize)>,
    figures: &'a RefCell<Vec<Figure>>,
}

impl Builder<'_> {
    fn table(mut self, era: &str) -> TableResult {
        let (table, layout) = (self.table, self.layout);
        let place = table.select.clone().at("era", era);
        let whole = [Section::default()];
        let sections = match layout.sections.as_slice() {
            [] => &whole,
            sections => sections,
        };
        let mut rows = Vec::new();
        for section in sections {
            let place = place.with(&section.select);
            for row in &layout.rows {
                let result = self.row(section, row, &place);
                if !result.is_empty() {
                    rows.push(result);
                }
            }
        }
        let groups = layout.groups.iter();
        TableResult {
            id: table.id.clone(),
            title: table.title.clone(),
            era: era.to_owned(),
            note: table.note.clone(),
            of_the_paper: table.of_the_paper,
            columns: layout.columns.clone(),
            groups: groups.map(|g| (g.key.clone(), g.label.clone())).collect(),
            also: table.also.iter().map(|also| also.label.clone()).collect(),
            relative_to: layout.relative_to.clone(),
            rows,
            footnotes: self.footnotes,
            replicates: self.replicates,
        }
    }

    fn row(&mut self, section: &Section, row: &Row, place: &Selection) -> RowResult {
        let (table, layout) = (self.table, self.layout);
        let base = layout.relative_to.as_ref();
        let base = base.and_then(|label| row_of(layout, label));
        let base = base.filter(|base| base.label != row.label);
        let mut data = Vec::new();
        for group in &layout.groups {
            let place = place.with(&group.select);
            let ours = place.with(&row.select);
            let environment = [&group.environment, &section.environment, &table.environment];
            let environment = environment.into_iter().find_map(Option::as_ref);
            let mut cells = Vec::new();
            for column in &layout.columns {
                let also = table.also.iter().map(|also| ours.with(&also.select));
                let also: Vec<Selection> = also.collect();
                let published = |row: &Row| {
                    let variant = row.variant.as_ref();
                    let variant = variant.map(|variant| format!("{variant}{}", group.suffix));
                    published(
                        self.inputs.published,
                        table.part_of.as_ref().unwrap_or(&table.id),
                        environment,
                        variant.as_ref(),
                        column,
                        &group.prefix,
                    )
                };
                let whole = column.percent_of.as_ref();
                let whole = whole.and_then(|label| row_of(layout, label));
                let own = published(row);
                let relative = base.map(|base| Relative {
                    ours: self.ratio(&ours, &place.with(&base.select), column),
                    published: own
                        .zip(published(base).filter(|base| base.value != 0.0))
                        .map(|(own, base)| own.value / base.value),
                });
                cells.push(Datum {
                    ours: self.measured(&ours, whole, column),
                    also: also
                        .iter()
                        .map(|selection| self.measured(selection, whole, column))
                        .collect(),
                    published: own,
                    relative,
                });
            }
            data.push(cells);
        }
        RowResult {
            section: section.label.clone(),
            label: row.label.clone(),
            brief: row.brief.clone().unwrap_or_else(|| row.label.clone()),
            in_the_paper: row.variant.is_some(),
            data,
        }
    }

    /// The ratio of two cells. Replicates are paired if both cells have the same replicates. `None` if the base cannot
    /// be distinguished from zero, because the ratio could then have any value.
    fn ratio(&self, one: &Selection, base: &Selection, column: &Column) -> Option<Estimate> {
        let values = |selection: &Selection| -> Option<Vec<(u32, f64)>> {
            let cell = self.inputs.cell(selection).ok()?;
            Some(column.values(cell))
        };
        let matched = Matched::of(&self.inputs.run.info, &[values(one)?, values(base)?]);
        let [one, base] = matched.samples.as_slice() else {
            return None;
        };
        let intervals = self.inputs.intervals.on(&matched.machines);
        let resolution = resolution(&column.metric);
        let mean = intervals.mean(base, resolution)?.estimate;
        if includes_zero(base, &mean) {
            return None;
        }
        let ratio = intervals.ratio(one, base, matched.sides, resolution)?;
        Some(ratio.estimate).filter(|ratio| ratio.value.is_finite())
    }

    /// The figure in a cell of the table. If `whole` is a row, the figure is in percent of the figure in that row.
    fn measured(
        &mut self,
        selection: &Selection,
        whole: Option<&Row>,
        column: &Column,
    ) -> Measured {
        self.inputs.forget();
        let cell = match self.inputs.cell(selection) {
            Ok(cell) => cell,
            Err(Unresolved::NotMeasured) => return Measured::Missing,
            Err(Unresolved::Ambiguous(factors)) => {
                let text = format!("several cells differ in {}", factors.join(", "));
                return Measured::Ambiguous {
                    footnote: self.footnote(text),
                };
            }
        };
        let (all, left) = (cell.replicates.len(), cell.valid().count());
        let footnote = match cell.state() {
            CellState::Valid => None,
            CellState::Invalid => {
                let text = format!(
                    "{}: {}",
                    self.inputs.run.name(cell),
                    cell.reasons().join("; ")
                );
                return Measured::Invalid {
                    footnote: self.footnote(text),
                };
            }
            CellState::PartlyValid => {
                let out = all - left;
                // The list of all cells contains the reason.
                let text = format!(
                    "{out} of {all} replicates invalid and left out: {}",
                    self.inputs.run.name(cell)
                );
                Some(self.footnote(text))
            }
        };
        let estimate = match whole {
            None => {
                let matched = Matched::of(&self.inputs.run.info, &[column.values(cell)]);
                let intervals = self.inputs.intervals.on(&matched.machines);
                let mean = intervals.mean(&matched.samples[0], resolution(&column.metric));
                mean.map(|mean| mean.estimate)
            }
            Some(whole) => self
                .ratio(selection, &selection.with(&whole.select), column)
                .map(percent),
        };
        let Some(estimate) = estimate else {
            return Measured::Missing;
        };
        let figure = (self.inputs.looked_up(), estimate);
        self.figures.borrow_mut().push(figure);
        let (fewest, most) = self.replicates.unwrap_or((estimate.n, estimate.n));
        self.replicates = Some((fewest.min(estimate.n), most.max(estimate.n)));
        Measured::Value { estimate, footnote }
    }

    /// Returns the number of a footnote, from 1. Equal texts have the same number.
    fn footnote(&mut self, text: String) -> usize {
        match self.footnotes.iter().position(|known| *known == text) {
            Some(place) => place + 1,
            None => {
                self.footnotes.push(text);
                self.footnotes.len()
            }
        }
    }
}

fn row_of<'l>(layout: &'l Layout, label: &str) -> Option<&'l Row> {
    layout.rows.iter().find(|row| row.label == label)
}

fn percent(share: Estimate) -> Estimate {
    Estimate {
        value: 100.0 * share.value,
        interval: share.interval.map(|interval| Interval {
            low: 100.0 * interval.low,
            high: 100.0 * interval.high,
        }),
        ..share
    }
}

fn published(
    published: &Published,
    table: &str,
    environment: Option<&String>,
    variant: Option<&String>,
    column: &Column,
    prefix: &str,
) -> Option<PublishedValue> {
    let metric = format!("{prefix}{}", column.published.as_ref()?);
    let figure = published.find(table, environment?, variant?, &metric)?;
    Some(PublishedValue {
        value: figure.value? * column.published_times.unwrap_or(1.0),
        derived: figure.is_derived(),
    })
}

/// Whether the true mean of these values may be zero: a value is not positive, and the interval of the mean includes
/// zero.
fn includes_zero(values: &[f64], mean: &Estimate) -> bool {
    let has_zero = values.iter().any(|value| *value <= 0.0);
    has_zero && mean.interval.is_none_or(|interval| interval.low <= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_to_a_mean_that_may_be_zero_is_not_shown() {
        let mean = |value: f64, low: f64, high: f64| Estimate {
            n: 5,
            value,
            interval: Some(Interval { low, high }),
        };
        // The idle share of a saturated processor.
        let idle = [0.0, 0.0, 0.0, 0.0072, 0.0];
        assert!(includes_zero(&idle, &mean(0.0014, -0.0026, 0.0054)));
        assert!(!includes_zero(&[0.0, 3.0, 3.1], &mean(2.0, 0.5, 3.5)));
        // Two replicates have a wide interval, but both values are positive.
        assert!(!includes_zero(&[9.0, 11.0], &mean(10.0, -2.7, 22.7)));
    }
}
