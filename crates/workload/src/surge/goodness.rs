//! Tests of each stage of a SURGE workload against its law.

use crate::distribution::{Law, Mixture};
use crate::fit::{
    ChiSquare, Criterion, FitReport, KolmogorovSmirnov, StageFit, anderson_darling,
    anderson_darling_p_value, discrepancy, zipf_slope,
};
use crate::plan::PageId;

use super::locality::Facts;
use super::matching::BySize;
use super::parameters::{BodyForm, LocalitySetting, PageOrder};
use super::target::Target;
use super::{Kind, Kinds, Summary, Surge, popularity};

/// Number of draws by which pauses and session lengths are tested. A load draws them at run time, by the same
/// functions.
const DRAWS: u64 = 100_000;

/// Allowed distance of the request sizes from their law, in addition to half of the most popular file's
/// share. In the sweep each file misses its number by at most half a gap between unused numbers, and the gaps
/// between the largest numbers dominate.
pub(super) const REQUEST_ALLOWANCE: f64 = 0.005;

/// The same for the requests of the sequence.
const SERVED_ALLOWANCE: f64 = 0.02;

/// Allowed distance of realised stack distances from the target. With the original's own law, sites of its size are
/// 0.02 to 0.06 away from its output, depending on whether their most popular files are pages.
const DISTANCE_ALLOWANCE: f64 = 0.08;

/// Totals and means.
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

/// See [`Summary::popular_used_up`].
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

/// Facts about the generation of a workload that the workload does not contain.
pub(super) struct Made<'a> {
    /// The drawn numbers of embedded files per page.
    pub(super) numbers: &'a [u32],
    /// The embedded files' references that the pages do not use.
    pub(super) left: &'a [i64],
    /// How often each stack distance was drawn.
    pub(super) drawn: &'a [u64],
    pub(super) locality: Facts,
    pub(super) served: Served,
}

/// The distance of the sizes of requested files from their law.
#[derive(Clone, Copy)]
pub(super) struct Served {
    pub(super) distance: KolmogorovSmirnov,
    /// Half of the share of the most requested file.
    pub(super) unavoidable: f64,
    /// Whether sizes were matched to the files a second time, by these requests.
    pub(super) moved: bool,
}

/// The tests of the stages that do not depend on the sequence. The second matching moves sizes only among the files
/// of a kind, so the sizes of each kind stay the same.
pub(super) struct OfFiles {
    sizes: Vec<StageFit>,
    popularity: StageFit,
    draws: Vec<StageFit>,
}

/// See [`OfFiles`].
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

/// The tests of all stages, in the order of their generation.
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

/// The number of requests of the sequence for each page.
fn page_requests(surge: &Surge) -> Vec<u32> {
    let mut requests = vec![0; surge.pages.len()];
    for page in &surge.sequence {
        requests[page.0 as usize] += 1;
    }
    requests
}

/// The lower median of numbers in ascending order; 0 if there are none.
fn median(sorted: &[u64]) -> u64 {
    match sorted.len() {
        0 => 0,
        n => sorted[(n - 1) / 2],
    }
}

/// The largest number below a positive one.
fn just_below(x: f64) -> f64 {
    f64::from_bits(x.to_bits() - 1)
}

