//! The curves of a load study without tables: throughput, latency and CPU time by the number of users.

use std::collections::{BTreeMap, BTreeSet};

use super::{Curve, Panel};
use crate::run::USERS;
use crate::run::{Cell, Run};
use crate::selection::{COPY, Factor, Selection};

/// The smallest number of different user counts for a line.
const LEAST: usize = 3;

/// The largest number of figures of a block. Further cells appear only in the list of all cells.
const MOST_FIGURES: usize = 8;

/// The smallest ratio of the most to the fewest users for which the axis is logarithmic.
const WIDE: f64 = 16.0;

const PANELS: [(&str, &str, &str); 4] = [
    ("throughput", "exchanges_per_s", "exchanges/s"),
    ("mean response time", "response_mean_ms", "ms"),
    ("98th percentile", "response_p98_ms", "ms"),
    ("CPU time per exchange", "cpu_us_per_exchange", "µs"),
];

/// Builds the figures of each block that varies the number of users, and the factors that the figures use. Of the other
/// varying factors, the factor with the most levels defines the lines. Each combination of the remaining factors has a
/// figure.
pub(crate) fn by_users(run: &Run) -> (BTreeMap<String, Factor>, Vec<Curve>) {
    let mut factors = BTreeMap::new();
    let mut curves = Vec::new();
    let blocks: BTreeSet<&str> = run.cells.iter().map(|cell| cell.block.as_str()).collect();
    for block in &blocks {
        let cells: Vec<&Cell> = run
            .cells
            .iter()
            .filter(|cell| cell.block == **block && cell.key.level(USERS).is_some())
            .collect();
        let users: BTreeSet<u32> = cells
            .iter()
            .filter_map(|cell| cell.key.level(USERS)?.parse().ok())
            .collect();
        let Some(series) = series(&cells).filter(|_| users.len() >= LEAST) else {
            continue;
        };
        for factor in [USERS, &series] {
            let levels = run.levels(factor);
            let default = None;
            factors.insert(factor.to_owned(), Factor { levels, default });
        }
        let (fewest, most) = (users.first(), users.last());
        let is_wide = fewest
            .zip(most)
            .is_some_and(|(fewest, most)| f64::from(*most) >= WIDE * f64::from(*fewest).max(1.0));
        for others in others(&cells, &series).into_iter().take(MOST_FIGURES) {
            let of_block = (blocks.len() > 1).then(|| (*block).to_owned());
            let names = of_block.into_iter().chain(others.values().cloned());
            let names: Vec<String> = names.collect();
            curves.push(Curve {
                id: format!("U{}", curves.len() + 1),
                title: match names.is_empty() {
                    true => "By number of users".to_owned(),
                    false => format!("By number of users: {}", names.join(", ")),
                },
                along: USERS.to_owned(),
                axis: "users".to_owned(),
                logarithmic: is_wide,
                series: series.clone(),
                select: Selection {
                    block: Some((*block).to_owned()),
                    levels: others,
                },
                panels: panels(),
                published: Vec::new(),
                caption: String::new(),
                note: String::new(),
                of_the_paper: false,
            });
        }
    }
    (factors, curves)
}

/// The varying factors, except the number of users and the factors that every figure shows separately.
fn varying(cells: &[&Cell]) -> BTreeMap<String, BTreeSet<String>> {
    let mut levels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (factor, level) in cells.iter().flat_map(|cell| &cell.key.0) {
        if ![USERS, "era", COPY].contains(&factor.as_str()) {
            levels
                .entry(factor.clone())
                .or_default()
                .insert(level.clone());
        }
    }
    levels
}

/// The factor whose levels are the lines; `None` if no other factor varies.
fn series(cells: &[&Cell]) -> Option<String> {
    let levels = varying(cells);
    let most = levels
        .into_iter()
        .max_by_key(|(factor, levels)| (levels.len(), factor == "server"));
    most.map(|(factor, _)| factor)
}

/// The combinations of the levels of all remaining varying factors.
fn others(cells: &[&Cell], series: &str) -> BTreeSet<BTreeMap<String, String>> {
    let levels = varying(cells);
    let is_other =
        |factor: &String| factor != series && levels.get(factor).is_some_and(|l| l.len() > 1);
    let of_cell = |cell: &&Cell| {
        let levels = cell.key.0.iter();
        let others = levels.filter(|(factor, _)| is_other(factor));
        others
            .map(|(factor, level)| (factor.clone(), level.clone()))
            .collect()
    };
    cells.iter().map(of_cell).collect()
}

fn panels() -> Vec<Panel> {
    let panels = PANELS.map(|(title, metric, unit)| Panel {
        title: title.to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        per: None,
        select: Selection::default(),
        knee: None,
        identity: false,
    });
    panels.into()
}
