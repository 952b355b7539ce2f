//! Whether a study's texts agree with each other, and what to say when they do not: where, which word,
//! and which words there are.

use super::{CLAIMS, Selection, StudyData, TABLES};
use crate::Error;
use crate::claims::Relation;
use crate::sweep::shape::Place;
use crate::sweep::{Curve, number};
use crate::tables::Table;

impl StudyData {
    pub(super) fn check(&self) -> Result<(), Error> {
        for table in &self.tables {
            self.check_table(table)?;
        }
        for layout in &self.layouts {
            let place = format!("layout {:?}", layout.name);
            for column in &layout.columns {
                self.check_metric(TABLES, &place, &column.metric)?;
            }
        }
        for column in &self.cell_columns {
            self.check_metric(TABLES, "cell_column", &column.metric)?;
        }
        for curve in &self.curves {
            self.check_curve(curve)?;
        }
        for figure in &self.figures {
            let place = format!("figure {:?}", figure.title);
            let columns = [figure.column.as_str()];
            self.check_cells(&place, &figure.tables, &[], &[&figure.group], &columns)?;
        }
        for acceptance in &self.acceptance {
            let place = format!("acceptance {:?}", acceptance.id);
            let mut rows: Vec<&str> = acceptance.rows.iter().map(String::as_str).collect();
            rows.extend(acceptance.relative_to.as_deref());
            let columns = [acceptance.column.as_str()];
            self.check_cells(&place, &acceptance.tables, &rows, &[], &columns)?;
        }
        for explanation in &self.explanations {
            let place = format!("explanation {:?}", explanation.text);
            let known = self.acceptance.iter().map(|a| a.id.as_str());
            known_word(TABLES, &place, "acceptance", &explanation.acceptance, known)?;
        }
        for claim in &self.claims {
            let place = format!("claim {}", claim.id);
            if claim.tests.is_empty() == claim.not_tested.is_none() {
                let message = format!("{place}: has either tests or a reason why it has none");
                return Err(Error::study(CLAIMS, message));
            }
            for selection in claim.selections() {
                self.check_selection(CLAIMS, &place, &selection)?;
            }
            for relation in claim.relations() {
                self.check_relation(&place, relation)?;
            }
        }
        Ok(())
    }

    fn check_table(&self, table: &Table) -> Result<(), Error> {
        let place = format!("table {:?}", table.id);
        let layout = match (&table.layout, &table.absent) {
            (None, Some(_)) => return Ok(()),
            (Some(name), None) => {
                let known = self.layouts.iter().map(|layout| layout.name.as_str());
                known_word(TABLES, &place, "layout", name, known)?;
                self.layout(table)
            }
            _ => {
                let message = format!("{place}: has either a layout or a reason why it is absent");
                return Err(Error::study(TABLES, message));
            }
        };
        let selections = [&table.select]
            .into_iter()
            .chain(table.also.iter().map(|also| &also.select))
            .chain(layout.groups.iter().map(|group| &group.select))
            .chain(layout.rows.iter().map(|row| &row.select));
        for selection in selections {
            self.check_selection(TABLES, &place, selection)?;
        }
        Ok(())
    }

    fn check_cells(
        &self,
        place: &str,
        tables: &[String],
        rows: &[&str],
        groups: &[&str],
        columns: &[&str],
    ) -> Result<(), Error> {
        for id in tables {
            let shown = self.tables.iter().filter(|table| table.layout.is_some());
            known_word(TABLES, place, "table", id, shown.map(|t| t.id.as_str()))?;
            let table = self.table(id).expect("just found");
            let layout = self.layout(table);
            let place = format!("{place}, table {id:?}");
            for row in rows {
                let known = layout.rows.iter().map(|row| row.label.as_str());
                known_word(TABLES, &place, "row", row, known)?;
            }
            for group in groups {
                let known = layout.groups.iter().map(|group| group.key.as_str());
                known_word(TABLES, &place, "group", group, known)?;
            }
            for column in columns {
                let known = layout.columns.iter().map(|column| column.label.as_str());
                known_word(TABLES, &place, "column", column, known)?;
            }
        }
        Ok(())
    }

