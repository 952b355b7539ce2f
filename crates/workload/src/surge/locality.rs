//! The global sequence of pages, with the temporal locality of requests at a server.
//!
//! All pages that will be asked for lie in a stack. Each step draws a distance, chooses a page near it
//! with a probability in proportion to the references that the page has left, and moves that page to
//! the top. Popularity and locality pull in different directions: the law of distances asks for fewer
//! of the pages deep in the stack than their popularity does. So the popular pages are used up before
//! the end, earlier the fewer requests there are for a file, and what follows asks for the same page
//! again and again; a share of the end is discarded.

use std::cmp::Reverse;

use fathometer_model::Seed;

use crate::distribution::open_uniform;
use crate::plan::PageId;

use super::parameters::Locality;
use super::stack::Stack;

/// The sequence and what is known of it.
pub(super) struct Sequence {
    pub(super) pages: Vec<PageId>,
    pub(super) distances: StackDistances,
    /// How often each distance was drawn.
    pub(super) drawn: Vec<u64>,
}

/// How far down the stack of recently used pages the pages of a sequence were: how many other pages
/// were asked for since the last request for the same one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackDistances {
    /// How often each distance occurred, from 0.
    pub counts: Vec<u64>,
    /// Requests for pages that were not asked for before: no distance.
    pub first: u64,
}

impl StackDistances {
    /// The distances that occurred.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The smallest distance that a share `p` of all distances do not exceed; `None` without any.
    pub fn quantile(&self, p: f64) -> Option<u64> {
        let total = self.total();
        let mut sum = 0;
        (0..).zip(&self.counts).find_map(|(distance, count)| {
            sum += count;
            (sum > 0 && sum as f64 >= p * total as f64).then_some(distance)
        })
    }

    /// The share of requests that a cache of so many pages, emptied of the least recently used one when
    /// full, would miss, the first ones of each page among them; 0 without requests.
    pub fn miss_ratio(&self, pages: u64) -> f64 {
        let kept = usize::try_from(pages).map_or(self.counts.len(), |n| n.min(self.counts.len()));
        let missed = self.first + self.counts[kept..].iter().sum::<u64>();
        match self.first + self.total() {
            0 => 0.0,
            requests => missed as f64 / requests as f64,
        }
    }

    /// The curve of [`StackDistances::miss_ratio`]: (pages, misses), pages doubling from 1 until
    /// nothing but first requests is missed.
    pub fn miss_ratio_curve(&self) -> Vec<(u64, f64)> {
        let all = self.first + self.total();
        if all == 0 {
            return Vec::new();
        }
        let (mut curve, mut hits, mut pages) = (Vec::new(), 0, 1u64);
        for (distance, count) in (0u64..).zip(&self.counts) {
            hits += count;
            let last = distance + 1 == self.counts.len() as u64;
            if distance + 1 == pages || last {
                curve.push((distance + 1, (all - hits) as f64 / all as f64));
                pages = pages.saturating_mul(2);
            }
        }
        curve
    }
}

