//! The ledger: verdicts on all claims of all papers, over several runs.
//!
//! Each row is the verdict of one run on one claim in one era. Among many verdicts at 95 % some are wrong. So a verdict
//! *stands* only at a false discovery rate of 5 % over the whole ledger (procedure of Benjamini and Yekutieli).
//! This procedure permits any dependence between verdicts: claims share cells, and a claim may follow from another.
//! The procedure of Benjamini and Hochberg needs independence or positive dependence, which is not ensured here.

mod counterparts;
mod repeats;
mod text;

use fathometer_model::CellKey;
use serde::Serialize;

use crate::claims::{ClaimResult, EraVerdict, Part, Verdict};
use crate::equal_cells::{EqualCells, EqualCellsCount};
use crate::run::Run;
use crate::statistics::{Interval, adjusted};
use crate::study::StudyData;

use counterparts::MeasuredFigures;

pub use counterparts::Counterpart;
pub use repeats::{Agreement, Disagreement, Repeat};

/// The expected share of wrong verdicts among the verdicts that stand in the ledger.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// A run of a paper's study.
#[derive(Debug)]
pub struct JudgedRun<'a> {
    /// The name of the run's folder.
    pub name: String,
    /// The study's short name, as in `nielsen97`.
    pub study: String,
    /// The command that made the run.
    pub command: String,
    /// The duration of the run in minutes; `None` for a run that did not finish.
    pub minutes: Option<f64>,
    /// The start of the run, in seconds since 1970.
    started: f64,
    /// The run's cells, to which [`Part::cells`](crate::claims::Part::cells) refers.
    cells: Vec<CellKey>,
    claims: Vec<ClaimResult>,
    equal_cells: Option<EqualCellsCount>,
    measured: Vec<MeasuredFigures>,
    data: &'a StudyData,
}

impl<'a> JudgedRun<'a> {
    /// Judges a run with its study.
    pub fn of(name: &str, run: &Run, data: &'a StudyData) -> JudgedRun<'a> {
        JudgedRun {
            name: name.to_owned(),
            study: run.info.study.clone(),
            command: command(&run.info.command),
            minutes: run
                .info
                .finished
                .map(|finished| (finished - run.info.started) / 60.0),
            started: run.info.started,
            cells: run.cells.iter().map(|cell| cell.key.clone()).collect(),
            claims: data.claim_results(run, run.info.intervals()),
            equal_cells: EqualCells::of(run, run.info.intervals()).map(|equal| equal.count),
            measured: counterparts::measured(run, data),
            data,
        }
    }
}

/// The command line, with the name of the program but without its folder.
fn command(words: &[String]) -> String {
    let mut words = words.iter().map(String::as_str);
    let program = words.next().and_then(|path| path.rsplit('/').next());
    let words: Vec<&str> = program.into_iter().chain(words).collect();
    words.join(" ")
}

/// One verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The paper, as in `nielsen97`.
    pub paper: String,
    /// The claim, as in `N01`.
    pub claim: String,
    /// The sentence as it was published.
    pub sentence: String,
    /// The paper's own figures.
    pub published: String,
    /// The bound as it was published.
    pub bound: String,
    /// The era; empty where nothing was measured.
    pub era: String,
    /// The run; empty where nothing was measured.
    pub run: String,
    /// The command that made the run.
    pub command: String,
    /// The duration of the run in minutes; `None` if nothing was measured or the run did not finish.
    pub minutes: Option<f64>,
    /// The verdict from this run alone.
    pub verdict: Verdict,
    /// The verdict from the estimates without their intervals, if the verdict is undecided.
    pub leaning: Option<Verdict>,
    /// The number of environments with each verdict, if the verdicts differ.
    pub remark: String,
    /// The smallest number of replicates of a counted part.
    pub n: usize,
    /// The test and the environment of the part that decides the verdict.
    pub place: String,
    /// The estimate of that part.
    pub estimate: Option<f64>,
    /// The interval of the estimate.
    pub interval: Option<Interval>,
    /// The p-value of the verdict or, if it is undecided, of the leaning.
    pub p_value: Option<f64>,
    /// The smallest false discovery rate over the ledger at which the verdict stands.
    pub false_discovery_rate: Option<f64>,
    /// Whether the verdict stands in the ledger.
    pub stands: bool,
    /// The approximate number of replicates that would decide an undecided verdict.
    pub replicates_to_decide: Option<u64>,
    /// The reason why some figures of the claim do not count: a model was calibrated with them.
    pub calibrated: Option<String>,
    /// The reason why the claim was not tested.
    pub not_tested: Option<String>,
    /// The verdicts on other interpretations of the claim.
    pub variants: Vec<Reading>,
}

