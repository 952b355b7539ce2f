//! The table `[sweep]`: the numbers of users that a replicate of a sweep study applies one after another.

use std::num::NonZeroU32;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ByMode;

/// The maximum number of users of a slice, and the maximum number of slices of a replicate.
const MOST_USERS: u32 = 1_000_000;
const MOST_SLICES: usize = 100_000;

/// The longest pause after a slice, in seconds.
const LONGEST_PAUSE_S: f64 = 600.0;

/// The maximum number of exchanges in a batch, and the maximum mean rate of exchanges per second.
const MOST_OF_BATCH: u32 = 10_000;
const HIGHEST_RATE: f64 = 1e6;

/// The numbers of users, and how often each is applied. `[load]` sets the length of a slice.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The numbers of users of the closed loop, without repetitions.
    #[schemars(length(min = 1))]
    pub users: Vec<u32>,
    /// The number of rounds in a replicate: a round has one slice of each number of users, in random order.
    pub rounds: ByMode<u32>,
    /// Pauses after slices that overload the server. Default: each slice begins when the previous slice ends.
    pub pause: Option<Pause>,
    /// Slices of an open loop whose arrivals come in batches. Default: all slices are closed loops.
    pub batches: Option<Batches>,
}

/// Exchanges that arrive in batches at a constant mean rate. All exchanges of a batch arrive at the same instant. The server
/// then has many exchanges at a time, but a low mean load.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Batches {
    /// The batch sizes in exchanges, without repetitions. A round has one slice of each size.
    #[schemars(length(min = 1))]
    pub sizes: Vec<NonZeroU32>,
    /// The mean rate for every batch size, in exchanges per second.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub per_s: f64,
}

/// The load of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SliceLoad {
    /// A closed loop of a number of users.
    Users(u32),
    /// An open loop with batches of a number of exchanges.
    Batch(NonZeroU32),
}

impl Batches {
    /// Returns the number of batches of a slice that lasts at least `length`, and the time between two batches.
    pub(crate) fn of_slice(&self, size: NonZeroU32, length: Duration) -> (u32, Duration) {
        let interval = f64::from(size.get()) / self.per_s;
        let count = (length.as_secs_f64() / interval).ceil().max(1.0);
        (count as u32, Duration::from_secs_f64(interval))
    }

    fn check(&self) -> Result<(), String> {
        if !(self.per_s > 0.0 && self.per_s <= HIGHEST_RATE) {
            return Err(format!(
                "[sweep] has batches at a mean rate of {} exchanges per second: it can be above 0 and up to {HIGHEST_RATE}",
                self.per_s
            ));
        }
        if self.sizes.is_empty() {
            return Err("[sweep] has batches without sizes".to_owned());
        }
        if let Some(size) = self.sizes.iter().find(|size| size.get() > MOST_OF_BATCH) {
            return Err(format!(
                "[sweep] has batches of {size} exchanges: a batch can have up to {MOST_OF_BATCH}"
            ));
        }
        match twice(&self.sizes) {
            Some(size) => Err(format!("[sweep] has batches of {size} exchanges twice")),
            None => Ok(()),
        }
    }
}

/// Returns a value that occurs twice in a list.
fn twice<T: PartialEq>(values: &[T]) -> Option<&T> {
    let is_twice = |value: &&T| values.iter().filter(|other| other == value).count() > 1;
    values.iter().find(is_twice)
}

/// Time without load after slices with certain numbers of users. It keeps the mean load low although these slices overload
/// the server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// The numbers of users whose slices are followed by the pause.
    #[schemars(length(min = 1))]
    pub after: Vec<u32>,
    /// The length of the pause, in seconds.
    #[schemars(range(min = 0.0, max = 600.0))]
    pub s: f64,
}

impl Sweep {
    /// Returns the slices of a round.
    pub(crate) fn slices(&self) -> impl Iterator<Item = SliceLoad> {
        let sizes = self.batches.iter().flat_map(|batches| &batches.sizes);
        let users = self.users.iter().map(|&users| SliceLoad::Users(users));
        users.chain(sizes.map(|&size| SliceLoad::Batch(size)))
    }

    /// Returns the pause after a slice; `None` if the next slice follows immediately.
    pub(crate) fn pause_after(&self, users: u32) -> Option<Duration> {
        let pause = self.pause.as_ref()?;
        let is_named = pause.after.contains(&users);
        is_named.then(|| Duration::from_secs_f64(pause.s))
    }

    /// Returns the sum of the pauses of a round.
    pub(crate) fn pauses_of_a_round(&self) -> Duration {
        self.users
            .iter()
            .filter_map(|&users| self.pause_after(users))
            .sum()
    }

