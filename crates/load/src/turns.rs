//! The order in which connections are read and written and in which users continue: first in, first out. So a
//! connection or user that always has more work cannot block the others.

use std::collections::VecDeque;

/// A queue of connections or users, without duplicates.
///
/// A connection or user is in the queue if and only if its mark is set. The mark is stored with the other state of the
/// connection or user, so checking it needs no further memory access.
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

    /// Computes Jain's fairness index: 1 if all shares are equal, 1/n if one connection has the whole share.
    fn fairness(shares: &[u64]) -> f64 {
        let sum: f64 = shares.iter().map(|&share| share as f64).sum();
        let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
        sum * sum / (shares.len() as f64 * squares)
    }

    /// Simulates `turns` turns of the loop over connections that always have more data. Each turn reads the connections
    /// that wait at its beginning; afterwards these wait again.
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
