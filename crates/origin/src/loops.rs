//! The threads of a service, each of which runs one loop.

use std::io;
use std::thread::{self, JoinHandle};

use fathometer_sys::sched;
use fathometer_sys::usage::ThreadClock;

use super::OriginStatistics;

/// Running loops, with the handle of each loop.
#[derive(Debug)]
pub(crate) struct Loops<H> {
    threads: Vec<(H, JoinHandle<io::Result<OriginStatistics>>)>,
}

impl<H: Clone> Loops<H> {
    /// Runs each loop on its own thread, which has a numbered name; if `pinned`, each on one processor.
    pub(crate) fn start<R>(
        loops: impl IntoIterator<Item = (H, R)>,
        name: &str,
        pinned: bool,
    ) -> io::Result<Loops<H>>
    where
        R: FnOnce() -> io::Result<OriginStatistics> + Send + 'static,
    {
        let processors = sched::processors().map_err(io::Error::other)?;
        let mut threads = Vec::new();
        for (n, (handle, run)) in loops.into_iter().enumerate() {
            let processor = pinned.then(|| processors[n % processors.len().max(1)]);
            let thread = thread::Builder::new()
                .name(format!("{name} {n}"))
                .spawn(move || {
                    if let Some(processor) = processor {
                        sched::pin(processor).map_err(io::Error::other)?;
                    }
                    run()
                })?;
            threads.push((handle, thread));
        }
        Ok(Loops { threads })
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = &H> {
        self.threads.iter().map(|(handle, _)| handle)
    }

    /// The CPU clocks of the threads.
    pub(crate) fn clocks(&self) -> Vec<ThreadClock> {
        let threads = self.threads.iter().map(|(_, thread)| thread);
        threads.filter_map(ThreadClock::of).collect()
    }

    /// Whether a loop has finished.
    pub(crate) fn has_ended(&self) -> bool {
        self.threads.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Waits for all loops to finish, and returns their statistics. If a loop fails, `stop` stops the other loops, and
    /// the error contains the failures of all loops.
    pub(crate) fn join(self, stop: impl Fn(&H)) -> io::Result<OriginStatistics> {
        let handles: Vec<H> = self.handles().cloned().collect();
        let mut total = OriginStatistics::default();
        let mut failures = Vec::new();
        for (_, thread) in self.threads {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            match thread.join() {
                Ok(Ok(statistics)) => total = total.and(statistics),
                Ok(Err(error)) => {
                    failures.push(format!("event loop {name:?}: {error}"));
                    handles.iter().for_each(&stop);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        match failures.is_empty() {
            true => Ok(total),
            false => Err(io::Error::other(failures.join("; "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failures_of_all_loops_are_reported() {
        let run = |text: &'static str| move || Err(io::Error::other(text));
        let loops = [((), run("one")), ((), run("two"))];
        let loops = Loops::start(loops, "origin", false).unwrap();
        let error = loops.join(|()| {}).unwrap_err().to_string();
        assert_eq!(
            error,
            "event loop \"origin 0\": one; event loop \"origin 1\": two"
        );
    }
}
