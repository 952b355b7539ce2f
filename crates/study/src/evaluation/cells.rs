//! Lists the cells of a run whose study has no tables.

use fathometer_analysis::run::{Cell, Run};
use fathometer_analysis::tables::Column;
use fathometer_analysis::{gave_out_first, terminal};

/// The kind of a run's figures, which determines the columns of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measured {
    Pages,
    Loads,
    Capacities,
}

impl Measured {
    fn of(run: &Run) -> Measured {
        let has = |metric: &str| {
            let mut replicates = run.replicates();
            replicates.any(|replicate| replicate.metrics.contains_key(metric))
        };
        match (has("capacity_trials"), has("exchanges_per_s")) {
            (true, _) => Measured::Capacities,
            (false, true) => Measured::Loads,
            (false, false) => Measured::Pages,
        }
    }
}

/// Returns the columns of the list of cells: packets and seconds of page retrievals; throughput and response times of
/// loads; bounds and trials of capacity searches.
pub(super) fn columns(run: &Run) -> Vec<Column> {
    const OF_CAPACITIES: [(&str, &str); 5] = [
        ("capacity", "capacity"),
        ("works", "capacity_works"),
        ("fails", "capacity_fails"),
        ("trials", "capacity_trials"),
        ("search s", "capacity_search_s"),
    ];
    const OF_LOADS: [(&str, &str); 5] = [
        ("exch/s", "exchanges_per_s"),
        ("mean ms", "response_mean_ms"),
        ("p50 ms", "response_p50_ms"),
        ("errors/s", "errors_per_s"),
        ("CPU %", "cpu_total_pct"),
    ];
    let columns = match Measured::of(run) {
        Measured::Capacities => OF_CAPACITIES,
        Measured::Loads => OF_LOADS,
        Measured::Pages => return Vec::new(),
    };
    columns
        .map(|(label, metric)| Column {
            label: label.to_owned(),
            metric: metric.to_owned(),
            plus: None,
            published: None,
            published_times: None,
            percent_of: None,
            decimals: None,
            brief: false,
        })
        .into()
}

/// Lists all cells of a study without tables, one per line. An invalid cell has its reasons.
pub(super) fn cells(run: &Run, json: bool) -> String {
    let mean = |cell: &Cell, metric: &str| {
        let values = cell.values(metric);
        (!values.is_empty())
            .then(|| values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64)
    };
    if json {
        let cells: Vec<_> = run
            .cells
            .iter()
            .map(|cell| {
                serde_json::json!({
                    "block": cell.block, "cell": cell.key, "state": cell.state(),
                    "n": cell.valid().count(), "elapsed_s": mean(cell, "elapsed_s"),
                    "packets": mean(cell, "packets"), "capacity": mean(cell, "capacity"),
                    "exchanges_per_s": mean(cell, "exchanges_per_s"),
                    "response_mean_ms": mean(cell, "response_mean_ms"),
                    "gave_out": gave_out_first::of_cell(cell),
                    "reasons": cell.reasons(),
                })
            })
            .collect();
        return format!("{:#}\n", serde_json::Value::Array(cells));
    }
    let columns = match Measured::of(run) {
        Measured::Pages => [("elapsed s", "elapsed_s", 3), ("packets", "packets", 1)],
        Measured::Loads => [
            ("exch/s", "exchanges_per_s", 1),
            ("mean ms", "response_mean_ms", 3),
        ],
        Measured::Capacities => [
            ("works at", "capacity_works", 1),
            ("fails at", "capacity_fails", 1),
        ],
    };
    let [(first, ..), (second, ..)] = columns;
    let mut text = format!("{:>3} {first:>10} {second:>9}  cell\n", "n");
    for cell in &run.cells {
        let [first, second] = columns.map(|(_, metric, digits)| {
            mean(cell, metric).map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        });
        text.push_str(&format!(
            "{:>3} {first:>10} {second:>9}  {} {}\n",
            cell.valid().count(),
            cell.block,
            cell.key
        ));
        if let Some(found) = gave_out_first::of_cell(cell) {
            text.push_str(&format!("    exhausted first: {found}\n"));
        }
        for reason in cell.reasons() {
            text.push_str(&format!("    INVALID: {reason}\n"));
        }
    }
    text + &terminal::left_out(run)
}
