//! Intervals over few replicates, by Student's t.
//!
//! | figure | method | source |
//! |---|---|---|
//! | mean of a cell | one-sample t | Student, "The probable error of a mean", Biometrika 6 (1908) |
//! | difference, paired replicates | one-sample t of the differences | the same |
//! | difference, independent cells | t with the degrees of freedom of Welch and Satterthwaite | Welch, Biometrika 34 (1947) |
//! | ratio and contrast of positive values | the same on the logarithms; the estimate is the ratio of geometric means | Law, "Simulation Modeling and Analysis" (2015), 10.2; Fleming and Wallace, Communications of the ACM 29 (1986) |
//! | any other smooth figure of several cells | t of the jackknife's standard error | Tukey (1958); Miller, "The jackknife: a review", Biometrika 61 (1974) |
//! | a discrete figure, such as a knee | t of the figures of single replicates | Law, 9.5: independent replications |
//!
//! Replicates are paired if both cells have the same replicates: replicate i used the same random numbers in each cell,
//! and the schedule ran the cells of one replicate close together.
//!
//! For replicates of several machines, see [`OnMachines`] and `spread`.
//!
//! The [`Resolution`] of the instrument sets a minimum length of the interval.

use super::basis::{Basis, Inference, Resolution, UNBOUNDED};
use super::spread::{Spread, satterthwaite, spread_of_sample};
use super::{Estimate, Interval, LEVEL, Sides, mean, standard_deviation};

/// The level of intervals over replicates, with the methods that compute them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervals {
    /// The coverage probability of an interval, as in 0.95.
    pub level: f64,
}

impl Default for Intervals {
    fn default() -> Intervals {
        Intervals { level: LEVEL }
    }
}

/// The smallest relative error of figures of single replicates. It gives their interval a length if they all agree.
const SMALLEST: f64 = 1e-4;

/// The scale of a figure of several cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// The figure itself.
    Linear,
    /// The logarithm of the figure, if the figure and all its parts are positive. Otherwise, it is the figure itself.
    Logarithmic,
}

/// Intervals over replicates that were measured on several machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OnMachines<'a> {
    level: f64,
    /// The machine of each value, for one sample or for paired samples; empty for one machine.
    machines: &'a [u32],
}

impl Intervals {
    /// Returns intervals for replicates of several machines. Value i of one sample, or of paired samples, was measured
    /// on machine `machines[i]`. An empty list means one machine.
    pub fn on(self, machines: &[u32]) -> OnMachines<'_> {
        OnMachines {
            level: self.level,
            machines,
        }
    }

    /// The mean of one sample; see [`OnMachines::mean`].
    pub fn mean(&self, sample: &[f64], resolution: Resolution) -> Option<Inference> {
        self.on(&[]).mean(sample, resolution)
    }

    /// The difference of two means; see [`OnMachines::difference`].
    ///
    /// # Panics
    /// When the sides are paired and differ in length.
    pub fn difference(
        &self,
        left: &[f64],
        right: &[f64],
        sides: Sides,
        resolution: Resolution,
    ) -> Option<Inference> {
        self.on(&[]).difference(left, right, sides, resolution)
    }

    /// The ratio of two samples; see [`OnMachines::ratio`].
    ///
    /// # Panics
    /// When the sides are paired and differ in length.
    pub fn ratio(
        &self,
        numerator: &[f64],
        denominator: &[f64],
        sides: Sides,
        resolution: Resolution,
    ) -> Option<Inference> {
        self.on(&[])
            .ratio(numerator, denominator, sides, resolution)
    }

    /// Any smooth statistic; see [`OnMachines::statistic`].
    ///
    /// # Panics
    /// When the samples are paired and differ in length.
    pub fn statistic(
        &self,
        samples: &[&[f64]],
        sides: Sides,
        scale: Scale,
        resolution: Resolution,
        statistic: &dyn Fn(&[&[f64]]) -> f64,
    ) -> Option<Inference> {
        self.on(&[])
            .statistic(samples, sides, scale, resolution, statistic)
    }
}

