//! The table `[sweep]`: the numbers of users that a replicate of a sweep study applies in turn.

use schemars::JsonSchema;
use serde::Deserialize;

use super::ByMode;

/// The most users of a slice, and the most slices of a replicate.
const MOST_USERS: u32 = 1_000_000;
const MOST_SLICES: usize = 100_000;

/// The numbers of users, and how often each is applied. `[load]` says how long a slice is.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The numbers of users of the closed loop, each once.
    #[schemars(length(min = 1))]
    pub users: Vec<u32>,
    /// The number of rounds in a replicate: a round has one slice of each number of users, in random order.
    pub rounds: ByMode<u32>,
}

impl Sweep {
    /// Whether it can be run.
    ///
    /// # Errors
    /// When a number is out of range or stands twice.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(most) = self.users.iter().max() else {
            return Err("[sweep] has no users".to_owned());
        };
        if self.users.contains(&0) || *most > MOST_USERS {
            return Err(format!("[sweep] users can be from 1 to {MOST_USERS}"));
        }
        let twice = |users: &&u32| self.users.iter().filter(|other| other == users).count() > 1;
        if let Some(users) = self.users.iter().find(twice) {
            return Err(format!("[sweep] has {users} users twice"));
        }
        let rounds = [self.rounds.quick, self.rounds.full]
            .into_iter()
            .chain(self.rounds.published);
        for rounds in rounds {
            let slices = self.users.len().saturating_mul(rounds as usize);
            if rounds == 0 || slices > MOST_SLICES {
                return Err(format!(
                    "[sweep] has {rounds} rounds of {} slices: it can have from one round to {MOST_SLICES} slices",
                    self.users.len()
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
}
