//! The study leucht15 shows and judges only cells that it runs: every curve, table and test of a claim has its figures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fathometer_analysis::claims;
use fathometer_analysis::run::{Cell, Mode, Run, RunInfo};
use fathometer_analysis::statistics::Intervals;
use fathometer_analysis::study::{StudyData, StudySources};
use fathometer_lab::data::embedded;
use fathometer_model::{PathCertificate, ReplicateRecord, Validity};
use fathometer_study::spec::Study;

fn file(name: &str) -> &'static str {
    embedded(&format!("papers/leucht15/{name}")).unwrap()
}

fn design() -> Study {
    Study::parse(file("study.toml")).unwrap()
}

fn data() -> StudyData {
    StudyData::parse(StudySources {
        tables: file("tables.toml"),
        claims: file("claims.toml"),
        figures: file("figures.csv"),
    })
    .unwrap()
}

/// Returns a run in which every cell of a mode has every metric, each with the value 1.
fn everything(mode: Mode) -> Run {
    let metrics: BTreeMap<String, f64> = data()
        .metrics
        .keys()
        .map(|metric| (metric.clone(), 1.0))
        .collect();
    let cells = design().cells(mode).unwrap().into_iter().map(|cell| {
        let record = |replicate| ReplicateRecord {
            block: cell.block.clone(),
            cell: cell.key.clone(),
            replicate,
            seed: 1,
            order: 0,
            started: 0.0,
            metrics: metrics.clone(),
            path: PathCertificate::default(),
            validity: Validity::default(),
            folder: cell.folder(),
        };
        Cell {
            block: cell.block.clone(),
            key: cell.key.clone(),
            replicates: (0..2).map(record).collect(),
        }
    });
    let info = serde_json::json!({
        "format": RunInfo::FORMAT, "study": "leucht15", "title": "nothing was measured", "mode": mode,
        "command": [], "version": "0", "machine": {}, "seed": 1, "started": 0.0,
    });
    Run {
        folder: PathBuf::new(),
        info: serde_json::from_value(info).unwrap(),
        cells: cells.collect(),
        plots: Vec::new(),
        warnings: Vec::new(),
        repeated: 0,
        has_sweeps: false,
    }
}

/// The terminal shows the short form of a table.
#[test]
fn every_table_has_a_short_form() {
    for layout in data().layouts {
        let brief = layout.columns.iter().filter(|column| column.brief);
        assert!(brief.count() > 0, "{}", layout.name);
    }
}

#[test]
fn every_level_that_is_run_is_declared_where_it_is_shown() {
    let data = data();
    for mode in [Mode::Quick, Mode::Full] {
        for cell in design().cells(mode).unwrap() {
            for (factor, level) in &cell.key.0 {
                // Requests accept no content coding, and clients have an empty cache.
                if ["coding", "visit"].contains(&factor.as_str()) {
                    continue;
                }
                let known = data.factors.get(factor);
                let known = known.unwrap_or_else(|| panic!("{factor} is not declared"));
                assert!(known.levels.contains(level), "{factor} = {level}");
            }
        }
    }
}

#[test]
fn every_panel_of_every_curve_has_cells_and_one_for_each_point() {
    let (run, data) = (everything(Mode::Full), data());
    for curve in data.curve_results(&run, Intervals::default()) {
        let remarks = curve.remarks();
        assert!(remarks.is_empty(), "{}: {remarks:?}", curve.id);
        for panel in &curve.panels {
            assert!(!panel.lines.is_empty(), "{}: {}", curve.id, panel.title);
        }
    }
}

#[test]
fn the_papers_figures_have_something_in_a_quick_run_too() {
    let (run, data) = (everything(Mode::Quick), data());
    let curves = data.curve_results(&run, Intervals::default());
    let tables = data.table_results(&run, Intervals::default());
    let curves = curves.iter().filter(|curve| curve.is_measured());
    let tables = tables.iter().filter(|table| table.is_measured());
    let shown: BTreeSet<&str> = curves
        .map(|curve| curve.id.as_str())
        .chain(tables.map(|table| table.id.as_str()))
        .collect();
    // Some ids cover two of the paper's figures: response times, and the rates next to them.
    for id in [
        "T2", "T3", "F2", "F3", "F5", "F7", "F9", "F11", "F13", "F14", "F15", "F16",
    ] {
        assert!(shown.contains(id), "{id} of {shown:?}");
    }
}

#[test]
fn published_figures_of_the_tables_stand_beside_measured_ones() {
    let (run, data) = (everything(Mode::Quick), data());
    let tables = data.table_results(&run, Intervals::default());
    let published = |id: &str| -> Vec<f64> {
        let table = tables.iter().find(|table| table.id == id).unwrap();
        let data = table.rows.iter().flat_map(|row| row.data.iter().flatten());
        data.filter_map(|datum| Some(datum.published?.value))
            .collect()
    };
    assert_eq!(published("T2"), [55.0, 1.0]);
    assert_eq!(published("T3"), [280.0, 150.0, 7.0, 0.3]);
}

#[test]
fn every_test_of_every_claim_has_cells() {
    let data = data();
    for mode in [Mode::Quick, Mode::Full] {
        for claim in data.claim_results(&everything(mode), Intervals::default()) {
            let era = &claim.eras[0];
            let labels: BTreeSet<&str> = era.parts.iter().map(|p| p.label.as_str()).collect();
            for label in labels {
                let parts = || era.parts.iter().filter(|part| part.label == label);
                // A flat line has no knee.
                let of_a_knee = parts().all(|part| part.kind == claims::Kind::Knee);
                assert!(
                    of_a_knee || parts().any(|part| part.value.is_some()),
                    "{} in {mode:?}: {label}: {:?}",
                    claim.id,
                    parts().map(|part| &part.remark).collect::<Vec<_>>()
                );
                for part in parts() {
                    assert!(
                        !part.remark.contains("differ"),
                        "{}: {}",
                        claim.id,
                        part.remark
                    );
                }
            }
        }
    }
}
