//! Divides the memory for unacknowledged data among the connections of a server.

use crate::settings::Waiting;

/// The smallest limit of a connection, in bytes, for any number of connections.
const LEAST: u64 = 8 * 1024;
/// The limit of a connection in congestion windows: one window is in flight, one is next, and two more are needed while
/// a lost packet is repaired.
const WINDOWS: u64 = 4;

/// The memory of one endpoint. It counts the limits granted to connections, which are upper bounds of their use.
#[derive(Debug)]
pub(crate) struct SendMemory {
    waiting: Waiting,
    /// The upper bound of a connection's limit, in bytes.
    most: u64,
    granted: u64,
}

impl SendMemory {
    pub(crate) fn new(waiting: Waiting, most: u64) -> SendMemory {
        SendMemory {
            waiting,
            most,
            granted: 0,
        }
    }

    /// Grants the new limit of a connection, in bytes. `before` is its old limit, `open` the number of open connections.
    /// Pass a congestion window of 0 for a connection that has nothing to send.
    pub(crate) fn grant(&mut self, before: u64, congestion_window: u64, open: usize) -> u64 {
        let all = self.waiting.all.0;
        let share = all / (open.max(1) as u64);
        let floor = share.min(self.waiting.each.0).max(LEAST).min(self.most);
        let wanted = congestion_window
            .saturating_mul(WINDOWS)
            .clamp(floor, self.most);
        let others = self.granted.saturating_sub(before);
        let grant = wanted.min(all.saturating_sub(others).max(floor));
        self.granted = others + grant;
        grant
    }

    /// Releases the memory that was granted to a closed connection.
    pub(crate) fn give_back(&mut self, before: u64) {
        self.granted = self.granted.saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::Bytes;

    use super::*;

    fn memory(all: u64) -> SendMemory {
        let waiting = Waiting {
            each: Bytes(64 << 10),
            all: Bytes(all),
        };
        SendMemory::new(waiting, 4 << 20)
    }

    #[test]
    fn a_connection_gets_four_windows_and_no_more_than_the_most() {
        let mut memory = memory(256 << 20);
        let first = memory.grant(0, 12_000, 1);
        assert_eq!(first, 64 << 10, "the initial limit");
        let grown = memory.grant(first, 100_000, 1);
        assert_eq!(grown, 400_000);
        let most = memory.grant(grown, 10 << 20, 1);
        assert_eq!(most, 4 << 20);
        assert_eq!(memory.grant(most, 0, 1), 64 << 10, "it has nothing to send");
        memory.give_back(64 << 10);
        assert_eq!(memory.granted, 0);
    }

    #[test]
    fn all_together_get_no_more_than_there_is() {
        let mut memory = memory(8 << 20);
        let mut grants = vec![0; 1000];
        for open in 1..=1000 {
            for grant in &mut grants[..open] {
                *grant = memory.grant(*grant, 1 << 20, open);
            }
            let sum: u64 = grants.iter().sum();
            assert_eq!(sum, memory.granted);
            let least = open as u64 * LEAST;
            assert!(sum <= (8 << 20) + (64 << 10).max(least), "{open}: {sum}");
        }
    }
}
