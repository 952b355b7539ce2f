//! The distribution of the congestion windows of a server's connections, over many readings.

use serde::{Deserialize, Serialize};

use super::super::kernel_file::counted;

/// The number of observations of each congestion window, for the established connections with one local port. Every
/// reading observes each connection once, so this is the distribution over connection time: a long connection counts more
/// often.
///
/// The source is `tcpi_snd_cwnd` from sock_diag, in segments. The counts start at the first reading; [`Windows::since`]
/// returns the counts between two readings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    /// The number of observations by congestion window: index 0 is 0 segments, and the index after [`Windows::LARGEST`]
    /// contains all larger windows. Trailing zeros are omitted.
    histogram: Vec<u64>,
    /// The number of readings.
    pub readings: u64,
    /// The number of observed connections, summed over all readings.
    pub established: u64,
    /// The sum of all observed windows, in segments.
    pub segments: u64,
    /// The largest observed window, in segments.
    greatest: u32,
}

impl Windows {
    /// The largest window, in segments, that has its own index.
    pub const LARGEST: u32 = 512;

    /// Starts a reading.
    pub(super) fn begin(&mut self) {
        self.readings += 1;
    }

    /// Adds one connection to the reading.
    pub(super) fn found(&mut self, window: u32) {
        let place = window.min(Self::LARGEST + 1) as usize;
        if self.histogram.len() <= place {
            self.histogram.resize(place + 1, 0);
        }
        self.histogram[place] += 1;
        self.established += 1;
        self.segments += u64::from(window);
        self.greatest = self.greatest.max(window);
    }

    /// Returns the number of observations of each window. The index is the window in segments; the index after
    /// [`Windows::LARGEST`] contains all larger windows. The last count is not 0.
    pub fn histogram(&self) -> &[u64] {
        &self.histogram
    }

    /// Returns the mean congestion window, in segments; `None` if no connection was observed.
    pub fn mean(&self) -> Option<f64> {
        (self.established > 0).then(|| self.segments as f64 / self.established as f64)
    }

    /// Returns a quantile: the smallest window, in segments, that at least this share of the observations does not exceed;
    /// beyond [`Windows::LARGEST`], the largest observed window. `None` if no connection was observed, or for a share
    /// outside 0 to 1.
    pub fn quantile(&self, share: f64) -> Option<u32> {
        if self.established == 0 || !(0.0..=1.0).contains(&share) {
            return None;
        }
        let wanted = ((share * self.established as f64).ceil() as u64).max(1);
        let mut sum = 0;
        let place = self.histogram.iter().position(|count| {
            sum += count;
            sum >= wanted
        })?;
        self.of_place(place)
    }

    /// Returns the share of observations, 0 to 1, with at most this window, in segments. `None` if no connection was
    /// observed, and between [`Windows::LARGEST`] and the largest observed window, where windows are not counted
    /// separately.
    pub fn share_at_most(&self, window: u32) -> Option<f64> {
        if self.established == 0 || (window > Self::LARGEST && window < self.greatest) {
            return None;
        }
        let small = self.histogram.iter().take(window as usize + 1);
        let small = small.sum::<u64>();
        let all = window >= self.greatest;
        Some(if all {
            1.0
        } else {
            small as f64 / self.established as f64
        })
    }

    /// Returns the largest observed window, in segments; `None` if no connection was observed. In a difference of two
    /// readings, a value beyond [`Windows::LARGEST`] may be from before the earlier reading.
    pub fn greatest(&self) -> Option<u32> {
        (self.established > 0).then_some(self.greatest)
    }

    /// Returns the observations since an earlier reading, without that reading; `None` if the counts were reset in between.
    pub fn since(&self, earlier: &Windows) -> Option<Windows> {
        let less = |now: u64, then: u64| counted(Some(now), Some(then));
        let before = earlier.histogram.iter().chain(std::iter::repeat(&0));
        let mut histogram: Vec<u64> = self
            .histogram
            .iter()
            .zip(before)
            .map(|(now, then)| less(*now, *then))
            .collect::<Option<_>>()?;
        let end = histogram.iter().rposition(|count| *count > 0);
        histogram.truncate(end.map_or(0, |last| last + 1));
        let mut windows = Windows {
            histogram,
            readings: less(self.readings, earlier.readings)?,
            established: less(self.established, earlier.established)?,
            segments: less(self.segments, earlier.segments)?,
            greatest: self.greatest,
        };
        windows.greatest = end.and_then(|last| windows.of_place(last)).unwrap_or(0);
        Some(windows)
    }

    fn of_place(&self, place: usize) -> Option<u32> {
        let window = u32::try_from(place).ok()?;
        Some(if window > Self::LARGEST {
            self.greatest
        } else {
            window
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(of: &[&[u32]]) -> Windows {
        let mut windows = Windows::default();
        for reading in of {
            windows.begin();
            reading.iter().for_each(|window| windows.found(*window));
        }
        windows
    }

    #[test]
    fn a_distribution_over_connections_and_readings() {
        let windows = readings(&[&[2, 2, 4], &[], &[10, 2]]);
        assert_eq!((windows.readings, windows.established), (3, 5));
        assert_eq!(windows.mean(), Some(4.0));
        assert_eq!(windows.histogram(), [0, 0, 3, 0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(windows.quantile(0.0), Some(2));
        assert_eq!(windows.quantile(0.6), Some(2));
        assert_eq!(windows.quantile(0.61), Some(4));
        assert_eq!(windows.quantile(1.0), Some(10));
        assert_eq!(windows.quantile(1.1), None);
        assert_eq!(windows.share_at_most(1), Some(0.0));
        assert_eq!(windows.share_at_most(4), Some(0.8));
        assert_eq!(windows.share_at_most(10_000), Some(1.0));
        assert_eq!(windows.greatest(), Some(10));
    }

    #[test]
    fn without_observations_there_are_no_figures() {
        let windows = readings(&[&[], &[]]);
        assert_eq!(windows.readings, 2);
        assert_eq!((windows.mean(), windows.quantile(0.5)), (None, None));
        assert_eq!((windows.greatest(), windows.share_at_most(5)), (None, None));
    }

    #[test]
    fn large_windows_share_a_place() {
        let windows = readings(&[&[512, 513, 900, 3]]);
        assert_eq!(windows.histogram().len(), 514);
        assert_eq!(windows.mean(), Some(482.0));
        assert_eq!(windows.share_at_most(512), Some(0.5));
        assert_eq!(windows.share_at_most(600), None, "not distinguished");
        assert_eq!(windows.share_at_most(900), Some(1.0));
        assert_eq!(windows.quantile(0.5), Some(512));
        assert_eq!(windows.quantile(0.75), Some(900));
    }

    #[test]
    fn a_difference_contains_the_observations_after_the_first_reading() {
        let before = readings(&[&[40, 2]]);
        let mut after = before.clone();
        after.begin();
        after.found(3);
        after.begin();
        after.found(5);
        after.found(5);
        let step = after.since(&before).unwrap();
        assert_eq!(step, readings(&[&[3], &[5, 5]]));
        assert_eq!(step.greatest(), Some(5));
        assert_eq!(after.since(&after).unwrap(), Windows::default());
        assert_eq!(before.since(&after), None, "the counts were reset");
        assert_eq!(after.since(&Windows::default()).unwrap(), after);
    }
}
