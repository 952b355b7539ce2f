//! The cell of each figure in tables and curves. With it, every figure links to its replicates and their files.

use crate::digest::Digest;
use crate::run::Cell;
use crate::selection::{Selection, number};
use crate::sweep::{CurvePoint, CurveResult};
use crate::tables::{RowResult, TableResult};

/// The identifier of a cell's row in the list of all cells.
pub(super) fn anchor(digest: &Digest<'_>, cell: &Cell) -> String {
    let mut cells = digest.run.cells.iter();
    let place = cells.position(|known| std::ptr::eq(known, cell));
    format!("cell-{}", place.unwrap_or(0))
}

/// The cell of a figure in a table; `None` if no cell was measured, or if several cells match.
pub(super) fn of_table<'d>(
    digest: &'d Digest<'_>,
    table: &TableResult,
    row: &RowResult,
    group: usize,
) -> Option<&'d Cell> {
    let definition = digest.study.table(&table.id)?;
    let layout = definition.layout_of(&digest.study.layouts);
    let section = layout.sections.iter().find(|s| s.label == row.section);
    let line = layout.rows.iter().find(|line| line.label == row.label)?;
    let mut place = definition.select.clone().at("era", &table.era);
    if let Some(section) = section {
        place = place.with(&section.select);
    }
    let place = place
        .with(&layout.groups.get(group)?.select)
        .with(&line.select);
    place.resolve(&digest.run, &digest.study.factors).ok()
}

/// The cells of one line of a curve.
pub(super) struct LineCells<'d> {
    along: &'d str,
    cells: Vec<&'d Cell>,
}

impl<'d> LineCells<'d> {
    /// Finds the cells of a line. `panel` is the index of the line's panel among all panels of the curve.
    pub(super) fn of(
        digest: &'d Digest<'_>,
        curve: &CurveResult,
        panel: usize,
        series: &str,
    ) -> Option<LineCells<'d>> {
        let study = digest.study;
        let definition = study.curves.iter().find(|known| known.id == curve.id)?;
        let selection: Selection = definition.select.clone().at("era", &curve.era);
        let selection = selection.with(&definition.panels.get(panel)?.select);
        let selection = selection.at(&definition.series, series);
        Some(LineCells {
            along: &definition.along,
            cells: selection.matching(&digest.run, &study.factors).collect(),
        })
    }

    /// The cell of a point; `None` if several cells have the level of the point. All points of a distribution belong to
    /// one cell.
    pub(super) fn of_point(&self, point: &CurvePoint) -> Option<&'d Cell> {
        if let [cell] = self.cells.as_slice() {
            return Some(cell);
        }
        let level = |cell: &Cell| cell.key.level(self.along).and_then(number);
        let mut found = self
            .cells
            .iter()
            .filter(|cell| level(cell) == Some(point.level));
        match (found.next(), found.next()) {
            (Some(cell), None) => Some(cell),
            _ => None,
        }
    }
}
