//! Spreads the requests of pages over the sequence, so that the sequence can follow both a law of short distances and
//! the popularity of many pages.
//!
//! The original program has all pages in its stack from the start. With 5000 files and 90 requests per file this works,
//! because the drawn distances reach the deepest page often enough. With a million files and ten requests per file it
//! fails. The law rarely selects pages below position 1000, so the pages near the top use up their requests after three
//! quarters of the sequence. The remaining sequence repeats a few pages.
//!
//! Therefore the number of pages that are requested at one time is limited. A page with many requests is requested
//! throughout the sequence. A page with few requests has all its requests in a part of the sequence, at a uniformly
//! distributed position. The length of this part is in proportion to the page's requests. For the least popular page
//! that is requested throughout, the part is the whole sequence.

use std::cmp::Reverse;

use fathometer_model::Seed;

use crate::distribution::open_uniform;

use super::stack::Weighing;

/// The pages of a sequence, by the part of the sequence in which they are requested.
#[derive(Debug)]
pub(super) struct Pacing {
    /// Number of requests of all pages: the steps of the sequence.
    pub(super) steps: u64,
    /// A page with fewer requests than this is requested only in a part of the sequence; 0: there is no such page.
    pub(super) least: u32,
    /// Upper bound of the drawn distances.
    pub(super) reach: usize,
    /// The pages that are requested from the start, the least recently used one first.
    pub(super) first: Vec<u32>,
    /// The other pages, sorted: the step of the first request, and the page.
    pub(super) births: Vec<(u32, u32)>,
}

impl Pacing {
    /// Requests all pages throughout the sequence.
    pub(super) fn throughout(references: &[u32], seed: Seed) -> Pacing {
        let pages: Vec<u32> = requested(references).map(|(page, _)| page).collect();
        Pacing {
            steps: requested(references)
                .map(|(_, count)| u64::from(count))
                .sum(),
            least: 0,
            reach: pages.len(),
            first: by_age(pages, references, seed),
            births: Vec::new(),
        }
    }

    /// Requests about `at_once` pages at one time. Distances are below `reach`.
    pub(super) fn new(references: &[u32], at_once: u32, reach: u32, seed: Seed) -> Pacing {
        let least = least_throughout(references, at_once);
        let steps: u64 = requested(references)
            .map(|(_, count)| u64::from(count))
            .sum();
        let place = seed.stream("surge.locality.part");
        let (mut first, mut births) = (Vec::new(), Vec::new());
        for (page, count) in requested(references) {
            let part = f64::from(count) / f64::from(least.max(1));
            // The first part has as many pages as later parts, and no page begins too late to use its requests.
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

    /// Scales the pacing down to about `steps` steps, for pages that are all requested throughout. Also returns the
    /// scaled number of requests for each page.
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

    /// Returns the number of a page's requests that are spread over the whole sequence.
    pub(super) fn paced(&self, count: u32) -> u32 {
        match self.births.is_empty() || count < self.least {
            true => 0,
            false => count,
        }
    }

    /// Returns the weights of pages after `step` steps. A page with few requests has the weight of the least popular
    /// page that is requested throughout. A page that is requested throughout has weight 0 while its requests are ahead
    /// of the sequence.
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

/// The number of steps by which a page may be ahead of the sequence.
const AHEAD: f64 = 2000.0;

fn requested(references: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    (0u32..)
        .zip(references.iter().copied())
        .filter(|&(_, count)| count > 0)
}

/// Sorts pages in the order that independent requests with the same popularity would produce, the least recently used
/// page first. The time since a page's last request is exponential with the page's rate. With another order, the
/// sequence would begin with a transient in which the popular pages move to the top.
fn by_age(mut pages: Vec<u32>, references: &[u32], seed: Seed) -> Vec<u32> {
    let seed = seed.stream("surge.locality.order");
    pages.sort_by_cached_key(|&page| {
        let time = -libm::log(open_uniform(seed, u64::from(page)));
        // The bit patterns of positive numbers have the same order as the numbers.
        (
            Reverse((time / f64::from(references[page as usize])).to_bits()),
            page,
        )
    });
    pages
}

/// Returns the smallest number of requests of a page that is requested throughout. It is chosen so that the mean number
/// of pages requested at one time is at most `most`.
fn least_throughout(references: &[u32], most: u32) -> u32 {
    let mut counts: Vec<u32> = references.iter().copied().filter(|&c| c > 0).collect();
    if counts.len() <= most.max(1) as usize {
        return 0;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // The number of pages at one time if the `n` most popular pages are requested throughout: `n`, plus for each other
    // page the ratio of its requests to the requests of page number `n`.
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
    fn few_pages_are_all_requested_throughout() {
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
    fn of_many_pages_about_the_stated_number_is_requested_at_one_time() {
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
