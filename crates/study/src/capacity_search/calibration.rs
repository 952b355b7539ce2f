//! The generator's own limit: the highest rate at which it sends on time to a server that costs less than any real one.

use fathometer_model::Bytes;
use serde::Serialize;

use super::trials::{Subject, Trials};

/// Seconds before each measured part, and of it: the closed loop, then each rate.
const WARM_UP: f64 = 0.2;
const CLOSED: f64 = 0.6;
const OPEN: f64 = 1.0;
/// Users of the closed loop, at most.
const USERS: u32 = 64;
/// The rates that are tried, as shares of the closed loop's rate, in ascending order. Bisection tries three of them.
const SHARES: [f64; 7] = [0.15, 0.2, 0.28, 0.4, 0.55, 0.75, 0.95];
/// How often a rate is repeated at which noise may have made the generator late.
const NOISE_REPEATS: u32 = 1;

/// What the generator can apply.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The highest rate at which it was on time, in requests per second.
    pub limit_per_s: f64,
    /// The size of the origin's responses in bytes: that of the server's.
    pub response_bytes: u64,
    /// The policy of the connections.
    pub policy: String,
    /// Seconds that the calibration took.
    pub seconds: f64,
}

impl Calibration {
    /// Why a load above the limit is not tried.
    pub fn reason(&self) -> String {
        format!(
            "the generator is on time up to {:.0} requests/s of this kind against its own origin on this machine \
             (calibration); use more threads (-- --threads N), another machine, or --no-calibration",
            self.limit_per_s
        )
    }

    /// Measures the limit with trials of such a server; `None` if the generator is not on time at any rate.
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
        // The share at `valid` - 1 is valid, and that at `invalid` is not.
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

/// Whether the generator is on time at a rate. Noise of the machine may be the reason why it is not: then it is tried
/// again.
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
