//! Which file gets which number of requests, so that the sizes of requested files follow a law of
//! their own.
//!
//! The law says how many requests should be for files of at least a given size. A sweep from the
//! largest file down gives each file the unused number nearest to what is then missing. Errors are
//! pushed to the small sizes, where the most popular files land: one of these alone is a tenth of all
//! requests, so no assignment comes nearer to the law than half of its share.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::parameters::{BodyForm, RequestSizes};

impl RequestSizes {
    /// Which share of the requests should be for sizes of at least `x`.
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

    /// How much the law jumps at the cut.
    pub fn jump(&self) -> f64 {
        let below = f64::from_bits(self.tail_scale.to_bits() - 1);
        self.at_least(below) - self.at_least(self.tail_scale)
    }
}

/// Gives each of `sizes` one of `counts`, each once. Both have the same length; the result is in
/// the order of `sizes`. Of equal sizes the earlier goes first, of equally near counts the smaller.
pub(super) fn assign(sizes: &[u64], counts: &[u64], law: &RequestSizes) -> Vec<u64> {
    assert_eq!(sizes.len(), counts.len(), "each file gets one count");
    let total: u64 = counts.iter().sum();
    // Many files have the same count: what is searched is the set of different ones.
    let mut unused: BTreeMap<u64, u32> = BTreeMap::new();
    for &count in counts {
        *unused.entry(count).or_default() += 1;
    }
    let mut order: Vec<u32> = (0..sizes.len() as u32).collect();
    order.sort_by_key(|&file| (std::cmp::Reverse(sizes[file as usize]), file));

    let mut assigned = vec![0; sizes.len()];
    let mut given = 0u64;
    for file in order {
        let size = sizes[file as usize] as f64;
        let need = total as f64 * law.at_least(size) - given as f64;
        let count = nearest(&unused, need);
        let times = unused.get_mut(&count).expect("it was found there");
        *times -= 1;
        if *times == 0 {
            unused.remove(&count);
        }
        assigned[file as usize] = count;
        given += count;
    }
    assigned
}

/// The key nearest to `need`.
fn nearest(unused: &BTreeMap<u64, u32>, need: f64) -> u64 {
    // A cast from a float saturates: what is below 0 becomes 0.
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
    fn the_wanted_law_jumps_at_the_cut_unless_renormalised() {
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
    fn every_count_is_given_once_and_the_nearest_first() {
        // All is tail, with k = 100 and alpha = 1: of 20 requests 5 should be for sizes >= 400, 10 for
        // >= 200, all for >= 100.
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
        // Equally near: the smaller. Needs 10, then 10 + 10 - 8 = 12 of what is left.
        assert_eq!(assign(&[200, 100], &[8, 12], &law), [8, 12]);
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