/// The verdict on another interpretation of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// The name of the interpretation.
    pub name: String,
    /// The reason for this interpretation.
    pub reason: String,
    /// The date when the interpretation was added.
    pub date: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The verdict from the estimates without their intervals, if the verdict is undecided.
    pub leaning: Option<Verdict>,
}

/// The A/A tests of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EqualCellsOfRun {
    /// The run.
    pub run: String,
    /// The number of comparisons that report a difference.
    #[serde(flatten)]
    pub count: EqualCellsCount,
}

impl EqualCellsOfRun {
    fn of(run: &JudgedRun<'_>) -> Option<EqualCellsOfRun> {
        Some(EqualCellsOfRun {
            run: run.name.clone(),
            count: run.equal_cells?,
        })
    }
}

/// All verdicts on all claims.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ledger {
    /// One row for each verdict, in the order of papers, claims, eras and runs.
    pub rows: Vec<Row>,
    /// The false discovery rate at which verdicts stand.
    pub false_discovery_rate: f64,
    /// The number of verdicts that stand.
    pub standing: usize,
    /// The largest expected number of wrong verdicts among the verdicts that stand.
    pub expected_wrong: f64,
    /// The number of verdicts that a single run decides, but that do not stand in the ledger.
    pub not_standing: usize,
    /// The A/A tests of the runs that have equal cells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub equal_cells: Vec<EqualCellsOfRun>,
    /// Pairs of runs of one study, and whether their results agree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<Repeat>,
    /// Every table and figure of the papers, and the run with its counterpart.
    pub counterparts: Vec<Counterpart>,
}

