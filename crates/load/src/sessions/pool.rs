//! The connections that all sessions of an open loop share.

use std::collections::VecDeque;

use super::user::Choice;

/// The shared connections that can take a request, and the maximum number of connections.
///
/// A connection is listed at most once. Connections that were idle when they were listed are at the back, in the order
/// of their last use. Connections with a partly filled pipeline are at the front. A connection that has become full is
/// removed when it reaches the front.
#[derive(Debug)]
pub(super) struct Pool {
    /// The maximum number of connections.
    most: u32,
    /// Maximum number of concurrent exchanges on a connection.
    depth: u32,
    /// The number of connections that are open or being opened.
    open: u32,
    available: VecDeque<u32>,
    /// Whether each connection is listed, by slot.
    listed: Vec<bool>,
}

impl Pool {
    pub(super) fn new(most: u32, depth: u32) -> Pool {
        Pool {
            most,
            depth,
            open: 0,
            available: VecDeque::new(),
            listed: Vec::new(),
        }
    }

    /// Returns whether a connection can take a request, or a new one may be opened.
    pub(super) fn has_free(&mut self, has_room: impl Fn(u32) -> bool) -> bool {
        while let Some(&place) = self.available.back() {
            if has_room(place) {
                return true;
            }
            self.listed[place as usize] = false;
            self.available.pop_back();
        }
        self.open < self.most
    }

    /// Chooses the connection for a request: the most recently used idle connection, or else a new connection, or else
    /// a connection with a partly filled pipeline.
    pub(super) fn choose(
        &mut self,
        has_room: impl Fn(u32) -> bool,
        is_idle: impl Fn(u32) -> bool,
    ) -> Choice {
        if !self.has_free(has_room) {
            return Choice::Wait;
        }
        let last = self.available.back().copied();
        match last.filter(|&place| is_idle(place) || self.open >= self.most) {
            Some(place) => {
                self.available.pop_back();
                self.listed[place as usize] = self.depth > 1;
                if self.depth > 1 {
                    self.available.push_front(place);
                }
                Choice::Use(place)
            }
            None => Choice::Open,
        }
    }

    /// Records that a connection was opened.
    pub(super) fn opened(&mut self) {
        self.open += 1;
    }

    /// Lists a connection that can take a request.
    pub(super) fn offer(&mut self, place: u32, is_idle: bool) {
        let index = place as usize;
        if self.listed.len() <= index {
            self.listed.resize(index + 1, false);
        }
        if std::mem::replace(&mut self.listed[index], true) {
            return;
        }
        match is_idle {
            true => self.available.push_back(place),
            false => self.available.push_front(place),
        }
    }

    /// Removes a connection that accepts no more requests.
    pub(super) fn ended(&mut self, place: u32) {
        self.open -= 1;
        let listed = self.listed.get_mut(place as usize);
        // Connections that are closed without use have waited longest, so they are near the front.
        if listed.is_some_and(std::mem::take)
            && let Some(index) = self.available.iter().position(|&other| other == place)
        {
            self.available.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: fn(u32) -> bool = |_| true;
    const NONE: fn(u32) -> bool = |_| false;

    /// Creates a pool of at most two connections, both open and idle.
    fn pool(depth: u32) -> Pool {
        let mut pool = Pool::new(2, depth);
        for place in [4, 9] {
            pool.opened();
            pool.offer(place, true);
            pool.offer(place, true);
        }
        pool
    }

    #[test]
    fn the_most_recently_used_idle_connection_is_taken_first() {
        let mut pool = pool(1);
        assert_eq!(pool.choose(ALL, ALL), Choice::Use(9));
        assert_eq!(pool.choose(ALL, ALL), Choice::Use(4));
        assert_eq!(pool.choose(ALL, ALL), Choice::Wait);
        pool.offer(4, true);
        pool.offer(9, true);
        assert_eq!(pool.choose(ALL, ALL), Choice::Use(9));
    }

    #[test]
    fn a_new_connection_is_opened_before_a_pipeline_is_used() {
        let mut pool = Pool::new(2, 4);
        assert_eq!(pool.choose(ALL, ALL), Choice::Open);
        pool.opened();
        pool.offer(0, false);
        assert_eq!(pool.choose(ALL, NONE), Choice::Open);
        pool.opened();
        pool.offer(1, false);
        // Both connections can take requests, and are used alternately.
        let choices = [0; 4].map(|_| pool.choose(ALL, NONE));
        assert_eq!(choices, [0, 1, 0, 1].map(Choice::Use));
    }

    #[test]
    fn connections_that_have_ended_or_are_full_are_not_taken() {
        let mut pool = pool(1);
        pool.ended(9);
        assert_eq!(pool.choose(ALL, ALL), Choice::Use(4));
        assert!(pool.has_free(NONE), "one may be opened");
        assert_eq!(pool.choose(ALL, ALL), Choice::Open);
        pool.opened();
        pool.offer(9, true);
        assert!(!pool.has_free(NONE));
        // The full connection was removed from the list, and is listed again when it can take a request.
        assert_eq!(pool.choose(ALL, ALL), Choice::Wait);
        pool.offer(9, true);
        assert_eq!(pool.choose(ALL, ALL), Choice::Use(9));
        // A connection that ends while it is in use is not in the list.
        pool.ended(9);
        pool.ended(4);
        assert_eq!(pool.choose(ALL, ALL), Choice::Open);
    }
}
