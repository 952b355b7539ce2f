//! The global sequence of pages, with the temporal locality of requests that a server receives.
//!
//! Pages are in a stack, ordered by their last use. Each step draws a distance, chooses a page near that distance, and
//! moves the page to the top. The probability of a page is in proportion to its remaining requests. The realised
//! distance differs from the drawn distance, because the choice prefers popular pages, which are near the top. Pilot
//! sequences therefore calibrate the law of the drawn distances until the realised distances are near the target.

use fathometer_model::Seed;

use crate::distribution::{Law, open_uniform};
use crate::plan::PageId;

use super::pacing::Pacing;
use super::parameters::Locality;
use super::stack::Stack;
use super::stack_distances::StackDistances;
use super::target::Target;

/// The sequence, and facts about its generation.
pub(super) struct Sequence {
    pub(super) pages: Vec<PageId>,
    pub(super) distances: StackDistances,
    /// The number of times that each distance was drawn.
    pub(super) drawn: Vec<u64>,
    pub(super) facts: Facts,
}

/// Facts about the generation of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Facts {
    /// The law from which distances were drawn.
    pub(super) draw: Law,
    /// Number of pilot sequences that calibrated the law.
    pub(super) pilots: u32,
    /// Upper bound of the drawn distances.
    pub(super) reach: usize,
    /// The number of page requests that the popularity implies: the length of the sequence including its discarded end.
    pub(super) steps: u64,
    /// The number of pages that are requested only in a part of the sequence.
    pub(super) bursts: u64,
}

/// Generates the sequence. `references` is the number of requests for each page. `progress` is called with the
/// completed share of the steps.
///
/// In two cases all pages are requested throughout the sequence, as in the original program: if there are at most
/// `reach` pages and at most the share [`DISCARDED`] of the sequence is discarded, or if there are at most `reach` and
/// at most `at_once` pages. Otherwise each unpopular page is requested only in a part of the sequence.
pub(super) fn sequence(
    locality: &Locality,
    references: &[u32],
    seed: Seed,
    mut progress: impl FnMut(f64),
) -> Sequence {
    let asked: u64 = references
        .iter()
        .map(|&count| u64::from(count.min(1)))
        .sum();
    if asked <= u64::from(locality.reach) {
        let pacing = Pacing::throughout(references, seed);
        let made = with_pacing(locality, &pacing, references, seed, &mut progress);
        let discarded = pacing.steps - made.pages.len() as u64;
        if discarded as f64 <= DISCARDED * pacing.steps as f64
            || asked <= u64::from(locality.at_once)
        {
            return made;
        }
    }
    let pacing = Pacing::new(references, locality.at_once, locality.reach, seed);
    with_pacing(locality, &pacing, references, seed, &mut progress)
}

/// The largest share of a sequence that may be discarded. Above it, unpopular pages are requested only in a part of the
/// sequence. The original program discards 0.029.
const DISCARDED: f64 = 0.04;

fn with_pacing(
    locality: &Locality,
    pacing: &Pacing,
    references: &[u32],
    seed: Seed,
    progress: &mut impl FnMut(f64),
) -> Sequence {
    const STEPS_A_REPORT: u64 = 1 << 16;
    let steps = pacing.steps;
    let (draw, pilots) = match locality.draw {
        Some(law) => (
            Draw {
                law,
                window: locality.window,
            },
            0,
        ),
        None if steps == 0 => (
            Draw {
                law: locality.distance,
                window: locality.window,
            },
            0,
        ),
        None => calibrate(locality, pacing, references, seed),
    };
    let mut walk = Walk::new(draw, pacing, references, seed);
    let mut drawn = vec![0u64; pacing.reach];
    let mut pages = Vec::with_capacity(steps as usize);
    let mut end = End::new(steps);
    while let Some(step) = walk.step() {
        pages.push(PageId(step.page));
        if let Some(distance) = step.drawn {
            drawn[distance] += 1;
        }
        if end.add(step) {
            break;
        }
        if walk.number.is_multiple_of(STEPS_A_REPORT) {
            progress(walk.number as f64 / steps as f64);
        }
    }
    let mut distances = walk.distances;
    for step in end.discarded() {
        pages.pop();
        match step.realised {
            Some(distance) => distances.counts[distance] -= 1,
            None => distances.first -= 1,
        }
        if let Some(distance) = step.drawn {
            drawn[distance] -= 1;
        }
    }
    distances.trim();
    Sequence {
        pages,
        distances,
        drawn,
        facts: Facts {
            draw: draw.law,
            pilots,
            reach: pacing.reach,
            steps,
            bursts: pacing.births.len() as u64,
        },
    }
}

