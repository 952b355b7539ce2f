//! Runs whose number of replicates depends on their verdicts (group-sequential designs). A run consists of rounds of
//! replicates. After each round, the verdicts are evaluated (a look). Cells of undecided verdicts then get more
//! replicates.
//!
//! A run that may end at any look has a higher error probability than a run with a fixed number of replicates.
//! Therefore the looks are planned, and the level of the intervals at each look limits the error probability of all
//! looks together ([`Looks`]). A verdict has its stated level for every reason of a run's end: all verdicts are
//! decided, the cells have the maximum number of replicates, the budget is used up, or the user interrupts the run.
//!
//! All cells of an undecided comparison get more replicates together, so that pairs stay complete. If a comparison was
//! decided at an earlier look, but shares a cell with an undecided comparison, the next look evaluates it again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fathometer_analysis::civil;
use fathometer_analysis::run::{Run, Stopping};
use fathometer_analysis::statistics::Looks;
use fathometer_analysis::study::{Open, StudyData};

use super::spec::{Cell, folder_of};

/// The conditions that end a run whose number of replicates depends on its verdicts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The maximum half-width of the intervals of figures in tables, as a fraction of the figure. With `None`, only
    /// verdicts determine the end of a run.
    pub precision: Option<f64>,
    /// The time limit of the run. A round that would probably exceed the limit does not begin.
    pub budget: Option<Duration>,
    /// The maximum number of replicates of a cell.
    pub most: u32,
}

/// The result of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    /// Another round begins. The text names the undecided verdicts and the figures that are not precise enough.
    GoOn(String),
    /// The run ends. The text is the reason.
    End(String),
}

/// The rounds of a run.
#[derive(Debug)]
pub(crate) struct Rounds {
    data: StudyData,
    rule: Rule,
    /// The design and the state, as recorded in the run.
    pub(crate) stopping: Stopping,
}

impl Rounds {
    /// Returns the rounds of a new run. The first round measures all cells.
    pub(crate) fn new(rule: Rule, data: StudyData, cells: &[Cell]) -> Rounds {
        let looks = Looks::up_to(rule.most).after().to_vec();
        let replicates = cells.iter().map(|cell| (cell.folder(), looks[0]));
        Rounds {
            data,
            rule,
            stopping: Stopping {
                precision_share: rule.precision,
                replicates: replicates.collect(),
                looks,
                look: 0,
                ended: None,
            },
        }
    }

    /// Continues the rounds of a run that is resumed. Cells that the earlier run did not have get the number of
    /// replicates of the first look.
    pub(crate) fn resume(&mut self, earlier: &Stopping) {
        let first = self.stopping.looks[0];
        for cell in std::mem::take(&mut self.stopping.replicates).into_keys() {
            let replicates = earlier.replicates.get(&cell).copied().unwrap_or(first);
            self.stopping.replicates.insert(cell, replicates);
        }
        self.stopping.look = earlier.look.min(self.stopping.looks.len() - 1);
    }

    /// Sets the number of replicates of each cell for the current round.
    pub(crate) fn apply(&self, cells: &mut [Cell]) {
        for cell in cells {
            if let Some(&replicates) = self.stopping.replicates.get(&cell.folder()) {
                cell.replicates = replicates;
            }
        }
    }

    /// Evaluates a run after a round. Plans the next round, or ends the run. `elapsed` is the time since the start of
    /// the run, and `each` is the time per replicate. `unable` contains the folders of cells that get no more
    /// replicates.
    pub(crate) fn look(
        &mut self,
        run: &Run,
        elapsed: Duration,
        each: Duration,
        unable: &BTreeSet<String>,
    ) -> Look {
        let open = self
            .data
            .open(run, run.info.intervals(), self.stopping.precision_share);
        let cells: BTreeSet<String> = open
            .cells
            .iter()
            .filter_map(|&place| run.cells.get(place))
            .map(|cell| folder_of(&cell.block, &run.planned(cell)))
            .filter(|cell| self.stopping.replicates.contains_key(cell) && !unable.contains(cell))
            .collect();
        let look = self.decide(&open, &cells, elapsed, each);
        if let Look::End(reason) = &look {
            self.stopping.ended = Some(reason.clone());
        }
        look
    }

