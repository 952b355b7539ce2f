//! `load URL --against BASELINE`: two servers, interleaved, so that the machine's drift falls out.
//!
//! The test is a sequence of rounds. A round has four short slices, baseline, URL, URL, baseline (ABBA) or the mirror
//! image, drawn by the seed. A drift that is linear within a round cancels, and what repeats with a period of the
//! machine cannot follow the order. The rounds of about a second form a block ([`block`]); a block gives one pair of
//! samples of each metric.
//!
//! Slices are short because the speed of a machine changes on every scale of time: the shorter the slices, the more of
//! that both sides share. Each slice opens its own connections. Connections that are kept through the test stay on
//! the event loop and processor that the server's kernel chose once, and the difference between two sets of
//! connections, more than 1 % of the CPU time per exchange, would count as one of the servers.
//!
//! Each round pins the generator's threads to the next processors. Otherwise the kernel may leave one server beside the
//! generator, and the other away from it, for the whole test, which no order of slices cancels.

mod block;
mod neighbours;
mod slice;

use std::process::ExitCode;
use std::time::Duration;

use fathometer_analysis::compare::{Comparison, Design, Side, screen};
use fathometer_analysis::load::LoopKind;
use fathometer_load::Options;
use fathometer_model::Seed;
use fathometer_sys::{Clock, Interrupt};

use self::block::Block;
use self::neighbours::Neighbours;
use self::slice::{Lengths, measure};
use super::super::compare::{Limits, exit_code};
use super::output::Format;
use super::probe_targets::{Target, name, processes_of};
use super::{LoadArguments, Ready};
use crate::command::{Failure, usage};

/// Default length of the test.
const TIME: Duration = Duration::from_secs(40);
/// The order of the slices of a round; true is the baseline.
const ORDER: [bool; 4] = [true, false, false, true];
/// Blocks of a test that is long enough.
const BLOCKS: u32 = 20;
/// A block is no longer than this, unless one round is.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);

/// Runs the rounds and prints the comparison.
pub fn run(arguments: &LoadArguments, baseline: &str) -> Result<ExitCode, Failure> {
    check(arguments)?;
    let clock = Clock::start();
    let sides = [
        Ready::of(arguments, baseline, clock)?,
        Ready::of(arguments, &arguments.url, clock)?,
    ];
    let test = Test {
        arguments,
        clock,
        programs: programs(&arguments.probe)?,
        interrupt: Interrupt::install()?,
    };
    let neighbours = Neighbours::start(&test.programs);
    let Some(mut rounds) = test.rounds(&sides)? else {
        eprintln!("interrupted");
        return Ok(ExitCode::from(1));
    };
    rounds.contention = neighbours.and_then(|it| it.judge(&test.programs));
    let comparison = compare(arguments, baseline, &test, rounds);
    let is_json = arguments.json || arguments.format == Format::Json;
    match is_json {
        true => print!("{}", comparison.to_json()),
        false => print!("{}", screen::render(&comparison)),
    }
    Ok(exit_code(&comparison))
}

/// Refuses options that do not fit.
fn check(arguments: &LoadArguments) -> Result<(), Failure> {
    if arguments.requests.is_some() || arguments.rate.is_some() || !arguments.save.is_empty() {
        return Err(usage(
            "--against takes -c, -d, --policy, --workload and --probe: a closed loop of a given duration, \
             without --save",
        ));
    }
    if !matches!(arguments.format, Format::Screen | Format::Json) || arguments.report.is_some() {
        return Err(usage("--against prints a screen, or --json"));
    }
    Ok(())
}

/// The first processes of the servers whose CPU time is compared.
fn programs(targets: &[Target]) -> Result<Vec<u32>, Failure> {
    let programs: Vec<u32> = processes_of(targets)?.into_iter().flatten().collect();
    // Reports a process that does not exist.
    programs.iter().try_for_each(|pid| name(*pid).map(drop))?;
    Ok(programs)
}

/// What all slices share.
struct Test<'a> {
    arguments: &'a LoadArguments,
    clock: Clock,
    programs: Vec<u32>,
    interrupt: Interrupt,
}

/// The rounds of a test.
#[derive(Default)]
struct Rounds {
    blocks: Vec<Block>,
    /// The number of valid rounds.
    valid: usize,
    /// Why the others are INVALID, one reason for each.
    invalid: Vec<String>,
    /// How requests were generated.
    kind: Option<LoopKind>,
    /// Why other programs make the test INVALID.
    contention: Option<String>,
}

