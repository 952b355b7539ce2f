//! Stack distances, which measure the temporal locality of a sequence of requests.

/// The stack distances of a sequence. The distance of a request is the number of other pages that were requested
/// since the last request for the same page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackDistances {
    /// Number of occurrences of each distance, from 0.
    pub counts: Vec<u64>,
    /// Number of first requests of pages, which have no distance.
    pub first: u64,
}

impl StackDistances {
    /// Returns the number of distances.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the smallest distance that at least the share `p` of all distances does not exceed; `None` if there are
    /// no distances.
    pub fn quantile(&self, p: f64) -> Option<u64> {
        let total = self.total();
        let mut sum = 0;
        (0..).zip(&self.counts).find_map(|(distance, count)| {
            sum += count;
            (sum > 0 && sum as f64 >= p * total as f64).then_some(distance)
        })
    }

    /// Returns the share of requests that miss in an LRU cache of `pages` pages, including the first request of each
    /// page; 0 if there are no requests.
    pub fn miss_ratio(&self, pages: u64) -> f64 {
        let kept = usize::try_from(pages).map_or(self.counts.len(), |n| n.min(self.counts.len()));
        let missed = self.first + self.counts[kept..].iter().sum::<u64>();
        match self.first + self.total() {
            0 => 0.0,
            requests => missed as f64 / requests as f64,
        }
    }

    /// Removes the counts of distances above the largest distance that occurred.
    pub(super) fn trim(&mut self) {
        let farthest = self.counts.iter().rposition(|&count| count > 0);
        self.counts.truncate(farthest.map_or(0, |last| last + 1));
    }
}
