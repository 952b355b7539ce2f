//! Tests of each stage of a SURGE workload against its law.

mod distances;
mod pauses;
mod sizes;

use self::distances::{drawn_distances, realised_distances};
use self::pauses::{pauses, session_lengths};
pub(super) use self::sizes::{REQUEST_ALLOWANCE, size_distance, unavoidable};
use self::sizes::{request_sizes, requested_sizes, sizes};
use super::locality::Facts;
use super::parameters::PageOrder;
use super::{Kind, Kinds, Summary, Surge, popularity};
use crate::fit::{ChiSquare, Criterion, FitReport, KolmogorovSmirnov, StageFit, zipf_slope};
use crate::plan::PageId;

/// Computes totals and means.
pub(super) fn summary(surge: &Surge) -> Summary {
    let mut sizes: Vec<u64> = surge.files.iter().map(|file| file.size.0).collect();
    sizes.sort_unstable();
    let bytes: u64 = sizes.iter().sum();
    let mut lengths: Vec<u64> = (0..surge.pages.len())
        .map(|page| page_files(surge, page).count() as u64)
        .collect();
    let (mut file_requests, mut requested_bytes) = (0, 0);
    for (page, &requests) in page_requests(surge).iter().enumerate() {
        let requests = u64::from(requests);
        file_requests += requests * lengths[page];
        let bytes: u64 = page_files(surge, page)
            .map(|file| surge.files[file].size.0)
            .sum();
        requested_bytes += requests * bytes;
    }
    lengths.sort_unstable();
    Summary {
        files: sizes.len() as u64,
        bytes,
        mean_size: bytes as f64 / sizes.len() as f64,
        median_size: median(&sizes),
        largest_size: sizes.last().copied().unwrap_or(0),
        pages: lengths.len() as u64,
        files_a_page: lengths.iter().sum::<u64>() as f64 / lengths.len() as f64,
        median_files_a_page: median(&lengths),
        files_a_requested_page: file_requests as f64 / surge.sequence.len() as f64,
        page_requests: surge.sequence.len() as u64,
        file_requests,
        requested_bytes,
        references: surge
            .files
            .iter()
            .map(|file| u64::from(file.references))
            .sum(),
        planned_page_requests: 0,
        popular_used_up: popular_used_up(surge),
    }
}

/// Computes [`Summary::popular_used_up`].
fn popular_used_up(surge: &Surge) -> Option<f64> {
    let references = |page: usize| {
        let base = page_files(surge, page).next().expect("a page has a base");
        u64::from(surge.files[base].references)
    };
    let mut left: Vec<u64> = (0..surge.pages.len()).map(references).collect();
    let total: u64 = left.iter().sum();
    let mut counts = left.clone();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    let least = counts.into_iter().find(|count| {
        sum += count;
        2 * sum >= total
    })?;
    let mut popular: u64 = left.iter().filter(|&&count| count >= least).sum();
    for count in &mut left {
        *count = u64::from(*count >= least);
    }
    let last = surge.sequence.iter().position(|page| {
        popular -= left[page.0 as usize];
        popular == 0
    })?;
    Some((last + 1) as f64 / total as f64)
}

/// Facts about the generation that are not stored in the workload.
pub(super) struct Made<'a> {
    /// The drawn numbers of embedded files per page.
    pub(super) numbers: &'a [u32],
    /// The embedded files' references that no page uses.
    pub(super) left: &'a [i64],
    /// The number of times that each stack distance was drawn.
    pub(super) drawn: &'a [u64],
    pub(super) locality: Facts,
    pub(super) served: Served,
}

/// The deviation of the sizes of requested files from their law.
#[derive(Clone, Copy)]
pub(super) struct Served {
    pub(super) distance: KolmogorovSmirnov,
    /// Half of the share of the most requested file; a smaller distance is impossible.
    pub(super) unavoidable: f64,
    /// Whether sizes were matched to the files a second time, by the requests of the sequence.
    pub(super) moved: bool,
}

/// The tests of the stages that do not depend on the sequence. The second matching moves sizes only between files of
/// the same kind, so the set of sizes of each kind does not change.
pub(super) struct OfFiles {
    sizes: Vec<StageFit>,
    popularity: StageFit,
    draws: Vec<StageFit>,
}

/// Tests the stages in [`OfFiles`].
pub(super) fn of_files(surge: &Surge, kinds: Kinds) -> OfFiles {
    let parameters = &surge.parameters;
    let mut stages = Vec::new();
    for (kind, files, name, law) in [
        (
            Kind::Base,
            kinds.base,
            "base file sizes",
            &parameters.base_sizes,
        ),
        (
            Kind::Embedded,
            kinds.embedded,
            "embedded file sizes",
            &parameters.embedded_sizes,
        ),
        (
            Kind::Single,
            kinds.single,
            "single file sizes",
            &parameters.single_sizes,
        ),
    ] {
        if files > 0 {
            stages.push(sizes(surge, kind, name, law));
        }
    }
    let mut draws = vec![pauses(surge, "OFF times", parameters.off)];
    if let Some(law) = parameters.active_off {
        draws.push(pauses(surge, "active OFF times", law));
    }
    if let Some(law) = parameters.session_pages {
        draws.push(session_lengths(surge, law));
    }
    OfFiles {
        sizes: stages,
        popularity: zipf(surge),
        draws,
    }
}

