//! Time limits.

use fathometer_model::{CloseReason, Failure, Instant};

use super::connection::Core;
use super::output::deadline;
use super::stream::{Answer, Ending};
use crate::h2::error::{ErrorCode, Fault};

impl Core {
    /// Schedules the check of the time limits for a request that is sent at `now`.
    pub(super) fn watch(&mut self, now: Instant) {
        if self.wake.is_none() {
            let timeouts = &self.config.timeouts;
            let late = [timeouts.head, timeouts.total].into_iter().flatten().min();
            self.wake = deadline(now, late);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if !self.is_open() {
            return None;
        }
        let waits = self.streams.len() > self.output.unsent();
        let idle = self.config.timeouts.idle.filter(|_| waits);
        let continuing = self.continuing.iter().filter_map(|&(_, by)| by).min();
        let limits = [
            self.wake.filter(|_| waits),
            idle.map(|limit| self.active + limit),
            self.settings_by.filter(|_| self.settings_wait),
            continuing,
        ];
        limits.into_iter().flatten().min()
    }

    pub(super) fn time_is_up(&mut self) {
        let now = self.now;
        if self.settings_wait && self.settings_by.is_some_and(|by| by <= now) {
            return self.fail(Fault::SettingsTimeout);
        }
        let waits = self.streams.len() > self.output.unsent();
        let idle = deadline(self.active, self.config.timeouts.idle);
        if waits && idle.is_some_and(|by| by <= now) {
            let ending = Ending {
                begun: Failure::TimedOut,
                unanswered: Failure::TimedOut,
            };
            self.output.drop_held();
            self.go_away(ErrorCode::NO_ERROR);
            return self.close(CloseReason::Failed(Failure::TimedOut), ending);
        }
        if self.wake.is_some_and(|by| by <= now) {
            self.find_late(now);
        }
        while let Some(place) = self
            .continuing
            .iter()
            .position(|&(_, by)| by.is_some_and(|by| by <= now))
        {
            let (request, _) = self.continuing.remove(place);
            self.may_continue(request);
        }
    }

    /// Aborts the requests whose time limit has passed, and finds the time at which the next limit expires. A call
    /// checks several requests.
    fn find_late(&mut self, now: Instant) {
        let timeouts = self.config.timeouts;
        let mut late = Vec::new();
        self.wake = None;
        for (request, stream) in self.streams.iter() {
            let Some(sent) = stream.sent else {
                continue;
            };
            let head = timeouts
                .head
                .filter(|_| !matches!(stream.answer, Answer::Content(_)));
            let limits = [deadline(sent, head), deadline(sent, timeouts.total)];
            match limits.into_iter().flatten().min() {
                Some(by) if by <= now => late.push(request),
                Some(by) => self.wake = Some(self.wake.map_or(by, |wake| wake.min(by))),
                None => {}
            }
        }
        late.sort_unstable();
        for request in late {
            self.fail_stream(request, ErrorCode::CANCEL, Failure::TimedOut);
        }
    }
}
