//! Packet accounting: the cost of a recorded exchange on the wire, and the causes of its delays.
//!
//! [`account`] reads a capture of this or any other program in one pass. It reports the number of packets of each
//! exclusive [`Class`], the bytes of headers and of payload, the connections with their endings, and the
//! retransmissions. The classes are defined so that another program can reproduce the counts
//! ([`Class::display_filter`]). The definitions follow tcptrace and the papers (`packets`, `overhead = 40·P / (payload
//! + 40·P)`), at the tap that the papers used: the client.
//!
//! ```text
//! bytes ──> capture::Capture ──> link, parse ──> class
//!                                      └────────> connection ──> Accounting ──> metrics, table
//!                                                     └────────> TimeSequence ──> plot
//! ```
//!
//! The accounting does not reassemble streams or fragments, does not decode tunnels or protocols above TCP, and
//! does not verify checksums. Its result depends only on the captured bytes and the options.

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
mod connection_summary;
mod flow;
mod list;
mod metrics;
mod packed;
mod quantiles;
mod sent;
mod sequence;
mod service;
mod store;

use std::io::Read;
use std::time::Duration;

use fathometer_model::Bytes;

pub use self::capture::{CaptureError, Integrity};
pub use self::class::{Class, ClassCounts};
pub use self::connection_summary::{ConnectionSummary, Direction, DirectionSummary, Ending};
pub use self::list::ConnectionList;
pub use self::quantiles::RttSummary;
pub use self::service::{ServicePeriod, service_period, service_period_of_file};
pub use self::summary::{Accounting, IdleGap, SentSummary};
pub use self::tap::TapChoice;
pub use self::time_sequence::TimeSequence;

use self::account::Accountant;
use self::capture::{Capture, Record};

/// Default memory limit of an accounting: enough for eight million connections.
const MEMORY: Bytes = Bytes(2 << 30);
/// Number of packets between two checks of the memory in use.
const PACKETS_PER_LOOK: u64 = 1 << 17;

/// Settings of an accounting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The interfaces whose packets are counted.
    pub taps: TapChoice,
    /// Idle gaps in a connection are listed if they are longer than this. The default, 39 ms, is just below the
    /// shortest delayed acknowledgement of common systems.
    pub idle_threshold: Duration,
    /// Packets of one connection that are farther apart than this belong to different trains. The default, 500 ms, is
    /// the largest gap between cars that Jain and Routhier (1986) chose.
    pub train_gap: Duration,
    /// Number of connections, from the first, whose time sequences are recorded.
    pub time_sequences: usize,
    /// Maximum number of points in each list of a time sequence; the default is 200 000. Beyond this number, the points
    /// of each time bin are merged, and the sequence states the length of a bin.
    pub time_sequence_points: usize,
    /// Approximate memory limit of the accounting. Connections take most of the memory: about 250 bytes each.
    pub memory: Bytes,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            taps: TapChoice::Client,
            idle_threshold: Duration::from_millis(39),
            train_gap: Duration::from_millis(500),
            time_sequences: 0,
            time_sequence_points: time_sequence::POINT_LIMIT,
            memory: MEMORY,
        }
    }
}

/// Counts the packets of a capture.
///
/// # Errors
/// If the input is not a capture, if the system fails to read, or if the capture needs more than [`Options::memory`]. A
/// file that is truncated or damaged after its header is not an error: [`Accounting::integrity`] reports the damage.
pub fn account(reader: impl Read, options: &Options) -> Result<Accounting, CaptureError> {
    account_with_sequences(reader, options).map(|(accounting, _)| accounting)
}

/// Counts the packets of a capture and records the time sequences of its first [`Options::time_sequences`]
/// connections.
///
/// # Errors
/// As [`account`].
pub fn account_with_sequences(
    reader: impl Read,
    options: &Options,
) -> Result<(Accounting, Vec<TimeSequence>), CaptureError> {
    account_each(reader, options, |_| {})
}

/// Counts the packets of a capture, and also passes every packet to `each`, whether counted or not.
///
/// # Errors
/// As [`account`].
pub fn account_each(
    mut reader: impl Read,
    options: &Options,
    mut each: impl FnMut(&Record<'_>),
) -> Result<(Accounting, Vec<TimeSequence>), CaptureError> {
    observe(&mut reader, options, &mut each)
}

// Not generic, so that the loop is compiled once, with this crate's optimisation level.
fn observe(
    reader: &mut dyn Read,
    options: &Options,
    each: &mut dyn FnMut(&Record<'_>),
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

#[cfg(test)]
mod tests;
