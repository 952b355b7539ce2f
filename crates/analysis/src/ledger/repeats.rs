//! Repeatability: studies that were measured twice, and the agreement of their verdicts.
//!
//! Two runs of one study are compared in two ways: by single tests, and by claims in each era. A claim is compared only
//! if both runs tested it in the same environments. Only runs that share a test form a pair. Two tests are different if
//! their cells have a factor, such as the path, without a common level.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::JudgedRun;
use crate::claims::{EraVerdict, Part, Verdict};

/// Two runs of one study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repeat {
    /// The study, as in `nielsen97`.
    pub study: String,
    /// The names of the two runs.
    pub runs: [String; 2],
    /// Claims, by era, that both runs test in the same environments.
    pub claims: Agreement,
    /// Single tests, each in one environment, that both runs have.
    pub tests: Agreement,
}

/// The agreement between the verdicts of two runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Agreement {
    /// The number of verdicts that both runs decide.
    pub decided: usize,
    /// The number of decided verdicts that are the same.
    pub same: usize,
    /// The number of verdicts that only one of the runs decides.
    pub by_one: usize,
    /// The number of verdicts that neither run decides.
    pub undecided: usize,
    /// The verdicts that differ.
    pub differences: Vec<Disagreement>,
}

/// A verdict that differs between two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disagreement {
    /// The claim or test, as in `N04, era today`.
    pub what: String,
    /// The verdicts of the two runs.
    pub verdicts: [Verdict; 2],
}

impl Agreement {
    fn add(&mut self, what: impl FnOnce() -> String, verdicts: [Verdict; 2]) {
        match verdicts.map(Verdict::is_decided) {
            [true, true] if verdicts[0] == verdicts[1] => {
                self.decided += 1;
                self.same += 1;
            }
            [true, true] => {
                self.decided += 1;
                self.differences.push(Disagreement {
                    what: what(),
                    verdicts,
                });
            }
            [false, false] => self.undecided += 1,
            _ => self.by_one += 1,
        }
    }
}

/// Whether a later run of the study has all tests of `run`, and at least as many replicates in them.
pub(super) fn is_repeated(run: &JudgedRun<'_>, runs: &[JudgedRun<'_>]) -> bool {
    let replicates = |tests: &[(&Part, &Part)], later: bool| -> usize {
        let of = tests
            .iter()
            .map(|(own, again)| if later { again } else { own });
        of.map(|part| part.n).sum()
    };
    runs.iter().any(|later| {
        later.study == run.study && later.started > run.started && {
            let tests = shared_tests(run, later);
            tests.len() == all_tests(run)
                && !tests.is_empty()
                && replicates(&tests, true) >= replicates(&tests, false)
        }
    })
}

/// The number of tests of a run.
fn all_tests(run: &JudgedRun<'_>) -> usize {
    let eras = run.claims.iter().flat_map(|claim| &claim.eras);
    eras.map(|era| measured(era).count()).sum()
}

/// The tests that two runs share.
fn shared_tests<'a>(run: &'a JudgedRun<'_>, other: &'a JudgedRun<'_>) -> Vec<(&'a Part, &'a Part)> {
    let pairs = shared_eras(run, other);
    pairs
        .flat_map(|(_, era, again)| shared((run, era), (other, again)))
        .collect()
}

/// The eras of claims that two runs share, each with the claim's identifier.
fn shared_eras<'a>(
    run: &'a JudgedRun<'_>,
    other: &'a JudgedRun<'_>,
) -> impl Iterator<Item = (&'a str, &'a EraVerdict, &'a EraVerdict)> {
    run.claims.iter().flat_map(|claim| {
        let again = other.claims.iter().find(|again| again.id == claim.id);
        let eras = again.map_or(&[][..], |again| again.eras.as_slice());
        claim.eras.iter().filter_map(|era| {
            let again = eras.iter().find(|again| again.era == era.era)?;
            Some((claim.id.as_str(), era, again))
        })
    })
}

