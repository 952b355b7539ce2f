//! Single requests between two trials: what an overload left in the queues of the server must not count in the next.

use std::thread;
use std::time::Duration;

use fathometer_load::{Limit, Options, Users};
use fathometer_model::Bytes;
use fathometer_sys::stderr::say;

use super::trials::{Subject, Trials};

/// Exchanges of a test whether the server is idle.
const IDLE_EXCHANGES: u64 = 4;
/// How long a server may need after an overload until single requests are as fast as at the start.
const RECOVERY: Duration = Duration::from_secs(60);
/// How long it may need until any succeeds, besides a timeout.
const SILENCE: Duration = Duration::from_secs(5);
/// The time between two such tests while none succeeds.
const PAUSE: Duration = Duration::from_millis(50);

impl<S: Subject> Trials<'_, S> {
    /// Sends single requests until their latency is about that of the idle server: what an overload left in its queues
    /// must not count in the next trial. The connections of the last trial are closed. Returns false if the server
    /// answers no request.
    pub(super) fn wait_until_idle(&self) -> Result<bool, S::Error> {
        let Some(idle) = self.idle else {
            return Ok(true);
        };
        let limit = (3 * idle).max(idle + Duration::from_millis(5));
        let started = self.clock.now();
        let silence = SILENCE + self.subject.options()?.timeout;
        let mut answered = false;
        loop {
            let latency = self.single_latency()?;
            if latency.is_some_and(|latency| latency <= limit) || (self.interrupted)() {
                return Ok(true);
            }
            answered |= latency.is_some();
            let waited = self.clock.now().since(started);
            if !answered && waited >= silence {
                return Ok(false);
            }
            if waited >= RECOVERY {
                break;
            }
            if latency.is_none() {
                thread::sleep(PAUSE);
            }
        }
        say(format_args!(
            "single requests still take more than {limit:.1?} after {RECOVERY:?} ({idle:.1?} at the start): the server \
             may not have recovered"
        ));
        Ok(true)
    }

    /// The median latency of a few requests, one after another; `None` if none succeeded.
    fn single_latency(&self) -> Result<Option<Duration>, S::Error> {
        Ok(self.single_requests()?.map(|(latency, _)| latency))
    }

    /// The same, with the mean size of the responses' content.
    pub(super) fn single_requests(&self) -> Result<Option<(Duration, Bytes)>, S::Error> {
        let options = Options {
            users: Users::closed(1),
            limit: Limit::Exchanges(IDLE_EXCHANGES),
            warm_up: Duration::ZERO,
            threads: 1,
            ..self.subject.options()?
        };
        let result = fathometer_load::run(options, self.clock, self.interrupted, &mut |_| {})?;
        let window = &result.measured;
        let completed = window.counts.completed;
        if completed <= window.counts.status_errors() {
            return Ok(None);
        }
        let size = Bytes(window.bytes.content.0 / completed.max(1));
        let latency = window.latency.uncorrected.quantile(0.5);
        Ok(latency.map(|latency| (latency, size)))
    }
}