impl OnMachines<'_> {
    /// The mean of one sample; `None` when it is empty.
    pub fn mean(&self, sample: &[f64], resolution: Resolution) -> Option<Inference> {
        let value = (!sample.is_empty()).then(|| mean(sample))?;
        let spread = spread_of(&[sample], &[1.0], Sides::Independent, self.machines);
        let floor = resolution.deviation(value);
        Some(self.inference(sample.len(), value, spread, floor, false))
    }

    /// The mean of `left` minus the mean of `right`; `None` when a side is empty.
    ///
    /// # Panics
    /// When the sides are paired and differ in length.
    pub fn difference(
        &self,
        left: &[f64],
        right: &[f64],
        sides: Sides,
        resolution: Resolution,
    ) -> Option<Inference> {
        let n = left.len().min(right.len());
        if n == 0 {
            return None;
        }
        let (one, other) = (mean(left), mean(right));
        let spread = spread_of(&[left, right], &[1.0, -1.0], sides, self.machines);
        let floor = resolution.deviation(one).hypot(resolution.deviation(other));
        Some(self.inference(n, one - other, spread, floor, false))
    }

    /// The ratio of two samples; `None` when a side is empty. See [`OnMachines::contrast`].
    ///
    /// # Panics
    /// When the sides are paired and differ in length.
    pub fn ratio(
        &self,
        numerator: &[f64],
        denominator: &[f64],
        sides: Sides,
        resolution: Resolution,
    ) -> Option<Inference> {
        self.product(&[numerator, denominator], &[1.0, -1.0], sides, resolution)
    }

    /// The ratio of the first two samples divided by the ratio of the last two; `None` when a sample is empty.
    ///
    /// The ratios are ratios of geometric means. If a value is not positive, they are ratios of arithmetic means, with
    /// a jackknife interval.
    ///
    /// # Panics
    /// When the samples are paired and differ in length.
    pub fn contrast(
        &self,
        samples: [&[f64]; 4],
        sides: Sides,
        resolution: Resolution,
    ) -> Option<Inference> {
        self.product(&samples, &[1.0, -1.0, -1.0, 1.0], sides, resolution)
    }

    /// The product of the samples' means, each raised to its sign (1 or -1).
    fn product(
        &self,
        samples: &[&[f64]],
        signs: &[f64],
        sides: Sides,
        resolution: Resolution,
    ) -> Option<Inference> {
        if samples.iter().copied().flatten().any(|v| *v <= 0.0) {
            let statistic = |samples: &[&[f64]]| -> f64 {
                let means = samples.iter().zip(signs);
                means.map(|(s, sign)| mean(s).powf(*sign)).product()
            };
            return self.statistic(samples, sides, Scale::Linear, resolution, &statistic);
        }
        let n = samples.iter().map(|sample| sample.len()).min()?;
        if n == 0 {
            return None;
        }
        let logarithms: Vec<Vec<f64>> = samples
            .iter()
            .map(|sample| sample.iter().map(|v| v.ln()).collect())
            .collect();
        let logarithms: Vec<&[f64]> = logarithms.iter().map(Vec::as_slice).collect();
        let centre = logarithms.iter().zip(signs);
        let centre: f64 = centre.map(|(sample, sign)| sign * mean(sample)).sum();
        let floors = samples.iter().map(|sample| {
            let value = mean(sample);
            (resolution.deviation(value) / value).powi(2)
        });
        let floor = floors.sum::<f64>().sqrt();
        let spread = spread_of(&logarithms, signs, sides, self.machines);
        Some(self.inference(n, centre, spread, floor, true))
    }

    /// Any smooth statistic of one or more samples, by the jackknife; `None` if a sample is empty. The absolute
    /// resolution is ignored, because the unit of the statistic differs from the unit of the samples.
    ///
    /// # Panics
    /// When the samples are paired and differ in length.
    pub fn statistic(
        &self,
        samples: &[&[f64]],
        sides: Sides,
        scale: Scale,
        resolution: Resolution,
        statistic: &dyn Fn(&[&[f64]]) -> f64,
    ) -> Option<Inference> {
        let n = samples.iter().map(|sample| sample.len()).min()?;
        if n == 0 {
            return None;
        }
        check_pairs(samples, sides);
        let value = statistic(samples);
        let parts = match n > 1 {
            true => left_out(samples, sides, statistic),
            false => Vec::new(),
        };
        let all = || parts.iter().flatten().copied();
        if n < 2 || !value.is_finite() || all().any(|part| !part.is_finite()) {
            return Some(self.without_interval(n, value));
        }
        let logarithmic =
            scale == Scale::Logarithmic && value > 0.0 && all().all(|part| part > 0.0);
        let on_scale = |value: f64| if logarithmic { value.ln() } else { value };
        let parts: Vec<Vec<f64>> = parts
            .into_iter()
            .map(|parts| parts.into_iter().map(on_scale).collect())
            .collect();
        let relative = Resolution {
            absolute: 0.0,
            ..resolution
        };
        let floor = relative.deviation(if logarithmic { 1.0 } else { value });
        let spread = spread_of_jackknife(&parts, self.machines);
        Some(self.inference(n, on_scale(value), spread, floor, logarithmic))
    }

    /// A figure that each replicate gives once; the estimate is the figure of all replicates together. `slack` is the
    /// largest possible distance of the true value below and above the figure, on its scale.
    pub fn replications(
        &self,
        value: f64,
        of_replicates: &[f64],
        scale: Scale,
        slack: (f64, f64),
        range: Interval,
    ) -> Inference {
        let n = of_replicates.len();
        let finite = value.is_finite() && of_replicates.iter().all(|v| v.is_finite());
        if n < 2 || !finite {
            return self.without_interval(n, value);
        }
        let positive = value > 0.0 && of_replicates.iter().all(|v| *v > 0.0);
        let logarithmic = scale == Scale::Logarithmic && positive;
        let on_scale = |value: f64| if logarithmic { value.ln() } else { value };
        let values: Vec<f64> = of_replicates.iter().copied().map(on_scale).collect();
        let spread = spread_of(&[&values], &[1.0], Sides::Independent, self.machines);
        let floor = match slack == (0.0, 0.0) {
            true => SMALLEST * if logarithmic { 1.0 } else { value.abs() },
            false => 0.0,
        };
        let mut inference = self.inference(n, on_scale(value), spread, floor, logarithmic);
        if let Some(basis) = &mut inference.basis {
            basis.slack = slack;
        }
        inference.bound_to(range, self.level);
        inference.estimate.value = value;
        inference
    }

    fn inference(
        &self,
        n: usize,
        centre: f64,
        spread: Option<Spread>,
        floor: f64,
        logarithmic: bool,
    ) -> Inference {
        let value = if logarithmic { centre.exp() } else { centre };
        let Some(spread) = spread.filter(|_| centre.is_finite()) else {
            return self.without_interval(n, value);
        };
        let basis = Basis {
            n,
            centre,
            error: spread.error,
            freedom: spread.freedom,
            floor,
            machines: spread.machines,
            slack: (0.0, 0.0),
            logarithmic,
            range: UNBOUNDED,
        };
        Inference {
            estimate: Estimate {
                n,
                value,
                interval: Some(basis.interval(self.level)),
            },
            basis: Some(basis),
        }
    }

    fn without_interval(&self, n: usize, value: f64) -> Inference {
        let interval = None;
        Inference {
            estimate: Estimate { n, value, interval },
            basis: None,
        }
    }
}

