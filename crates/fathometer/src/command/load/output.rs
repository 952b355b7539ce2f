//! What a load test leaves: the screen, files, and a row for every exchange.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fathometer_analysis::load::{self, LoadResult, Summary, Verdict};
use fathometer_columnar::{PartsWriter, part_name};
use fathometer_model::ExchangeRow;
use fathometer_workload::plan::Plan;

use super::super::Failure;
use crate::load::{Recorder, RecorderError};

/// Rows in a part of a record: a killed test loses at most the part that was being written.
const ROWS_PER_PART: u64 = 4_000_000;

/// A form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Screen,
    /// WebStone's report
    Webstone,
    /// All figures; the schema is docs/load.schema.json
    Json,
    /// metric,value,unit
    Csv,
    /// The course of the test, an interval a row
    Timeline,
    /// An HdrHistogram interval log
    Hdr,
    /// Prometheus text
    Prometheus,
}

impl Format {
    /// The result in this form.
    pub fn render(self, result: &LoadResult, promises: &[Verdict]) -> Result<String, Failure> {
        Ok(match self {
            Format::Screen => load::screen::render(result, promises),
            Format::Webstone => load::webstone::render(result),
            Format::Json => {
                let mut json = Summary::of(result)
                    .with_promises(promises.to_vec())
                    .to_json();
                if !json.ends_with('\n') {
                    json.push('\n');
                }
                json
            }
            Format::Csv => load::csv::summary(result, promises),
            Format::Timeline => load::csv::timeline(result),
            Format::Hdr => {
                let mut log = Vec::new();
                load::hdr::write(result, &mut log)?;
                String::from_utf8(log)?
            }
            Format::Prometheus => load::prometheus::render(result),
        })
    }

    /// The form that a file's name asks for.
    fn of(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?;
        if name.ends_with(".timeline.csv") {
            return Some(Format::Timeline);
        }
        Some(match path.extension()?.to_str()? {
            "json" => Format::Json,
            "csv" => Format::Csv,
            "hlog" => Format::Hdr,
            "prom" => Format::Prometheus,
            "txt" => Format::Screen,
            _ => return None,
        })
    }
}

/// The files that a test is to leave.
pub struct Saved {
    files: Vec<(Format, PathBuf)>,
    rows: Option<(PathBuf, Vec<String>)>,
}

impl Saved {
    /// Looks at all names, and makes sure that there is room for files of these names, before
    /// anything is measured.
    pub fn begin(paths: &[PathBuf], plan: &Plan) -> Result<Saved, Failure> {
        let mut saved = Saved {
            files: Vec::new(),
            rows: None,
        };
        for path in paths {
            if path.extension().is_some_and(|ending| ending == "parquet") {
                let targets = plan
                    .targets
                    .iter()
                    .map(|target| format!("{} {}", target.method, target.path));
                probe(&part(path, 1))?;
                saved.rows = Some((path.clone(), targets.collect()));
                continue;
            }
            let Some(format) = Format::of(path) else {
                return Err(format!(
                    "{} does not say what is to be in it: end it in .json, .csv, .timeline.csv, .hlog, .prom, .txt or .parquet",
                    path.display()
                )
                .into());
            };
            probe(path)?;
            saved.files.push((format, path.clone()));
        }
        Ok(saved)
    }

    /// Who writes a row for every exchange, when that was asked for.
    pub fn recorder(&self) -> Option<Box<dyn Recorder>> {
        let (path, targets) = self.rows.clone()?;
        Some(Box::new(Rows::new(path, &targets)))
    }

    /// Writes the files, each whole or not at all.
    pub fn write(&self, result: &LoadResult, promises: &[Verdict]) -> Result<(), Failure> {
        for (format, path) in &self.files {
            let text = format.render(result, promises)?;
            let mut partial = path.clone().into_os_string();
            partial.push(".partial");
            std::fs::write(&partial, text)
                .and_then(|()| std::fs::rename(&partial, path))
                .map_err(|error| {
                    let _ = std::fs::remove_file(&partial);
                    refused(path, &error)
                })?;
        }
        Ok(())
    }
}

/// Makes sure that a file can be made there; what is there already stays until it is replaced.
fn probe(path: &Path) -> Result<(), Failure> {
    let existed = path.exists();
    File::options()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| refused(path, &error))?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn refused(path: &Path, error: &std::io::Error) -> String {
    format!(
        "failed to write {}: {error}: name another place with --save",
        path.display()
    )
}

/// `name.parquet` is the first part, `name-0002.parquet` the second.
fn part(path: &Path, number: u32) -> PathBuf {
    if number <= 1 {
        return path.to_owned();
    }
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("exchanges");
    path.with_file_name(part_name(number).replacen("exchanges", stem, 1))
}

type Opener = Box<dyn FnMut(u32) -> std::io::Result<BufWriter<File>> + Send>;

/// Rows of exchanges into Parquet files.
struct Rows {
    writer: Option<PartsWriter<BufWriter<File>, Opener>>,
}

impl Rows {
    fn new(path: PathBuf, targets: &[String]) -> Rows {
        let open: Opener =
            Box::new(move |number| Ok(BufWriter::new(File::create(part(&path, number))?)));
        Rows {
            writer: Some(PartsWriter::new(ROWS_PER_PART, Vec::new(), targets, open)),
        }
    }
}

impl Recorder for Rows {
    fn record(&mut self, rows: Vec<ExchangeRow>) -> Result<(), RecorderError> {
        match &mut self.writer {
            Some(writer) => Ok(writer.write(&rows)?),
            None => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), RecorderError> {
        match self.writer.take() {
            Some(writer) => Ok(writer.finish().map(drop)?),
            None => Ok(()),
        }
    }
}
