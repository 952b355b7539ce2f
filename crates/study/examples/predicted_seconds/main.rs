//! Compares measured page times with predictions. The laboratory measures real pages over its paths; the models predict
//! the same retrievals in virtual time.
//!
//! `predicted_seconds OUTPUT LIST FOLDER [OPTION=VALUE ...]` reads the list of pages (`package,version,page,...`, as
//! in `runs/published/2026-11-25-debian-pages/pages.csv`) and the extracted packages in `FOLDER/PACKAGE`. It retrieves
//! each page over each path with each policy in the laboratory, predicts the same retrieval, and writes to the folder OUTPUT:
//!
//! - `retrievals.csv`: each retrieval with its measured and predicted seconds and packets;
//! - `errors.csv`: the distribution of the relative errors, for each path and policy, and for all retrievals.
//!
//! Options: `pages=100` (at equal distances in the list), `paths=lan,wan,ppp`, `policies=h1.1x6,h2c`, `repeat=3`
//! (repetitions, of which the median is used; 1 on paths below 1 Mbit/s), `lanes=8` (parallel retrievals on these slow
//! paths), `seed=1`.
//!
//! No parameter of the models was fitted to these pages (see docs/predicted-seconds.md). The example must run as root.

mod input;
mod retrieving;
mod rows;

use std::error::Error;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fathometer_http::driver::Policy;
use fathometer_lab::data;
use fathometer_lab::era::Era;
use fathometer_lab::server::definition::Definition;
use fathometer_path::Profile;

use input::{Arguments, Page, pages};
use retrieving::{Bench, is_slow, median};
use rows::{COLUMNS, Row, distribution, summary};

type Failure = Box<dyn Error + Send + Sync>;

fn run() -> Result<(), Failure> {
    let arguments = Arguments::parse()?;
    let bench = Bench {
        era: Era::load("today")?,
        definition: Definition::load("embedded")?,
        arguments,
    };
    let pages = pages(&bench.arguments)?;
    let mut rows = Vec::new();
    for path in &bench.arguments.paths {
        let profile = Profile::from_toml(&data::load("paths", "path profile", path)?, path)?;
        for policy in &bench.arguments.policies {
            let cell = retrieve_all(&bench, &pages, &profile, policy)?;
            let all: Vec<&Row> = cell.iter().collect();
            eprintln!("{}", distribution(&format!("{path} {policy}"), &all));
            rows.extend(cell);
        }
    }
    std::fs::create_dir_all(&bench.arguments.output)?;
    let mut table = format!("{COLUMNS}\n");
    for row in &rows {
        writeln!(table, "{}", row.csv())?;
    }
    std::fs::write(bench.arguments.output.join("retrievals.csv"), table)?;
    let errors = summary(&rows, &bench.arguments);
    std::fs::write(bench.arguments.output.join("errors.csv"), &errors)?;
    print!("{errors}");
    Ok(())
}

/// Retrieves the pages over one path with one policy. On slow paths, several retrievals run in parallel.
fn retrieve_all(
    bench: &Bench,
    pages: &[Page],
    profile: &Profile,
    policy: &str,
) -> Result<Vec<Row>, Failure> {
    let parsed: Policy = policy.parse()?;
    let slow = is_slow(profile);
    let (lanes, repeat) = match slow {
        true => (bench.arguments.lanes, 1),
        false => (1, bench.arguments.repeat),
    };
    let next = AtomicUsize::new(0);
    let rows: Mutex<Vec<(usize, Row)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(page) = pages.get(place) else { return };
                    let row = retrieve(bench, page, profile, parsed, repeat);
                    rows.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((place, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    rows.sort_by_key(|(place, _)| *place);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn retrieve(bench: &Bench, page: &Page, profile: &Profile, policy: Policy, repeat: usize) -> Row {
    let mut measured = Vec::new();
    let mut why = String::new();
    // Invalid retrievals are repeated: the number of attempts is at most twice the number of repetitions.
    for attempt in 0..2 * repeat {
        if measured.len() == repeat {
            break;
        }
        match bench.measure(page, profile, policy, bench.arguments.seed + attempt as u64) {
            Ok(figures) => measured.push(figures),
            Err(error) => why = error.to_string(),
        }
    }
    Row {
        package: page.package.clone(),
        page: page.target.clone(),
        path: profile.name.clone(),
        policy: policy.to_string(),
        measured: match measured.is_empty() {
            true => Err(why),
            false => Ok(median(&measured)),
        },
        predicted: bench
            .predict(page, profile, policy)
            .map_err(|error| error.to_string()),
    }
}

fn main() -> Result<(), Failure> {
    run()
}