/// The parameters of the choice of the next page.
#[derive(Debug, Clone, Copy)]
struct Draw {
    law: Law,
    window: u32,
}

/// The largest number of pilot sequences, and the number of steps of each.
const PILOTS: u32 = 8;
const PILOT_STEPS: u64 = 60_000;
/// The search ends with a pilot whose deviation from the target is at most this value.
const NEAR: f64 = 0.02;
/// The original program's law is used unchanged if the deviation of its pilot is at most this value. Sites of the
/// original's size differ by as much, depending on whether the most popular files are pages.
const CONFIRMED: f64 = 0.05;

/// Finds the parameters whose pilot sequence is nearest to the target. Returns them and the number of pilots.
fn calibrate(locality: &Locality, pacing: &Pacing, references: &[u32], seed: Seed) -> (Draw, u32) {
    let target = Target::new(locality.setting, locality.distance, pacing.reach as f64);
    // If all pages are requested throughout, the pilot is a scaled-down sequence in which each page has its
    // share of the requests. Otherwise the pilot is the beginning of the sequence.
    let small = (pacing.births.is_empty() && pacing.steps > PILOT_STEPS)
        .then(|| pacing.in_small(references, PILOT_STEPS));
    let (pacing, references) = match &small {
        Some((pacing, references)) => (pacing, &references[..]),
        None => (pacing, references),
    };
    let ((mut mu, mut sigma), mut window) = match pacing.births.is_empty() {
        true => (locality.setting.draw(), f64::from(locality.window)),
        false => locality.setting.paced_draw(),
    };
    let seed = seed.stream("surge.locality.pilot");
    let mut best: Option<(f64, Draw)> = None;
    let mut pilots = 0;
    while pilots < PILOTS {
        let draw = Draw {
            law: Law::Lognormal10 { mu, sigma },
            window: window.round() as u32,
        };
        let mut walk = Walk::new(draw, pacing, references, seed.child(u64::from(pilots)));
        // The end is excluded, because popular pages may be exhausted there.
        let most = PILOT_STEPS.min(pacing.steps - pacing.steps / 20);
        while walk.number < most && walk.step().is_some() {}
        pilots += 1;
        let distance = target.distance(&walk.distances).size();
        if best.is_none_or(|(nearest, _)| distance < nearest) {
            best = Some((distance, draw));
        }
        if distance <= NEAR || pilots == 1 && distance <= CONFIRMED && pacing.births.is_empty() {
            break;
        }
        let logarithm = |distance: f64| libm::log10(distance + 0.5);
        let realised = [0.25, 0.5, 0.75].map(|p| walk.distances.quantile(p));
        let [Some(low), Some(middle), Some(high)] = realised else {
            break;
        };
        let [low, middle, high] = [low, middle, high].map(|distance| logarithm(distance as f64));
        let wanted = [0.25, 0.5, 0.75].map(|p| logarithm(target.quantile(p)));
        mu = (mu + STEP * (wanted[1] - middle)).clamp(-1.0, 8.0);
        let spread = (wanted[2] - wanted[0]).max(0.05) / (high - low).max(0.05);
        sigma = (sigma * libm::pow(spread, STEP)).clamp(0.05, 2.0);
        // A wide window makes short distances too long. A window that contains only popular pages makes them too short.
        let nearer = libm::pow(10.0, STEP * (wanted[0] - low));
        window = (window * nearer).clamp(5.0, 200.0);
    }
    let draw = best.map(|(_, draw)| draw);
    let law = Law::Lognormal10 { mu, sigma };
    let window = locality.window;
    (draw.unwrap_or(Draw { law, window }), pilots)
}

/// The share of a pilot's deviation (in logarithms) that the next pilot corrects.
const STEP: f64 = 0.7;

/// One request of a page.
#[derive(Debug, Clone, Copy)]
struct Step {
    page: u32,
    /// The drawn distance; `None` at the first request of a page that is requested only in a part of the sequence.
    drawn: Option<usize>,
    /// The realised distance; `None` for the first request of a page.
    realised: Option<usize>,
}

/// Generates a sequence step by step.
struct Walk<'a> {
    pacing: &'a Pacing,
    references: &'a [u32],
    window: usize,
    stack: Stack,
    seen: Vec<bool>,
    born: usize,
    number: u64,
    drawn: WholeNumbers,
    distances: StackDistances,
    distance_seed: Seed,
    choice_seed: Seed,
}