    fn check_selection(
        &self,
        file: &'static str,
        place: &str,
        selection: &Selection,
    ) -> Result<(), Error> {
        for (factor, level) in &selection.levels {
            let known = self.factors.keys().map(String::as_str);
            known_word(file, place, "factor", factor, known)?;
            let levels = &self.factors[factor].levels;
            let known = levels.iter().map(String::as_str);
            known_word(file, place, &format!("level of {factor}"), level, known)?;
        }
        Ok(())
    }

    fn check_curve(&self, curve: &Curve) -> Result<(), Error> {
        let place = format!("curve {:?}", curve.id);
        self.check_numeric(TABLES, &place, &curve.along)?;
        let known = self.factors.keys().map(String::as_str);
        known_word(TABLES, &place, "factor", &curve.series, known)?;
        self.check_selection(TABLES, &place, &curve.select)?;
        for panel in &curve.panels {
            self.check_selection(TABLES, &place, &panel.select)?;
            let of_knee = panel.knee.as_ref().map(|knee| &knee.of);
            for metric in [Some(&panel.metric), of_knee].into_iter().flatten() {
                self.check_metric(TABLES, &place, metric)?;
            }
        }
        for note in &curve.published {
            let known = self.published.metrics().into_iter();
            known_word(TABLES, &place, "published metric", &note.metric, known)?;
        }
        Ok(())
    }

    fn check_relation(&self, place: &str, relation: &Relation) -> Result<(), Error> {
        let own = relation.sides().filter_map(|side| side.metric.as_ref());
        for metric in own.chain([&relation.metric]) {
            self.check_metric(CLAIMS, place, metric)?;
        }
        let Some(sweep) = &relation.sweep else {
            return Ok(());
        };
        let of_knee = sweep.knee.as_ref().map(|knee| &knee.of);
        for metric in [of_knee, sweep.over.as_ref()].into_iter().flatten() {
            self.check_metric(CLAIMS, place, metric)?;
        }
        let levels = self.check_numeric(CLAIMS, place, &sweep.along)?;
        if let Place::Level(level) = sweep.at {
            let word = level.to_string();
            let known = levels.iter().map(String::as_str);
            known_word(
                CLAIMS,
                place,
                &format!("level of {}", sweep.along),
                &word,
                known,
            )?;
        }
        for factor in sweep.among.iter().chain(&sweep.relative_to) {
            let known = self.factors.keys().map(String::as_str);
            known_word(CLAIMS, place, "factor", factor, known)?;
        }
        Ok(())
    }

    /// The levels of a factor that curves run along.
    fn check_numeric(
        &self,
        file: &'static str,
        place: &str,
        factor: &str,
    ) -> Result<&[String], Error> {
        let known = self.factors.keys().map(String::as_str);
        known_word(file, place, "factor", factor, known)?;
        let levels = &self.factors[factor].levels;
        match levels.iter().find(|level| number(level).is_none()) {
            None => Ok(levels),
            Some(level) => {
                let message = format!(
                    "{place}: {factor} is not numeric, as its level {level:?} shows: no curve runs along it"
                );
                Err(Error::study(file, message))
            }
        }
    }

    fn check_metric(&self, file: &'static str, place: &str, metric: &str) -> Result<(), Error> {
        if self.metrics.is_empty() {
            return Ok(());
        }
        let known = self.metrics.keys().map(String::as_str);
        known_word(file, place, "metric", metric, known)
    }
}

fn known_word<'a>(
    file: &'static str,
    place: &str,
    what: &str,
    word: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Error> {
    if known.clone().any(|k| k == word) {
        return Ok(());
    }
    let known: Vec<&str> = known.collect();
    let message = format!(
        "{place}: no {what} is called {word:?}; there are {}",
        known.join(", ")
    );
    Err(Error::study(file, message))
}
