//! Sums over the slices of a side, for rounds and for blocks of rounds. Each block gives one sample per metric.

use std::time::Duration;

use fathometer_analysis::compare::{Better, Metric, Scale};
use fathometer_analysis::load::{Generator, LoopKind, Window, WorkerHealth};
use fathometer_analysis::statistics::Resolution;

use super::slice::Slice;
use crate::health::examine_sum;

/// Consecutive rounds that give one pair of samples.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The sums of the baseline and of the other server, in this order.
    sides: [Sums; 2],
    /// The time since the block's first slice began.
    length: Duration,
}

impl Block {
    /// Adds a round. If the last block is shorter than `length`, the round is added to it; otherwise it becomes a new
    /// block.
    pub(super) fn add(blocks: &mut Vec<Block>, round: Block, length: Duration) {
        match blocks.last_mut().filter(|block| block.length < length) {
            Some(block) => block.merge(&round),
            None => blocks.push(round),
        }
    }

    /// Merges the last block into the previous block if it is shorter than half of `length`.
    pub(super) fn finish(blocks: &mut Vec<Block>, length: Duration) {
        if blocks.len() > 1
            && let Some(last) = blocks.pop_if(|block| 2 * block.length < length)
            && let Some(block) = blocks.last_mut()
        {
            block.merge(&last);
        }
    }

    /// Adds a slice of a side: 0 is the baseline.
    pub(super) fn add_slice(&mut self, side: usize, slice: &Slice) {
        self.sides[side].add(slice);
    }

    /// Sets the time since the first slice began.
    pub(super) fn set_length(&mut self, length: Duration) {
        self.length = length;
    }

    fn merge(&mut self, other: &Block) {
        for (sums, others) in self.sides.iter_mut().zip(&other.sides) {
            sums.merge(others);
        }
        self.length += other.length;
    }
}

/// Sums over slices.
#[derive(Debug, Clone, Default)]
struct Sums {
    /// The figures of the measured windows that a comparison uses.
    window: Window,
    /// CPU time of the generator.
    generator_cpu: Duration,
    /// The time in which the busiest thread of each slice was not waiting.
    busy: Duration,
    /// The share of steal multiplied by the lengths of the slices.
    stolen: Duration,
    /// CPU time of the servers.
    server_cpu: Duration,
    /// Exchanges in the time to which `server_cpu` applies.
    server_exchanges: f64,
}

impl Sums {
    fn add(&mut self, slice: &Slice) {
        let measured = &slice.result.measured;
        let generator = &slice.result.generator;
        let workers = generator.workers.iter().map(|worker| worker.busy);
        let mut window = Window {
            duration: measured.duration,
            counts: measured.counts.clone(),
            ended: measured.ended,
            ..Window::default()
        };
        window.latency.corrected.merge(&measured.latency.corrected);
        window.latency.send_lag.merge(&measured.latency.send_lag);
        let length = measured.duration;
        let rate = measured.ended.completed as f64 / length.as_secs_f64();
        let server = slice.server.as_ref();
        self.merge(&Sums {
            window,
            generator_cpu: generator.cpu_user + generator.cpu_system,
            busy: length.mul_f64(workers.fold(0.0, f64::max)),
            stolen: length.mul_f64(generator.steal.clamp(0.0, 1.0)),
            server_cpu: server.map(|used| used.cpu).unwrap_or_default(),
            // The CPU time may be read late, so the number of exchanges is the rate times the time between the two
            // readings.
            server_exchanges: server.map_or(0.0, |used| rate * used.length.as_secs_f64()),
        });
    }

    fn merge(&mut self, other: &Sums) {
        let (window, more) = (&mut self.window, &other.window);
        window.duration += more.duration;
        window.ended.completed += more.ended.completed;
        window.ended.failed += more.ended.failed;
        window.counts.completed += more.counts.completed;
        window.counts.unfinished += more.counts.unfinished;
        for (status, count) in &more.counts.statuses {
            *window.counts.statuses.entry(*status).or_default() += count;
        }
        for (failure, count) in &more.counts.failures {
            *window.counts.failures.entry(*failure).or_default() += count;
        }
        window.latency.corrected.merge(&more.latency.corrected);
        window.latency.send_lag.merge(&more.latency.send_lag);
        self.generator_cpu += other.generator_cpu;
        self.busy += other.busy;
        self.stolen += other.stolen;
        self.server_cpu += other.server_cpu;
        self.server_exchanges += other.server_exchanges;
    }