/// Returns the tests of all stages, in the order of their generation.
pub(super) fn report(surge: &Surge, kinds: Kinds, of_files: OfFiles, made: &Made<'_>) -> FitReport {
    let mut stages = of_files.sizes;
    stages.push(of_files.popularity);
    let references = |file: usize| u64::from(surge.files[file].references);
    stages.push(request_sizes(surge, references, made.served.moved));
    if kinds.base > 0 {
        stages.push(files_of_pages(surge, made.numbers, made.left));
    }
    stages.push(requested_sizes(surge, made.served));
    stages.push(drawn_distances(surge, made));
    stages.extend(realised_distances(surge, made));
    stages.extend(of_files.draws);
    FitReport { stages }
}

fn page_files(surge: &Surge, page: usize) -> impl Iterator<Item = usize> {
    let members = surge.pages.get(PageId(page as u32)).members;
    members.iter().map(|target| target.0 as usize)
}

/// Returns the number of requests of the sequence for each page.
fn page_requests(surge: &Surge) -> Vec<u32> {
    let mut requests = vec![0; surge.pages.len()];
    for page in &surge.sequence {
        requests[page.0 as usize] += 1;
    }
    requests
}

/// Returns the lower median of numbers in ascending order; 0 if there are none.
fn median(sorted: &[u64]) -> u64 {
    match sorted.len() {
        0 => 0,
        n => sorted[(n - 1) / 2],
    }
}

fn zipf(surge: &Surge) -> StageFit {
    let mut counts: Vec<u64> = surge
        .files
        .iter()
        .map(|file| u64::from(file.references))
        .collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let total: u64 = counts.iter().sum();
    let difference = (1..)
        .zip(&counts)
        .map(|(rank, &count)| count.abs_diff(popularity::count(surge.top_count, rank)))
        .max()
        .unwrap_or(0);
    let unused = counts.iter().filter(|&&count| count == 0).count();
    let slope = zipf_slope(counts.iter().copied());
    let mut realised = format!(
        "{total} requests, {:.2} % for the most popular file",
        100.0 * surge.top_count as f64 / total as f64
    );
    if let Some(slope) = slope {
        realised += &format!("; slope of log count by log rank {slope:.3}");
    }
    let stage = StageFit::new(
        "popularity",
        (format!("Zipf: floor({} / rank)", surge.top_count), realised),
        counts.len() as u64,
        ("largest difference", difference as f64),
        Criterion::AtMost(0.0),
    );
    match unused {
        0 => stage,
        _ => stage.note(format!(
            "{unused} files have a rank beyond {} and are never requested",
            surge.top_count
        )),
    }
}

/// Returns the number of requests of the sequence for each file.
pub(super) fn file_requests(surge: &Surge) -> Vec<u32> {
    let mut requests = vec![0; surge.files.len()];
    for (page, times) in page_requests(surge).into_iter().enumerate() {
        for file in page_files(surge, page) {
            requests[file] += times;
        }
    }
    requests
}

fn files_of_pages(surge: &Surge, numbers: &[u32], left: &[i64]) -> StageFit {
    let law = &surge.parameters.references;
    let part = law.part();
    let base = u32::from(law.counts_base);
    let mut observed = vec![0u64; law.most as usize + 1];
    for number in numbers {
        observed[(number + base) as usize] += 1;
    }
    let n = numbers.len() as f64;
    let cells = (0u32..).zip(&observed).map(|(number, &count)| {
        let probability = part.cdf(f64::from(number) + 1.0) - part.cdf(f64::from(number));
        (count, n * probability)
    });
    // Numbers that cannot be drawn have no cell in the test.
    let test = ChiSquare::new(cells.filter(|&(count, expected)| count > 0 || expected > 0.0));
    let summary = &surge.summary;
    let over: i64 = left.iter().map(|&left| left.min(0)).sum();
    let under: i64 = left.iter().map(|&left| left.max(0)).sum();
    let wanted = format!(
        "floor of {}, redrawn above {}, {}",
        law.law,
        law.most,
        match law.counts_base {
            true => "the base file counted",
            false => "not counting the base file",
        }
    );
    let realised = format!(
        "{} pages of {:.2} files on average, median {}; weighted by requests {:.2}",
        summary.pages,
        summary.files_a_page,
        summary.median_files_a_page,
        summary.files_a_requested_page,
    );
    let stage = StageFit::new(
        "files of a page",
        (wanted, realised),
        numbers.len() as u64,
        (chi_square_name(&test), test.value),
        Criterion::probability(test.p_value()),
    )
    .note(match law.order {
        PageOrder::PopularFewest => "the most popular pages have the fewest embedded files",
        PageOrder::Random => "numbers of embedded files are independent of popularity",
    })
    .note(format!(
        "embedded files get {} requests too many and {under} requests too few for their popularity",
        -over
    ));
    unconfirmed(surge, stage, "embedded references")
}

fn chi_square_name(test: &ChiSquare) -> String {
    format!("chi-square({})", test.degrees)
}

/// Returns the smallest index up to which the cumulative share of the counts reaches `p`.
fn quantile(counts: &[u64], p: f64) -> u64 {
    let total: u64 = counts.iter().sum();
    let mut sum = 0;
    let found = (0..).zip(counts).find(|&(_, count)| {
        sum += count;
        sum as f64 >= p * total as f64
    });
    found.map_or(0, |(place, _)| place)
}

/// Adds notes on the unconfirmed parameters of the stage.
fn unconfirmed(surge: &Surge, stage: StageFit, subject: &str) -> StageFit {
    let prefix = format!("{subject}: ");
    surge
        .parameters
        .unconfirmed
        .iter()
        .filter_map(|text| text.strip_prefix(&prefix))
        .fold(stage, |stage, text| {
            stage.note(format!("unconfirmed: {text}"))
        })
}