    /// Checks that the sweep can be run.
    ///
    /// # Errors
    /// When a number is out of range, or a list contains a number twice.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(most) = self.users.iter().max() else {
            return Err("[sweep] has no users".to_owned());
        };
        if self.users.contains(&0) || *most > MOST_USERS {
            return Err(format!("[sweep] users can be from 1 to {MOST_USERS}"));
        }
        if let Some(users) = twice(&self.users) {
            return Err(format!("[sweep] has {users} users twice"));
        }
        if let Some(pause) = &self.pause {
            if !(pause.s > 0.0 && pause.s <= LONGEST_PAUSE_S) {
                return Err(format!(
                    "[sweep] has a pause of {} s: it can be above 0 and up to {LONGEST_PAUSE_S} s",
                    pause.s
                ));
            }
            let is_unknown = |users: &&u32| !self.users.contains(users);
            if let Some(users) = pause.after.iter().find(is_unknown) {
                return Err(format!(
                    "[sweep] has a pause after {users} users, but no slice of {users} users"
                ));
            }
        }
        if let Some(batches) = &self.batches {
            batches.check()?;
        }
        let slices_of_round = self.slices().count();
        let rounds = [self.rounds.quick, self.rounds.full]
            .into_iter()
            .chain(self.rounds.published);
        for rounds in rounds {
            let slices = slices_of_round.saturating_mul(rounds as usize);
            if rounds == 0 || slices > MOST_SLICES {
                return Err(format!(
                    "[sweep] has {rounds} rounds of {slices_of_round} slices: it can have from one round to {MOST_SLICES} slices"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(users: &str, rounds: &str) -> Result<(), String> {
        let text = format!("users = {users}\nrounds = {rounds}");
        toml::from_str::<Sweep>(&text).unwrap().check()
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let rounds = "{ quick = 2, full = 10 }";
        check("[1, 8, 64]", rounds).unwrap();
        for (users, rounds, reason) in [
            ("[]", rounds, "no users"),
            ("[0]", rounds, "from 1"),
            ("[2000000]", rounds, "from 1"),
            ("[4, 1, 4]", rounds, "4 users twice"),
            ("[4]", "{ quick = 0, full = 10 }", "0 rounds"),
            ("[4]", "{ quick = 1, full = 10, published = 0 }", "0 rounds"),
            ("[4, 5]", "{ quick = 1, full = 60000 }", "60000 rounds of 2"),
        ] {
            let error = check(users, rounds).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_pause_follows_the_slices_that_are_named() {
        let text = |pause: &str| {
            format!("users = [1, 16, 64]\nrounds = {{ quick = 2, full = 4 }}\npause = {pause}")
        };
        let sweep: Sweep = toml::from_str(&text("{ after = [16, 64], s = 0.75 }")).unwrap();
        sweep.check().unwrap();
        assert_eq!(sweep.pause_after(1), None);
        assert_eq!(sweep.pause_after(64), Some(Duration::from_millis(750)));
        assert_eq!(sweep.pauses_of_a_round(), Duration::from_millis(1500));
        for (pause, reason) in [
            ("{ after = [16], s = 0.0 }", "above 0"),
            ("{ after = [16], s = nan }", "above 0"),
            ("{ after = [16], s = 601 }", "up to 600 s"),
            ("{ after = [8], s = 1 }", "no slice of 8 users"),
        ] {
            let sweep: Sweep = toml::from_str(&text(pause)).unwrap();
            let error = sweep.check().unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn batches_are_slices_of_a_round_and_fill_the_length_of_a_slice() {
        let text = |batches: &str| {
            format!("users = [1, 16]\nrounds = {{ quick = 2, full = 4 }}\nbatches = {batches}")
        };
        let sweep: Sweep = toml::from_str(&text("{ sizes = [16, 64], per_s = 400 }")).unwrap();
        sweep.check().unwrap();
        let size = |size: u32| NonZeroU32::new(size).unwrap();
        let slices: Vec<SliceLoad> = sweep.slices().collect();
        assert_eq!(
            slices,
            [
                SliceLoad::Users(1),
                SliceLoad::Users(16),
                SliceLoad::Batch(size(16)),
                SliceLoad::Batch(size(64))
            ]
        );
        let batches = sweep.batches.unwrap();
        let length = Duration::from_millis(700);
        assert_eq!(
            batches.of_slice(size(16), length),
            (18, Duration::from_millis(40))
        );
        assert_eq!(
            batches.of_slice(size(400), length),
            (1, Duration::from_secs(1))
        );
        for (batches, reason) in [
            ("{ sizes = [16], per_s = 0 }", "above 0"),
            ("{ sizes = [16], per_s = nan }", "above 0"),
            ("{ sizes = [], per_s = 10 }", "without sizes"),
            ("{ sizes = [4, 8, 4], per_s = 10 }", "4 exchanges twice"),
            ("{ sizes = [20000], per_s = 10 }", "up to 10000"),
        ] {
            let sweep: Sweep = toml::from_str(&text(batches)).unwrap();
            let error = sweep.check().unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
