//! Measures two servers alternately, so that the drift of the machine cancels.
//!
//! The test is a sequence of rounds. A round has four short slices in the order baseline, other, other, baseline (ABBA)
//! or the mirror image, selected at random by the seed. A drift that is linear within a round cancels, and a periodic
//! disturbance cannot stay in phase with the random order. The rounds of about one second form a block (`block.rs`),
//! which gives one pair of samples per metric.
//!
//! Slices are short because the speed of a machine changes on every time scale: the shorter the slices, the more
//! equally both sides are affected. Each slice opens new connections. A connection stays on the event loop and
//! processor that the server's kernel chose at first. Two sets of connections can differ by more than 1 % in CPU time
//! per exchange; with connections that persist through the test, this would appear as a difference between the servers.
//!
//! Each round pins the generator's threads to the next processors. Without this, the kernel may run one
//! server on the generator's processor and the other elsewhere for the whole test, and no order of slices
//! cancels that.

mod block;
mod neighbours;
mod slice;

use std::time::Duration;

use fathometer_analysis::compare::{Comparison, Design, Side};
use fathometer_analysis::load::LoopKind;
use fathometer_model::Seed;
use fathometer_sys::Clock;
use fathometer_workload::plan::Plan;

use self::block::Block;
use self::neighbours::Neighbours;
use self::slice::{Lengths, measure};
use crate::{LoadError, Options};

/// The order of the slices of a round; true is the baseline.
const ORDER: [bool; 4] = [true, false, false, true];
/// The target number of blocks of a test.
const BLOCKS: u32 = 20;
/// The maximum length of a block, unless a single round is longer.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);

/// A server of the test.
pub struct Server<'a> {
    /// The server's name in the comparison.
    pub name: &'a str,
    /// The requests to the server.
    pub plan: &'a Plan,
    /// The options of a load test of the server; lengths and processors are set for each slice.
    pub options: &'a dyn Fn() -> Options,
}

/// A test of two servers.
pub struct Test<'a> {
    /// The baseline and the other server, in this order.
    pub servers: [Server<'a>; 2],
    /// The root processes (IDs) of the servers. Their CPU time, including descendants, is compared. If empty, CPU time
    /// is not compared.
    pub programs: &'a [u32],
    /// The length of the test.
    pub length: Duration,
    /// The measured window of each slice; `None`: derived from the response times.
    pub slice: Option<Duration>,
    /// The seed for the order of slices in each round.
    pub seed: Seed,
}

/// The rounds of a test.
#[derive(Debug, Default)]
pub struct Rounds {
    blocks: Vec<Block>,
    /// The number of valid rounds.
    valid: usize,
    /// The reasons why rounds are INVALID, one for each such round.
    invalid: Vec<String>,
    /// The kind of loop that generated the requests.
    kind: Option<LoopKind>,
    /// The reason if the CPU time of other programs makes the test INVALID.
    contention: Option<String>,
}

impl Test<'_> {
    /// Measures until the end of the test; `None` if the test was interrupted.
    ///
    /// # Errors If a slice fails.
    pub fn measure(
        &self,
        clock: Clock,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Rounds>, LoadError> {
        let neighbours = Neighbours::start(self.programs);
        let mut rounds = self.rounds(clock, interrupted)?;
        if let Some(rounds) = &mut rounds {
            rounds.contention = neighbours.and_then(|it| it.judge(self.programs));
        }
        Ok(rounds)
    }

    fn rounds(
        &self,
        clock: Clock,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Rounds>, LoadError> {
        let end = clock.now() + self.length;
        let Some(lengths) = self.lengths(clock, interrupted)? else {
            return Ok(None);
        };
        let orders = self.seed.stream("against.order");
        let block = (self.length / BLOCKS).min(LONGEST_BLOCK);
        let mut rounds = Rounds::default();
        for number in 0.. {
            let began = clock.now();
            if number > 1 && began >= end {
                break;
            }
            let is_mirrored = orders.draw(number) % 2 == 1;
            let mut round = Block::default();
            let mut fault = None;
            for is_baseline in ORDER.map(|is_baseline| is_baseline != is_mirrored) {
                let side = usize::from(!is_baseline);
                let mut options = (self.servers[side].options)();
                options.pin = Some(number as usize);
                match measure(lengths, options, clock, self.programs, interrupted)? {
                    Ok(slice) => {
                        round.add_slice(side, &slice);
                        rounds.kind.get_or_insert_with(|| slice.kind());
                    }
                    Err(reason) => fault = Some(reason),
                }
                if interrupted() {
                    return Ok(None);
                }
            }
            match fault {
                None => {
                    round.set_length(clock.now().since(began));
                    Block::add(&mut rounds.blocks, round, block);
                    rounds.valid += 1;
                }
                Some(reason) => rounds.invalid.push(reason),
            }
        }
        Block::finish(&mut rounds.blocks, block);
        Ok(Some(rounds))
    }

    /// Computes the lengths of slices from one long slice of each side; `None` if the test was interrupted.
    fn lengths(
        &self,
        clock: Clock,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Lengths>, LoadError> {
        let mut lengths = Lengths::SHORTEST;
        for server in &self.servers {
            let options = (server.options)();
            let measured = measure(Lengths::LONGEST, options, clock, self.programs, interrupted)?;
            if interrupted() {
                return Ok(None);
            }
            let needed = match measured {
                Ok(slice) => Lengths::needed(&slice, server.plan),
                Err(_) => Lengths::LONGEST,
            };
            lengths = lengths.max(needed);
        }
        Ok(Some(match self.slice {
            Some(slice) => lengths.with_window(slice),
            None => lengths,
        }))
    }

    /// Compares the servers over all valid rounds. A change within `equal` (a share) counts as no change.
    pub fn compare(&self, rounds: Rounds, equal: f64) -> Comparison {
        let dropped = rounds.invalid.len();
        let Rounds {
            blocks,
            valid,
            mut invalid,
            kind,
            contention,
        } = rounds;
        // A few rounds may be excluded, because both sides lose the same number of slices.
        if 2 * valid > dropped {
            invalid.clear();
        }
        invalid.truncate(1);
        invalid.extend(contention);
        let has_programs = !self.programs.is_empty();
        let side = |place: usize, reasons: &[String]| {
            let noise = kind.as_ref().map(|kind| block::noise(&blocks, place, kind));
            Side {
                name: self.servers[place].name.to_owned(),
                invalid: reasons
                    .iter()
                    .cloned()
                    .chain(noise.into_iter().flatten())
                    .collect(),
                metrics: block::metrics(&blocks, place, has_programs),
                ..Side::default()
            }
        };
        Comparison::of(&side(0, &[]), &side(1, &invalid), Design::Paired, equal)
    }
}

impl Rounds {
    /// Returns a message with the number of INVALID rounds, which are excluded, and the first reason; `None` if all
    /// rounds are valid.
    pub fn left_out(&self) -> Option<String> {
        let dropped = self.invalid.len();
        let reason = self.invalid.first()?;
        Some(format!(
            "{dropped} of {} rounds are INVALID and excluded: {reason}",
            dropped + self.valid
        ))
    }
}
