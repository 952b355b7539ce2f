//! Takes readings that may block on a lock of the observed process, on a separate thread.
//!
//! The kernel takes the lock on a socket to report the congestion window, and the lock on a memory map to report a
//! process's pages. A process that sends a mapped file holds the socket's lock while the file's pages are read from a disk.
//! A reader then waits, for seconds if the disk is busy, and the figures that it reads afterwards are late. Therefore a
//! thread that must not block requests such a reading here, and continues without the answer if it does not arrive soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::thread_cpu_time;
use crate::error::{Doing, Result};

/// A thread that takes one reading per request, one request at a time.
///
/// Dropping this value waits for an outstanding answer.
#[derive(Debug)]
pub(super) struct Aside<T> {
    /// The sender of requests; `None` while this value is dropped, so that the thread exits.
    questions: Option<SyncSender<()>>,
    answers: Receiver<T>,
    thread: Option<JoinHandle<()>>,
    /// Whether an answer is outstanding.
    asked: bool,
    /// The CPU time of the thread so far, in nanoseconds.
    spent: Arc<AtomicU64>,
}

impl<T: Send + 'static> Aside<T> {
    /// Starts the thread.
    pub(super) fn start(mut read: impl FnMut() -> T + Send + 'static) -> Result<Aside<T>> {
        let (questions, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let spent = Arc::new(AtomicU64::new(0));
        let thread = {
            let spent = Arc::clone(&spent);
            std::thread::Builder::new()
                .name("sampler-aside".to_owned())
                .spawn(move || {
                    while asked.recv().is_ok() {
                        let found = read();
                        let time = thread_cpu_time().as_nanos() as u64;
                        spent.store(time, Ordering::Relaxed);
                        if answer.send(found).is_err() {
                            break;
                        }
                    }
                })
                .doing("start a thread")?
        };
        Ok(Aside {
            questions: Some(questions),
            answers,
            thread: Some(thread),
            asked: false,
            spent,
        })
    }

    /// Requests a reading, unless an earlier request has not been answered yet.
    pub(super) fn request(&mut self) {
        if !self.asked
            && let Some(questions) = &self.questions
        {
            self.asked = questions.send(()).is_ok();
        }
    }

    /// Whether an answer is outstanding.
    pub(super) fn is_outstanding(&self) -> bool {
        self.asked
    }

    /// Returns the answer to the last request, if it arrives within `patience`.
    pub(super) fn answer(&mut self, patience: Duration) -> Option<T> {
        if !self.asked {
            return None;
        }
        let answer = self.answers.recv_timeout(patience).ok()?;
        self.asked = false;
        Some(answer)
    }

    /// Returns the CPU time of all readings so far.
    pub(super) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }
}

impl<T> Drop for Aside<T> {
    fn drop(&mut self) {
        drop(self.questions.take());
        if let Some(thread) = self.thread.take() {
            // The thread exits, because it can still send its answer. A panic of the thread is not reported here: the
            // caller got no answer.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_request_does_not_block_and_its_answer_is_available_later() {
        let (release, held) = sync_channel(0);
        let mut number = 0;
        let mut aside = Aside::start(move || {
            held.recv().unwrap();
            number += 1;
            number
        })
        .unwrap();
        assert_eq!(aside.answer(LONG), None, "there was no request");
        aside.request();
        for _ in 0..3 {
            assert_eq!(aside.answer(Duration::from_millis(1)), None);
            // The request is still outstanding, and is not repeated.
            aside.request();
        }
        release.send(()).unwrap();
        assert_eq!(aside.answer(LONG), Some(1));
        assert!(!aside.is_outstanding());
        aside.request();
        release.send(()).unwrap();
        assert_eq!(aside.answer(LONG), Some(2));
    }

    #[test]
    fn an_unread_response_blocks_no_thread() {
        let mut aside = Aside::start(|| "read").unwrap();
        aside.request();
        drop(aside);
    }
}
