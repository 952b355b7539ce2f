//! The ledger as text for a terminal and for `docs/ledger.md`.

use std::fmt::Write as _;

use fathometer_model::digits::significant;

use super::{Ledger, Row};
use crate::claims::Verdict;

/// A larger upper end of an interval is shown as "no limit".
const MOST: f64 = 1e7;

impl Ledger {
    /// The ledger as a page of documentation. Each run is a link to its folder. `runs` is the path of the runs,
    /// relative to the page.
    pub fn markdown(&self, runs: &str) -> String {
        let mut text = String::from(
            "# The ledger\n\n\
             Which findings of the five papers still hold. This page is the output of \
             `fathometer ledger --markdown`; a test checks that it is not stale.\n\n",
        );
        let _ = writeln!(text, "{}\n", self.summary());
        text.push_str(
            "A verdict is judged in each place (load, server, path) alone, by the published bound. The figure is that \
             of the place that decides. *stands* means that the verdict stands at the false discovery rate of the \
             whole ledger. [statistics.md](statistics.md) has the methods.\n",
        );
        let mut paper = "";
        for row in &self.rows {
            if row.paper != paper {
                paper = &row.paper;
                let _ = write!(
                    text,
                    "\n## {paper}\n\n\
                     | claim | era | verdict | n | estimate | paper | run |\n|---|---|---|---|---|---|---|\n"
                );
            }
            let claim = format!("**{}** {} *({})*", row.claim, row.sentence, row.bound);
            let run = match row.run.is_empty() {
                true => String::new(),
                false => format!("[{}]({runs}/{}/README.md)", row.run, row.run),
            };
            let fields = [
                claim,
                row.era.clone(),
                row.verdict_text(),
                if row.n > 0 {
                    row.n.to_string()
                } else {
                    String::new()
                },
                row.figure(),
                row.published.clone(),
                run,
            ];
            let fields = fields.map(|field| field.replace('|', "\\|"));
            let _ = writeln!(text, "| {} |", fields.join(" | "));
        }
        if !self.equal_cells.is_empty() {
            text.push_str(
                "\n## Equal cells measured twice (A/A)\n\n\
                 What noise does to verdicts in each run ([how to read it](statistics.md#equal-cells)):\n\n",
            );
            for equal in &self.equal_cells {
                let (run, sentence) = (&equal.run, equal.count.sentence());
                let _ = writeln!(text, "- [{run}]({runs}/{run}/README.md): {sentence}");
            }
        }
        if !self.repeats.is_empty() {
            text.push_str(
                "\n## Studies measured twice\n\n\
                 Whether two runs of one study reach the same verdicts, where both decide. Claims are compared if they \
                 were tested in the same places.\n\n",
            );
            for repeat in &self.repeats {
                let links = repeat
                    .runs
                    .each_ref()
                    .map(|run| format!("[{run}]({runs}/{run}/README.md)"));
                let _ = writeln!(text, "- {}: {}", links.join(" and "), repeat.sentence());
            }
        }
        text.push_str(&self.counterparts_markdown(runs));
        text.push_str(
            "\n## Commands\n\nEach run was made by one command, in the time in parentheses:\n\n",
        );
        let mut known: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| !row.run.is_empty()) {
            if !known.contains(&row.run.as_str()) {
                known.push(&row.run);
                let minutes = row
                    .minutes
                    .map_or_else(String::new, |minutes| format!(" ({minutes:.0} min)"));
                let _ = writeln!(text, "- {}: `{}`{minutes}", row.run, row.command);
            }
        }
        text
    }

    /// The ledger for a terminal, with one line for each verdict.
    pub fn terminal(&self) -> String {
        let mut text = self.summary() + "\n\n";
        for row in &self.rows {
            let _ = writeln!(
                text,
                "{:4} {:6} {:28} {:>3}  {}",
                row.claim,
                row.era,
                row.verdict_line(),
                if row.n > 0 {
                    row.n.to_string()
                } else {
                    "-".to_owned()
                },
                match &row.not_tested {
                    Some(reason) => reason.clone(),
                    None => format!("{}  {}", row.figure(), row.run),
                }
            );
        }
        if !self.equal_cells.is_empty() {
            text.push_str("\nA/A: equal cells measured twice\n");
        }
        for equal in &self.equal_cells {
            let _ = writeln!(text, "{}: {}", equal.run, equal.count.sentence());
        }
        if !self.repeats.is_empty() {
            text.push_str("\nStudies measured twice\n");
        }
        for repeat in &self.repeats {
            let _ = writeln!(text, "{}: {}", repeat.runs.join(" and "), repeat.sentence());
        }
        if !self.counterparts.is_empty() {
            let with_run = self.counterparts.iter().filter(|one| one.run.is_some());
            let _ = writeln!(
                text,
                "\nTables and figures: {} of {} of the papers have a counterpart in these runs (--markdown lists them)",
                with_run.count(),
                self.counterparts.len()
            );
        }
        text
    }

    /// The tables and figures of the papers, with links to the runs of their counterparts.
    fn counterparts_markdown(&self, runs: &str) -> String {
        let mut text = String::new();
        if self.counterparts.is_empty() {
            return text;
        }
        text.push_str(
            "\n## Tables and figures\n\n\
             Each table (T) and figure (F) of the papers, and the most complete run of its counterpart; or why there is \
             none.\n",
        );
        let mut paper = "";
        for counterpart in &self.counterparts {
            if counterpart.paper != paper {
                paper = &counterpart.paper;
                let _ = write!(
                    text,
                    "\n### {paper}: tables and figures\n\n| | what it shows | here | run |\n|---|---|---|---|\n"
                );
            }
            let run = match (&counterpart.run, &counterpart.absent) {
                (Some(run), _) => {
                    let replicates = counterpart.replicates_text();
                    format!("[{run}]({runs}/{run}/README.md), {replicates}")
                }
                (None, reason) => reason.clone().unwrap_or_default(),
            };
            let fields = [
                counterpart.id.clone(),
                counterpart.title.clone(),
                counterpart.here.join("; "),
                run,
            ];
            let fields = fields.map(|field| field.replace('|', "\\|"));
            let _ = writeln!(text, "| {} |", fields.join(" | "));
        }
        text
    }

    /// The result in a few sentences.
    fn summary(&self) -> String {
        let mut claims: Vec<&str> = self.rows.iter().map(|row| row.claim.as_str()).collect();
        claims.dedup();
        let tested = self
            .rows
            .iter()
            .filter(|row| row.verdict != Verdict::NotTested);
        let mut tested_claims: Vec<&str> = tested.map(|row| row.claim.as_str()).collect();
        tested_claims.dedup();
        let counted = |wanted: Verdict| {
            let rows = self.rows.iter().filter(|row| row.verdict == wanted);
            let standing = rows.clone().filter(|row| row.stands).count();
            match wanted.is_decided() {
                true => format!("{wanted} {} ({standing} stand)", rows.count()),
                false => format!("{wanted} {}", rows.count()),
            }
        };
        let counts = Verdict::ALL.map(counted).join(", ");
        format!(
            "{} claims, {} of them tested. Verdicts: {counts}. At a false discovery rate of {} % over all of them \
             (Benjamini-Yekutieli) {} verdicts stand, of which at most {:.1} are expected to be wrong; {} that single \
             runs decide do not stand.",
            claims.len(),
            tested_claims.len(),
            self.false_discovery_rate * 100.0,
            self.standing,
            self.expected_wrong,
            self.not_standing,
        )
    }
}

