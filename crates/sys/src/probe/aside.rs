//! Readings that may have to wait for whoever is read, on a thread of their own.
//!
//! The kernel tells what a connection's congestion window is only while it holds the lock on the
//! socket, and what pages a process has only while it holds the lock on its memory map. A process
//! that sends a mapped file holds the socket's lock while the file's pages are fetched from a disk.
//! Whoever asks then waits as long, which with a disk that others keep busy is seconds, and what is
//! read after that is of another time. So whoever must not wait asks here, and goes on without an
//! answer that does not come soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::thread_time;
use crate::error::{Doing, Result};

/// A thread that reads something whenever it is asked, one question at a time.
///
/// Dropping it waits for an answer that is still to come.
#[derive(Debug)]
pub(super) struct Aside<T> {
    /// `None` once it is to end.
    questions: Option<SyncSender<()>>,
    answers: Receiver<T>,
    thread: Option<JoinHandle<()>>,
    /// Whether an answer is still to come.
    asked: bool,
    /// Processor time of the thread so far, in nanoseconds.
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
                        let time = thread_time().as_nanos() as u64;
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

    /// Asks, unless an earlier question has not been answered yet.
    pub(super) fn ask(&mut self) {
        if !self.asked
            && let Some(questions) = &self.questions
        {
            self.asked = questions.send(()).is_ok();
        }
    }

    /// Whether an answer is still to come.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }

    /// The answer to what was asked last, if it comes within this time.
    pub(super) fn answer(&mut self, patience: Duration) -> Option<T> {
        if !self.asked {
            return None;
        }
        let answer = self.answers.recv_timeout(patience).ok()?;
        self.asked = false;
        Some(answer)
    }

    /// Processor time of all answers so far.
    pub(super) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }
}

impl<T> Drop for Aside<T> {
    fn drop(&mut self) {
        drop(self.questions.take());
        if let Some(thread) = self.thread.take() {
            // Its answer has a place to go to, so that it ends. What a panic of it would say,
            // whoever waited for the answer has seen by its absence.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_asks_goes_on_without_an_answer_and_has_it_later() {
        let (release, held) = sync_channel(0);
        let mut number = 0;
        let mut aside = Aside::start(move || {
            held.recv().unwrap();
            number += 1;
            number
        })
        .unwrap();
        assert_eq!(aside.answer(LONG), None, "nothing was asked");
        aside.ask();
        for _ in 0..3 {
            assert_eq!(aside.answer(Duration::from_millis(1)), None);
            // The question stands, and is not asked again.
            aside.ask();
        }
        release.send(()).unwrap();
        assert_eq!(aside.answer(LONG), Some(1));
        assert!(!aside.is_asked());
        aside.ask();
        release.send(()).unwrap();
        assert_eq!(aside.answer(LONG), Some(2));
    }

    #[test]
    fn an_answer_that_nobody_waits_for_holds_nobody_up() {
        let mut aside = Aside::start(|| "read").unwrap();
        aside.ask();
        drop(aside);
    }
}
