//! Tests of the values that a load engine draws at run time: pauses and session lengths.

use super::super::Surge;
use super::{chi_square_name, quantile, unconfirmed};
use crate::distribution::Law;
use crate::fit::{
    ChiSquare, Criterion, KolmogorovSmirnov, StageFit, anderson_darling, anderson_darling_p_value,
};

/// The number of random values with which pauses and session lengths are tested. A load engine draws them at run time
/// with the same functions.
const DRAWS: u64 = 100_000;

pub(super) fn pauses(surge: &Surge, name: &str, law: Law) -> StageFit {
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

pub(super) fn session_lengths(surge: &Surge, law: Law) -> StageFit {
    let seed = surge.seed.stream("surge.fit").stream("session lengths");
    let mut counts: Vec<u64> = Vec::new();
    for n in 0..DRAWS {
        let pages = law.sample(seed, n).round().max(1.0) as usize;
        counts.resize(counts.len().max(pages + 1), 0);
        counts[pages] += 1;
    }
    let pages: u64 = (0..).zip(&counts).map(|(pages, count)| pages * count).sum();
    // The last cell contains all longer sessions.
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