    fn decide(
        &mut self,
        open: &Open,
        cells: &BTreeSet<String>,
        elapsed: Duration,
        each: Duration,
    ) -> Look {
        let what = text(open);
        if cells.is_empty() {
            return Look::End(match open.verdicts + open.figures {
                0 => "all verdicts are decided, and all figures have the requested precision"
                    .to_owned(),
                _ => {
                    format!("{what}, but more replicates of this run's cells would not change that")
                }
            });
        }
        let Some(&replicates) = self.stopping.looks.get(self.stopping.look + 1) else {
            return Look::End(format!(
                "{what} after {} replicates, the maximum (--replicates)",
                self.stopping.looks[self.stopping.look]
            ));
        };
        let before = |cell: &String| self.stopping.replicates.get(cell).copied().unwrap_or(0);
        let added: u32 = cells
            .iter()
            .map(|cell| replicates.saturating_sub(before(cell)))
            .sum();
        let needed = each * added;
        if let Some(budget) = self.rule.budget
            && elapsed + needed > budget
        {
            return Look::End(format!(
                "{what}, and another {added} replicates in about {} would exceed the budget",
                civil::duration(needed.as_secs_f64())
            ));
        }
        for cell in cells {
            self.stopping.replicates.insert(cell.clone(), replicates);
        }
        self.stopping.look += 1;
        Look::GoOn(format!(
            "{what}: {added} more replicates of {} cells, about {}",
            cells.len(),
            civil::duration(needed.as_secs_f64())
        ))
    }
}

/// Formats the open items, as in `3 verdicts are undecided, 2 figures are not precise enough`.
fn text(open: &Open) -> String {
    let verdicts = match open.verdicts {
        0 => None,
        1 => Some("1 verdict is undecided".to_owned()),
        verdicts => Some(format!("{verdicts} verdicts are undecided")),
    };
    let figures = match open.figures {
        0 => None,
        1 => Some("1 figure is not precise enough".to_owned()),
        figures => Some(format!("{figures} figures are not precise enough")),
    };
    let parts: Vec<String> = verdicts.into_iter().chain(figures).collect();
    parts.join(", ")
}

/// Describes the difference between the design of a run (`then`) and the design of the command that resumes the run
/// (`now`).
pub(crate) fn difference(then: Option<&Stopping>, now: Option<&Stopping>) -> Option<String> {
    let words = |stopping: Option<&Stopping>| match stopping {
        None => "a fixed number of replicates".to_owned(),
        Some(stopping) => {
            let most = stopping.looks.last().copied().unwrap_or(0);
            match stopping.precision_share {
                Some(share) => {
                    // Rounding removes the floating-point error of the division by 100.
                    let percent = (100.0 * share * 1e9).round() / 1e9;
                    format!("--precision {percent} % and at most {most} replicates")
                }
                None => format!("no --precision and at most {most} replicates"),
            }
        }
    };
    let (then, now) = (words(then), words(now));
    (then != now).then(|| format!("the run was started with {then}, but this command has {now}"))
}