fn sizes(surge: &Surge, kind: Kind, name: &str, law: &Mixture) -> StageFit {
    let smallest = surge.parameters.smallest.0;
    let mut sizes: Vec<u64> = surge
        .files
        .iter()
        .filter(|file| file.kind == kind)
        .map(|file| file.size.0)
        .collect();
    sizes.sort_unstable();
    let runs = sizes.chunk_by(|a, b| a == b).map(|run| {
        // A size represents all numbers that are rounded down to it; the smallest also all numbers below.
        let below = match run[0] > smallest {
            true => law.cdf(just_below(run[0] as f64)),
            false => 0.0,
        };
        (run.len() as u64, below, law.cdf((run[0] + 1) as f64))
    });
    let distance = KolmogorovSmirnov::new(runs);
    let lambda2 = discrepancy(sizes.iter().map(|&size| law.cdf(size as f64 + 0.5)));
    let total: u64 = sizes.iter().sum();
    let realised = format!(
        "mean {:.0} B, median {} B, largest {} B; lambda^2 = {lambda2:.5}",
        total as f64 / sizes.len() as f64,
        median(&sizes),
        sizes.last().copied().unwrap_or(0),
    );
    let mut stage = StageFit::new(
        name,
        (law.to_string(), realised),
        distance.n,
        ("Kolmogorov-Smirnov D", distance.distance),
        Criterion::probability(distance.p_value()),
    )
    .note(format!(
        "sizes are rounded down, and those below {smallest} B made {smallest} B"
    ));
    for part in law.parts().iter().filter(|part| part.cap.is_finite()) {
        let capped = sizes
            .iter()
            .filter(|&&size| size as f64 >= part.cap)
            .count();
        stage = stage.note(format!(
            "the tail is capped at {} B, which {capped} files meet; {}",
            part.cap,
            match part.law.mean() {
                None => "without a cap its mean would be infinite".to_owned(),
                Some(mean) => format!("without a cap its mean would be {mean:.0} B"),
            }
        ));
    }
    unconfirmed(surge, stage, "file sizes")
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

/// The distance of request sizes from their law, if file *n* is requested `requests(n)` times.
pub(super) fn size_distance(surge: &Surge, requests: impl Fn(usize) -> u64) -> KolmogorovSmirnov {
    let law = &surge.parameters.request_sizes;
    let sizes = BySize::new(
        surge.files.len(),
        surge.files.iter().map(|file| file.size.0),
    );
    let ascending = || {
        let sizes = sizes.largest_first().rev();
        sizes.map(|(size, file)| (size, requests(file as usize)))
    };
    let distance = KolmogorovSmirnov::new(runs(ascending()).map(|(size, times)| {
        let size = size as f64;
        (
            times,
            1.0 - law.at_least(just_below(size)),
            1.0 - law.at_least(size),
        )
    }));
    // The law jumps at the cut, so the distance may be largest there, between two sizes of files.
    let below: u64 = ascending()
        .take_while(|&(size, _)| (size as f64) < law.tail_scale)
        .map(|(_, requests)| requests)
        .sum();
    let share = below as f64 / distance.n.max(1) as f64;
    let at_cut = [law.tail_scale, just_below(law.tail_scale)]
        .map(|x| (share - (1.0 - law.at_least(x))).abs());
    KolmogorovSmirnov {
        distance: distance.distance.max(at_cut[0]).max(at_cut[1]),
        ..distance
    }
}

/// Sums the requests of adjacent files of the same size.
fn runs(
    mut sizes: impl Iterator<Item = (u64, u64)> + Clone,
) -> impl Iterator<Item = (u64, u64)> + Clone {
    let mut next = sizes.next();
    std::iter::from_fn(move || {
        let (size, mut times) = next.take()?;
        next = sizes.find(|&(other, requests)| {
            let another = other != size;
            times += if another { 0 } else { requests };
            another
        });
        Some((size, times))
    })
}

fn request_law(surge: &Surge) -> String {
    let law = &surge.parameters.request_sizes;
    let tail = Law::Pareto {
        scale: law.tail_scale,
        shape: law.tail_shape,
    };
    match law.body {
        None => tail.to_string(),
        Some(body) => format!(
            "{body} below {}, {tail} with {} % of requests",
            law.tail_scale,
            (law.tail_share * 1e6).round() / 1e4
        ),
    }
}

fn request_sizes(surge: &Surge, references: impl Fn(usize) -> u64, moved: bool) -> StageFit {
    let distance = size_distance(surge, references);
    let unavoidable = surge.top_count as f64 / (2.0 * distance.n as f64);
    let bytes: u128 = surge
        .files
        .iter()
        .map(|file| u128::from(file.size.0) * u128::from(file.references))
        .sum();
    let law = &surge.parameters.request_sizes;
    let stage = StageFit::new(
        "request sizes",
        (
            request_law(surge),
            format!("mean {:.0} B", bytes as f64 / distance.n as f64),
        ),
        distance.n,
        ("Kolmogorov-Smirnov D", distance.distance),
        match moved {
            // The sizes were matched to the requests of the sequence and not to these.
            true => Criterion::Nothing,
            false => Criterion::AtMost(unavoidable + REQUEST_ALLOWANCE),
        },
    )
    .note(format!(
        "a count cannot be divided: the smallest possible distance is {unavoidable:.4}, half of the most \
         popular file's share"
    ));
    let stage = match (law.body, law.form) {
        (None, _) => stage,
        (_, BodyForm::AsIs) => stage.note(format!(
            "the body is not renormalised: the target distribution jumps by {:.2} % at {} B",
            100.0 * law.jump(),
            law.tail_scale
        )),
        (_, BodyForm::Renormalised) => stage.note("the body is renormalised below the cut"),
    };
    unconfirmed(surge, stage, "request sizes")
}

/// The number of requests of the sequence for each file.
pub(super) fn file_requests(surge: &Surge) -> Vec<u32> {
    let mut requests = vec![0; surge.files.len()];
    for (page, times) in page_requests(surge).into_iter().enumerate() {
        for file in page_files(surge, page) {
            requests[file] += times;
        }
    }
    requests
}

/// Half of the share of the most requested file: the smallest possible distance from a law.
pub(super) fn unavoidable(requests: &[u32]) -> f64 {
    let most = requests.iter().max().copied().unwrap_or(0);
    let total: u64 = requests.iter().map(|&requests| u64::from(requests)).sum();
    f64::from(most) / (2.0 * total.max(1) as f64)
}

fn requested_sizes(surge: &Surge, served: Served) -> StageFit {
    let Served {
        distance,
        unavoidable,
        moved,
    } = served;
    let summary = &surge.summary;
    let stage = StageFit::new(
        "request sizes as requested",
        (
            request_law(surge),
            format!(
                "{} files in {} pages, mean {:.0} B",
                summary.file_requests,
                summary.page_requests,
                summary.requested_bytes as f64 / summary.file_requests as f64
            ),
        ),
        distance.n,
        ("Kolmogorov-Smirnov D", distance.distance),
        Criterion::AtMost(unavoidable + SERVED_ALLOWANCE),
    )
    .note(format!(
        "each request of a page requests all its embedded files, more or less often than their popularity implies; \
         the smallest possible distance is {unavoidable:.4}, and the original's is 0.063"
    ));
    match moved {
        false => stage,
        true => stage.note(
            "sizes were matched a second time, within base, embedded and single files, with the requests of the \
             sequence",
        ),
    }
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
    // Numbers that cannot be drawn are no cells of the test.
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
            false => "the base file not counted",
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
        "embedded files are requested {} times more and {under} times less than their popularity implies",
        -over
    ));
    unconfirmed(surge, stage, "embedded references")
}

