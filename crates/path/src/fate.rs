//! The random events of packet number *n*: functions of (seed, direction, stage, *n*).

use std::fmt;
use std::time::Duration;

use fathometer_model::{Probability, Seed};
use serde::Serialize;

use crate::profile::{Direction, DirectionProfile, Distribution, LossModel};

/// The reason for a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// Random loss.
    Loss,
    /// The packet's number is on the profile's drop list.
    DropList,
    /// Dropped by CoDel at the head of the queue.
    Codel,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 4] = [
        DropReason::QueueFull,
        DropReason::Loss,
        DropReason::DropList,
        DropReason::Codel,
    ];

    /// Returns the reason's name in certificates and captures.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::QueueFull => "queue-full",
            DropReason::Loss => "loss",
            DropReason::DropList => "drop-list",
            DropReason::Codel => "codel",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The random decisions about one packet, made before it reaches a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Fate {
    /// The reason for the loss; `None` if the packet is not lost. The other decisions have no effect on a lost packet.
    pub lost: Option<DropReason>,
    /// The change of the propagation delay, in nanoseconds; negative only with normal jitter.
    pub jitter_ns: i64,
    /// Whether the packet is held back so that later packets overtake it.
    pub held_back: bool,
    /// Whether the packet is delivered twice.
    pub duplicated: bool,
}

/// The random decisions of one direction, in packet order.
#[derive(Debug, Clone)]
pub struct Decisions {
    next: u64,
    /// The state of the Gilbert–Elliott chain.
    bad: bool,
    profile: DirectionProfile,
    /// Whether the profile has no random event and no drop list.
    quiet: bool,
    loss: Seed,
    state: Seed,
    jitter: Seed,
    reorder: Seed,
    duplicate: Seed,
}

/// Returns the fates of the first `packets` packets of a direction. Drops by a queue, which depend on arrival times, are
/// not included.
pub fn predict(
    profile: &DirectionProfile,
    direction: Direction,
    seed: Seed,
    packets: u64,
) -> Vec<Fate> {
    let mut decisions = Decisions::new(profile, direction, seed);
    (0..packets).map(|_| decisions.decide().1).collect()
}

impl Decisions {
    /// Creates the decisions of a direction for a seed, from packet 0.
    pub fn new(profile: &DirectionProfile, direction: Direction, seed: Seed) -> Decisions {
        let stream = |stage: &str| seed.stream(&format!("path.{}.{stage}", direction.name()));
        Decisions {
            next: 0,
            bad: false,
            quiet: profile.loss.is_none()
                && profile.drop_list.is_empty()
                && profile.jitter.is_none()
                && profile.reorder.is_none()
                && profile.duplicate == Probability::ZERO,
            profile: profile.clone(),
            loss: stream("loss"),
            state: stream("loss-state"),
            jitter: stream("jitter"),
            reorder: stream("reorder"),
            duplicate: stream("duplicate"),
        }
    }

    /// Returns the number and the fate of the next packet.
    pub fn decide(&mut self) -> (u64, Fate) {
        let index = self.next;
        self.next += 1;
        let mut fate = Fate {
            lost: None,
            jitter_ns: 0,
            held_back: false,
            duplicated: false,
        };
        if self.quiet {
            return (index, fate);
        }
        if self.lost_by_chance(index) {
            fate.lost = Some(DropReason::Loss);
        }
        if self.profile.drop_list.contains(index) {
            fate.lost = Some(DropReason::DropList);
        }
        if let Some(jitter) = self.profile.jitter {
            fate.jitter_ns = self.jitter(jitter.distribution, jitter.amount, index);
        }
        if let Some(reorder) = self.profile.reorder {
            fate.held_back = happens(reorder.probability, self.reorder, index);
        }
        fate.duplicated = happens(self.profile.duplicate, self.duplicate, index);
        (index, fate)
    }

    fn lost_by_chance(&mut self, index: u64) -> bool {
        match self.profile.loss {
            None => false,
            Some(LossModel::Independent(probability)) => happens(probability, self.loss, index),
            Some(LossModel::GilbertElliott(model)) => {
                let turn = if self.bad { model.r } else { model.p };
                self.bad ^= happens(turn, self.state, index);
                let survival = if self.bad { model.h } else { model.k };
                !happens(survival, self.loss, index)
            }
        }
    }

