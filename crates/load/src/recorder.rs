//! Passes the rows of exchanges to the recorder.

use std::error::Error;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use fathometer_model::ExchangeRow;
use fathometer_sys::Clock;

/// Why a record could not be written.
pub type RecorderError = Box<dyn Error + Send + Sync>;

/// Stores a row for every exchange. It runs on its own thread.
pub trait Recorder: Send {
    /// Stores rows, which are in no particular order.
    fn record(&mut self, rows: Vec<ExchangeRow>) -> Result<(), RecorderError>;

    /// Completes the record; no more rows follow.
    fn finish(self: Box<Self>) -> Result<(), RecorderError>;
}

/// Rows in a batch.
const BATCH: usize = 2048;

/// Maximum number of batches that wait for the recorder; a loop with another batch waits.
const WAITING: usize = 64;

/// A loop's end of the channel. A loop waits for a recorder that cannot keep up, so that no row is lost;
/// the wait shows in the send lag and is reported at the end.
pub(super) struct Rows {
    batch: Vec<ExchangeRow>,
    to: SyncSender<Vec<ExchangeRow>>,
    clock: Clock,
    /// Time spent waiting for the recorder.
    pub(super) waited: Duration,
}

/// The channel to a recorder: the loops clone the sender, and the recorder's thread has the receiver.
pub(super) fn channel() -> (SyncSender<Vec<ExchangeRow>>, Receiver<Vec<ExchangeRow>>) {
    sync_channel(WAITING)
}

/// Records until all loops have finished. After a failure, rows are read and discarded so that no loop
/// waits forever; the failure is returned.
pub(super) fn serve(
    mut recorder: Box<dyn Recorder>,
    rows: &Receiver<Vec<ExchangeRow>>,
) -> Result<(), RecorderError> {
    let mut result = Ok(());
    for batch in rows {
        if result.is_ok() {
            result = recorder.record(batch);
        }
    }
    result.and_then(|()| recorder.finish())
}

impl Rows {
    pub(super) fn new(to: SyncSender<Vec<ExchangeRow>>, clock: Clock) -> Rows {
        Rows {
            batch: Vec::with_capacity(BATCH),
            to,
            clock,
            waited: Duration::ZERO,
        }
    }

    pub(super) fn push(&mut self, row: ExchangeRow) {
        self.batch.push(row);
        if self.batch.len() == BATCH {
            self.hand_over();
        }
    }

    /// Passes the rows to the recorder, even if the batch is incomplete.
    pub(super) fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        if let Err(TrySendError::Full(batch)) = self.to.try_send(batch) {
            let before = self.clock.now();
            // Fails only if the recorder's thread has exited; that thread's result gives the reason.
            let _ = self.to.send(batch);
            self.waited += self.clock.now().since(before);
        }
    }
}