fn chi_square_name(test: &ChiSquare) -> String {
    format!("chi-square({})", test.degrees)
}

fn drawn_distances(surge: &Surge, made: &Made<'_>) -> StageFit {
    let (law, drawn) = (made.locality.draw, made.drawn);
    let n: u64 = drawn.iter().sum();
    let within = law.cdf(drawn.len() as f64);
    let mut below = 0.0;
    let test = ChiSquare::new((1u64..).zip(drawn).map(|(next, &count)| {
        let at_most = law.cdf(next as f64) / within;
        let expected = n as f64 * (at_most - below);
        below = at_most;
        (count, expected)
    }));
    let stage = StageFit::new(
        "stack distances drawn",
        (
            format!("floor of {law}, redrawn beyond {} pages", drawn.len()),
            format!("quartiles {}", quartiles(|p| quantile(drawn, p))),
        ),
        n,
        (chi_square_name(&test), test.value),
        Criterion::probability(test.p_value()),
    )
    .note(match made.locality.pilots {
        0 => "the law to draw from was given".to_owned(),
        1 => "the law to draw from is the one that reproduces the original run; a pilot sequence confirmed it".to_owned(),
        pilots => format!("the law to draw from was chosen by {pilots} pilot sequences"),
    });
    unconfirmed(surge, stage, "stack distances")
}

/// The test against the target of the setting, and for information the distance from that of the other setting.
fn realised_distances(surge: &Surge, made: &Made<'_>) -> [StageFit; 2] {
    let locality = &surge.parameters.locality;
    let (facts, distances) = (&made.locality, &surge.distances);
    let total = distances.total();
    let at_zero = distances.counts.first().copied().unwrap_or(0);
    let misses: Vec<String> = [10, 100, 1000, 10_000]
        .iter()
        .filter(|&&pages| pages < 10 * distances.counts.len() as u64)
        .map(|&pages| format!("{:.1} % of {pages}", 100.0 * distances.miss_ratio(pages)))
        .collect();
    let realised = format!(
        "quartiles {}, {:.1} % at distance 0, {} first requests; LRU misses with room for pages: {}; popular \
         pages exhausted {}",
        quartiles(|p| distances.quantile(p).unwrap_or(0)),
        100.0 * at_zero as f64 / total.max(1) as f64,
        distances.first,
        misses.join(", "),
        match surge.summary.popular_used_up {
            None => "nowhere in the sequence".to_owned(),
            Some(share) => format!("after {:.1} %", 100.0 * share),
        }
    );
    let fit = |setting: LocalitySetting| {
        let target = Target::new(setting, locality.distance, facts.reach as f64);
        let distance = target.distance(distances);
        let wanted = match setting {
            LocalitySetting::Law => format!("the law: floor of {}, below {}; quartiles {}", locality.distance, facts.reach, quartiles(|p| target.quantile(p) as u64)),
            LocalitySetting::Original => "the original run (5000 files, 452279 requests): quartiles 7, 38, 226, 4.6 % at \
                 distance 0; LRU misses with room for pages: 36.8 % of 100, 7.7 % of 1000; popular pages exhausted after \
                 97.1 %"
                .to_owned(),
        };
        let judged = setting == locality.setting;
        let stage = StageFit::new(
            match judged {
                true => "stack distances realised".to_owned(),
                false => format!("stack distances and the {}", setting.name()),
            },
            (wanted, realised.clone()),
            total,
            ("signed Kolmogorov-Smirnov D", distance.value()),
            match judged {
                true => Criterion::AtMost(DISTANCE_ALLOWANCE),
                false => Criterion::Nothing,
            },
        )
        .note(format!(
            "the share of short distances exceeds the target by up to {:.3}, that of long ones by up to {:.3}; \
             positive: the distances are shorter, so caches miss less than with the target",
            distance.shorter, distance.longer
        ));
        (stage, judged && distance.size() > DISTANCE_ALLOWANCE)
    };
    let other = match locality.setting {
        LocalitySetting::Original => LocalitySetting::Law,
        LocalitySetting::Law => LocalitySetting::Original,
    };
    let (mut stage, yields) = fit(locality.setting);
    if facts.bursts > 0 {
        stage = stage.note(format!(
            "{} of the pages have all their requests in a part of the sequence: popularity and distances cannot both \
             hold if all pages are requested throughout",
            facts.bursts
        ));
    }
    let discarded = facts.steps - surge.sequence.len() as u64;
    if discarded > 0 {
        stage = stage.note(format!(
            "{discarded} page requests, {:.1} % of those that popularity implies, are discarded: after the popular \
             pages were exhausted, few pages were repeated in long runs",
            100.0 * discarded as f64 / facts.steps as f64
        ));
    }
    if yields {
        stage = stage.note(
            "popularity and the target distances cannot both hold here: popularity was kept, and the distances deviate",
        );
    }
    [stage, fit(other).0]
}

