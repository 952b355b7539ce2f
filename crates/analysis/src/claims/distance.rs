//! The distance between two distributions.
//!
//! A record contains a distribution as cumulative shares in percent, one metric for each step. The distance is
//! computed from the mean shares of the replicates. Its interval is a jackknife interval that leaves out whole
//! replicates, because the shares of one replicate depend on each other.

use super::judge::{Bench, Measured, join};
use super::{Relation, Side};
use crate::machines;
use crate::resolution::quotient;
use crate::run::Cell;
use crate::selection::Selection;
use crate::statistics::{Interval, Scale, Sides, indices, mean_at};
use crate::sweep::family;

/// The shares of a cell at each step.
struct Shares {
    numbers: Vec<u32>,
    /// The shares, by step and then by replicate.
    values: Vec<Vec<f64>>,
    remark: String,
}

impl Shares {
    /// Removes all other replicates.
    fn keep(&mut self, shared: &[u32]) {
        for values in &mut self.values {
            machines::keep(shared, &self.numbers, values);
        }
        self.numbers = shared.to_vec();
    }
}

impl Bench<'_> {
    /// Estimates the distance between the distributions of two cells.
    pub(super) fn distance(&self, relation: &Relation, place: &Selection) -> Measured {
        let steps = family::members(self.inputs.metrics, &relation.metric);
        let names: Vec<&str> = steps.iter().map(|(_, name)| *name).collect();
        let mut both = Vec::new();
        for side in relation.sides() {
            match self.shares(side, place, &names) {
                Ok(shares) => both.push(shares),
                Err(problem) => return problem,
            }
        }
        let info = &self.inputs.run.info;
        let numbers: Vec<Vec<u32>> = both.iter().map(|shares| shares.numbers.clone()).collect();
        if let Some(shared) = machines::shared(info, &numbers) {
            both.iter_mut().for_each(|shares| shares.keep(&shared));
        }
        let [left, right] = both.as_slice() else {
            return Measured::Missing;
        };
        // The samples are indices of replicates, the same for every step.
        let sides = Sides::of([&left.numbers, &right.numbers]);
        let statistic = |drawn: &[&[f64]]| -> f64 {
            let share = |values: &[f64], places: &[f64]| mean_at(values, places) / 100.0;
            let apart = left
                .values
                .iter()
                .zip(&right.values)
                .map(|(left, right)| (share(left, drawn[0]) - share(right, drawn[1])).abs());
            apart.fold(0.0, f64::max)
        };
        let samples = [left, right].map(|shares| indices(shares.numbers.len()));
        let samples = [samples[0].as_slice(), samples[1].as_slice()];
        let machines = machines::machines(info, &left.numbers);
        let intervals = self.inputs.intervals;
        let estimate = intervals.on(&machines).statistic(
            &samples,
            sides,
            Scale::Linear,
            quotient(),
            &statistic,
        );
        match estimate {
            Some(mut estimate) => {
                let shares = Interval {
                    low: 0.0,
                    high: 1.0,
                };
                estimate.bound_to(shares, intervals.level);
                Measured::Estimate(Box::new(estimate), sides, join(&left.remark, &right.remark))
            }
            None => Measured::Missing,
        }
    }

    fn shares(&self, side: &Side, place: &Selection, names: &[&str]) -> Result<Shares, Measured> {
        let cell = self.cell(side, place)?;
        let remark = self.usable(cell)?;
        // A replicate that lacks a step has no distribution and is left out.
        let whole: Vec<(u32, Vec<f64>)> = replicates(cell, names);
        if whole.is_empty() {
            return Err(Measured::Missing);
        }
        Ok(Shares {
            numbers: whole.iter().map(|(number, _)| *number).collect(),
            values: (0..names.len())
                .map(|step| whole.iter().map(|(_, shares)| shares[step]).collect())
                .collect(),
            remark,
        })
    }
}

fn replicates(cell: &Cell, names: &[&str]) -> Vec<(u32, Vec<f64>)> {
    cell.valid()
        .filter_map(|replicate| {
            let share = |name: &&str| replicate.metrics.get(*name).copied();
            let shares: Option<Vec<f64>> = names.iter().map(share).collect();
            Some((replicate.replicate, shares?))
        })
        .collect()
}
