//! Goodness of fit: tests whether generated values follow the intended law.
//!
//! A [`FitReport`] has one line per stage: the intended law, the generated values, the test statistic, the criterion
//! and the verdict. Some distances from a law are unavoidable, because counts are whole numbers. A stage with such a
//! distance is tested against a stated distance instead of a probability. A stage without an intended law is reported
//! without a verdict.

use std::fmt;

use serde::{Deserialize, Serialize};

mod special;
mod statistics;

pub use statistics::{
    ChiSquare, KolmogorovSmirnov, anderson_darling, anderson_darling_p_value, discrepancy,
    zipf_slope,
};

/// A stage differs from its law if the probability of its statistic under the law is below this level.
pub const LEVEL: f64 = 0.001;

/// The stages of a workload, each compared with its law.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FitReport {
    /// The stages, in the order in which the workload is generated.
    pub stages: Vec<StageFit>,
}

/// One stage compared with its law.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageFit {
    /// The name of the stage, as in `base file sizes`.
    pub name: String,
    /// The intended law with its parameters.
    pub wanted: String,
    /// Figures that summarise the generated values.
    pub realised: String,
    /// The number of values tested.
    pub n: u64,
    /// The name of the test statistic.
    pub statistic: String,
    /// The value of the statistic.
    pub value: f64,
    /// The criterion for the value.
    pub criterion: Criterion,
    /// The result.
    pub verdict: Verdict,
    /// Additional information for readers: a known distance and its reason, or an unconfirmed parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The criterion for a test statistic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// The probability, under the intended law, of a value at least as large; it must be at least `level`.
    Probability {
        /// The probability.
        p_value: f64,
        /// The level that it must reach.
        level: f64,
    },
    /// The value must not exceed this limit. For a signed value, the limit is for the magnitude.
    AtMost(f64),
    /// No criterion: reported only.
    Nothing,
}

/// Whether a stage follows its law.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The test finds no difference between the stage and the law.
    Passes,
    /// The stage does not follow the law.
    Differs,
    /// There was no criterion, so the stage is only reported.
    Reported,
}

impl StageFit {
    /// Creates the result of a stage tested against `criterion`, without notes.
    pub fn new(
        name: impl Into<String>,
        (wanted, realised): (String, String),
        n: u64,
        (statistic, value): (impl Into<String>, f64),
        criterion: Criterion,
    ) -> StageFit {
        let verdict = match criterion {
            Criterion::Probability { p_value, level } if p_value >= level => Verdict::Passes,
            Criterion::AtMost(limit) if value.abs() <= limit => Verdict::Passes,
            Criterion::Nothing => Verdict::Reported,
            _ => Verdict::Differs,
        };
        StageFit {
            name: name.into(),
            wanted,
            realised,
            n,
            statistic: statistic.into(),
            value,
            criterion,
            verdict,
            notes: Vec::new(),
        }
    }

    /// Adds a note.
    pub fn note(mut self, note: impl Into<String>) -> StageFit {
        self.notes.push(note.into());
        self
    }
}

impl Criterion {
    /// Creates the criterion for a probability tested at [`LEVEL`].
    pub fn probability(p_value: f64) -> Criterion {
        Criterion::Probability {
            p_value,
            level: LEVEL,
        }
    }
}

impl FitReport {
    /// Returns whether all stages follow their law.
    pub fn passes(&self) -> bool {
        self.stages
            .iter()
            .all(|stage| stage.verdict != Verdict::Differs)
    }

    /// Returns the stage of this name.
    pub fn stage(&self, name: &str) -> Option<&StageFit> {
        self.stages.iter().find(|stage| stage.name == name)
    }
}