impl Ledger {
    /// Returns every published claim of the papers, with the verdicts of the runs. A run has no rows if a later run has
    /// all its tests and at least as many replicates; the two runs are then compared.
    pub fn of(papers: &[(String, &StudyData)], runs: &[JudgedRun<'_>]) -> Ledger {
        let counted: Vec<&JudgedRun<'_>> = runs
            .iter()
            .filter(|run| !repeats::is_repeated(run, runs))
            .collect();
        let mut rows = Vec::new();
        for (paper, data) in papers {
            for published in &data.published_claims.rows {
                let claim = data
                    .claims
                    .iter()
                    .find(|claim| claim.row.as_ref() == Some(&published.id));
                let Some(claim) = claim else { continue };
                let blank = Row {
                    paper: paper.clone(),
                    claim: published.id.clone(),
                    sentence: published.sentence.clone(),
                    published: claim.published.clone(),
                    bound: published.bound.clone(),
                    era: String::new(),
                    run: String::new(),
                    command: String::new(),
                    minutes: None,
                    verdict: Verdict::NotTested,
                    leaning: None,
                    remark: String::new(),
                    n: 0,
                    place: String::new(),
                    estimate: None,
                    interval: None,
                    p_value: None,
                    false_discovery_rate: None,
                    stands: false,
                    replicates_to_decide: None,
                    calibrated: claim.calibrated.as_ref().map(|c| c.reason.clone()),
                    not_tested: None,
                    variants: Vec::new(),
                };
                let of_paper = || counted.iter().filter(|run| run.study == *paper);
                let tested: Vec<Row> = of_paper()
                    .flat_map(|run| rows_of(run, &claim.id, &blank))
                    .collect();
                if tested.is_empty() {
                    let reason = claim.not_tested.clone().unwrap_or_else(|| {
                        let reasons = of_paper().flat_map(|run| reasons(run, &claim.id));
                        reasons.last().unwrap_or_else(|| match of_paper().next() {
                            None => format!("no run of {paper} is among these"),
                            Some(_) => "no run has the cells that it compares".to_owned(),
                        })
                    });
                    rows.push(Row {
                        not_tested: Some(reason),
                        ..blank
                    });
                } else {
                    rows.extend(tested);
                }
            }
        }
        let tested = counted.iter().filter_map(|run| EqualCellsOfRun::of(run));
        Ledger {
            equal_cells: tested.collect(),
            repeats: repeats::of(runs),
            counterparts: counterparts::of(papers, runs),
            ..Ledger::judged(rows)
        }
    }

    /// Decides which verdicts stand in the ledger.
    fn judged(mut rows: Vec<Row>) -> Ledger {
        // Undecided verdicts count as tests, because each could have been a discovery.
        let is_tested = |row: &&mut Row| row.verdict != Verdict::NotTested;
        let tested: Vec<f64> = rows
            .iter_mut()
            .filter(is_tested)
            .map(|row| row.p_value.unwrap_or(1.0))
            .collect();
        for (row, rate) in rows.iter_mut().filter(is_tested).zip(adjusted(&tested)) {
            row.false_discovery_rate = Some(rate);
            row.stands = row.verdict.is_decided() && rate <= FALSE_DISCOVERIES;
        }
        let standing = rows.iter().filter(|row| row.stands).count();
        let decided = rows.iter().filter(|row| row.verdict.is_decided()).count();
        Ledger {
            false_discovery_rate: FALSE_DISCOVERIES,
            standing,
            expected_wrong: standing as f64 * FALSE_DISCOVERIES,
            not_standing: decided - standing,
            equal_cells: Vec::new(),
            repeats: Vec::new(),
            counterparts: Vec::new(),
            rows,
        }
    }
}

fn rows_of(run: &JudgedRun<'_>, claim: &str, blank: &Row) -> Vec<Row> {
    let Some(result) = run.claims.iter().find(|result| result.id == claim) else {
        return Vec::new();
    };
    let tested = result
        .eras
        .iter()
        .filter(|era| era.verdict != Verdict::NotTested);
    tested
        .map(|era| {
            let deciding = deciding(era);
            let counted = era.parts.iter().filter(|part| part.counts && part.n > 0);
            let variants = result.variants.iter().filter_map(|variant| {
                let own = variant.eras.iter().find(|own| own.era == era.era)?;
                Some(Reading {
                    name: variant.name.clone(),
                    reason: variant.reason.clone(),
                    date: variant.date.clone(),
                    verdict: own.verdict,
                    leaning: own.leaning,
                })
            });
            Row {
                era: era.era.clone(),
                run: run.name.clone(),
                command: run.command.clone(),
                minutes: run.minutes,
                verdict: era.verdict,
                leaning: era.leaning,
                remark: era.remark.clone(),
                n: counted.map(|part| part.n).min().unwrap_or(0),
                place: deciding.map(place).unwrap_or_default(),
                estimate: deciding.and_then(|part| part.value),
                interval: deciding.and_then(|part| part.interval),
                p_value: era.p_value,
                replicates_to_decide: era.replicates_to_decide,
                variants: variants.collect(),
                ..blank.clone()
            }
        })
        .collect()
}

/// Returns the part that decides the claim's verdict. Of the parts with this verdict, it is the least certain one or,
/// if the verdict contradicts the claim, the most certain one.
fn deciding(era: &EraVerdict) -> Option<&Part> {
    let own = || {
        let counted = era.parts.iter().filter(|part| part.counts);
        counted.filter(|part| part.verdict == era.verdict && part.value.is_some())
    };
    let p = |part: &&Part| part.p_value.unwrap_or(1.0);
    match era.verdict {
        Verdict::Reversed | Verdict::Equal => own().min_by(|a, b| p(a).total_cmp(&p(b))),
        _ => own().max_by(|a, b| p(a).total_cmp(&p(b))),
    }
}

fn place(part: &Part) -> String {
    let environment = part.environment_text();
    match environment.is_empty() {
        true => format!("{} ({})", part.label, part.holds),
        false => format!("{} ({}): {environment}", part.label, part.holds),
    }
}

/// The reasons why a run did not test a claim.
fn reasons(run: &JudgedRun<'_>, claim: &str) -> Vec<String> {
    let result = run.claims.iter().find(|result| result.id == claim);
    let parts = result
        .into_iter()
        .flat_map(|result| &result.eras)
        .flat_map(|era| &era.parts);
    parts
        .filter(|part| part.counts && !part.remark.is_empty() && part.remark != "not measured")
        .map(|part| format!("{}: {}", run.name, part.remark))
        .collect()
}

impl JudgedRun<'_> {
    /// The study's title.
    pub fn title(&self) -> &str {
        &self.data.about.title
    }
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::*;

