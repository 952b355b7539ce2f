//! What a load test leaves: the screen, files, and a row for every exchange.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use clap::ValueEnum;
use fathometer_analysis::load::{self, LoadResult, Summary, Verdict};
use fathometer_columnar::{PartsWriter, part_name};
use fathometer_model::ExchangeRow;
use fathometer_workload::plan::Plan;

use super::super::{Failure, usage};
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
    record: Record,
}

/// What became of the record of exchanges. It is written while the test runs, and the test goes on without it.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<RecordState>>);

#[derive(Default)]
struct RecordState {
    /// The parts that were begun; all but the last are whole.
    parts: Vec<PathBuf>,
    /// The next one could not be begun: the last is whole too.
    is_unopened: bool,
    failure: Option<String>,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, RecordState> {
        self.0.lock().unwrap_or_else(|lock| lock.into_inner())
    }
}

impl Saved {
    /// Looks at all names, and makes sure that there is room for files of these names, before
    /// anything is measured.
    pub fn begin(paths: &[PathBuf], plan: &Plan) -> Result<Saved, Failure> {
        let mut saved = Saved {
            files: Vec::new(),
            rows: None,
            record: Record::default(),
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
                return Err(usage(format!(
                    "{} does not say what is to be in it: end it in .json, .csv, .timeline.csv, .hlog, .prom, .txt or .parquet",
                    path.display()
                )));
            };
            probe(path)?;
            saved.files.push((format, path.clone()));
        }
        Ok(saved)
    }

    /// Who writes a row for every exchange, when that was asked for. What an earlier one has written goes.
    pub fn recorder(&self) -> Option<Box<dyn Recorder>> {
        let (path, targets) = self.rows.clone()?;
        for part in std::mem::take(&mut *self.record.lock()).parts {
            // It is written again, or told.
            let _ = std::fs::remove_file(part);
        }
        Some(Box::new(Rows::new(path, &targets, self.record.clone())))
    }

    /// Writes the files, each whole or not at all. Gives what failed, the record of exchanges among it.
    pub fn write(&self, result: &LoadResult, promises: &[Verdict]) -> Vec<String> {
        let mut failures: Vec<String> = self.record.lock().failure.clone().into_iter().collect();
        for (format, path) in &self.files {
            let written = format.render(result, promises).and_then(|text| {
                write_whole(path, &text).map_err(|error| refused(path, &error).into())
            });
            failures.extend(written.err().map(|failure| failure.to_string()));
        }
        failures
    }
}

/// Writes a file beside its place, and puts it there when it is whole and on the disk.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    // A device or a pipe is written as it is.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, text);
    }
    let mut partial = path.to_owned().into_os_string();
    partial.push(".partial");
    let written = File::create(&partial)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            // A disk may find out only now that it is full.
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
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
    path: PathBuf,
    writer: Option<PartsWriter<BufWriter<File>, Opener>>,
    record: Record,
}

impl Rows {
    fn new(path: PathBuf, targets: &[String], record: Record) -> Rows {
        let (place, parts) = (path.clone(), record.clone());
        let open: Opener = Box::new(move |number| {
            let part = part(&place, number);
            let opened = File::create(&part);
            match &opened {
                Ok(_) => parts.lock().parts.push(part),
                Err(_) => parts.lock().is_unopened = true,
            }
            Ok(BufWriter::new(opened?))
        });
        Rows {
            path,
            writer: Some(PartsWriter::new(ROWS_PER_PART, Vec::new(), targets, open)),
            record,
        }
    }

    /// Ends the record, and keeps why. The part that was being written has no end, and nobody could read it.
    fn give_up(&mut self, error: &RecorderError) {
        self.writer = None;
        let mut record = self.record.lock();
        if !record.is_unopened
            && let Some(broken) = record.parts.pop()
            && broken.is_file()
        {
            let _ = std::fs::remove_file(broken);
        }
        let whole = record.parts.len() as u64;
        record.failure = Some(format!(
            "failed to write {}: {error}: the rows of the first {} exchanges are kept, all other figures are whole; \
             name another place with --save",
            self.path.display(),
            whole * ROWS_PER_PART
        ));
    }
}

/// A failure to write is told when the test is over: the figures do not need the record.
impl Recorder for Rows {
    fn record(&mut self, rows: Vec<ExchangeRow>) -> Result<(), RecorderError> {
        if let Some(writer) = &mut self.writer {
            match writer.write(&rows) {
                Ok(()) => {}
                Err(error) => self.give_up(&error.into()),
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), RecorderError> {
        if let Some(writer) = self.writer.take()
            && let Err(error) = writer.finish()
        {
            self.give_up(&error.into());
        }
        Ok(())
    }
}
