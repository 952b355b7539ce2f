//! Outputs of a load test: the screen, files, and one row per exchange.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use clap::ValueEnum;
use fathometer_analysis::load::{self, LoadResult, Summary, Verdict};
use fathometer_analysis::load_page;
use fathometer_columnar::{PartsWriter, part_name};
use fathometer_files::whole_file;
use fathometer_model::ExchangeRow;
use fathometer_workload::plan::Plan;

use super::super::{Failure, usage};
use fathometer_load::{Recorder, RecorderError};

/// Rows per part of a record. A killed test loses at most the part that is being written.
const ROWS_PER_PART: u64 = 4_000_000;

/// An output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people; with --details all figures and settings
    Screen,
    /// WebStone's report
    Webstone,
    /// All figures as JSON; the schema is docs/load.schema.json
    Json,
    /// All figures as CSV: metric,value,unit
    Csv,
    /// The test over time as CSV, one interval per row
    Timeline,
    /// An HdrHistogram interval log
    Hdr,
    /// Prometheus text format
    Prometheus,
    /// An HTML page
    Html,
}

impl Format {
    /// Renders the result in this format; `details` is for the screen.
    pub fn render(
        self,
        result: &LoadResult,
        slos: &[Verdict],
        details: bool,
    ) -> Result<String, Failure> {
        Ok(match self {
            Format::Screen if details => load::screen::details(result, slos),
            Format::Screen => load::screen::render(result, slos),
            Format::Webstone => load::webstone::render(result),
            Format::Json => {
                let mut json = Summary::of(result).with_slos(slos.to_vec()).to_json();
                if !json.ends_with('\n') {
                    json.push('\n');
                }
                json
            }
            Format::Csv => load::csv::summary(result, slos),
            Format::Timeline => load::csv::timeline(result),
            Format::Hdr => {
                let mut log = Vec::new();
                load::hdr::write(result, &mut log)?;
                String::from_utf8(log)?
            }
            Format::Prometheus => load::prometheus::render(result),
            Format::Html => load_page::render(result, slos),
        })
    }

    /// Returns the format that the file name extension selects.
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
            "html" => Format::Html,
            _ => return None,
        })
    }
}

/// The files that a test writes.
pub struct Saved {
    files: Vec<(Format, PathBuf)>,
    rows: Option<(PathBuf, Vec<String>)>,
    record: Record,
}

/// The state of the record of exchanges. It is written while the test runs; the test continues if writing
/// fails.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<RecordState>>);

#[derive(Default)]
struct RecordState {
    /// The parts that were started; all but the last are complete.
    parts: Vec<PathBuf>,
    /// Whether the next part could not be opened; then the last part is complete too.
    is_unopened: bool,
    failure: Option<String>,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, RecordState> {
        self.0.lock().unwrap_or_else(|lock| lock.into_inner())
    }
}

impl Saved {
    /// Checks all file names, and that files of these names can be created, before the measurement starts.
    pub fn begin(paths: &[PathBuf], plan: &Plan) -> Result<Saved, Failure> {
        let mut saved = Saved {
            files: Vec::new(),
            rows: None,
            record: Record::default(),
        };
        for path in paths {
            if path.extension().is_some_and(|ending| ending == "parquet") {
                if let Some((first, _)) = &saved.rows {
                    return Err(usage(format!(
                        "--save names two .parquet files, {} and {}: a test writes its rows to one file; name one, and \
                         copy it after the test",
                        first.display(),
                        path.display()
                    )));
                }
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
                    "the format of {} is not known: end its name in .json, .csv, .timeline.csv, .hlog, .prom, .txt, .html or .parquet",
                    path.display()
                )));
            };
            probe(path)?;
            saved.files.push((format, path.clone()));
        }
        Ok(saved)
    }

    /// Creates the recorder that writes one row per exchange, if requested. Removes the parts of an earlier window.
    pub fn recorder(&self) -> Option<Box<dyn Recorder>> {
        let (path, targets) = self.rows.clone()?;
        for part in std::mem::take(&mut *self.record.lock()).parts {
            // A failure is ignored: writing the file again then fails, too, and that failure is reported.
            let _ = std::fs::remove_file(part);
        }
        Some(Box::new(Rows::new(path, &targets, self.record.clone())))
    }

    /// Returns the reason if the record of exchanges is incomplete.
    pub fn failure_of_record(&self) -> Option<String> {
        self.record.lock().failure.clone()
    }

    /// Writes the files, each completely or not at all. Returns all failures, including the failure of the record.
    pub fn write(&self, result: &LoadResult, slos: &[Verdict], details: bool) -> Vec<String> {
        let mut failures: Vec<String> = self.failure_of_record().into_iter().collect();
        for (format, path) in &self.files {
            let written = format.render(result, slos, details).and_then(|text| {
                write_whole(path, &text).map_err(|error| refused(path, &error).into())
            });
            failures.extend(written.err().map(|failure| failure.to_string()));
        }
        failures
    }
}

/// Writes a regular file completely or not at all. Writes to a device or a pipe directly.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    match path.exists() && !path.is_file() {
        true => std::fs::write(path, text),
        false => whole_file::write(path, text.as_bytes()),
    }
}

/// Checks that a file can be created at this path. An existing file stays until it is replaced.
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
        "failed to write {}: {error}: choose another file with --save",
        path.display()
    )
}

/// Returns the file name of a part: `name.parquet` for the first part, `name-0002.parquet` for the second.
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

/// Writes rows of exchanges to Parquet files.
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

    /// Stops recording and stores the reason. Removes the part that is being written, because a part without a footer
    /// is unreadable.
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
            "failed to write {}: {error}: the rows of the first {} exchanges are kept, and all other figures are \
             complete; choose another file with --save",
            self.path.display(),
            whole * ROWS_PER_PART
        ));
    }
}

/// A write failure does not stop the test, because the other figures do not need the record. It is reported after the
/// test.
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

#[cfg(test)]
mod tests {
    use fathometer_workload::plan::Target;

    use super::*;

    #[test]
    fn a_test_has_one_record_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let paths = |names: &[&str]| -> Vec<PathBuf> {
            names.iter().map(|name| folder.path().join(name)).collect()
        };
        let plan = Plan::single(Target::get("/", None));
        let began = |names: &[&str]| Saved::begin(&paths(names), &plan).map(|saved| saved.rows);
        assert!(began(&["a.parquet", "a.json"]).unwrap().is_some());
        for second in ["a.parquet", "b.parquet"] {
            let error = began(&["a.parquet", "a.json", second])
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(second) && error.contains("name one"),
                "{error}"
            );
        }
    }
}
