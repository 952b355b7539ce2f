//! Rate limits on useless frames from the server.

use std::time::Duration;

use fathometer_model::Instant;

use super::config::Floods;
use crate::h2::error::Fault;

/// Counts the useless frames of one second. Useful frames reset the counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UselessFrames {
    since: Instant,
    answers: u32,
    idle: u32,
}

const SECOND: Duration = Duration::from_secs(1);

impl UselessFrames {
    /// Resets the counts, because a useful frame was received or sent.
    #[inline]
    pub(super) fn progress(&mut self) {
        self.answers = 0;
        self.idle = 0;
    }

    /// Counts a frame that requires an answer; fails if the limit is exceeded.
    pub(super) fn wants_answer(&mut self, floods: &Floods, now: Instant) -> Result<(), Fault> {
        self.look(now);
        self.answers += 1;
        match self.answers > floods.answers {
            true => Err(Fault::AnswerFlood),
            false => Ok(()),
        }
    }

    /// Counts an idle frame; fails if the limit is exceeded.
    pub(super) fn carries_nothing(&mut self, floods: &Floods, now: Instant) -> Result<(), Fault> {
        self.look(now);
        self.idle += 1;
        match self.idle > floods.idle {
            true => Err(Fault::IdleFrames),
            false => Ok(()),
        }
    }

    fn look(&mut self, now: Instant) {
        if now.since(self.since) >= SECOND {
            self.since = now;
            self.progress();
        }
    }
}