impl FitReport {
    /// Describes the stages that do not follow their law, one sentence each.
    pub fn differing(&self) -> Vec<String> {
        self.stages
            .iter()
            .filter(|stage| stage.verdict == Verdict::Differs)
            .map(|stage| {
                format!(
                    "{} do not follow {}: {} {:.3}, judged by {}",
                    stage.name, stage.wanted, stage.statistic, stage.value, stage.criterion
                )
            })
            .collect()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Passes => "passes",
            Verdict::Differs => "DIFFERS",
            Verdict::Reported => "reported",
        })
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Criterion::Probability { p_value, level } if *p_value < 1e-4 => {
                write!(f, "p < 0.0001, at least {level}")
            }
            Criterion::Probability { p_value, level } => {
                write!(f, "p = {p_value:.4}, at least {level}")
            }
            Criterion::AtMost(limit) => write!(f, "at most {}", Short(*limit)),
            Criterion::Nothing => f.write_str("not judged"),
        }
    }
}

/// Displays a number with four significant digits.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if self.0 == self.0.trunc() && size < 1e15 {
            write!(f, "{}", self.0)
        } else if !(1e-4..1e6).contains(&size) {
            write!(f, "{:.3e}", self.0)
        } else {
            let digits = (3.0 - libm::log10(size).floor()).clamp(0.0, 7.0) as usize;
            write!(f, "{:.digits$}", self.0)
        }
    }
}

/// Prints a plain text table. Each stage has one line with its test; below it are the intended law, the generated
/// values and the notes.
impl fmt::Display for FitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tests: Vec<[String; 3]> = self
            .stages
            .iter()
            .map(|stage| {
                [
                    stage.name.clone(),
                    format!("{} = {}", stage.statistic, Short(stage.value)),
                    stage.criterion.to_string(),
                ]
            })
            .collect();
        let width = |column: usize| tests.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2)];
        for (stage, [name, test, criterion]) in self.stages.iter().zip(&tests) {
            writeln!(
                f,
                "{:<8}  {name:<a$}  {test:<b$}  {criterion:<c$}  n = {}",
                stage.verdict,
                stage.n,
                a = widths[0],
                b = widths[1],
                c = widths[2],
            )?;
            writeln!(f, "          wanted    {}", stage.wanted)?;
            writeln!(f, "          realised  {}", stage.realised)?;
            for note in &stage.notes {
                writeln!(f, "          note      {note}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> FitReport {
        let texts = |realised: &str| ("Pareto(k = 1, alpha = 1.4)".to_owned(), realised.to_owned());
        FitReport {
            stages: vec![
                StageFit::new(
                    "OFF times",
                    texts("mean 3.41"),
                    1000,
                    ("A2", 1.2345678),
                    Criterion::probability(0.25),
                ),
                StageFit::new("x", texts("y"), 10, ("D", 0.06), Criterion::AtMost(0.05))
                    .note("a count cannot be divided"),
                StageFit::new("z", texts("y"), 10, ("slope", -1.0), Criterion::Nothing),
            ],
        }
    }

    #[test]
    fn verdicts_follow_from_the_criterion() {
        let report = report();
        let verdicts: Vec<Verdict> = report.stages.iter().map(|stage| stage.verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Passes, Verdict::Differs, Verdict::Reported]
        );
        assert!(!report.passes());
        assert_eq!(report.stage("x").unwrap().value, 0.06);
        let not_a_number = Criterion::probability(f64::NAN);
        let texts = (String::new(), String::new());
        let stage = StageFit::new("", texts, 0, ("", f64::NAN), not_a_number);
        assert_eq!(stage.verdict, Verdict::Differs);
    }

    #[test]
    fn the_table_is_plain_text_in_columns() {
        assert_eq!(
            report().to_string(),
            "\
passes    OFF times  A2 = 1.235   p = 0.2500, at least 0.001  n = 1000
          wanted    Pareto(k = 1, alpha = 1.4)
          realised  mean 3.41
DIFFERS   x          D = 0.06000  at most 0.05000             n = 10
          wanted    Pareto(k = 1, alpha = 1.4)
          realised  y
          note      a count cannot be divided
reported  z          slope = -1   not judged                  n = 10
          wanted    Pareto(k = 1, alpha = 1.4)
          realised  y
"
        );
    }

    #[test]
    fn a_report_survives_json() {
        let text = serde_json::to_string(&report()).unwrap();
        assert!(text.contains(r#""criterion":{"probability":{"p_value":0.25,"level":0.001}}"#));
        assert_eq!(serde_json::from_str::<FitReport>(&text).unwrap(), report());
    }
}
