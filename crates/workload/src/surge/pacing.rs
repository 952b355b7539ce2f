//! Which pages are asked for at one time, so that a law of short distances and the popularity of many pages can
//! both hold.
//!
//! The original program has all pages in its stack from the start. With 5000 files and 90 requests for each
//! that works: the law of distances reaches the deepest page often enough. With ten requests for each of a million
//! files it does not: the law asks for few of the pages below the thousandth place, so the pages near the top
//! use up their requests at three quarters of the sequence and the rest repeats a few pages.
//!
//! So no more pages are asked for at one time than a stated number. A page with many requests is asked for
//! throughout; a page with few has all its requests in a part of the sequence that is as long as its share of
//! the least frequent of the former, at a uniform place.

use std::cmp::Reverse;

use fathometer_model::Seed;

use crate::distribution::open_uniform;

use super::stack::Weighing;

/// The pages of a sequence by when they are asked for.
#[derive(Debug)]
pub(super) struct Pacing {
    /// Requests of all pages: the steps of the sequence.
    pub(super) steps: u64,
    /// A page with fewer requests than this is asked for in a part of the sequence alone; 0: there is none.
    pub(super) least: u32,
    /// Distances are drawn below this.
    pub(super) reach: usize,
    /// The pages that are asked for from the start, the one that was used longest ago first.
    pub(super) first: Vec<u32>,
    /// The others: the step of the first request, and the page; in order.
    pub(super) births: Vec<(u32, u32)>,
}

impl Pacing {
    /// All pages throughout.
    pub(super) fn throughout(references: &[u32], seed: Seed) -> Pacing {
        let pages: Vec<u32> = asked(references).map(|(page, _)| page).collect();
        Pacing {
            steps: asked(references).map(|(_, count)| u64::from(count)).sum(),
            least: 0,
            reach: pages.len(),
            first: by_age(pages, references, seed),
            births: Vec::new(),
        }
    }

    /// About `at_once` pages at one time; distances are below `reach`.
    pub(super) fn new(references: &[u32], at_once: u32, reach: u32, seed: Seed) -> Pacing {
        let least = least_throughout(references, at_once);
        let steps: u64 = asked(references).map(|(_, count)| u64::from(count)).sum();
        let place = seed.stream("surge.locality.part");
        let (mut first, mut births) = (Vec::new(), Vec::new());
        for (page, count) in asked(references) {
            let part = f64::from(count) / f64::from(least.max(1));
            // As many as later are asked for from the start, and none begins too late to end.
            let birth = (place.uniform(u64::from(page)) - part) * steps as f64;
            match count < least && birth >= 1.0 {
                true => births.push((birth as u32, page)),
                false => first.push(page),
            }
        }
        births.sort_unstable();
        Pacing {
            steps,
            least,
            reach: (first.len() + births.len()).min(reach as usize),
            first: by_age(first, references, seed),
            births,
        }
    }

    /// The same in about so many steps, where all pages are asked for throughout, and the requests for each.
    pub(super) fn in_small(&self, references: &[u32], steps: u64) -> (Pacing, Vec<u32>) {
        let part = steps as f64 / self.steps as f64;
        let scaled = |&count: &u32| match count {
            0 => 0,
            _ => ((f64::from(count) * part).round() as u32).max(1),
        };
        let references: Vec<u32> = references.iter().map(scaled).collect();
        let pacing = Pacing {
            steps: references.iter().map(|&count| u64::from(count)).sum(),
            least: self.least,
            reach: self.reach,
            first: self.first.clone(),
            births: Vec::new(),
        };
        (pacing, references)
    }

    /// How many of a page's requests are to last to the end.
    pub(super) fn paced(&self, count: u32) -> u32 {
        match self.births.is_empty() || count < self.least {
            true => 0,
            false => count,
        }
    }

