//! Tests that the records of the published sizes of real pages and images agree with the tables of files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fathometer_analysis::run::{Cell, Run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs/published/2026-11-25-debian-pages")
}

/// Returns the lines of a table. Each line is a map from column name to value.
fn table(name: &str) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(folder().join(name)).unwrap();
    let mut lines = text
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    lines
        .map(|line| {
            assert_eq!(line.len(), head.len(), "{line:?}");
            head.iter().cloned().zip(line).collect()
        })
        .collect()
}

fn cells<'a>(run: &'a Run, block: &str) -> Vec<&'a Cell> {
    run.cells
        .iter()
        .filter(|cell| cell.block == block)
        .collect()
}

#[test]
fn records_of_pages_are_the_means_of_their_packages() {
    let (run, lines) = (Run::load(&folder()).unwrap(), table("pages.csv"));
    let mut packages: Vec<&str> = lines.iter().map(|line| line["package"].as_str()).collect();
    let paths: BTreeSet<(&str, &str)> = lines
        .iter()
        .map(|line| (line["package"].as_str(), line["page"].as_str()))
        .collect();
    assert_eq!(paths.len(), lines.len());
    packages.dedup();
    assert!(packages.len() >= 10 && lines.len() >= 100);
    let cells = cells(&run, "real-pages");
    assert_eq!(cells.len(), 5);
    for cell in cells {
        let case = cell.key.level("tags").unwrap();
        let means: Vec<f64> = packages
            .iter()
            .filter_map(|package| {
                let own = lines.iter().filter(|line| line["package"] == *package);
                let ratios: Vec<f64> = own
                    .filter(|line| !line[case].is_empty())
                    .map(|line| {
                        let [coded, bytes] =
                            [case, "bytes"].map(|name| line[name].parse::<f64>().unwrap());
                        coded / bytes
                    })
                    .collect();
                (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
            })
            .collect();
        let recorded = cell.values("deflate_ratio");
        assert_eq!(recorded.len(), means.len(), "{case}");
        for ((_, recorded), mean) in recorded.iter().zip(means) {
            assert!(
                (recorded - mean).abs() < 1e-12,
                "{case}: record {recorded}, table {mean}"
            );
        }
    }
}

#[test]
fn records_of_images_are_those_of_the_table() {
    let (run, lines) = (Run::load(&folder()).unwrap(), table("images.csv"));
    let cells = cells(&run, "real-images");
    assert_eq!(cells.len(), 3);
    for cell in cells {
        let encoder = cell.key.level("encoder").unwrap();
        let number = |line: &BTreeMap<String, String>, name: &str| line[name].parse::<f64>();
        let of_table: Vec<f64> = lines
            .iter()
            .map(|line| {
                let (gif, png) = (number(line, "gif").unwrap(), number(line, encoder).unwrap());
                assert!(gif < 200.0);
                if png > gif { 100.0 } else { 0.0 }
            })
            .collect();
        let recorded: Vec<f64> = cell
            .values("larger_as_png_pct")
            .iter()
            .map(|(_, value)| *value)
            .collect();
        assert_eq!(recorded, of_table, "{encoder}");
    }
}
