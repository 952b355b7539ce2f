//! Measures the generator's own limit: the highest rate at which it sends on time, with a server that uses little CPU
//! time.

use fathometer_model::Bytes;
use serde::Serialize;

use super::trials::{Subject, Trials};

/// The lengths of the warm-up, of the closed loop, and of the open loop at each rate, in seconds.
const WARM_UP: f64 = 0.2;
const CLOSED: f64 = 0.6;
const OPEN: f64 = 1.0;
/// The maximum number of users of the closed loop.
const USERS: u32 = 64;
/// The candidate rates, as fractions of the closed loop's rate, in ascending order. Bisection tries three of them.
const SHARES: [f64; 7] = [0.15, 0.2, 0.28, 0.4, 0.55, 0.75, 0.95];
/// The maximum number of repeats of a rate at which noise may have delayed the generator.
const NOISE_REPEATS: u32 = 1;

/// The highest load of the generator.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The highest rate at which the generator was on time, in requests per second.
    pub limit_per_s: f64,
    /// The size of the origin's responses in bytes, which equals the size of the responses of the server under test.
    pub response_bytes: u64,
    /// The policy of the connections.
    pub policy: String,
    /// The duration of the calibration, in seconds.
    pub seconds: f64,
}

impl Calibration {
    /// Returns the reason why a trial above the limit is INVALID.
    pub fn reason(&self) -> String {
        format!(
            "the generator is on time up to {:.0} requests/s of this kind against its own origin on this machine \
             (calibration); use more threads (-- --threads N), another machine, or --no-calibration",
            self.limit_per_s
        )
    }

    /// Measures the limit with trials on the calibration's server. Returns `None` if the generator is late at all
    /// rates.
    ///
    /// # Errors
    /// If a load cannot be applied.
    pub fn measure<S: Subject>(
        trials: &mut Trials<'_, S>,
        connections: u32,
        response: Bytes,
        policy: String,
    ) -> Result<Option<Calibration>, S::Error> {
        let clock = trials.clock;
        let started = clock.now();
        let fastest = trials.throughput(connections.min(USERS), WARM_UP, CLOSED)?;
        let mut limit = None;
        // Invariant: the generator is on time at the share with index `valid` - 1, and late at the share with index
        // `invalid`.
        let (mut valid, mut invalid) = (0, SHARES.len());
        while valid < invalid && fastest > 0.0 && !(trials.interrupted)() {
            let middle = (valid + invalid) / 2;
            let rate = SHARES[middle] * fastest;
            if is_on_time(trials, rate)? {
                limit = Some(rate);
                valid = middle + 1;
            } else {
                invalid = middle;
            }
        }
        Ok(limit.map(|limit_per_s| Calibration {
            limit_per_s,
            response_bytes: response.0,
            policy,
            seconds: clock.now().since(started).as_secs_f64(),
        }))
    }
}

/// Whether the generator is on time at a rate. If noise of the machine may have delayed the generator, the rate is
/// repeated.
fn is_on_time<S: Subject>(trials: &mut Trials<'_, S>, rate: f64) -> Result<bool, S::Error> {
    for _ in 0..=NOISE_REPEATS {
        let (_, ending) = trials.measure(rate, WARM_UP, OPEN, &mut |_| false)?;
        if ending.invalid.is_empty() {
            return Ok(true);
        }
        if !ending.is_noise {
            break;
        }
    }
    Ok(false)
}
