//! Tests of the sizes of files, and of the sizes of requested files.

use super::super::matching::BySize;
use super::super::parameters::BodyForm;
use super::super::{Kind, Surge};
use super::{Served, median, unconfirmed};
use crate::distribution::{Law, Mixture};
use crate::fit::{Criterion, KolmogorovSmirnov, StageFit, discrepancy};

/// The accepted deviation of the request sizes from their law, in addition to half of the most popular file's share. In
/// the sweep, the number of requests of each file is wrong by at most half a gap between unused numbers; the gaps
/// between the largest numbers are the largest.
pub(in crate::surge) const REQUEST_ALLOWANCE: f64 = 0.005;

/// The accepted deviation for the requests of the sequence, also in addition to half of the most popular file's share.
const SERVED_ALLOWANCE: f64 = 0.02;

pub(super) fn sizes(surge: &Surge, kind: Kind, name: &str, law: &Mixture) -> StageFit {
    let smallest = surge.parameters.smallest.0;
    let mut sizes: Vec<u64> = surge
        .files
        .iter()
        .filter(|file| file.kind == kind)
        .map(|file| file.size.0)
        .collect();
    sizes.sort_unstable();
    let runs = sizes.chunk_by(|a, b| a == b).map(|run| {
        // A size represents all numbers that are rounded down to it. The smallest size also represents all smaller
        // numbers.
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
        "sizes are rounded down; sizes below {smallest} B are raised to {smallest} B"
    ));
    for part in law.parts().iter().filter(|part| part.cap.is_finite()) {
        let capped = sizes
            .iter()
            .filter(|&&size| size as f64 >= part.cap)
            .count();
        stage = stage.note(format!(
            "the tail is capped at {} B, which {capped} files reach; {}",
            part.cap,
            match part.law.mean() {
                None => "without a cap its mean would be infinite".to_owned(),
                Some(mean) => format!("without a cap its mean would be {mean:.0} B"),
            }
        ));
    }
    unconfirmed(surge, stage, "file sizes")
}

/// Returns the deviation of request sizes from their law, if file *n* is requested `requests(n)` times.
pub(in crate::surge) fn size_distance(
    surge: &Surge,
    requests: impl Fn(usize) -> u64,
) -> KolmogorovSmirnov {
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
    // The law has a jump at the cut, so the deviation may be largest there, between two file sizes.
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

pub(super) fn request_sizes(
    surge: &Surge,
    references: impl Fn(usize) -> u64,
    moved: bool,
) -> StageFit {
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
            // The sizes were matched to the requests of the sequence, and not to the requests tested here.
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

/// Returns half of the share of the most requested file: the smallest possible deviation from a law.
pub(in crate::surge) fn unavoidable(requests: &[u32]) -> f64 {
    let most = requests.iter().max().copied().unwrap_or(0);
    let total: u64 = requests.iter().map(|&requests| u64::from(requests)).sum();
    f64::from(most) / (2.0 * total.max(1) as f64)
}

pub(super) fn requested_sizes(surge: &Surge, served: Served) -> StageFit {
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
         the smallest possible distance is {unavoidable:.4}, and the original program's is 0.063"
    ));
    match moved {
        false => stage,
        true => stage.note(
            "sizes were matched a second time, within base, embedded and single files, with the requests of the \
             sequence",
        ),
    }
}

/// Returns the largest floating-point number below a positive number.
fn just_below(x: f64) -> f64 {
    f64::from_bits(x.to_bits() - 1)
}