fn quartiles(quantile: impl Fn(f64) -> u64) -> String {
    let [low, middle, high] = [0.25, 0.5, 0.75].map(quantile);
    format!("{low}, {middle}, {high}")
}

/// The smallest index up to which a share `p` of all counts lies.
fn quantile(counts: &[u64], p: f64) -> u64 {
    let total: u64 = counts.iter().sum();
    let mut sum = 0;
    let found = (0..).zip(counts).find(|&(_, count)| {
        sum += count;
        sum as f64 >= p * total as f64
    });
    found.map_or(0, |(place, _)| place)
}

fn pauses(surge: &Surge, name: &str, law: Law) -> StageFit {
    let seed = surge.seed.stream("surge.fit").stream(name);
    let mut draws: Vec<f64> = (0..DRAWS).map(|n| law.sample(seed, n)).collect();
    draws.sort_unstable_by(f64::total_cmp);
    let a2 = anderson_darling(&draws, |x| law.cdf(x));
    let distance = KolmogorovSmirnov::of_sorted(&draws, |x| law.cdf(x));
    let realised = format!(
        "mean {:.3} s, median {:.3} s, {:.3} % above 15 s; Kolmogorov-Smirnov D = {:.5}, p = {:.4}",
        draws.iter().sum::<f64>() / draws.len() as f64,
        draws[draws.len() / 2],
        100.0 * draws.iter().filter(|&&x| x > 15.0).count() as f64 / draws.len() as f64,
        distance.distance,
        distance.p_value(),
    );
    let stage = StageFit::new(
        name,
        (format!("{law}, seconds"), realised),
        DRAWS,
        ("Anderson-Darling A2", a2),
        Criterion::probability(anderson_darling_p_value(a2)),
    );
    unconfirmed(surge, stage, name)
}

fn session_lengths(surge: &Surge, law: Law) -> StageFit {
    let seed = surge.seed.stream("surge.fit").stream("session lengths");
    let mut counts: Vec<u64> = Vec::new();
    for n in 0..DRAWS {
        let pages = law.sample(seed, n).round().max(1.0) as usize;
        counts.resize(counts.len().max(pages + 1), 0);
        counts[pages] += 1;
    }
    let pages: u64 = (0..).zip(&counts).map(|(pages, count)| pages * count).sum();
    // One cell beyond the longest session: all longer ones.
    let last = counts.len() as u64;
    let cells = (1..=last).map(|pages| {
        let edge = |x: f64| law.cdf(x);
        let below = if pages == 1 {
            0.0
        } else {
            edge(pages as f64 - 0.5)
        };
        let at_most = if pages == last {
            1.0
        } else {
            edge(pages as f64 + 0.5)
        };
        let observed = counts.get(pages as usize).copied().unwrap_or(0);
        (observed, DRAWS as f64 * (at_most - below))
    });
    let test = ChiSquare::new(cells);
    let stage = StageFit::new(
        "session lengths",
        (
            format!("{law}, rounded, at least 1 page"),
            format!(
                "mean {:.3} pages, median {}, longest {}",
                pages as f64 / DRAWS as f64,
                quantile(&counts, 0.5),
                last - 1
            ),
        ),
        DRAWS,
        (chi_square_name(&test), test.value),
        Criterion::probability(test.p_value()),
    );
    unconfirmed(surge, stage, "session lengths")
}

/// The stage with those of its parameters that are unconfirmed, as notes.
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
