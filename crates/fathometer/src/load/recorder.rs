//! Rows of exchanges on their way to whoever keeps them.

use std::error::Error;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use fathometer_model::ExchangeRow;
use fathometer_sys::Clock;

/// Why a record could not be written.
pub type RecorderError = Box<dyn Error + Send + Sync>;

/// Keeps a row for every exchange. It has a thread to itself.
pub trait Recorder: Send {
    /// Takes further rows, in no particular order.
    fn record(&mut self, rows: Vec<ExchangeRow>) -> Result<(), RecorderError>;

    /// There are no more.
    fn finish(self: Box<Self>) -> Result<(), RecorderError>;
}

/// Rows handed over at a time.
const BATCH: usize = 2048;

/// Batches that may wait for the recorder before a loop waits for it.
const WAITING: usize = 64;

/// A loop's end of the channel. When the recorder cannot keep up the loop waits for it: no row is
/// lost, and the wait shows in the send lag and is told at the end.
pub(super) struct Rows {
    batch: Vec<ExchangeRow>,
    to: SyncSender<Vec<ExchangeRow>>,
    clock: Clock,
    /// Time spent waiting for the recorder.
    pub(super) waited: Duration,
}

/// The channel to one recorder: what loops clone, and what its thread reads.
pub(super) fn channel() -> (SyncSender<Vec<ExchangeRow>>, Receiver<Vec<ExchangeRow>>) {
    sync_channel(WAITING)
}

/// Records until all loops have ended. After a failure rows are read and thrown away, so that no
/// loop waits for ever; the failure is the result.
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

    /// Hands over what there is.
    pub(super) fn hand_over(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        if let Err(TrySendError::Full(batch)) = self.to.try_send(batch) {
            let before = self.clock.now();
            // It fails only when the recorder's thread is gone, and then that is the result.
            let _ = self.to.send(batch);
            self.waited += self.clock.now().since(before);
        }
    }
}
