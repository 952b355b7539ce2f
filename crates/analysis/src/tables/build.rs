//! Looks a table's cells up in a run, and estimates them.

use super::{Datum, Layout, Measured, PublishedValue, RowResult, Table, TableResult};
use crate::run::{CellState, Run};
use crate::statistics::Bootstrap;
use crate::study::{Selection, StudyData, Unresolved};

/// Every table of a study in every era of a run, in the order of the study, then of the eras. A table
/// with nothing measured is among them ([`TableResult::is_measured`]).
pub fn build(run: &Run, study: &StudyData, bootstrap: &Bootstrap) -> Vec<TableResult> {
    let eras = run.levels("era");
    study
        .tables
        .iter()
        .filter(|table| table.layout.is_some())
        .flat_map(|table| eras.iter().map(move |era| (table, era)))
        .map(|(table, era)| {
            let builder = Builder {
                run,
                study,
                bootstrap,
                table,
                layout: study.layout(table),
                footnotes: Vec::new(),
                replicates: None,
            };
            builder.table(era)
        })
        .collect()
}

struct Builder<'a> {
    run: &'a Run,
    study: &'a StudyData,
    bootstrap: &'a Bootstrap,
    table: &'a Table,
    layout: &'a Layout,
    footnotes: Vec<String>,
    replicates: Option<(usize, usize)>,
}

impl Builder<'_> {
    fn table(mut self, era: &str) -> TableResult {
        let (table, layout) = (self.table, self.layout);
        let place = table.select.clone().at("era", era);
        let mut rows = Vec::new();
        for row in &layout.rows {
            let mut data = Vec::new();
            for group in &layout.groups {
                let ours = place.with(&group.select).with(&row.select);
                let environment = group.environment.as_ref().or(table.environment.as_ref());
                let mut cells = Vec::new();
                for column in &layout.columns {
                    let also = table.also.iter().map(|also| ours.with(&also.select));
                    let also: Vec<Selection> = also.collect();
                    let published = published(
                        self.study,
                        &table.id,
                        environment,
                        row.variant.as_ref(),
                        column
                            .published
                            .as_ref()
                            .map(|p| format!("{}{p}", group.prefix)),
                    );
                    cells.push(Datum {
                        ours: self.measured(&ours, &column.metric),
                        also: also
                            .iter()
                            .map(|selection| self.measured(selection, &column.metric))
                            .collect(),
                        published,
                    });
                }
                data.push(cells);
            }
            let result = RowResult {
                label: row.label.clone(),
                brief: row.brief.clone().unwrap_or_else(|| row.label.clone()),
                in_the_paper: row.variant.is_some(),
                data,
            };
            if !result.is_empty() {
                rows.push(result);
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
            rows,
            footnotes: self.footnotes,
            replicates: self.replicates,
        }
    }

    fn measured(&mut self, selection: &Selection, metric: &str) -> Measured {
        let cell = match selection.resolve(self.run, &self.study.factors) {
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
                let text = format!("{}: {}", self.run.name(cell), cell.reasons().join("; "));
                return Measured::Invalid {
                    footnote: self.footnote(text),
                };
            }
            CellState::PartlyValid => {
                let out = all - left;
                let text = format!(
                    "{out} of {all} replicates invalid and left out: {}: {}",
                    self.run.name(cell),
                    cell.reasons().join("; ")
                );
                Some(self.footnote(text))
            }
        };
        let values: Vec<f64> = cell.values(metric).into_iter().map(|(_, v)| v).collect();
        let Some(estimate) = self.bootstrap.mean(&values) else {
            return Measured::Missing;
        };
        let (fewest, most) = self.replicates.unwrap_or((estimate.n, estimate.n));
        self.replicates = Some((fewest.min(estimate.n), most.max(estimate.n)));
        Measured::Value { estimate, footnote }
    }

    /// The number of a footnote, from 1; equal texts share one.
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

fn published(
    study: &StudyData,
    table: &str,
    environment: Option<&String>,
    variant: Option<&String>,
    metric: Option<String>,
) -> Option<PublishedValue> {
    let figure = study
        .published
        .find(table, environment?, variant?, &metric?)?;
    Some(PublishedValue {
        value: figure.value?,
        derived: figure.is_derived(),
    })
}
