//! Passes the rows of exchanges to the recorder.

use std::error::Error;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use fathometer_model::ExchangeRow;
use fathometer_sys::Clock;

/// The reason why a record could not be written.
pub type RecorderError = Box<dyn Error + Send + Sync>;

/// Stores a row for every exchange. The recorder runs on a separate thread.
pub trait Recorder: Send {
    /// Stores rows, in no particular order.
    fn record(&mut self, rows: Vec<ExchangeRow>) -> Result<(), RecorderError>;

    /// Completes the record; no more rows follow.
    fn finish(self: Box<Self>) -> Result<(), RecorderError>;
}

/// The number of rows in a batch.
const BATCH: usize = 2048;

/// The maximum number of batches that wait for the recorder. At this number, a loop that has another batch waits.
const WAITING: usize = 64;

/// A loop's end of the channel. If the recorder is too slow, the loop waits so that no row is lost. The send lag
/// includes this wait, which is also reported at the end.
pub(super) struct Rows {
    batch: Vec<ExchangeRow>,
    to: SyncSender<Vec<ExchangeRow>>,
    clock: Clock,
    /// Time spent waiting for the recorder.
    pub(super) waited: Duration,
}

/// Creates the channel to a recorder: the loops clone the sender, and the recorder's thread gets the receiver.
pub(super) fn channel() -> (SyncSender<Vec<ExchangeRow>>, Receiver<Vec<ExchangeRow>>) {
    sync_channel(WAITING)
}

/// Records rows until all loops have finished. After a failure, discards all rows so that no loop waits forever, and
/// returns the failure at the end.
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
            // Fails only if the recorder's thread has exited; the result of this thread contains the reason.
            let _ = self.to.send(batch);
            self.waited += self.clock.now().since(before);
        }
    }
}
