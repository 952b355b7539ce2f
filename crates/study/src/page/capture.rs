//! Reads the packets of one replicate from its captures, and accounts for them.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use fathometer_lab::tap_file::TapFile;
use fathometer_packets::{Accounting, CaptureError, Options, account_each};

use crate::experiment::ReplicateError;
use crate::run_folder::WriteError;

/// The minimum length of a stall, a gap on a connection that a delayed acknowledgement ends. Linux delays
/// acknowledgements by at least 40 ms, BSD by up to 200 ms.
pub(super) const STALL: Duration = Duration::from_millis(35);

/// The capture with the packets of all taps, for the accounting.
pub(super) const TAPS: &str = "taps.pcapng";
/// The capture of the client's tap, for other programs. In a capture of both taps, these programs would count each
/// packet twice.
pub(super) const CAPTURE: &str = "capture.pcapng";

/// Accounts for the packets of all taps. Writes the packets of the client's tap to `client`, if it is given.
pub(super) fn account(taps: &Path, client: Option<&Path>) -> Result<Accounting, ReplicateError> {
    let options = Options {
        idle_threshold: STALL,
        ..Options::default()
    };
    let written = |error| {
        let path = client.unwrap_or(taps).to_owned();
        WriteError { path, error }
    };
    let failed = |error| ReplicateError::Capture {
        path: taps.display().to_string(),
        error,
    };
    let file = File::open(taps).map_err(|source| failed(CaptureError::Io { offset: 0, source }))?;
    let begin = |client| TapFile::create(client, options.taps.clone());
    let mut extracted = client.map(begin).transpose().map_err(written)?;
    let each = |record: &fathometer_packets::capture::Record<'_>| {
        if let Some(file) = &mut extracted {
            file.packet(record);
        }
    };
    let (accounting, _) = account_each(file, &options, each).map_err(failed)?;
    if let Some(file) = extracted {
        file.finish().map_err(written)?;
    }
    Ok(accounting)
}