    fn jitter(&self, distribution: Distribution, amount: Duration, index: u64) -> i64 {
        let amount = amount.as_nanos() as f64;
        match distribution {
            Distribution::Uniform => (self.jitter.uniform(index) * amount) as i64,
            Distribution::Normal => {
                // Sums and products are rounded in the same way on every machine; logarithms may not be.
                let sum: f64 = (0..12)
                    .map(|k| self.jitter.uniform(index.wrapping_mul(12).wrapping_add(k)))
                    .sum();
                ((sum - 6.0) * amount) as i64
            }
        }
    }
}

fn happens(probability: Probability, stream: Seed, index: u64) -> bool {
    stream.uniform(index) < probability.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    const N: u64 = 200_000;

    fn direction(text: &str) -> DirectionProfile {
        let text = format!("name = \"t\"\nsource = \"test\"\n[both]\n{text}");
        Profile::from_toml(&text, "test").unwrap().up
    }

    fn fates(text: &str, seed: u64) -> Vec<Fate> {
        predict(&direction(text), Direction::Up, Seed(seed), N)
    }

    #[test]
    fn the_same_seed_decides_the_same_and_streams_are_apart() {
        let all = "loss = { independent = 0.1 }\nduplicate = 0.1\n\
                   jitter = { distribution = \"uniform\", amount = \"1ms\" }\n\
                   reorder = { probability = 0.1, extra = \"1ms\" }";
        assert_eq!(fates(all, 1), fates(all, 1));
        assert_ne!(fates(all, 1), fates(all, 2));
        let down = predict(&direction(all), Direction::Down, Seed(1), N);
        assert_ne!(fates(all, 1), down);
        // A second impairment does not change the random decisions of the first.
        let alone = fates("loss = { independent = 0.1 }", 1);
        let lost = |fates: &[Fate]| fates.iter().map(|f| f.lost).collect::<Vec<_>>();
        assert_eq!(lost(&alone), lost(&fates(all, 1)));
    }

    #[test]
    fn independent_loss_is_the_seeds_uniform_draw_below_the_probability() {
        let stream = Seed(5).stream("path.up.loss");
        let fates = fates("loss = { independent = 0.02 }", 5);
        for (n, fate) in fates.iter().enumerate() {
            assert_eq!(
                fate.lost.is_some(),
                stream.uniform(n as u64) < 0.02,
                "packet {n}"
            );
        }
        let rate = fates.iter().filter(|f| f.lost.is_some()).count() as f64 / N as f64;
        // Four standard errors of a proportion.
        assert!(
            (rate - 0.02).abs() < 4.0 * (0.02 * 0.98 / N as f64).sqrt(),
            "{rate}"
        );
    }

    #[test]
    fn bursts_have_the_lengths_and_the_rate_of_the_model() {
        let lost: Vec<bool> = fates("loss = { gilbert-elliott = { p = 0.01, r = 0.25 } }", 3)
            .iter()
            .map(|fate| fate.lost.is_some())
            .collect();
        let losses = lost.iter().filter(|&&l| l).count() as f64;
        let bursts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        // The share of packets in the bad state is p / (p + r); a stay in it lasts 1 / r packets on average.
        assert!((losses / N as f64 - 0.01 / 0.26).abs() < 0.003, "{losses}");
        assert!((losses / bursts - 4.0).abs() < 0.3, "{}", losses / bursts);
    }

    #[test]
    fn the_drop_list_names_its_packets() {
        let lost: Vec<u64> = fates("drop-list = [0, \"7-9\"]", 1)
            .iter()
            .enumerate()
            .filter(|(_, fate)| fate.lost == Some(DropReason::DropList))
            .map(|(n, _)| n as u64)
            .collect();
        assert_eq!(lost, [0, 7, 8, 9]);
    }

    #[test]
    fn jitter_has_the_moments_of_its_distribution() {
        let moments = |distribution: &str| {
            let text =
                format!("jitter = {{ distribution = \"{distribution}\", amount = \"1ms\" }}");
            let draws: Vec<f64> = fates(&text, 9)
                .iter()
                .map(|f| f.jitter_ns as f64 / 1e6)
                .collect();
            let mean = draws.iter().sum::<f64>() / N as f64;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64;
            (mean, variance.sqrt())
        };
        let (mean, deviation) = moments("normal");
        assert!(
            mean.abs() < 0.01 && (deviation - 1.0).abs() < 0.01,
            "{mean} {deviation}"
        );
        let (mean, deviation) = moments("uniform");
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        assert!(
            (deviation - (1.0f64 / 12.0).sqrt()).abs() < 0.005,
            "{deviation}"
        );
    }
}
