//! Random numbers from a seed, in sequence.

use fathometer_model::Seed;

/// Sequential random choices from one seed. They are for content, where choices have the order of the text. Random
/// decisions about packets or times use a number as key instead.
#[derive(Debug, Clone)]
pub struct Draws {
    seed: Seed,
    next: u64,
}

impl Draws {
    /// Creates a sequence of choices from `seed`, starting with the first number.
    pub fn new(seed: Seed) -> Draws {
        Draws { seed, next: 0 }
    }

    /// Returns a number from 0 to `bound - 1`. Panics if `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a choice among none");
        let draw = self.seed.draw(self.next);
        self.next += 1;
        // The upper half of the product: uniform to within bound / 2^64, without a division.
        ((u128::from(draw) * bound as u128) >> 64) as usize
    }

    /// Returns one of `choices`, all with equal probability. Panics if there are none.
    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Returns true once in `n` calls on average.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_below_the_bound_and_reach_every_choice() {
        let mut draws = Draws::new(Seed(5));
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[draws.below(7)] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1_200).contains(&n)), "{seen:?}");
    }

    #[test]
    #[should_panic(expected = "a choice among none")]
    fn a_choice_among_none_is_refused() {
        Draws::new(Seed(5)).below(0);
    }
}