impl<'a> Walk<'a> {
    fn new(draw: Draw, pacing: &'a Pacing, references: &'a [u32], seed: Seed) -> Walk<'a> {
        let left = |page: &u32| references[*page as usize];
        let left: Vec<u32> = pacing.first.iter().map(left).collect();
        let paced = left.iter().map(|&count| pacing.paced(count)).collect();
        let stack = Stack::new(pacing.first.clone(), left, paced);
        Walk {
            pacing,
            references,
            window: draw.window as usize,
            drawn: WholeNumbers::new(draw.law, pacing.reach),
            stack,
            seen: vec![false; references.len()],
            born: 0,
            number: 0,
            distances: StackDistances::default(),
            distance_seed: seed.stream("surge.locality.distance"),
            choice_seed: seed.stream("surge.locality.choice"),
        }
    }
}

impl Walk<'_> {
    /// Returns the next request; `None` if no page has remaining requests.
    fn step(&mut self) -> Option<Step> {
        let born = self.pacing.births.get(self.born);
        let turn = born.filter(|&&(birth, _)| u64::from(birth) <= self.number);
        let step = match turn {
            Some(&(_, page)) => self.bear(page),
            None => match self.take() {
                Some(step) => step,
                None => self.bear(born?.1),
            },
        };
        self.number += 1;
        if let Some(distance) = step.realised {
            let counts = &mut self.distances.counts;
            if distance >= counts.len() {
                counts.resize(distance + 1, 0);
            }
            counts[distance] += 1;
        } else {
            self.distances.first += 1;
        }
        Some(step)
    }

    fn bear(&mut self, page: u32) -> Step {
        self.born += 1;
        self.seen[page as usize] = true;
        self.stack.push(page, self.references[page as usize] - 1);
        Step {
            page,
            drawn: None,
            realised: None,
        }
    }

    fn take(&mut self) -> Option<Step> {
        let drawn = self
            .drawn
            .at(open_uniform(self.distance_seed, self.number))?;
        let uniform = self.choice_seed.uniform(self.number);
        let weighing = self.pacing.weighing(self.number);
        let taken = self.stack.take(drawn, self.window, weighing, uniform)?;
        let seen = std::mem::replace(&mut self.seen[taken.page as usize], true);
        Some(Step {
            page: taken.page,
            drawn: Some(drawn),
            realised: seen.then_some(taken.distance),
        })
    }
}

/// A law rounded down to whole numbers and redrawn at and above a limit. It is stored as its distribution function,
/// with an index into this function for many equal shares. The lookup is faster than the law's quantile function, and
/// gives the same values except for rounding.
struct WholeNumbers {
    at_most: Vec<f64>,
    guide: Vec<u32>,
}

impl WholeNumbers {
    const GUIDES: usize = 4096;

    fn new(law: Law, limit: usize) -> WholeNumbers {
        let within = law.cdf(limit as f64);
        let at_most: Vec<f64> = (1..=limit)
            .map(|next| law.cdf(next as f64) / within)
            .collect();
        let guide = (0..WholeNumbers::GUIDES).map(|n| {
            let share = n as f64 / WholeNumbers::GUIDES as f64;
            at_most.partition_point(|&p| p <= share) as u32
        });
        WholeNumbers {
            guide: guide.collect(),
            at_most,
        }
    }

    /// Returns the quantile of `p` from [0, 1); `None` if the limit is 0.
    fn at(&self, p: f64) -> Option<usize> {
        let last = self.at_most.len().checked_sub(1)?;
        let from =
            self.guide[(p * WholeNumbers::GUIDES as f64) as usize % WholeNumbers::GUIDES] as usize;
        let more = self
            .at_most
            .iter()
            .skip(from)
            .take_while(|&&at_most| at_most <= p);
        Some((from + more.count()).min(last))
    }
}

/// Finds the point at which a sequence degenerates: popular pages are exhausted, and a few pages are repeated in long
/// runs.
///
/// The sequence is divided into blocks. A block is degenerate if its share of repeats (requests for the same page as
/// the request before) exceeds a limit by more than three standard deviations. The limit is twice the share of repeats
/// in all sound blocks, plus two percentage points. Three consecutive degenerate blocks end the sequence at the
/// beginning of the first of them. At the end of the sequence, fewer are sufficient.
struct End {
    block: u64,
    /// The numbers of repeats and of requests in the sound blocks.
    sound: (u64, u64),
    repeats: u64,
    in_block: u64,
    degenerate: u32,
    /// The steps since the last sound block.
    suspect: Vec<Step>,
}

