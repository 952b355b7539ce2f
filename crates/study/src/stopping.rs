//! Runs whose number of replicates depends on their verdicts: rounds of replicates, with a look at the verdicts after
//! each. Replicates are added to the cells on which something is still undecided.
//!
//! A run that may end at any look errs more often than one with a fixed number of replicates. Therefore the looks are
//! planned, and the intervals at each look have a level at which all looks together err at most as often as stated
//! ([`Looks`]). A verdict keeps its level whenever the run ends: all are decided, the most replicates are made, the
//! budget is spent, or the user interrupts it.
//!
//! A cell that gets more replicates gets them together with all cells of the same undecided comparison, so that pairs
//! stay complete. A comparison that was decided at an earlier look and shares a cell is looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fathometer_analysis::civil;
use fathometer_analysis::run::{Run, Stopping};
use fathometer_analysis::statistics::Looks;
use fathometer_analysis::study::{Open, StudyData};

use super::spec::{Cell, folder_of};

/// When a run ends that adds replicates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// How far the intervals of figures in tables may reach to each side, as a share of the figure; `None`: only
    /// verdicts count.
    pub precision: Option<f64>,
    /// The time after which no other round begins; a round that would not end by then does not begin.
    pub budget: Option<Duration>,
    /// The most replicates of a cell.
    pub most: u32,
}

/// What was found at a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    /// Another round begins; the text says what is still open.
    GoOn(String),
    /// The run ends, for this reason.
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
    /// The rounds of a new run: the first one of all cells.
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

    /// The rounds of a run that is resumed, from where it was. Cells that it has not had begin with the first look.
    pub(crate) fn resume(&mut self, earlier: &Stopping) {
        let first = self.stopping.looks[0];
        for cell in std::mem::take(&mut self.stopping.replicates).into_keys() {
            let replicates = earlier.replicates.get(&cell).copied().unwrap_or(first);
            self.stopping.replicates.insert(cell, replicates);
        }
        self.stopping.look = earlier.look.min(self.stopping.looks.len() - 1);
    }

    /// Gives the cells the replicates of the round.
    pub(crate) fn apply(&self, cells: &mut [Cell]) {
        for cell in cells {
            if let Some(&replicates) = self.stopping.replicates.get(&cell.folder()) {
                cell.replicates = replicates;
            }
        }
    }

    /// Looks at a run after a round: plans the next one, or ends the run. `elapsed` is the time so far, and `each` that
    /// of a replicate; `unable` are the folders of cells that get no more replicates.
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
                0 => "all verdicts are decided, and all figures are as precise as they were to be"
                    .to_owned(),
                _ => format!("{what}, and no cell of this run would change that"),
            });
        }
        let Some(&replicates) = self.stopping.looks.get(self.stopping.look + 1) else {
            return Look::End(format!(
                "{what} after {} replicates, the most (--replicates)",
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

/// `3 verdicts are undecided, 2 figures are not precise enough`
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

/// The difference of two designs, where a run is resumed by another one than it began with.
pub(crate) fn difference(then: Option<&Stopping>, now: Option<&Stopping>) -> Option<String> {
    let words = |stopping: Option<&Stopping>| match stopping {
        None => "a fixed number of replicates".to_owned(),
        Some(stopping) => {
            let most = stopping.looks.last().copied().unwrap_or(0);
            match stopping.precision_share {
                Some(share) => {
                    // Without the digits that dividing by 100 has added.
                    let percent = (100.0 * share * 1e9).round() / 1e9;
                    format!("--precision {percent} % and at most {most} replicates")
                }
                None => format!("no --precision and at most {most} replicates"),
            }
        }
    };
    let (then, now) = (words(then), words(now));
    (then != now).then(|| format!("the run was begun with {then}, and this command has {now}"))
}

/// Replicates in all.
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
        // Two of one take 20 s.
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
