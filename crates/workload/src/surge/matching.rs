//! Assigns numbers of requests to files, so that the sizes of requested files follow their own law.
//!
//! The law gives the number of requests for files of at least a given size. A sweep from the largest to the smallest
//! file assigns to each file the unused number that is nearest to the number still missing at its size. Errors
//! accumulate at the small sizes, which include the most popular files. One such file may have a tenth of all requests.
//! The deviation from the law cannot be smaller than half of that file's share.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::parameters::{BodyForm, RequestSizes};

impl RequestSizes {
    /// Returns the share of the requests for files of size `x` or larger.
    pub fn at_least(&self, x: f64) -> f64 {
        if x >= self.tail_scale {
            return self.tail_share * libm::pow(self.tail_scale / x, self.tail_shape);
        }
        match self.body {
            None => 1.0,
            Some(body) => {
                let whole = match self.form {
                    BodyForm::AsIs => 1.0,
                    BodyForm::Renormalised => body.cdf(self.tail_scale),
                };
                1.0 - (1.0 - self.tail_share) * body.cdf(x) / whole
            }
        }
    }

    /// Returns the height of the jump at the cut.
    pub fn jump(&self) -> f64 {
        let below = f64::from_bits(self.tail_scale.to_bits() - 1);
        self.at_least(below) - self.at_least(self.tail_scale)
    }
}

/// Assigns one of `counts` to each of `sizes`, using each count once. Both have the same length. The result is in the
/// order of `sizes`. Among equal sizes, the earlier size is assigned first; of two equally near counts, the smaller is
/// used.
pub(super) fn assign(sizes: &[u64], counts: &[u64], law: &RequestSizes) -> Vec<u64> {
    assert_eq!(sizes.len(), counts.len(), "each file gets one count");
    let total: u64 = counts.iter().sum();
    // Many files have the same count, so the search is in the set of distinct counts.
    let mut unused: BTreeMap<u64, u32> = BTreeMap::new();
    for &count in counts {
        *unused.entry(count).or_default() += 1;
    }
    let mut assigned = vec![0; sizes.len()];
    let mut given = 0u64;
    for (size, file) in BySize::new(sizes.len(), sizes.iter().copied()).largest_first() {
        let need = total as f64 * law.at_least(size as f64) - given as f64;
        let count = take_nearest(&mut unused, need);
        assigned[file as usize] = count;
        given += count;
    }
    assigned
}

/// Sizes with their indices, the largest size first, and equal sizes in the order of their indices.
///
/// A size and its index are packed into one number: a million such numbers take 8 MB, half the memory of pairs. Sorting
/// indices by the sizes to which they refer would cause a cache miss at every comparison. With a million indices, 44
/// bits remain for a size: files of 16 TiB and more are treated as equally large.
pub(super) struct BySize {
    packed: Vec<u64>,
    place_bits: u32,
}

impl BySize {
    /// Sorts `count` sizes, given in the order of their indices.
    pub(super) fn new(count: usize, sizes: impl Iterator<Item = u64>) -> BySize {
        let place_bits = usize::BITS - count.leading_zeros();
        let largest = u64::MAX >> place_bits;
        let mut packed = Vec::with_capacity(count);
        packed.extend(
            (0..count as u64)
                .zip(sizes)
                .map(|(place, size)| (largest - size.min(largest)) << place_bits | place),
        );
        packed.sort_unstable();
        BySize { packed, place_bits }
    }

    /// Iterates over pairs of (size, index), the largest size first.
    pub(super) fn largest_first(&self) -> impl DoubleEndedIterator<Item = (u64, u32)> + Clone {
        let largest = u64::MAX >> self.place_bits;
        self.packed.iter().map(move |&packed| {
            let place = packed & !(largest << self.place_bits);
            (largest - (packed >> self.place_bits), place as u32)
        })
    }
}

/// Returns the inverse of [`assign`]: assigns sizes to files whose numbers of requests are known, so that the sizes of
/// requested files follow the law.
///
/// Each file gets one of the sizes of its kind; `sizes` and `requests` of a kind have the same length. The result
/// contains, for each kind and in the order of its files, the index of the file's size in `sizes`.
pub(super) fn assign_sizes(kinds: &[(&[u64], &[u32])], law: &RequestSizes) -> Vec<Vec<u32>> {
    let total: u64 = kinds
        .iter()
        .flat_map(|(_, requests)| *requests)
        .map(|&requests| u64::from(requests))
        .sum();
    // For each kind: its files in the order of their numbers of requests; and for each number of requests, the number
    // of files with it and the position of the first one.
    let mut by_requests = Vec::new();
    let mut unused: Vec<BTreeMap<u64, u32>> = Vec::new();
    let mut next: Vec<BTreeMap<u64, u32>> = Vec::new();
    for (sizes, requests) in kinds {
        assert_eq!(sizes.len(), requests.len(), "each file gets one size");
        let mut files: Vec<(u32, u32)> = requests.iter().copied().zip(0..).collect();
        files.sort_unstable();
        let (mut counts, mut first) = (BTreeMap::new(), BTreeMap::new());
        let mut place = 0u32;
        for run in files.chunk_by(|a, b| a.0 == b.0) {
            counts.insert(u64::from(run[0].0), run.len() as u32);
            first.insert(u64::from(run[0].0), place);
            place += run.len() as u32;
        }
        by_requests.push(
            files
                .into_iter()
                .map(|(_, file)| file)
                .collect::<Vec<u32>>(),
        );
        unused.push(counts);
        next.push(first);
    }
    let starts: Vec<usize> = kinds
        .iter()
        .scan(0, |start, (sizes, _)| {
            *start += sizes.len();
            Some(*start - sizes.len())
        })
        .collect();
    let place = |file: u32| {
        let kind = starts.partition_point(|&start| start <= file as usize) - 1;
        (kind, file as usize - starts[kind])
    };
    let mut assigned: Vec<Vec<u32>> = kinds
        .iter()
        .map(|(sizes, _)| vec![0; sizes.len()])
        .collect();
    let mut given = 0u64;
    let count = kinds.iter().map(|(sizes, _)| sizes.len()).sum();
    let sizes = kinds.iter().flat_map(|(sizes, _)| sizes.iter().copied());
    for (size, file) in BySize::new(count, sizes).largest_first() {
        let (kind, place) = place(file);
        let need = total as f64 * law.at_least(size as f64) - given as f64;
        let times = take_nearest(&mut unused[kind], need);
        let next = next[kind].get_mut(&times).expect("it was found there");
        let file = by_requests[kind][*next as usize];
        *next += 1;
        assigned[kind][file as usize] = place as u32;
        given += times;
    }
    assigned
}