impl End {
    /// Number of blocks of a sequence, and the length of the shortest block.
    const BLOCKS: u64 = 200;
    const SHORTEST: u64 = 200;
    /// The number of consecutive degenerate blocks that end a sequence.
    const ROW: u32 = 3;

    fn new(steps: u64) -> End {
        End {
            block: (steps / End::BLOCKS).max(End::SHORTEST),
            sound: (0, 0),
            repeats: 0,
            in_block: 0,
            degenerate: 0,
            suspect: Vec::new(),
        }
    }

    /// Counts a step. Returns whether the sequence ends here.
    fn add(&mut self, step: Step) -> bool {
        self.suspect.push(step);
        self.in_block += 1;
        self.repeats += u64::from(step.realised == Some(0));
        self.in_block == self.block && self.judge()
    }

    fn judge(&mut self) -> bool {
        let n = self.in_block as f64;
        let usual = self.sound.0 as f64 / self.sound.1.max(1) as f64;
        let allowed = (2.0 * usual + 0.02) * n;
        if self.sound.1 > 0 && self.repeats as f64 > allowed + 3.0 * allowed.sqrt() {
            self.degenerate += 1;
        } else {
            self.degenerate = 0;
            self.sound.0 += self.repeats;
            self.sound.1 += self.in_block;
            self.suspect.clear();
        }
        (self.repeats, self.in_block) = (0, 0);
        self.degenerate == End::ROW
    }

    /// Returns the discarded steps, the last one first.
    fn discarded(mut self) -> impl Iterator<Item = Step> {
        // The last block may be incomplete.
        if self.in_block > 0 && self.degenerate < End::ROW {
            self.judge();
        }
        self.suspect.into_iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Parameters;
    use super::*;

    fn small() -> (Vec<u32>, Sequence) {
        let references: Vec<u32> = (1..=300u32).map(|rank| 200 / rank).collect();
        let law = Parameters::barford98(1, 1).locality;
        let sequence = sequence(&law, &references, Seed(9), |_| ());
        (references, sequence)
    }

    #[test]
    fn the_sequence_requests_no_page_more_often_than_its_references() {
        let (references, sequence) = small();
        let total: u32 = references.iter().sum();
        let discarded = total as usize - sequence.pages.len();
        let mut left = references;
        for page in &sequence.pages {
            left[page.0 as usize] -= 1;
        }
        assert_eq!(left.iter().sum::<u32>() as usize, discarded);
    }

    #[test]
    fn distances_are_those_of_a_plain_stack() {
        let (_, sequence) = small();
        let mut stack: Vec<u32> = Vec::new();
        let mut wanted = StackDistances::default();
        for page in &sequence.pages {
            match stack.iter().rev().position(|&other| other == page.0) {
                Some(distance) => {
                    let length = wanted.counts.len().max(distance + 1);
                    wanted.counts.resize(length, 0);
                    wanted.counts[distance] += 1;
                    stack.remove(stack.len() - 1 - distance);
                }
                None => wanted.first += 1,
            }
            stack.push(page.0);
        }
        assert_eq!(sequence.distances, wanted);
    }

    #[test]
    fn whole_numbers_are_the_laws_quantiles_rounded_down() {
        let law = Law::Lognormal10 {
            mu: 1.5,
            sigma: 0.8,
        };
        let within = law.cdf(3100.0);
        let numbers = WholeNumbers::new(law, 3100);
        for n in 0..100_000 {
            let p = Seed(3).uniform(n);
            assert_eq!(
                numbers.at(p),
                Some(law.quantile(p * within) as usize),
                "{p}"
            );
        }
        assert_eq!(numbers.at(0.0), Some(0));
        assert_eq!(numbers.at(1.0 - f64::EPSILON / 2.0), Some(3099));
        assert_eq!(WholeNumbers::new(law, 0).at(0.5), None);
    }

    #[test]
    fn quantiles_and_misses_follow_from_the_counts() {
        let distances = StackDistances {
            counts: vec![4, 0, 3, 1],
            first: 2,
        };
        assert_eq!(distances.quantile(0.5), Some(0));
        assert_eq!(distances.quantile(0.75), Some(2));
        assert_eq!(distances.quantile(1.0), Some(3));
        let ratios = [0, 1, 2, 3, 4, 99].map(|pages| distances.miss_ratio(pages));
        assert_eq!(ratios, [1.0, 0.6, 0.6, 0.3, 0.2, 0.2]);
        assert_eq!(StackDistances::default().quantile(0.5), None);
        assert_eq!(StackDistances::default().miss_ratio(3), 0.0);
    }
}