impl Row {
    /// The verdict in one line, as in `holds, stands` or `undecided (holds?)`.
    fn verdict_line(&self) -> String {
        match (self.verdict, self.leaning) {
            (Verdict::NotTested, _) => "not tested".to_owned(),
            (Verdict::Undecided, Some(leaning)) => format!("undecided ({leaning}?)"),
            (verdict, _) if self.stands => format!("{verdict}, stands"),
            (verdict, _) => verdict.to_string(),
        }
    }

    fn verdict_text(&self) -> String {
        let mut sentences = vec![format!("**{}**", self.verdict_line())];
        if !self.remark.is_empty() {
            sentences.push(self.remark.clone());
        }
        if let Some(n) = self.replicates_to_decide {
            sentences.push(format!("about {n} replicates would decide"));
        }
        if let Some(reason) = &self.not_tested {
            sentences.push(reason.clone());
        }
        if let Some(reason) = &self.calibrated {
            sentences.push(format!("calibrated in part: {reason}"));
        }
        for variant in &self.variants {
            let leaning = variant.leaning.map(|leaning| format!(" ({leaning}?)"));
            sentences.push(format!(
                "read otherwise since {} ({}): {}{}",
                variant.date,
                variant.name,
                variant.verdict,
                leaning.unwrap_or_default()
            ));
        }
        sentences.join("; ")
    }

    /// The estimate with its interval and its environment.
    fn figure(&self) -> String {
        let Some(value) = self.estimate else {
            return self.place.clone();
        };
        let interval = self.interval.map(|interval| {
            let high = match interval.high < MOST {
                true => significant(interval.high),
                false => "no limit".to_owned(),
            };
            format!(" [{}, {high}]", significant(interval.low))
        });
        format!(
            "{}{}, {}",
            significant(value),
            interval.unwrap_or_default(),
            self.place
        )
    }
}