impl Test<'_> {
    /// Measures until the time is over; `None` if the user interrupted it.
    fn rounds(&self, sides: &[Ready; 2]) -> Result<Option<Rounds>, Failure> {
        let length = self.arguments.duration.unwrap_or(TIME);
        let end = self.clock.now() + length;
        let Some(lengths) = self.lengths(sides)? else {
            return Ok(None);
        };
        let orders = Seed(self.arguments.seed).stream("against.order");
        let block = (length / BLOCKS).min(LONGEST_BLOCK);
        let mut rounds = Rounds::default();
        for number in 0.. {
            let began = self.clock.now();
            if number > 1 && began >= end {
                break;
            }
            let is_mirrored = orders.draw(number) % 2 == 1;
            match self.round(sides, lengths, number, is_mirrored, &mut rounds.kind)? {
                Some(Ok(mut round)) => {
                    round.set_length(self.clock.now().since(began));
                    Block::add(&mut rounds.blocks, round, block);
                    rounds.valid += 1;
                }
                Some(Err(reason)) => rounds.invalid.push(reason),
                None => return Ok(None),
            }
        }
        Block::finish(&mut rounds.blocks, block);
        Ok(Some(rounds))
    }

    /// Measures the slices of a round. The inner error is why it is INVALID; `None` if the user interrupted it.
    fn round(
        &self,
        sides: &[Ready; 2],
        lengths: Lengths,
        number: u64,
        is_mirrored: bool,
        kind: &mut Option<LoopKind>,
    ) -> Result<Option<Result<Block, String>>, Failure> {
        let mut round = Block::default();
        let mut fault = None;
        for is_baseline in ORDER.map(|is_baseline| is_baseline != is_mirrored) {
            let side = usize::from(!is_baseline);
            let mut options = lengths.of(self.options(&sides[side]));
            options.pin = Some(number as usize);
            match measure(options, self.clock, &self.programs, &self.interrupt)? {
                Ok(slice) => {
                    round.add_slice(side, &slice);
                    kind.get_or_insert_with(|| slice.kind());
                }
                Err(reason) => fault = Some(reason),
            }
            if self.interrupt.is_raised() {
                return Ok(None);
            }
        }
        Ok(Some(fault.map_or(Ok(round), Err)))
    }

    /// The lengths of slices, from one long slice of each side; `None` if the user interrupted it.
    fn lengths(&self, sides: &[Ready; 2]) -> Result<Option<Lengths>, Failure> {
        let mut lengths = Lengths::SHORTEST;
        for side in sides {
            let options = Lengths::LONGEST.of(self.options(side));
            let measured = measure(options, self.clock, &self.programs, &self.interrupt)?;
            if self.interrupt.is_raised() {
                return Ok(None);
            }
            let needed = match measured {
                Ok(slice) => Lengths::needed(&slice, &side.planned.plan),
                Err(_) => Lengths::LONGEST,
            };
            lengths = lengths.max(needed);
        }
        Ok(Some(match self.arguments.slice {
            Some(slice) => lengths.with_window(slice),
            None => lengths,
        }))
    }

    fn options(&self, side: &Ready) -> Options {
        side.options(self.arguments)
    }
}

/// The comparison of all valid rounds.
fn compare(
    arguments: &LoadArguments,
    baseline: &str,
    test: &Test<'_>,
    rounds: Rounds,
) -> Comparison {
    let Rounds {
        blocks,
        valid,
        mut invalid,
        kind,
        contention,
    } = rounds;
    let dropped = invalid.len();
    if dropped > 0 {
        eprintln!(
            "{dropped} of {} rounds are INVALID and left out: {}",
            dropped + valid,
            invalid[0]
        );
    }
    // A few rounds are left out on both sides alike.
    if 2 * valid > dropped {
        invalid.clear();
    }
    invalid.truncate(1);
    invalid.extend(contention);
    let has_programs = !test.programs.is_empty();
    let side = |name: &str, place: usize, reasons: &[String]| {
        let noise = kind.as_ref().map(|kind| block::noise(&blocks, place, kind));
        Side {
            name: name.to_owned(),
            invalid: reasons
                .iter()
                .cloned()
                .chain(noise.into_iter().flatten())
                .collect(),
            metrics: block::metrics(&blocks, place, has_programs),
            ..Side::default()
        }
    };
    let before = side(baseline, 0, &[]);
    let after = side(&arguments.url, 1, &invalid);
    let Limits { gate, equal } = &arguments.limits;
    let mut comparison = Comparison::of(&before, &after, Design::Paired, equal / 100.0);
    if let Some(gate) = gate {
        comparison.gate = gate.judge(&comparison);
    }
    comparison
}