/// Returns the total number of replicates.
pub(crate) fn total(replicates: &BTreeMap<String, u32>) -> u32 {
    replicates.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_model::CellKey;

    const EACH: Duration = Duration::from_secs(10);

    fn cells() -> Vec<Cell> {
        ["a", "b", "c"]
            .map(|policy| {
                let levels: BTreeMap<String, String> =
                    [("policy".to_owned(), policy.to_owned())].into();
                Cell {
                    block: "main".to_owned(),
                    key: CellKey(levels.clone()),
                    levels,
                    replicates: 7,
                }
            })
            .into()
    }

    fn rounds(rule: Rule) -> Rounds {
        let files = crate::files::StudyFiles::of("fujinoki03").unwrap();
        Rounds::new(rule, files.data().unwrap().unwrap(), &cells())
    }

    fn open(rounds: &mut Rounds, cells: &[usize], elapsed: Duration) -> Look {
        let of = self::cells();
        let folders = cells.iter().map(|&place| of[place].folder()).collect();
        let open = Open {
            cells: cells.iter().copied().collect(),
            verdicts: cells.len(),
            figures: 0,
        };
        rounds.decide(&open, &folders, elapsed, EACH)
    }

    fn replicates(rounds: &Rounds) -> Vec<u32> {
        let mut cells = cells();
        rounds.apply(&mut cells);
        cells.iter().map(|cell| cell.replicates).collect()
    }

    const RULE: Rule = Rule {
        precision: Some(0.05),
        budget: None,
        most: 7,
    };

    #[test]
    fn replicates_go_where_something_is_open_until_all_is_decided() {
        let mut rounds = rounds(RULE);
        assert_eq!(rounds.stopping.looks, [3, 5, 7]);
        assert_eq!(replicates(&rounds), [3, 3, 3]);
        let strict = rounds.stopping.level();
        assert!(matches!(
            open(&mut rounds, &[0, 2], Duration::ZERO),
            Look::GoOn(_)
        ));
        assert_eq!(replicates(&rounds), [5, 3, 5]);
        assert!(strict > rounds.stopping.level() && rounds.stopping.level() > 0.95);
        assert!(matches!(
            open(&mut rounds, &[1], Duration::ZERO),
            Look::GoOn(_)
        ));
        assert_eq!(replicates(&rounds), [5, 7, 5]);
        let Look::End(reason) = open(&mut rounds, &[], Duration::ZERO) else {
            panic!("nothing is open");
        };
        assert!(reason.starts_with("all verdicts are decided"), "{reason}");
    }

    #[test]
    fn the_most_replicates_end_a_run_that_stays_undecided() {
        let mut rounds = rounds(RULE);
        for _ in 0..2 {
            assert!(matches!(
                open(&mut rounds, &[0], Duration::ZERO),
                Look::GoOn(_)
            ));
        }
        let Look::End(reason) = open(&mut rounds, &[0], Duration::ZERO) else {
            panic!("there is no other look");
        };
        assert!(reason.contains("after 7 replicates"), "{reason}");
        assert_eq!(replicates(&rounds), [7, 3, 3]);
    }

    #[test]
    fn a_round_that_would_exceed_the_budget_does_not_begin() {
        let budget = Some(Duration::from_secs(100));
        let mut rounds = rounds(Rule { budget, ..RULE });
        // Two replicates of two cells take 40 s.
        let go = open(&mut rounds, &[0, 1], Duration::from_secs(60));
        assert!(
            matches!(&go, Look::GoOn(text) if text.contains("4 more replicates of 2 cells, about 40 s")),
            "{go:?}"
        );
        // Two replicates of one cell take 20 s.
        let end = open(&mut rounds, &[0], Duration::from_secs(81));
        assert!(
            matches!(&end, Look::End(text) if text.contains("exceed the budget")),
            "{end:?}"
        );
        assert_eq!(replicates(&rounds), [5, 5, 3]);
    }

    #[test]
    fn a_resumed_run_continues_where_it_stopped() {
        let mut earlier = rounds(RULE);
        open(&mut earlier, &[1], Duration::ZERO);
        let mut rounds = rounds(RULE);
        rounds.resume(&earlier.stopping);
        assert_eq!(replicates(&rounds), [3, 5, 3]);
        assert_eq!(rounds.stopping.look, 1);
        assert_eq!(
            difference(Some(&earlier.stopping), Some(&rounds.stopping)),
            None
        );
    }

    #[test]
    fn another_design_is_a_difference() {
        let one = rounds(RULE).stopping;
        let two = rounds(Rule {
            precision: Some(0.02),
            ..RULE
        })
        .stopping;
        let text = difference(Some(&one), Some(&two)).unwrap();
        assert!(
            text.contains("--precision 5 %") && text.contains("--precision 2 %"),
            "{text}"
        );
        assert!(
            difference(Some(&one), None)
                .unwrap()
                .contains("a fixed number of replicates")
        );
    }
}