    /// What pages weigh when `step` steps are done: one of few requests as much as the least popular of those that
    /// are asked for throughout, and one of these nothing while it is ahead of the sequence.
    pub(super) fn weighing(&self, step: u64) -> Weighing {
        if self.births.is_empty() {
            return Weighing::default();
        }
        let left = self.steps.saturating_sub(step) as f64 / self.steps as f64;
        Weighing {
            floor: (f64::from(self.least) * left) as u32,
            ahead: ((left - AHEAD / self.steps as f64).max(0.0) * 2f64.powi(32)) as u32,
        }
    }
}

/// The steps by which a page may be ahead of the sequence.
const AHEAD: f64 = 2000.0;

fn asked(references: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    (0u32..)
        .zip(references.iter().copied())
        .filter(|&(_, count)| count > 0)
}

/// Pages in the order in which independent requests of the same popularity would have left them, the one that was
/// used longest ago first: the time since a page's last request is exponential with its rate. From another order
/// the popular pages would first have to be found.
fn by_age(mut pages: Vec<u32>, references: &[u32], seed: Seed) -> Vec<u32> {
    let seed = seed.stream("surge.locality.order");
    pages.sort_by_cached_key(|&page| {
        let time = -libm::log(open_uniform(seed, u64::from(page)));
        // Positive numbers are in the order of their bits.
        (
            Reverse((time / f64::from(references[page as usize])).to_bits()),
            page,
        )
    });
    pages
}

/// The smallest count with which a page is asked for throughout, so that at most `most` pages are asked for at
/// one time, on average.
fn least_throughout(references: &[u32], most: u32) -> u32 {
    let mut counts: Vec<u32> = references.iter().copied().filter(|&c| c > 0).collect();
    if counts.len() <= most.max(1) as usize {
        return 0;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // Pages at one time, when the `n` most popular are asked for throughout: these, and the others for their
    // requests over those of the last of these.
    let mut rest: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let mut least = counts[0];
    for (n, &count) in (1u64..).zip(&counts) {
        rest -= u64::from(count);
        least = count;
        if n as f64 + rest as f64 / f64::from(count) >= f64::from(most) {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pages_are_all_asked_for_throughout() {
        let pacing = Pacing::throughout(&[5, 0, 3, 1], Seed(1));
        assert_eq!((pacing.steps, pacing.reach), (9, 3));
        let mut pages = pacing.first.clone();
        pages.sort_unstable();
        assert_eq!(pages, [0, 2, 3]);
        assert_eq!(pacing.weighing(4), Weighing::default());
        let (small, references) = pacing.in_small(&[5, 0, 3, 1], 4);
        assert_eq!((references, small.steps), (vec![2, 0, 1, 1], 4));
    }

    #[test]
    fn of_many_pages_about_the_stated_number_is_asked_for_at_one_time() {
        let references: Vec<u32> = (1..=100_000u32).map(|rank| 100_000 / rank).collect();
        let pacing = Pacing::new(&references, 500, 3100, Seed(1));
        let (least, steps) = (f64::from(pacing.least), pacing.steps as f64);
        let at = |step: f64| {
            let first = pacing.first.iter().map(|&page| (0, page));
            let pages = first.chain(pacing.births.iter().copied());
            pages
                .filter(|&(birth, page)| {
                    let part = f64::from(references[page as usize]) / least;
                    (f64::from(birth)..f64::from(birth) + part * steps).contains(&step)
                })
                .count()
        };
        let start = at(0.0);
        assert!((400..800).contains(&start), "{start}");
        let middle = at(steps / 2.0);
        assert!((400..800).contains(&middle), "{middle}");
        assert_eq!(pacing.weighing(0).floor, pacing.least);
        assert_eq!(pacing.weighing(pacing.steps), Weighing::default());
        assert!(
            pacing
                .births
                .iter()
                .all(|&(birth, _)| u64::from(birth) < pacing.steps)
        );
        assert_eq!(pacing.first.len() + pacing.births.len(), references.len());
    }
}
