//! `cargo xtask browsers`: tables 10 and 11 of nielsen97 with headless Chromium instead of the browsers of 1997.
//!
//! A browser retrieves the paper's page with an empty cache. It is then restarted with the same profile, and visits
//! the page again. The second visit is measured in two ways:
//!
//! - *reload*: the default behaviour of Chromium. It validates only the HTML, and uses images from its cache while
//!   they are fresh; files that have not changed for decades stay fresh for years (RFC 9111 section 4.2.2).
//! - *validation*: all files are validated, as by browsers of 1997, and by Chromium on reload until version 53.
//!   Each request has `Cache-Control: max-age=0`.
//!
//! The HTML is sent without a content coding, as to the browsers of the paper.

mod chromium;
mod published;
mod retrieval;
pub(crate) mod visit;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};

use self::retrieval::{Common, HOST, Retrieval, Serving, retrieve, run as run_command};
use self::visit::Visit;
use super::bench::build;

/// Retrieve the page of nielsen97 with Chromium over the paper's modem line: a first and a second visit. Needs
/// root, chromium and openssl.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Repetitions of each row.
    #[arg(long, default_value_t = 3)]
    replicates: usize,
    /// Rows measured at the same time. Chromium uses much CPU time: measure fewer rows if retrievals are INVALID
    /// because of a late path.
    #[arg(long, default_value_t = 3)]
    lanes: usize,
    /// Path profile.
    #[arg(long, default_value = "ppp")]
    path: String,
    /// Program to measure [default: a release build].
    #[arg(long)]
    program: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long, default_value = "target/browsers")]
    output: PathBuf,
}

/// One measurement: the visits of one browser.
#[derive(Debug, Clone, Copy)]
struct Job {
    serving: Serving,
    replicate: usize,
}

/// Measures all rows, writes `browsers.csv`, and prints the table.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let program = match &arguments.program {
        Some(program) => std::path::absolute(program)
            .map_err(|error| format!("{}: {error}", program.display()))?,
        None => build(root)?,
    };
    let output = root.join(&arguments.output);
    let work = output.join("work");
    // The folder is left from an interrupted run, or does not exist.
    let _ = fs::remove_dir_all(&work);
    let site = make_site(&program, &work)?;
    let key_hash = make_key(&work)?;
    let visitor = std::env::current_exe().map_err(|error| error.to_string())?;
    let common = Common {
        program: &program,
        visitor: &visitor,
        path: &arguments.path,
        keys: &work,
        key_hash: &key_hash,
    };
    let jobs = jobs(arguments.replicates);
    let results = side_by_side(&jobs, arguments.lanes, |job| {
        measure(&common, &site, &work, job)
    })?;
    let file = output.join("browsers.csv");
    fs::write(&file, csv(&jobs, &results))
        .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
    let figures = root.join("papers/nielsen97/figures.csv");
    let figures = fs::read_to_string(&figures)
        .map_err(|error| format!("failed to read {}: {error}", figures.display()))?;
    print!("{}{}", table(&jobs, &results), published::rows(&figures));
    println!("each retrieval is in {}", file.display());
    fs::remove_dir_all(&work)
        .map_err(|error| format!("failed to remove {}: {error}", work.display()))?;
    let late = results
        .iter()
        .flatten()
        .filter(|one| !one.invalid.is_empty());
    Ok(match late.count() {
        0 => ExitCode::SUCCESS,
        late => {
            println!("{late} retrievals are INVALID: their path was late; use fewer --lanes");
            ExitCode::from(3)
        }
    })
}

/// Returns the jobs. Replicates of the rows alternate, so that a disturbance affects several rows.
fn jobs(replicates: usize) -> Vec<Job> {
    let of = |replicate| Serving::ALL.map(|serving| Job { serving, replicate });
    (1..=replicates).flat_map(of).collect()
}

/// Writes the paper's page as files, without encoded variants.
fn make_site(program: &Path, work: &Path) -> Result<PathBuf, String> {
    let site = work.join("site");
    fs::create_dir_all(&site).map_err(|error| format!("{}: {error}", site.display()))?;
    run_command(
        Command::new(program)
            .args(["site", "microscape"])
            .arg(&site),
        &[0],
    )?;
    for coded in ["microscape.html.gz", "microscape.html.deflate"] {
        fs::remove_file(site.join(coded)).map_err(|error| format!("{coded}: {error}"))?;
    }
    Ok(site)
}

/// Creates a key and its certificate; returns the hash by which Chromium accepts the key.
fn make_key(work: &Path) -> Result<String, String> {
    let script = format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out chain.pem \
         -days 30 -subj /CN={HOST} -addext subjectAltName=DNS:{HOST} 2>/dev/null && \
         openssl x509 -in chain.pem -pubkey -noout | openssl pkey -pubin -outform der \
         | openssl dgst -sha256 -binary | openssl base64 -A"
    );
    let made = run_command(
        Command::new("sh").args(["-c", &script]).current_dir(work),
        &[0],
    )?;
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}

