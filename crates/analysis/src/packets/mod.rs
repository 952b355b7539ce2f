//! Packet accounting: what a recorded exchange cost on the wire, and what held it up.
//!
//! [`account`] reads a capture, ours or anybody's, once and says: how many packets of which
//! exclusive [`Class`], how many octets of headers and of payload, which connections there were,
//! how they ended and what was sent twice. The classes are defined so that another program counts
//! the same ([`Class::display_filter`]). The figures are those of tcptrace and of the papers
//! (`packets`, `overhead = 40·P / (payload + 40·P)`), at the tap that the papers used: the client.
//!
//! ```text
//! octets ──> capture::Capture ──> link, parse ──> class
//!                                      └────────> connection ──> Accounting ──> metrics, table
//!                                                     └────────> TimeSequence ──> plot
//! ```
//!
//! It does not reassemble streams or fragments, does not look into tunnels or protocols above TCP,
//! does not verify checksums, and is a function of the octets alone.

pub mod capture;
pub mod class;
pub mod extract;
pub mod link;
pub mod parse;
pub mod plot;
pub mod summary;
pub mod synthetic;
pub mod table;
pub mod tap;
pub mod time_sequence;

mod account;
mod connection;
mod flow;
mod list;
mod metrics;
mod quantiles;
mod sent;
mod sequence;
mod service;
mod store;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use fathometer_model::Bytes;

pub use self::capture::{CaptureError, Integrity};
pub use self::class::{Class, ClassCounts};
pub use self::list::ConnectionList;
pub use self::quantiles::RttSummary;
pub use self::service::{ServicePeriod, service_period, service_period_of_file};
pub use self::summary::{
    Accounting, ConnectionSummary, Direction, DirectionSummary, Ending, IdleGap, SentSummary,
};
pub use self::tap::TapChoice;
pub use self::time_sequence::TimeSequence;

use self::account::Accountant;
use self::capture::{Capture, Record};

/// The memory that an accounting takes at most unless told otherwise: enough for eight million connections.
const MEMORY: Bytes = Bytes(2 << 30);
/// Packets between two looks at the memory in use.
const PACKETS_PER_LOOK: u64 = 1 << 17;

/// How a capture is accounted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which interfaces count.
    pub taps: TapChoice,
    /// Gaps in a connection longer than this are listed. The default, 39 ms, is just below the
    /// shortest time that common systems delay an acknowledgement.
    pub idle_threshold: Duration,
    /// Packets of a connection further apart than this are in different trains. The default,
    /// 500 ms, is the largest gap between cars that Jain and Routhier (1986) chose.
    pub train_gap: Duration,
    /// Of how many connections, the first ones, the time sequence is taken down.
    pub time_sequences: usize,
    /// Memory that the accounting takes at most, about. Connections take most of it: some 250 bytes each.
    pub memory: Bytes,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            taps: TapChoice::Client,
            idle_threshold: Duration::from_millis(39),
            train_gap: Duration::from_millis(500),
            time_sequences: 0,
            memory: MEMORY,
        }
    }
}

/// Accounts for a capture.
///
/// # Errors
/// When no packet can be read because this is no capture, when the system fails to read, or when the capture
/// needs more than [`Options::memory`]. A
/// file that is cut short or damaged further on is no error: [`Accounting::integrity`] tells.
pub fn account(reader: impl Read, options: &Options) -> Result<Accounting, CaptureError> {
    account_with_sequences(reader, options).map(|(accounting, _)| accounting)
}

/// Accounts for a capture and takes down the time sequences of its first
/// [`Options::time_sequences`] connections.
///
/// # Errors
/// As [`account`].
pub fn account_with_sequences(
    reader: impl Read,
    options: &Options,
) -> Result<(Accounting, Vec<TimeSequence>), CaptureError> {
    account_each(reader, options, |_| {})
}

/// Accounts for a capture, and hands each packet to `each` as well, counted or not.
///
/// # Errors
/// As [`account`].
pub fn account_each(
    reader: impl Read,
    options: &Options,
    mut each: impl FnMut(&Record<'_>),
) -> Result<(Accounting, Vec<TimeSequence>), CaptureError> {
    let mut capture = Capture::open(reader)?;
    let mut accountant = Accountant::new(options);
    while let Some(record) = capture.next_record()? {
        let is_time_to_look = record.number % PACKETS_PER_LOOK == PACKETS_PER_LOOK - 1;
        accountant.observe(&record);
        each(&record);
        if is_time_to_look {
            accountant.check_memory()?;
        }
    }
    accountant.check_memory()?;
    Ok(accountant.finish(
        capture.format(),
        capture.integrity().clone(),
        capture.interfaces(),
    ))
}

/// Accounts for a capture file.
///
/// # Errors
/// As [`account`], and when the file cannot be opened.
pub fn account_file(path: &Path, options: &Options) -> Result<Accounting, CaptureError> {
    let file = File::open(path).map_err(|source| CaptureError::Io { offset: 0, source })?;
    account(file, options)
}

#[cfg(test)]
mod tests;
