//! Checks that the files of a study agree with each other. An error states the place, the wrong word and the valid
//! words.

use super::{CLAIMS, StudyData, TABLES};
use crate::Error;
use crate::claims::Relation;
use crate::selection::{Selection, number, unit};
use crate::sweep::Curve;
use crate::sweep::family::{is_family, members};
use crate::sweep::shape::Place;
use crate::tables::Table;

impl StudyData {
    pub(super) fn check(&self) -> Result<(), Error> {
        for table in &self.tables {
            self.check_table(table)?;
        }
        for layout in &self.layouts {
            let place = format!("layout {:?}", layout.name);
            for column in &layout.columns {
                for metric in [Some(&column.metric), column.plus.as_ref()]
                    .into_iter()
                    .flatten()
                {
                    self.check_metric(TABLES, &place, metric)?;
                }
            }
            let percent_of = layout.columns.iter().filter_map(|c| c.percent_of.as_ref());
            for base in layout.relative_to.iter().chain(percent_of) {
                let known = layout.rows.iter().map(|row| row.label.as_str());
                known_word(TABLES, &place, "row", base, known)?;
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
            let mut columns = vec![figure.column.as_str()];
            columns.extend(figure.stack.iter().map(String::as_str));
            self.check_cells(&place, &figure.tables, &[], &[&figure.group], &columns)?;
        }
        for printed in &self.printed {
            self.check_printed(printed)?;
        }
        for acceptance in &self.acceptance {
            let place = format!("acceptance {:?}", acceptance.id);
            let mut rows: Vec<&str> = acceptance.rows.iter().map(String::as_str).collect();
            rows.extend(acceptance.relative_to.as_deref());
            let columns = [acceptance.column.as_str()];
            self.check_cells(&place, &acceptance.tables, &rows, &[], &columns)?;
            for figures in &acceptance.calibrated {
                let place = format!("{place}, calibrated");
                let tables = acceptance.tables.iter().map(String::as_str);
                for table in &figures.tables {
                    known_word(TABLES, &place, "table", table, tables.clone())?;
                }
                let rows: Vec<&str> = figures.rows.iter().map(String::as_str).collect();
                let groups: Vec<&str> = figures.groups.iter().map(String::as_str).collect();
                let tables = match figures.tables.is_empty() {
                    true => &acceptance.tables,
                    false => &figures.tables,
                };
                self.check_cells(&place, tables, &rows, &groups, &columns)?;
            }
        }
        for explanation in &self.explanations {
            let place = format!("explanation {:?}", explanation.text);
            let known = self.acceptance.iter().map(|a| a.id.as_str());
            known_word(TABLES, &place, "acceptance", &explanation.acceptance, known)?;
        }
        for claim in &self.claims {
            let place = format!("claim {}", claim.id);
            if claim.tests.is_empty() == claim.not_tested.is_none() {
                let message =
                    format!("{place}: write [[claim.test]] tables or not_tested, and not both");
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
                table.layout_of(&self.layouts)
            }
            _ => {
                let message =
                    format!("{place}: must have either a layout or a reason why it is absent");
                return Err(Error::study(TABLES, message));
            }
        };
        let selections = [&table.select]
            .into_iter()
            .chain(table.also.iter().map(|also| &also.select))
            .chain(layout.groups.iter().map(|group| &group.select))
            .chain(layout.sections.iter().map(|section| &section.select))
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
            let layout = table.layout_of(&self.layouts);
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
        let known = self.factors.keys().map(String::as_str);
        known_word(TABLES, &place, "factor", &curve.series, known)?;
        self.check_selection(TABLES, &place, &curve.select)?;
        for panel in &curve.panels {
            self.check_selection(TABLES, &place, &panel.select)?;
            let of_knee = panel.knee.as_ref().map(|knee| &knee.of);
            if is_family(&panel.metric) {
                self.check_family(TABLES, &place, &panel.metric)?;
                if of_knee.or(panel.per.as_ref()).is_some() {
                    let message = format!("{place}: a distribution must not have knee or per");
                    return Err(Error::study(TABLES, message));
                }
                continue;
            }
            self.check_numeric(TABLES, &place, &curve.along)?;
            let metrics = [Some(&panel.metric), of_knee, panel.per.as_ref()];
            for metric in metrics.into_iter().flatten() {
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
            match is_family(metric) {
                true => self.check_family(CLAIMS, place, metric)?,
                false => self.check_metric(CLAIMS, place, metric)?,
            }
        }
        let Some(sweep) = &relation.sweep else {
            return Ok(());
        };
        let of_knee = sweep.knee.as_ref().map(|knee| &knee.of);
        let others = [of_knee, sweep.over.as_ref(), sweep.per.as_ref()];
        for metric in others.into_iter().flatten() {
            self.check_metric(CLAIMS, place, metric)?;
        }
        let levels = self.check_numeric(CLAIMS, place, &sweep.along)?;
        if let Place::Level(level) = sweep.at
            && !levels.iter().any(|known| number(known) == Some(level))
        {
            let what = format!("level of {}", sweep.along);
            let known = levels.iter().map(String::as_str);
            known_word(CLAIMS, place, &what, &level.to_string(), known)?;
        }
        for factor in sweep.among.iter().chain(&sweep.relative_to) {
            let known = self.factors.keys().map(String::as_str);
            known_word(CLAIMS, place, "factor", factor, known)?;
        }
        Ok(())
    }

    /// The levels of a numeric factor, which is the horizontal axis of curves.
    fn check_numeric(
        &self,
        file: &'static str,
        place: &str,
        factor: &str,
    ) -> Result<&[String], Error> {
        let known = self.factors.keys().map(String::as_str);
        known_word(file, place, "factor", factor, known)?;
        let levels = &self.factors[factor].levels;
        // A word such as `none` among numbers with one unit is a level, but not a point of a curve.
        let (numbers, words): (Vec<&String>, Vec<&String>) =
            levels.iter().partition(|level| number(level).is_some());
        let odd = match numbers.as_slice() {
            [] | [_] => words.first().copied(),
            [first, rest @ ..] => rest.iter().find(|l| unit(l) != unit(first)).copied(),
        };
        match odd {
            None => Ok(levels),
            Some(level) => {
                let message = format!(
                    "{place}: {factor} cannot be the axis of a curve: its level {level:?} is not numeric"
                );
                Err(Error::study(file, message))
            }
        }
    }

    fn check_family(&self, file: &'static str, place: &str, family: &str) -> Result<(), Error> {
        if members(&self.metrics, family).len() >= 2 {
            return Ok(());
        }
        let message =
            format!("{place}: fewer than two declared metrics are of the family {family:?}");
        Err(Error::study(file, message))
    }

    fn check_metric(&self, file: &'static str, place: &str, metric: &str) -> Result<(), Error> {
        if self.metrics.is_empty() {
            return Ok(());
        }
        let known = self.metrics.keys().map(String::as_str);
        known_word(file, place, "metric", metric, known)
    }
}

pub(super) fn known_word<'a>(
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