/// Makes the visits of a browser, in the order of [`Visit::ALL`].
fn measure(
    common: &Common<'_>,
    site: &Path,
    work: &Path,
    job: &Job,
) -> Result<[Retrieval; 3], String> {
    let name = format!("{:?}-{}", job.serving, job.replicate);
    let place = work.join(&name);
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let visit = |visit: Visit| {
        let one = retrieve(common, job.serving, site, &place, visit)
            .map_err(|error| format!("{name}, {}: {error}", visit.name()))?;
        eprintln!("{name}, {}: {:.2} s", visit.name(), one.seconds);
        Ok::<Retrieval, String>(one)
    };
    let [first, reload, validation] = Visit::ALL;
    Ok([visit(first)?, visit(reload)?, visit(validation)?])
}

/// Calls `work` for each job, on at most `lanes` threads. Returns the results in the order of the jobs.
fn side_by_side(
    jobs: &[Job],
    lanes: usize,
    work: impl Fn(&Job) -> Result<[Retrieval; 3], String> + Sync,
) -> Result<Vec<[Retrieval; 3]>, String> {
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            match jobs.get(place) {
                Some(job) => done.push((place, work(job))),
                None => return done,
            }
        }
    };
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes.max(1)).map(|_| scope.spawn(lane)).collect();
        for lane in lanes {
            results.extend(lane.join().map_err(|_| "a lane panicked".to_owned())?);
        }
        Ok::<(), String>(())
    })?;
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns all retrievals, one per line.
fn csv(jobs: &[Job], results: &[[Retrieval; 3]]) -> String {
    let mut text =
        "serving,visit,replicate,connections,packets,payload_bytes,overhead_pct,seconds_to_load,\
                    status_200,status_304,lateness_p99_ms,invalid\n"
            .to_owned();
    for (job, visits) in jobs.iter().zip(results) {
        for (visit, one) in Visit::ALL.iter().zip(visits) {
            let _ = writeln!(
                text,
                "\"{}\",{},{},{},{},{},{:.1},{:.2},{},{},{:.2},\"{}\"",
                job.serving.name(),
                visit.name(),
                job.replicate,
                one.connections,
                one.packets,
                one.bytes,
                one.overhead(),
                one.seconds,
                one.status_200,
                one.status_304,
                one.lateness_p99_ms,
                one.invalid.replace('"', "'")
            );
        }
    }
    text
}

/// Returns one row for each server and visit, with the range over replicates.
fn table(jobs: &[Job], results: &[[Retrieval; 3]]) -> String {
    let mut text = published::heading();
    for serving in Serving::ALL {
        for (place, visit) in [
            (0, "first retrieval"),
            (2, "cache validation"),
            (1, "reload"),
        ] {
            let pairs = jobs.iter().zip(results);
            let retrievals: Vec<&Retrieval> = pairs
                .filter(|(job, _)| job.serving == serving)
                .map(|(_, visits)| &visits[place])
                .collect();
            let range = |digits: usize, figure: fn(&Retrieval) -> f64| {
                let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
                for figure in retrievals.iter().map(|one| figure(one)) {
                    (least, most) = (least.min(figure), most.max(figure));
                }
                match format!("{least:.digits$}") == format!("{most:.digits$}") {
                    true => format!("{most:.digits$}"),
                    false => format!("{least:.digits$} to {most:.digits$}"),
                }
            };
            text.push_str(&published::line(
                &format!("Chromium, {}", serving.name()),
                visit,
                [
                    range(0, |one| one.packets as f64),
                    range(0, |one| one.bytes as f64),
                    range(1, |one| one.seconds),
                    range(1, Retrieval::overhead),
                    range(0, |one| one.status_200 as f64),
                    range(0, |one| one.status_304 as f64),
                ],
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_range_of_each_row() {
        let one = |packets, seconds| Retrieval {
            connections: 1,
            packets,
            bytes: 1000,
            seconds,
            status_200: 43,
            status_304: 0,
            lateness_p99_ms: 0.1,
            invalid: String::new(),
        };
        let jobs = jobs(2);
        let visits = |first| [one(first, 50.0), one(10, 1.0), one(90, 9.0)];
        let results: Vec<_> = (0..6).map(|place| visits(300 + place)).collect();
        let table = table(&jobs, &results);
        // Replicates alternate: Jigsaw has the first and the fourth job.
        assert!(table.contains("300 to 303"), "{table}");
        let validation = table.lines().find(|line| line.contains("validation"));
        assert!(validation.unwrap().contains(" 90 "), "{table}");
        assert_eq!(csv(&jobs, &results).lines().count(), 1 + 6 * 3);
    }
}
