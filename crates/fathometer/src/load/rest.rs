//! When a closed loop rests instead of being woken by the next response.
//!
//! A loop that is faster than its server has nothing to do after nearly every response. If it slept until the
//! next one, each response would cost it a switch of its processor, and the server a call to that processor:
//! both pay for being woken, the more often the faster the loop is. So it sleeps for a fixed short
//! time, in which several responses come, and deals with them together.
//!
//! The price is that a response is noticed later by up to the length of the rest (and by what the system takes to
//! wake a thread, as after any sleep). So a rest is never longer than [`SHARE`] of the mean latency, nor than the
//! limit that the options set; and where fewer than [`WORTH`] responses are to be expected in it there is none.
//! What a response waits here is not added where the server is the one that is busy: the next request would have
//! waited there instead, and the mean latency is the number of users divided by the throughput, whatever waits
//! where. An open loop, whose requests are due at planned instants, never rests.

/// The part of the mean latency that a rest may take, as its divisor.
const SHARE: u64 = 16;

/// Responses that make a rest worth its while.
const WORTH: u64 = 2;

/// How long responses are counted to learn their pace, in nanoseconds: long against a rest, short against the
/// changes of a load.
const WINDOW: u64 = 1_000_000;

/// The pace of a loop's responses, and what follows from it.
#[derive(Debug)]
pub(super) struct Rest {
    /// The longest rest, in nanoseconds.
    longest: u64,
    /// When the count began, and how many exchanges had ended by then.
    since: u64,
    ended: u64,
    /// Nanoseconds for each exchange, in the count before this one.
    each: u64,
}

impl Rest {
    /// No rests before the pace is known.
    pub(super) fn new(longest: u64) -> Rest {
        Rest {
            longest,
            since: 0,
            ended: 0,
            each: u64::MAX,
        }
    }

    /// How long to rest, in nanoseconds, now that there is nothing to do. Zero: not at all.
    ///
    /// `ended` are the exchanges that have ended since the start, `under_way` those that have not.
    pub(super) fn length(&mut self, now: u64, ended: u64, under_way: u64) -> u64 {
        let passed = now.saturating_sub(self.since);
        if passed >= WINDOW {
            let count = ended - self.ended;
            self.each = passed.checked_div(count).unwrap_or(u64::MAX);
            self.since = now;
            self.ended = ended;
        }
        // Little's law: as many are under way as end within the mean latency.
        let latency = self.each.saturating_mul(under_way);
        let most = self.longest.min(latency / SHARE);
        match most >= self.each.saturating_mul(WORTH) {
            true => most,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is rested after a count of so many exchanges, `each` nanoseconds apart.
    fn after(each: u64, under_way: u64, longest: u64) -> u64 {
        let mut rest = Rest::new(longest);
        let count = 2 * WINDOW / each;
        rest.length(count * each, count, under_way)
    }

    #[test]
    fn a_rest_is_a_small_part_of_the_latency_and_of_several_responses() {
        // A mean latency of 640 µs.
        assert_eq!(after(10_000, 64, 50_000), 40_000);
        assert_eq!(after(10_000, 64, 30_000), 30_000);
        assert_eq!(after(10_000, 1000, 50_000), 50_000);
        // No more than one response would come.
        assert_eq!(after(10_000, 31, 50_000), 0);
        assert_eq!(after(10_000, 1, 50_000), 0);
        assert_eq!(after(30_000, 1000, 50_000), 0);
        assert_eq!(after(10_000, 64, 0), 0);
    }

    #[test]
    fn there_is_none_until_the_pace_is_known_and_none_after_a_stall() {
        let mut rest = Rest::new(50_000);
        assert_eq!(rest.length(WINDOW / 2, 50, 64), 0);
        assert_eq!(rest.length(WINDOW, 100, 64), 40_000);
        // The count goes on.
        assert_eq!(rest.length(WINDOW + 10_000, 100, 64), 40_000);
        assert_eq!(rest.length(100 * WINDOW, 101, 64), 0);
        assert_eq!(rest.length(200 * WINDOW, 101, 64), 0);
        assert_eq!(rest.length(201 * WINDOW, 201, 64), 40_000);
    }
}
