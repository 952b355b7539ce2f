//! The time-sequence plots that a study asks for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fathometer_analysis::run::Plot;

use super::run::RunError;
use super::spec::{KEY_FACTORS, Study};
use crate::run_folder::RunFolder;

/// Draws the study's time-sequence plots, each from the first valid replicate of its cell.
pub(super) fn draw(
    study: &Study,
    folder: &RunFolder,
    valid_cells: &BTreeSet<String>,
) -> Result<Vec<Plot>, RunError> {
    let mut plots = Vec::new();
    for (n, plot) in study.plots.iter().enumerate() {
        let block = plot.cell.get("block").map_or("main", String::as_str);
        let Some(cell) = valid_cells.iter().find(|name| {
            let mut levels = plot.cell.iter().filter(|(factor, _)| *factor != "block");
            name.starts_with(&format!("{block}/"))
                && levels.all(|(factor, level)| {
                    name.split(['/', ','])
                        .any(|part| part == format!("{factor}={level}"))
                })
                && study.defaults.iter().all(|(factor, level)| {
                    plot.cell.contains_key(factor)
                        || !KEY_FACTORS.contains(&factor.as_str())
                        || name
                            .split(['/', ','])
                            .any(|part| part == format!("{factor}={level}"))
                })
        }) else {
            continue;
        };
        let Some(svg) = draw_cell(&folder.path().join("cells").join(cell), &plot.title) else {
            continue;
        };
        folder.subfolder("plots")?;
        let file = format!("plots/time-sequence-{}.svg", n + 1);
        folder.write(&file, svg.as_bytes())?;
        plots.push(Plot {
            title: plot.title.clone(),
            caption: plot.caption.clone(),
            file,
        });
    }
    Ok(plots)
}

/// The time sequence of the first replicate whose capture can be drawn.
fn draw_cell(cell: &Path, title: &str) -> Option<String> {
    use fathometer_analysis::packets;
    let mut replicates: Vec<PathBuf> = std::fs::read_dir(cell)
        .ok()?
        .flatten()
        .map(|entry| entry.path().join("capture.pcapng"))
        .collect();
    replicates.sort();
    replicates.iter().find_map(|capture| {
        let file = std::fs::File::open(capture).ok()?;
        let options = packets::Options {
            time_sequences: 64,
            ..packets::Options::default()
        };
        let (_, sequences) = packets::account_with_sequences(file, &options).ok()?;
        packets::plot::time_sequences(&sequences, title)
    })
}