    fn row(verdict: Verdict, p_value: f64) -> Row {
        Row {
            paper: "p".to_owned(),
            claim: "P01".to_owned(),
            sentence: String::new(),
            published: String::new(),
            bound: String::new(),
            era: "today".to_owned(),
            run: "r".to_owned(),
            command: String::new(),
            minutes: None,
            verdict,
            leaning: None,
            remark: String::new(),
            n: 5,
            place: String::new(),
            estimate: None,
            interval: None,
            p_value: Some(p_value),
            false_discovery_rate: None,
            stands: false,
            replicates_to_decide: None,
            calibrated: None,
            not_tested: None,
            variants: Vec::new(),
        }
    }

    #[test]
    fn where_nothing_is_true_few_ledgers_have_a_verdict_that_stands() {
        // Every figure of these ledgers is exactly at its bound, so its p-value is uniform.
        let draws = Seed(31).stream("null ledgers");
        let ledgers = 400;
        let mut with_a_find = 0;
        let mut decided = 0;
        for ledger in 0..ledgers {
            let rows = (0..60).map(|place| {
                let p_value = draws.uniform(ledger * 60 + place);
                let verdict = match p_value <= 0.05 {
                    true => Verdict::Holds,
                    false => Verdict::Undecided,
                };
                row(verdict, p_value)
            });
            let ledger = Ledger::judged(rows.collect());
            decided += ledger.standing + ledger.not_standing;
            with_a_find += usize::from(ledger.standing > 0);
        }
        // About 5 % of single verdicts are wrong. A verdict may stand in at most 5 % of the ledgers.
        assert!((1_000..1_400).contains(&decided), "{decided} of 24 000");
        assert!(with_a_find <= 20, "{with_a_find} of {ledgers}");
    }

    #[test]
    fn clear_verdicts_stand_and_untested_claims_do_not_count() {
        let mut rows = vec![row(Verdict::Holds, 1e-5), row(Verdict::Reversed, 0.04)];
        rows.extend((0..8).map(|_| row(Verdict::Undecided, 0.5)));
        rows.push(row(Verdict::NotTested, 0.0));
        let ledger = Ledger::judged(rows);
        assert_eq!((ledger.standing, ledger.not_standing), (1, 1));
        assert!(ledger.rows[0].stands && !ledger.rows[1].stands);
        assert_eq!(ledger.rows[10].false_discovery_rate, None);
        assert!((ledger.expected_wrong - 0.05).abs() < 1e-12);
    }
}