impl Inference {
    /// Cuts the interval to the possible values.
    pub fn bound_to(&mut self, range: Interval, level: f64) {
        if let Some(basis) = &mut self.basis {
            basis.range = range;
            self.estimate.interval = Some(basis.interval(level));
        }
    }
}

/// The standard error of the sum of the samples' means times their signs, and its degrees of freedom. `None` if a
/// sample has fewer than two values. `machines` applies only to one sample and to paired samples.
fn spread_of(samples: &[&[f64]], signs: &[f64], sides: Sides, machines: &[u32]) -> Option<Spread> {
    check_pairs(samples, sides);
    if samples.len() == 1 {
        return spread_of_sample(samples[0], machines);
    }
    if sides == Sides::Paired {
        let sums: Vec<f64> = (0..samples[0].len())
            .map(|i| samples.iter().zip(signs).map(|(s, sign)| sign * s[i]).sum())
            .collect();
        return spread_of_sample(&sums, machines);
    }
    let of_one = |sample: &[f64]| -> Option<(f64, usize)> {
        let sd = standard_deviation(sample)?;
        Some((sd * sd / sample.len() as f64, sample.len()))
    };
    let variances: Option<Vec<(f64, usize)>> =
        samples.iter().map(|sample| of_one(sample)).collect();
    satterthwaite(&variances?)
}