/// Removes one occurrence of the key nearest to `need`, and returns the key.
fn take_nearest(unused: &mut BTreeMap<u64, u32>, need: f64) -> u64 {
    let count = nearest(unused, need);
    let times = unused.get_mut(&count).expect("it was found there");
    *times -= 1;
    if *times == 0 {
        unused.remove(&count);
    }
    count
}

/// Returns the key nearest to `need`.
fn nearest(unused: &BTreeMap<u64, u32>, need: f64) -> u64 {
    // A cast from a float saturates: negative numbers become 0.
    let floor = need.floor() as u64;
    let below = unused.range(..=floor).next_back().map(|(&count, _)| count);
    let above = unused
        .range((Bound::Excluded(floor), Bound::Unbounded))
        .next()
        .map(|(&count, _)| count);
    match (below, above) {
        (Some(below), Some(above)) if need - below as f64 <= above as f64 - need => below,
        (_, Some(above)) => above,
        (Some(below), None) => below,
        (None, None) => unreachable!("there are as many counts as files"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Parameters;
    use super::*;

    #[test]
    fn the_law_jumps_at_the_cut_unless_renormalised() {
        let law = Parameters::barford98(1, 1).request_sizes;
        assert!((law.jump() - 0.0261).abs() < 1e-4, "{}", law.jump());
        assert!((law.body.unwrap().cdf(law.tail_scale) - 0.9719).abs() < 5e-5);
        let renormalised = RequestSizes {
            form: BodyForm::Renormalised,
            ..law
        };
        assert!(renormalised.jump().abs() < 1e-12);
        assert_eq!(law.at_least(34_102.0), 0.07);
        assert_eq!(law.at_least(0.0), 1.0);
        let tail_alone = Parameters::sigmetrics98(1, 1).request_sizes;
        assert_eq!(tail_alone.at_least(999.0), 1.0);
        assert_eq!(tail_alone.at_least(2000.0), 0.5);
    }

    #[test]
    fn every_count_is_assigned_once_and_the_nearest_first() {
        // The law is a tail with k = 100 and alpha = 1. Of 20 requests, 5 should be for sizes >= 400, 10 for
        // sizes >= 200, and all for sizes >= 100.
        let law = RequestSizes {
            body: None,
            tail_scale: 100.0,
            tail_shape: 1.0,
            tail_share: 1.0,
            form: BodyForm::AsIs,
        };
        assert_eq!(
            assign(&[100, 400, 200, 100], &[10, 4, 4, 2], &law),
            [10, 4, 4, 2]
        );
        // Size 200 needs 10 requests: 8 and 12 are equally near, so the smaller is used. Size 100 gets 12.
        assert_eq!(assign(&[200, 100], &[8, 12], &law), [8, 12]);
    }

    #[test]
    fn sizes_go_to_the_files_whose_requests_are_missing() {
        let law = RequestSizes {
            body: None,
            tail_scale: 100.0,
            tail_shape: 1.0,
            tail_share: 1.0,
            form: BodyForm::AsIs,
        };
        // Of 20 requests, 5 should be for sizes >= 400. The first kind has 10 and 4, of which 4 is nearest. 10 requests
        // should be for sizes >= 200, so 6 are missing. The second kind has 2 and 4, of which 4 is nearest. One file of
        // each kind remains.
        let places = assign_sizes(&[(&[100, 400], &[10, 4]), (&[200, 100], &[2, 4])], &law);
        assert_eq!(places, [vec![0, 1], vec![1, 0]]);
    }

    #[test]
    fn sizes_are_ordered_with_their_places() {
        let sizes = [7, u64::MAX, 0, 7, 1 << 62];
        let order = BySize::new(sizes.len(), sizes.into_iter());
        let places: Vec<u32> = order.largest_first().map(|(_, place)| place).collect();
        // Five indices take three bits of the 64, so the largest size is 2^61 - 1.
        assert_eq!(places, [1, 4, 0, 3, 2]);
        let sizes: Vec<u64> = order.largest_first().map(|(size, _)| size).collect();
        assert_eq!(sizes, [u64::MAX >> 3, u64::MAX >> 3, 7, 7, 0]);
        assert_eq!(
            BySize::new(0, std::iter::empty()).largest_first().count(),
            0
        );
    }

    #[test]
    fn the_nearest_count_is_found_on_either_side() {
        let unused = BTreeMap::from([(2, 1), (5, 2), (9, 1)]);
        let pairs = [
            (-4.0, 2),
            (2.0, 2),
            (3.4, 2),
            (3.6, 5),
            (7.0, 5),
            (7.1, 9),
            (1e30, 9),
        ];
        for (need, wanted) in pairs {
            assert_eq!(nearest(&unused, need), wanted, "{need}");
        }
    }
}
