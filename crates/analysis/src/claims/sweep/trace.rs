//! A curve with all its replicates, as recorded in a run.

use super::super::judge::{Bench, Measured, join};
use super::super::{Relation, Side};
use super::Sweep;
use super::figure::Drawn;
use crate::machines;
use crate::run::Cell;
use crate::selection::Selection;
use crate::statistics::mean_at;
use crate::sweep::{NoCurve, levels};

/// A curve with all its replicates.
pub(super) struct Trace<'a> {
    pub(super) xs: Vec<f64>,
    /// The numbers of the valid replicates at each level.
    pub(super) numbers: Vec<Vec<u32>>,
    pub(super) values: Vec<Vec<f64>>,
    pub(super) over: Option<Vec<Vec<f64>>>,
    pub(super) per: Option<Vec<Vec<f64>>>,
    pub(super) of_knee: Option<Vec<Vec<f64>>>,
    pub(super) first: &'a Cell,
    pub(super) remark: String,
}

impl Trace<'_> {
    /// Removes all replicates that are not in `shared`.
    pub(super) fn keep(&mut self, shared: &[u32]) {
        let others = [&mut self.over, &mut self.per, &mut self.of_knee];
        let lists = others.into_iter().flatten();
        for values in lists.chain([&mut self.values]) {
            for (values, numbers) in values.iter_mut().zip(&self.numbers) {
                machines::keep(shared, numbers, values);
            }
        }
        self.numbers.fill(shared.to_vec());
    }

    pub(super) fn drawn(&self, places: &[&[f64]], sweep: &Sweep) -> Drawn<'_> {
        let means = |values: &[Vec<f64>]| -> Vec<f64> {
            values
                .iter()
                .zip(places)
                .map(|(values, places)| mean_at(values, places))
                .collect()
        };
        let mut ys = means(&self.values);
        if let Some(over) = &self.over {
            for (y, over) in ys.iter_mut().zip(means(over)) {
                *y /= over;
            }
        }
        let knee = sweep.knee.as_ref().zip(self.of_knee.as_ref());
        Drawn {
            xs: &self.xs,
            per: self.per.as_deref().map(means),
            ys,
            knee: knee.and_then(|(knee, values)| knee.rule.find(&self.xs, &means(values))),
        }
    }
}

impl Bench<'_> {
    /// The curve of one side of a relation, at every level that has valid replicates.
    pub(super) fn trace<'a>(
        &'a self,
        side: &Side,
        relation: &Relation,
        sweep: &Sweep,
        place: &Selection,
    ) -> Result<Trace<'a>, Measured> {
        let metric = side.metric.as_ref().unwrap_or(&relation.metric);
        let selection = place.with(&side.selection);
        let found = levels(&self.inputs, &selection, &sweep.along).map_err(no_curve)?;
        let mut remark = found.left_out.join("; ");
        let mut trace: Option<Trace<'a>> = None;
        for (x, cell) in found.cells {
            let Some(values) = Some(cell.values(metric)).filter(|v| !v.is_empty()) else {
                continue;
            };
            let same = |metric: &str| -> Result<Vec<f64>, Measured> {
                let others = cell.values(metric);
                if !values
                    .iter()
                    .map(|(n, _)| n)
                    .eq(others.iter().map(|(n, _)| n))
                {
                    let reason = format!("not every replicate of {} has {metric}", cell.key);
                    return Err(Measured::Unusable(reason));
                }
                Ok(others.into_iter().map(|(_, value)| value).collect())
            };
            if cell.valid().count() < cell.replicates.len() {
                let out = cell.replicates.len() - cell.valid().count();
                let all = cell.replicates.len();
                let text = format!("{} {x}: {out} of {all} replicates left out", sweep.along);
                remark = join(&remark, &text);
            }
            let over = sweep.over.as_deref().map(same).transpose()?;
            let per = sweep.per.as_deref().map(same).transpose()?;
            let of_knee = sweep.knee.as_ref().map(|k| same(&k.of)).transpose()?;
            let trace = trace.get_or_insert_with(|| Trace {
                xs: Vec::new(),
                numbers: Vec::new(),
                values: Vec::new(),
                over: over.is_some().then(Vec::new),
                per: per.is_some().then(Vec::new),
                of_knee: of_knee.is_some().then(Vec::new),
                first: cell,
                remark: String::new(),
            });
            trace.xs.push(x);
            trace.numbers.push(values.iter().map(|(n, _)| *n).collect());
            trace.values.push(values.iter().map(|(_, v)| *v).collect());
            if let (Some(all), Some(own)) = (&mut trace.over, over) {
                all.push(own);
            }
            if let (Some(all), Some(own)) = (&mut trace.per, per) {
                all.push(own);
            }
            if let (Some(all), Some(own)) = (&mut trace.of_knee, of_knee) {
                all.push(own);
            }
        }
        match trace {
            Some(trace) => Ok(Trace { remark, ..trace }),
            None if remark.is_empty() => Err(Measured::Missing),
            None => Err(Measured::Unusable(remark)),
        }
    }
}

/// The sides whose curves a relation needs. In a loss, each side is followed by its baseline.
pub(super) fn curves_of(relation: &Relation) -> Vec<Side> {
    let mut sides = Vec::new();
    for side in relation.sides() {
        sides.push(side.clone());
        if let Some(baseline) = &relation.baseline {
            sides.push(Side {
                metric: side.metric.clone(),
                selection: side.selection.with(baseline),
            });
        }
    }
    sides
}

fn no_curve(problem: NoCurve) -> Measured {
    match problem {
        NoCurve::NotMeasured => Measured::Missing,
        NoCurve::Ambiguous(factors) => {
            Measured::Unusable(format!("several cells differ in {}", factors.join(", ")))
        }
    }
}