/// As [`spread_of`], for the jackknife. Each list of `parts` belongs to one set of replicates, and contains the
/// statistic without each of these replicates.
fn spread_of_jackknife(parts: &[Vec<f64>], machines: &[u32]) -> Option<Spread> {
    if let ([parts], false) = (parts, machines.is_empty()) {
        // Deviations of the pseudo-values: (n - 1) times the deviations of the parts, with the opposite sign.
        let times = parts.len() as f64 - 1.0;
        let pseudo: Vec<f64> = parts.iter().map(|part| -times * part).collect();
        return spread_of_sample(&pseudo, machines);
    }
    let variance = |parts: &Vec<f64>| {
        let m = parts.len() as f64;
        let centre = mean(parts);
        let squares: f64 = parts.iter().map(|part| (part - centre).powi(2)).sum();
        ((m - 1.0) / m * squares, parts.len())
    };
    let variances: Vec<(f64, usize)> = parts.iter().map(variance).collect();
    satterthwaite(&variances)
}

/// The statistic without each replicate. The result has one list if replicates are paired, otherwise one list for each
/// sample.
fn left_out(
    samples: &[&[f64]],
    sides: Sides,
    statistic: &dyn Fn(&[&[f64]]) -> f64,
) -> Vec<Vec<f64>> {
    let paired = sides == Sides::Paired || samples.len() == 1;
    let families = if paired { 1 } else { samples.len() };
    (0..families)
        .map(|family| {
            (0..samples[family].len())
                .map(|index| {
                    let kept: Vec<Vec<f64>> = samples
                        .iter()
                        .enumerate()
                        .map(|(place, sample)| {
                            let mut sample = sample.to_vec();
                            if paired || place == family {
                                sample.remove(index);
                            }
                            sample
                        })
                        .collect();
                    let kept: Vec<&[f64]> = kept.iter().map(Vec::as_slice).collect();
                    statistic(&kept)
                })
                .collect()
        })
        .collect()
}

