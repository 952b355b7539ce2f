//! The share of a test that one of several machines runs.
//!
//! The plan of a test is global, and is split over ranks as it is split over the threads of one process: arrival *i*
//! and user *i* belong to rank *i* mod *ranks*. So every rank can compute its share from the seed, without
//! communication.

/// One of several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    rank: u32,
    ranks: u32,
}

impl Share {
    /// The whole test: one rank.
    pub const WHOLE: Share = Share { rank: 0, ranks: 1 };

    /// Creates the share of rank `rank` (from 0) of `ranks` ranks; `None` if there is no such rank.
    pub fn new(rank: u32, ranks: u32) -> Option<Share> {
        (rank < ranks).then_some(Share { rank, ranks })
    }

    /// This rank, from 0.
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(self) -> u32 {
        self.ranks
    }

    /// Returns the number of items (users, arrivals) that this rank has among `count` items numbered from 0.
    pub fn of(self, count: u64) -> u64 {
        let (rank, ranks) = (u64::from(self.rank), u64::from(self.ranks));
        count / ranks + u64::from(rank < count % ranks)
    }

    /// Returns the number of items that this rank has among the `count` items from number `first` on.
    pub fn of_range(self, first: u64, count: u64) -> u64 {
        self.of(first.saturating_add(count)) - self.of(first)
    }

    /// Returns the number, in the whole test, of this rank's `own`-th item (from 0).
    pub fn number(self, own: u64) -> u64 {
        own.saturating_mul(self.ranks.into())
            .saturating_add(self.rank.into())
    }

    /// Returns the number, in the whole test, of the first item of an event loop, and the distance to its next item.
    /// The `loops` loops together have each item of this rank once. Ranks may have different numbers of loops.
    pub(crate) fn of_loop(self, number: usize, loops: usize) -> (usize, usize) {
        let (rank, ranks) = (self.rank as usize, self.ranks as usize);
        (rank + ranks * number, ranks * loops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_disjoint_and_complete() {
        for ranks in [1, 2, 3, 16] {
            for count in [0, 1, 2, 15, 16, 17, 1000] {
                let shares = (0..ranks).map(|rank| Share::new(rank, ranks).unwrap());
                let mut numbers: Vec<u64> = shares
                    .clone()
                    .flat_map(|share| (0..share.of(count)).map(move |own| share.number(own)))
                    .collect();
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(0..count), "{count} on {ranks}");
                for first in [0, 1, 7] {
                    let parts = shares.clone().map(|share| share.of_range(first, count));
                    assert_eq!(parts.sum::<u64>(), count);
                }
            }
        }
        assert_eq!(Share::new(2, 2), None);
        assert_eq!(Share::new(0, 0), None);
    }

    #[test]
    fn the_loops_of_a_rank_have_its_share() {
        let share = Share::new(1, 3).unwrap();
        let mut numbers: Vec<usize> = (0..4)
            .flat_map(|number| {
                let (first, stride) = share.of_loop(number, 4);
                (first..120).step_by(stride)
            })
            .collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq((1..120).step_by(3)));
    }
}