    fn rate(&self) -> f64 {
        self.window.ended.completed as f64 / self.window.duration.as_secs_f64()
    }

    /// Returns a percentile of the latency, in ms.
    fn percentile(&self, quantile: f64) -> f64 {
        let time = self.window.latency.corrected.quantile(quantile);
        time.map_or(f64::NAN, |time| 1e3 * time.as_secs_f64())
    }

    fn mean(&self) -> f64 {
        let mean = self.window.latency.corrected.mean();
        mean.map_or(f64::NAN, |time| 1e3 * time.as_secs_f64())
    }

    /// Returns the generator's CPU time per exchange, in µs.
    fn generator_cost(&self) -> f64 {
        let ended = &self.window.ended;
        1e6 * self.generator_cpu.as_secs_f64() / (ended.completed + ended.failed) as f64
    }

    /// Returns the servers' CPU time per exchange, in µs.
    fn server_cost(&self) -> f64 {
        1e6 * self.server_cpu.as_secs_f64() / self.server_exchanges
    }

    /// Returns the number of exchanges that ended or were given up.
    fn attempts(&self) -> u64 {
        let counts = &self.window.counts;
        counts.completed + counts.failed() + counts.unfinished
    }

    fn errors(&self) -> f64 {
        let counts = &self.window.counts;
        (counts.errors() + counts.unfinished) as f64 / self.attempts().max(1) as f64
    }
}

/// Returns the reasons for which noise makes a side INVALID, over all of its slices.
pub(super) fn noise(blocks: &[Block], side: usize, kind: &LoopKind) -> Vec<String> {
    let mut all = Sums::default();
    blocks
        .iter()
        .for_each(|block| all.merge(&block.sides[side]));
    let share = |time: Duration| time.as_secs_f64() / all.window.duration.as_secs_f64();
    let generator = Generator {
        workers: vec![WorkerHealth {
            busy: share(all.busy),
            ..WorkerHealth::default()
        }],
        steal: share(all.stolen),
        ..Generator::default()
    };
    match all.window.duration.is_zero() {
        // Without a valid round there is nothing to examine; the missing rounds are reported elsewhere.
        true => Vec::new(),
        false => examine_sum(&all.window, &generator, kind).reasons,
    }
}

/// Returns the metrics of a side, each with one sample per block. `has_programs`: the servers' CPU time was read.
pub(super) fn metrics(blocks: &[Block], side: usize, has_programs: bool) -> Vec<Metric> {
    let of = |value: &dyn Fn(&Sums) -> f64| -> Vec<f64> {
        let blocks = blocks.iter();
        blocks.map(|block| value(&block.sides[side])).collect()
    };
    let mut metrics = vec![metric("rate", "/s", Better::Higher, of(&Sums::rate))];
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let samples = of(&|sums| sums.percentile(quantile));
        metrics.push(metric(name, "ms", Better::Lower, samples));
    }
    metrics.push(metric("mean", "ms", Better::Lower, of(&Sums::mean)));
    let cpu = of(&Sums::generator_cost);
    metrics.push(metric("generator-cpu", "µs/exchange", Better::Neither, cpu));
    let cpu = of(&Sums::server_cost);
    // A server that uses no CPU time in a block is not one of `programs`.
    if has_programs && cpu.iter().all(|cost| cost.is_finite() && *cost > 0.0) {
        metrics.push(metric("server-cpu", "µs/exchange", Better::Lower, cpu));
    }
    let attempts: u64 = blocks
        .iter()
        .map(|block| block.sides[side].attempts())
        .sum();
    metrics.push(Metric {
        scale: Scale::Difference,
        resolution: 3.0 / attempts.max(1) as f64,
        instrument: Resolution {
            absolute: 1.0 / attempts.max(1) as f64,
            relative: 0.0,
        },
        ..metric("errors", "", Better::Lower, of(&Sums::errors))
    });
    metrics
}

fn metric(name: &str, unit: &'static str, better: Better, samples: Vec<f64>) -> Metric {
    const WHY: &str = "fewer than two blocks of valid rounds";
    Metric {
        is_series: true,
        ..Metric::ratio(name, unit, better, samples, WHY)
    }
}
