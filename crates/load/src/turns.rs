//! The order in which connections are read and written and users continue: first in, first out, so that a
//! connection or user that always has more to do does not block others.

use std::collections::VecDeque;

/// A queue of connections or users, each in it at most once.
///
/// A connection or user is in the queue if and only if its mark is set. The mark is stored with the owner's
/// other state, so checking it costs no further memory access.
#[derive(Debug, Default)]
pub(super) struct Turns(VecDeque<u32>);

impl Turns {
    /// Appends a connection or user, unless its mark `waits` is set.
    pub(super) fn add(&mut self, place: u32, waits: &mut bool) {
        if !std::mem::replace(waits, true) {
            self.0.push_back(place);
        }
    }

    /// Removes the connection or user that has waited longest; the caller clears its mark.
    pub(super) fn next(&mut self) -> Option<u32> {
        self.0.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jain's fairness index: 1 if all have the same share, 1/n if one has everything.
    fn fairness(shares: &[u64]) -> f64 {
        let sum: f64 = shares.iter().map(|&share| share as f64).sum();
        let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
        sum * sum / (shares.len() as f64 * squares)
    }

    /// Simulates `turns` turns of the loop over connections that always have more data: each turn reads the
    /// connections that wait at its beginning, and each then waits again.
    fn read(connections: usize, turns: usize) -> Vec<u64> {
        let (mut queue, mut waits) = (Turns::default(), vec![false; connections]);
        let mut shares = vec![0; connections];
        for (place, waits) in waits.iter_mut().enumerate() {
            queue.add(place as u32, waits);
        }
        for turn in 0..turns {
            for _ in 0..queue.len() {
                let place = queue.next().unwrap() as usize;
                waits[place] = false;
                shares[place] += 1;
                queue.add(place as u32, &mut waits[place]);
                // A connection that is already in the queue gets no second turn.
                let other = (place + turn) % connections;
                queue.add(other as u32, &mut waits[other]);
            }
        }
        shares
    }

    #[test]
    fn connections_that_always_have_more_are_read_equally() {
        for connections in [1, 2, 3, 7, 100] {
            let shares = read(connections, 1000);
            assert!(fairness(&shares) > 0.999, "{shares:?}");
            assert_eq!(shares.iter().sum::<u64>(), 1000 * connections as u64);
        }
    }
}
