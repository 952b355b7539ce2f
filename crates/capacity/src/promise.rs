//! Promises as limits of a share: at most this share of the exchanges may break them.
//!
//! `p99<100ms` holds if at most 1 % of the exchanges take longer than 100 ms, and `errors<0.1%` if at most 0.1 % fail.
//! In this form a promise can be tested without an assumption about how latencies are distributed.

use fathometer_analysis::load::Slo;
use fathometer_analysis::load::slo::{ShareLimit, ShareLimitError};

/// A promise: at most [`Promise::share`] of the exchanges are bad.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise {
    /// As it was written, as in `p99<100ms`.
    pub text: String,
    /// The longest latency of a good exchange, in seconds; `None`: an exchange is bad only if it failed.
    pub limit: Option<f64>,
    /// The largest share of bad exchanges, above 0 and below 1.
    pub share: f64,
}

impl Promise {
    /// The promises of an SLO, in the order in which they were written.
    ///
    /// # Errors
    /// If a threshold is not the limit of a share.
    pub fn of(slo: &Slo) -> Result<Vec<Promise>, ShareLimitError> {
        let limits = slo.share_limits()?;
        Ok(limits.into_iter().map(Promise::from).collect())
    }

    /// Whether an exchange breaks the promise that ended after `latency` seconds. A failed exchange breaks every
    /// promise: a server that refuses quickly does not serve.
    pub fn is_bad(&self, latency: f64, failed: bool) -> bool {
        failed || self.limit.is_some_and(|limit| latency > limit)
    }
}

impl From<ShareLimit> for Promise {
    fn from(limit: ShareLimit) -> Promise {
        Promise {
            text: limit.text,
            limit: limit.slower_than.map(|time| time.as_secs_f64()),
            share: limit.share,
        }
    }
}