/// Every pair of runs that share a test, the earlier run first.
pub(super) fn of(runs: &[JudgedRun<'_>]) -> Vec<Repeat> {
    let mut by_date: Vec<&JudgedRun<'_>> = runs.iter().collect();
    by_date.sort_by(|run, other| run.started.total_cmp(&other.started));
    let mut repeats = Vec::new();
    for (place, later) in by_date.iter().enumerate() {
        for earlier in &by_date[..place] {
            if earlier.study == later.study {
                repeats.extend(Repeat::of(earlier, later));
            }
        }
    }
    repeats
}

impl Repeat {
    /// Compares two runs; `None` if they share no test.
    fn of(earlier: &JudgedRun<'_>, later: &JudgedRun<'_>) -> Option<Repeat> {
        let mut claims = Agreement::default();
        let mut tests = Agreement::default();
        let mut any = false;
        for (claim, era, again) in shared_eras(earlier, later) {
            let what = || format!("{claim}, era {}", era.era);
            let tests_of_both = shared((earlier, era), (later, again));
            let all_are_shared = tests_of_both.len() == measured(era).count();
            if all_are_shared && places(era) == places(again) && !places(era).is_empty() {
                claims.add(what, [era.verdict, again.verdict]);
            }
            for (part, again) in tests_of_both {
                any = true;
                let what = || format!("{}: {} {}", what(), part.label, part.environment_text());
                tests.add(what, [part.verdict, again.verdict]);
            }
        }
        any.then(|| Repeat {
            study: earlier.study.clone(),
            runs: [earlier.name.clone(), later.name.clone()],
            claims,
            tests,
        })
    }

    /// Returns the result in one sentence, and the differences.
    pub fn sentence(&self) -> String {
        let of = |agreement: &Agreement, what: &str| {
            format!(
                "{} of {} {what} that both decide have the same verdict ({} decided by one alone, {} by neither)",
                agreement.same, agreement.decided, agreement.by_one, agreement.undecided
            )
        };
        let mut text = format!(
            "{}; {}.",
            of(&self.claims, "claims"),
            of(&self.tests, "tests in one place")
        );
        let differences = self
            .claims
            .differences
            .iter()
            .chain(&self.tests.differences);
        for (number, difference) in differences.enumerate() {
            let [first, second] = difference.verdicts;
            let before = if number == 0 { " Different: " } else { "; " };
            text += &format!(
                "{before}{} ({first}, then {second})",
                difference.what.trim_end()
            );
        }
        if !self.claims.differences.is_empty() || !self.tests.differences.is_empty() {
            text.push('.');
        }
        text
    }
}

/// The tests of an era that were measured and that count for the claim.
fn measured(era: &EraVerdict) -> impl Iterator<Item = &Part> {
    era.parts.iter().filter(|part| part.counts && part.n > 0)
}

fn places(era: &EraVerdict) -> BTreeSet<(&str, &[(String, String)])> {
    measured(era)
        .map(|part| (part.label.as_str(), part.environment.as_slice()))
        .collect()
}

/// The tests that both runs have. A test is the same if its label and environment are the same, and if its cells have a
/// common level of each factor that both tests have, such as the path.
fn shared<'a>(
    (run, era): (&JudgedRun<'_>, &'a EraVerdict),
    (other, again): (&JudgedRun<'_>, &'a EraVerdict),
) -> Vec<(&'a Part, &'a Part)> {
    measured(era)
        .filter_map(|part| {
            let same = |candidate: &&Part| {
                candidate.label == part.label
                    && candidate.environment == part.environment
                    && have_common_levels(&levels(run, part), &levels(other, candidate))
            };
            Some((part, measured(again).find(same)?))
        })
        .collect()
}

/// The levels of several cells, by factor.
type LevelsOfCells<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The levels of the cells of a test.
fn levels<'a>(run: &'a JudgedRun<'_>, part: &Part) -> LevelsOfCells<'a> {
    let mut levels = LevelsOfCells::new();
    let cells = part.cells.iter().filter_map(|&place| run.cells.get(place));
    for (factor, level) in cells.flat_map(|cell| &cell.0) {
        levels.entry(factor).or_default().insert(level);
    }
    levels
}

/// Whether the cells share a level of each factor that both vary.
fn have_common_levels(one: &LevelsOfCells<'_>, other: &LevelsOfCells<'_>) -> bool {
    one.iter().all(|(factor, levels)| {
        let others = other.get(factor);
        others.is_none_or(|others| !levels.is_disjoint(others))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_compared_where_both_runs_decide() {
        let mut agreement = Agreement::default();
        for verdicts in [
            [Verdict::Holds, Verdict::Holds],
            [Verdict::Holds, Verdict::HoldsWeaker],
            [Verdict::Holds, Verdict::Undecided],
            [Verdict::Undecided, Verdict::Undecided],
        ] {
            agreement.add(|| "N01, era today".to_owned(), verdicts);
        }
        assert_eq!((agreement.decided, agreement.same), (2, 1));
        assert_eq!((agreement.by_one, agreement.undecided), (1, 1));
        assert_eq!(
            agreement.differences[0].verdicts,
            [Verdict::Holds, Verdict::HoldsWeaker]
        );
    }

    #[test]
    fn cells_of_another_path_are_no_repetition() {
        let cells = |levels: &[(&'static str, &'static str)]| {
            let mut of = LevelsOfCells::new();
            for &(factor, level) in levels {
                of.entry(factor).or_default().insert(level);
            }
            of
        };
        let lan = cells(&[("path", "lan"), ("ues", "20"), ("ues", "260")]);
        assert!(have_common_levels(
            &lan,
            &cells(&[("path", "lan"), ("ues", "260")])
        ));
        assert!(!have_common_levels(
            &lan,
            &cells(&[("path", "lan100"), ("ues", "260")])
        ));
        // A factor that only later runs of the study have.
        assert!(have_common_levels(
            &lan,
            &cells(&[("copy", "a"), ("path", "lan")])
        ));
    }

    #[test]
    fn the_sentence_names_each_difference() {
        let mut tests = Agreement::default();
        tests.add(
            || "N04, era today: time lan".to_owned(),
            [Verdict::Holds, Verdict::Reversed],
        );
        let repeat = Repeat {
            study: "nielsen97".to_owned(),
            runs: ["monday".to_owned(), "tuesday".to_owned()],
            claims: Agreement::default(),
            tests,
        };
        assert_eq!(
            repeat.sentence(),
            "0 of 0 claims that both decide have the same verdict (0 decided by one alone, 0 by neither); \
             0 of 1 tests in one place that both decide have the same verdict (0 decided by one alone, 0 by neither). \
             Different: N04, era today: time lan (holds, then reversed)."
        );
    }
}