/// Makes the sequence. `references` says how often each page is asked for; `progress` is told the
/// share of steps done.
pub(super) fn sequence(
    law: &Locality,
    references: &[u32],
    seed: Seed,
    mut progress: impl FnMut(f64),
) -> Sequence {
    const STEPS_A_REPORT: u64 = 1 << 16;
    let steps: u64 = references.iter().map(|&count| u64::from(count)).sum();
    let kept = steps - (steps as f64 * law.discarded) as u64;
    // A page that is never asked for is in nobody's memory.
    let mut order: Vec<u32> = (0..)
        .zip(references)
        .filter_map(|(page, &count)| (count > 0).then_some(page))
        .collect();
    // The order in which independent requests of the same popularity would have left them: the time
    // since a page's last request is exponential with its rate. From any other order the popular
    // pages would first have to be found, which with a million pages takes most of the sequence.
    let age_seed = seed.stream("surge.locality.order");
    let age = |page: u32| {
        let time = -libm::log(open_uniform(age_seed, u64::from(page)));
        // Positive numbers are in the order of their bits.
        (time / f64::from(references[page as usize])).to_bits()
    };
    order.sort_by_cached_key(|&page| (Reverse(age(page)), page));
    let left = order.iter().map(|&page| references[page as usize]);
    let left: Vec<u32> = left.collect();
    let mut stack = Stack::new(order, left);

    let distance_seed = seed.stream("surge.locality.distance");
    let choice_seed = seed.stream("surge.locality.choice");
    // Drawing again while the distance is beyond the stack is drawing from the lower part at once.
    let within = law.distance.cdf(stack.len() as f64);
    let mut drawn = vec![0u64; stack.len()];
    let mut distances = StackDistances {
        counts: vec![0; stack.len()],
        first: 0,
    };
    let mut seen = vec![false; references.len()];
    let mut pages = Vec::with_capacity(kept as usize);
    for step in 0..kept {
        let p = open_uniform(distance_seed, step) * within;
        let distance = (law.distance.quantile(p) as usize).min(stack.len() - 1);
        drawn[distance] += 1;
        let uniform = choice_seed.uniform(step);
        let (page, realised) = stack
            .take(distance, law.window as usize, uniform)
            .expect("there is a reference left for every step");
        pages.push(PageId(page));
        match std::mem::replace(&mut seen[page as usize], true) {
            true => distances.counts[realised] += 1,
            false => distances.first += 1,
        }
        if step % STEPS_A_REPORT == 0 {
            progress(step as f64 / kept as f64);
        }
    }
    let farthest = distances.counts.iter().rposition(|&count| count > 0);
    distances
        .counts
        .truncate(farthest.map_or(0, |last| last + 1));
    Sequence {
        pages,
        distances,
        drawn,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Parameters;
    use super::*;

    fn small() -> (Vec<u32>, Sequence) {
        let references: Vec<u32> = (1..=300u32).map(|rank| 200 / rank).collect();
        let law = Parameters::barford98(1, 1).locality;
        let sequence = sequence(&law, &references, Seed(9), |_| ());
        (references, sequence)
    }

    #[test]
    fn the_sequence_asks_for_no_page_more_often_than_its_references() {
        let (references, sequence) = small();
        let total: u32 = references.iter().sum();
        let discarded = (f64::from(total) * 0.03) as usize;
        assert_eq!(sequence.pages.len(), total as usize - discarded);
        let mut left = references;
        for page in &sequence.pages {
            left[page.0 as usize] -= 1;
        }
        assert_eq!(left.iter().sum::<u32>() as usize, discarded);
    }

    #[test]
    fn distances_are_those_of_a_plain_stack() {
        let (_, sequence) = small();
        let mut stack: Vec<u32> = Vec::new();
        let mut wanted = StackDistances::default();
        for page in &sequence.pages {
            match stack.iter().rev().position(|&other| other == page.0) {
                Some(distance) => {
                    let length = wanted.counts.len().max(distance + 1);
                    wanted.counts.resize(length, 0);
                    wanted.counts[distance] += 1;
                    stack.remove(stack.len() - 1 - distance);
                }
                None => wanted.first += 1,
            }
            stack.push(page.0);
        }
        assert_eq!(sequence.distances, wanted);
    }

    #[test]
    fn quantiles_and_misses_follow_from_the_counts() {
        let distances = StackDistances {
            counts: vec![4, 0, 3, 1],
            first: 2,
        };
        assert_eq!(distances.quantile(0.5), Some(0));
        assert_eq!(distances.quantile(0.75), Some(2));
        assert_eq!(distances.quantile(1.0), Some(3));
        let ratios = [0, 1, 2, 3, 4, 99].map(|pages| distances.miss_ratio(pages));
        assert_eq!(ratios, [1.0, 0.6, 0.6, 0.3, 0.2, 0.2]);
        assert_eq!(distances.miss_ratio_curve(), [(1, 0.6), (2, 0.6), (4, 0.2)]);
        assert_eq!(StackDistances::default().quantile(0.5), None);
        assert_eq!(StackDistances::default().miss_ratio(3), 0.0);
    }
}
