//! Waits between two trials until the server's queues are empty. Single requests show this: queued requests of a trial
//! must not affect the next trial.

use std::thread;
use std::time::Duration;

use fathometer_load::{Limit, Options, Users};
use fathometer_model::Bytes;
use fathometer_sys::stderr::say;

use super::trials::{Subject, Trials};

/// The number of single requests in one idle test.
const IDLE_EXCHANGES: u64 = 4;
/// The longest wait after an overload until single requests are as fast as at the start.
const RECOVERY: Duration = Duration::from_secs(60);
/// The longest wait, in addition to a timeout, for a server that accepts no connections. For a server that accepts
/// connections, the limit is [`RECOVERY`]: its queue may be full of requests whose clients have timed out.
const SILENCE: Duration = Duration::from_secs(5);
/// The pause between two tests if no request succeeded.
const PAUSE: Duration = Duration::from_millis(50);

/// The result of a few single requests.
pub(super) struct SingleRequests {
    /// The median latency, and the mean size of the responses' content. `None` if no request succeeded.
    pub(super) answer: Option<(Duration, Bytes)>,
    /// Whether the server accepted a connection.
    pub(super) connected: bool,
}

impl<S: Subject> Trials<'_, S> {
    /// Sends single requests until their latency is about as short as on the idle server, so that the server's queues
    /// are empty when the next trial begins. The connections of the last trial are already closed. Returns false if no
    /// request succeeds within [`SILENCE`], or within [`RECOVERY`] if the server accepts connections.
    pub(super) fn wait_until_idle(&self) -> Result<bool, S::Error> {
        let Some(idle) = self.idle else {
            return Ok(true);
        };
        let limit = (3 * idle).max(idle + Duration::from_millis(5));
        let started = self.clock.now();
        let silence = SILENCE + self.subject.options()?.timeout;
        let mut answered = false;
        loop {
            let found = self.single_requests()?;
            let latency = found.answer.map(|(latency, _)| latency);
            if latency.is_some_and(|latency| latency <= limit) || (self.interrupted)() {
                return Ok(true);
            }
            answered |= latency.is_some();
            let waited = self.clock.now().since(started);
            let patience = if found.connected { RECOVERY } else { silence };
            if !answered && waited >= patience {
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

    /// Sends a few single requests, one after another.
    pub(super) fn single_requests(&self) -> Result<SingleRequests, S::Error> {
        let options = Options {
            users: Users::closed(1),
            limit: Limit::Exchanges(IDLE_EXCHANGES),
            warm_up: Duration::ZERO,
            threads: 1,
            ..self.subject.options()?
        };
        let result = fathometer_load::run(options, self.clock, self.interrupted, &mut |_| {})?;
        let window = &result.measured;
        let counts = &window.counts;
        let size = Bytes(window.bytes.content.0 / counts.completed.max(1));
        let latency = window.latency.uncorrected.quantile(0.5);
        let succeeded = counts.completed > counts.status_errors();
        Ok(SingleRequests {
            answer: latency.filter(|_| succeeded).map(|latency| (latency, size)),
            connected: counts.connected > 0,
        })
    }
}