fn check_pairs(samples: &[&[f64]], sides: Sides) {
    assert!(
        sides == Sides::Independent || samples.iter().all(|s| s.len() == samples[0].len()),
        "paired samples have the same length"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use Sides::{Independent, Paired};

    const LEFT: [f64; 5] = [6.64, 6.41, 6.93, 6.52, 6.70];
    const RIGHT: [f64; 5] = [4.17, 4.09, 4.31, 4.02, 4.22];
    /// Readings without rounding.
    const EXACT: Resolution = Resolution {
        absolute: 0.0,
        relative: 0.0,
    };

    fn close(inference: Option<Inference>, low: f64, high: f64) -> Inference {
        let inference = inference.unwrap();
        let interval = inference.estimate.interval.unwrap();
        assert!((interval.low / low - 1.0).abs() < 1e-9, "{interval:?}");
        assert!((interval.high / high - 1.0).abs() < 1e-9, "{interval:?}");
        inference
    }

    // Expected values from SciPy 1.17.1: .confidence_interval(0.95) of ttest_1samp(L, 0), ttest_rel(L, R) and
    // ttest_ind(L, R[:4], equal_var=False), the last two also of np.log; ttest_1samp(log(L) - log(R), log(1.5)).pvalue.
    #[test]
    fn intervals_and_p_values_are_scipys() {
        let all = Intervals::default();
        close(
            all.mean(&LEFT, EXACT),
            6.395_578_197_531_665,
            6.884_421_802_468_336,
        );
        close(
            all.difference(&LEFT, &RIGHT, Paired, EXACT),
            2.345_310_321_756_921_6,
            2.610_689_678_243_079,
        );
        let welch = close(
            all.difference(&LEFT, &RIGHT[..4], Independent, EXACT),
            2.235_639_287_083_779,
            2.749_360_712_916_222_3,
        );
        assert!((welch.basis.unwrap().freedom - 6.749_394_727_641_354).abs() < 1e-9);
        let paired = close(
            all.ratio(&LEFT, &RIGHT, Paired, EXACT),
            1.569_743_988_146_318_9,
            1.621_264_276_599_149_2,
        );
        let p = paired.basis.unwrap().p_value(1.5);
        assert!((p - 0.000_449_785_092_190_894_26).abs() < 1e-12, "{p}");
        close(
            all.ratio(&LEFT, &RIGHT[..4], Independent, EXACT),
            1.526_186_833_543_552_4,
            1.679_359_406_079_640_4,
        );
        close(
            all.ratio(&LEFT[..2], &RIGHT[..2], Paired, EXACT),
            1.428_118_028_405_838,
            1.747_441_494_648_947,
        );
    }

    #[test]
    fn the_jackknife_of_a_mean_is_students_and_of_a_ratio_nearly() {
        let all = Intervals::default();
        let of = |samples: &[&[f64]], sides, scale, statistic: &dyn Fn(&[&[f64]]) -> f64| {
            all.statistic(samples, sides, scale, EXACT, statistic)
        };
        let difference = |s: &[&[f64]]| mean(s[0]) - mean(s[1]);
        close(
            of(
                &[&LEFT, &RIGHT[..4]],
                Independent,
                Scale::Linear,
                &difference,
            ),
            2.235_639_287_083_779,
            2.749_360_712_916_222_3,
        );
        let ratio = |s: &[&[f64]]| mean(s[0]) / mean(s[1]);
        let jackknife = of(&[&LEFT, &RIGHT], Paired, Scale::Logarithmic, &ratio).unwrap();
        let interval = jackknife.estimate.interval.unwrap();
        assert!((interval.low - 1.5697).abs() < 0.001, "{interval:?}");
        assert!((interval.high - 1.6213).abs() < 0.001, "{interval:?}");
    }

    #[test]
    fn equal_readings_have_the_width_of_the_resolution() {
        let all = Intervals::default();
        let whole = Resolution {
            absolute: 1.0,
            relative: 0.0,
        };
        // The half length is 1.96 times the resolution over the square root of 12.
        let half = 0.565_793;
        let counts = all
            .mean(&[43.0; 5], whole)
            .unwrap()
            .estimate
            .interval
            .unwrap();
        assert!((counts.high - 43.0 - half).abs() < 1e-6, "{counts:?}");
        assert!((43.0 - counts.low - half).abs() < 1e-6, "{counts:?}");
        let ratio = all.ratio(&[200.0; 3], &[100.0; 3], Paired, whole).unwrap();
        let interval = ratio.estimate.interval.unwrap();
        assert!(interval.low < 1.99 && interval.low > 1.98, "{interval:?}");
        assert!(interval.high > 2.01 && interval.high < 2.02, "{interval:?}");
        // More replicates do not reduce the floor. So no number of replicates decides for a value within the floor.
        let basis = ratio.basis.unwrap();
        assert_eq!(basis.replicates_to_exclude(2.005, 0.95), None);
        assert_eq!(basis.replicates_to_exclude(2.5, 0.95), Some(2));
    }

    #[test]
    fn too_few_values_have_no_interval() {
        let all = Intervals::default();
        assert_eq!(all.mean(&[], EXACT), None);
        assert_eq!(all.ratio(&[1.0], &[], Independent, EXACT), None);
        let single = all.mean(&[4.2], EXACT).unwrap();
        assert_eq!(
            (single.estimate.value, single.estimate.interval),
            (4.2, None)
        );
        let one_side = all
            .difference(&[1.0, 2.0], &[3.0], Independent, EXACT)
            .unwrap();
        assert_eq!(one_side.estimate.interval, None);
        // If the denominator may be zero, the ratio has no interval.
        let zero = all.ratio(&[1.0, 2.0], &[0.0, 1.0], Paired, EXACT).unwrap();
        assert_eq!(zero.estimate.interval, None);
    }

    #[test]
    fn the_replicates_that_would_decide_do_decide() {
        let all = Intervals::default();
        let basis = all
            .ratio(&LEFT, &RIGHT, Paired, EXACT)
            .unwrap()
            .basis
            .unwrap();
        let needed = basis.replicates_to_exclude(1.58, 0.95).unwrap();
        // With this number of replicates and the same spread, the interval excludes the value. With one replicate
        // fewer, it does not.
        let with = |n: u64| Basis {
            n: n as usize,
            error: basis.error * (5.0 / n as f64).sqrt(),
            freedom: (n - 1) as f64,
            ..basis
        };
        assert!(!with(needed).interval(0.95).contains(1.58), "{needed}");
        assert!(with(needed - 1).interval(0.95).contains(1.58), "{needed}");
        assert_eq!(basis.replicates_to_exclude(1.2, 0.95), Some(2));
    }
}
