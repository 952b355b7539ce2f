//! Times of exchanges and pages, counted in batches.

use super::super::nanos::Nanos;
use super::super::timeline::Part;
use super::window::WindowTally;

/// The number of samples in a batch.
const SAMPLES: usize = 512;

/// Times of one event, and the window to which the event belongs.
pub(super) struct Sample {
    window: u8,
    kind: Kind,
    times: [Nanos; 4],
}

enum Kind {
    Sent,
    Completed,
    Page,
}

impl Sample {
    /// Returns the sample of a request that was sent.
    pub(super) fn sent(window: usize, queue: Nanos, send_lag: Nanos) -> Sample {
        Sample {
            window: window as u8,
            kind: Kind::Sent,
            times: [queue, send_lag, Nanos::ZERO, Nanos::ZERO],
        }
    }

    /// Creates the sample of a complete response: its corrected and uncorrected latency, the time to its first byte,
    /// and the time from its first byte to its end.
    pub(super) fn completed(
        window: usize,
        (corrected, uncorrected): (Nanos, Nanos),
        (first_byte, transfer): (Nanos, Nanos),
    ) -> Sample {
        Sample {
            window: window as u8,
            kind: Kind::Completed,
            times: [corrected, uncorrected, first_byte, transfer],
        }
    }

    /// Returns the sample of a page that has ended.
    pub(super) fn page(window: usize, time: Nanos) -> Sample {
        Sample {
            window: window as u8,
            kind: Kind::Page,
            times: [time, Nanos::ZERO, Nanos::ZERO, Nanos::ZERO],
        }
    }
}

/// Samples that are not counted yet. A histogram that is used once per exchange is evicted from the processor's caches
/// between two uses, so samples are counted in batches.
pub(super) struct Samples(Vec<Sample>);

impl Samples {
    /// Creates an empty batch, with memory for all its samples.
    pub(super) fn with_room() -> Samples {
        Samples(Vec::with_capacity(SAMPLES))
    }

    /// Adds a sample. Returns whether the batch is full and must be counted now.
    #[inline]
    pub(super) fn add(&mut self, sample: Sample) -> bool {
        self.0.push(sample);
        self.0.len() == SAMPLES
    }

    /// Counts all samples, in their windows and in the current interval.
    pub(super) fn count(&mut self, windows: &mut [WindowTally; 3], part: &mut Part) {
        for sample in &self.0 {
            let latency = &mut windows[usize::from(sample.window)].latency;
            let [one, two, three, four] = sample.times.map(|time| time.0);
            match sample.kind {
                Kind::Sent => {
                    latency.queue.record_nanos(one);
                    latency.send_lag.record_nanos(two);
                    part.send_lag.record_nanos(two);
                }
                Kind::Completed => {
                    latency.corrected.record_nanos(one);
                    part.latency.record_nanos(one);
                    latency.uncorrected.record_nanos(two);
                    latency.first_byte.record_nanos(three);
                    latency.transfer.record_nanos(four);
                }
                Kind::Page => latency.page.record_nanos(one),
            }
        }
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::timeline::Spares;
    use super::*;

    #[test]
    fn samples_are_counted_in_their_window_when_there_are_enough() {
        let mut windows = [(); 3].map(|()| WindowTally::default());
        let mut part = Spares::new(1, Duration::from_secs(1)).take(0);
        let mut samples = Samples::with_room();
        let mut counted = 0;
        for number in 0..2 * SAMPLES as u64 {
            let time = Nanos(100 + number);
            let sample = match number % 4 {
                0 => Sample::sent(1, time, time),
                1 | 2 => Sample::completed(1, (time, time), (time, time)),
                _ => Sample::page(2, time),
            };
            if samples.add(sample) {
                samples.count(&mut windows, &mut part);
                counted += 1;
            }
        }
        assert_eq!(counted, 2);
        let latency = &windows[1].latency;
        let n = |all: &[&fathometer_analysis::load::Distribution]| -> Vec<u64> {
            all.iter().map(|times| times.count()).collect()
        };
        assert_eq!(
            n(&[&latency.queue, &latency.send_lag, &part.send_lag]),
            [256; 3]
        );
        let responses = [
            &latency.corrected,
            &latency.uncorrected,
            &latency.first_byte,
        ];
        assert_eq!(n(&responses), [512; 3]);
        assert_eq!(n(&[&latency.transfer, &part.latency]), [512; 2]);
        assert_eq!(n(&[&latency.page, &windows[2].latency.page]), [0, 256]);
        samples.count(&mut windows, &mut part);
        assert_eq!(windows[2].latency.page.count(), 256, "each is counted once");
    }
}
