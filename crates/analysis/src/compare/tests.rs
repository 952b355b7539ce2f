//! Planted changes are found, equal sides rarely show a change, and the intervals have their stated coverage.

use fathometer_model::Seed;

use super::interval::Interval;
use super::*;
use crate::statistics::Resolution;

/// Draws from a standard normal distribution (Box and Muller).
pub(super) struct Normal {
    seed: Seed,
    drawn: u64,
}

impl Normal {
    pub(super) fn new(seed: u64) -> Normal {
        Normal {
            seed: Seed(seed),
            drawn: 0,
        }
    }

    pub(super) fn draw(&mut self) -> f64 {
        self.drawn += 2;
        let (a, b) = (
            self.seed.uniform(self.drawn),
            self.seed.uniform(self.drawn + 1),
        );
        (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Consecutive blocks from a first-order process with this correlation of neighbours.
    fn blocks(&mut self, n: usize, correlation: f64) -> Vec<f64> {
        let mut last = self.draw();
        let fresh = (1.0 - correlation * correlation).sqrt();
        (0..n)
            .map(|_| {
                let value = last;
                last = correlation * last + fresh * self.draw();
                value
            })
            .collect()
    }
}

/// The coverage of intervals at 95 %: the share that contains the true difference, 0.
fn coverage(n: usize, correlation: f64, of: fn(&[f64], &[f64], f64) -> Option<Interval>) -> f64 {
    const TIMES: usize = 800;
    let mut normal = Normal::new(17);
    let covered = (0..TIMES).filter(|_| {
        let (a, b) = (normal.blocks(n, correlation), normal.blocks(n, correlation));
        of(&a, &b, 0.95).unwrap().contains(0.0)
    });
    covered.count() as f64 / TIMES as f64
}

#[test]
fn intervals_cover_what_they_say() {
    for n in [2, 3, 5, 10, 30] {
        for of in [interval::independent, interval::paired] {
            let share = coverage(n, 0.0, of);
            assert!((0.935..=0.995).contains(&share), "n {n}: {share}");
        }
    }
    // Without the correction, the intervals for r = 0.6 have a coverage of 69 %.
    for (n, correlation) in [(10, 0.0), (30, 0.0), (30, 0.3), (60, 0.6)] {
        let share = coverage(n, correlation, interval::series);
        assert!(
            (0.93..=0.99).contains(&share),
            "n {n}, correlation {correlation}: coverage {share}"
        );
    }
    assert!(coverage(60, 0.6, interval::independent) < 0.8);
}

#[test]
fn intervals_of_consecutive_pairs_cover_what_docs_compare_says() {
    for (n, correlation, least) in [
        (4, 0.0, 0.93),
        (8, 0.0, 0.93),
        (20, 0.0, 0.94),
        (20, 0.3, 0.90),
        (60, 0.0, 0.94),
        (60, 0.3, 0.91),
        (60, 0.6, 0.90),
    ] {
        let share = coverage(n, correlation, interval::paired_series);
        assert!(
            (least..=0.99).contains(&share),
            "n {n}, correlation {correlation}: coverage {share}"
        );
    }
    assert!(coverage(60, 0.6, interval::paired) < 0.8);
}

pub(super) fn series(name: &str, samples: Vec<f64>) -> Metric {
    Metric {
        name: name.to_owned(),
        unit: "ms",
        better: Better::Lower,
        scale: Scale::Ratio,
        samples,
        machines: Vec::new(),
        is_series: true,
        resolution: 0.0,
        instrument: Resolution::default(),
        no_interval: "too few",
    }
}

/// A side with a p50 of 1 ms and a p99 of `p99` ms. Its seconds have noise of 1 % in p50 and 2 % in p99.
fn side(normal: &mut Normal, p99: f64) -> Side {
    let p50 = (0..30).map(|_| (0.01 * normal.draw()).exp()).collect();
    let tail = (0..30)
        .map(|_| p99 * (0.02 * normal.draw()).exp())
        .collect();
    Side {
        metrics: vec![series("p50", p50), series("p99", tail)],
        ..Side::default()
    }
}

/// The share of comparisons that find a change in p99, and the share that find a change in p50.
fn found(p99: f64) -> (f64, f64) {
    const TIMES: usize = 200;
    let mut normal = Normal::new(1998);
    let (mut tail, mut middle) = (0, 0);
    for _ in 0..TIMES {
        let (a, b) = (side(&mut normal, 5.0), side(&mut normal, p99));
        let comparison = Comparison::of(&a, &b, Design::Separate, 0.03);
        let is =
            |change: &Change| change.verdict == Verdict::Worse || change.verdict == Verdict::Better;
        middle += usize::from(is(&comparison.changes[0]));
        tail += usize::from(is(&comparison.changes[1]));
    }
    (tail as f64 / TIMES as f64, middle as f64 / TIMES as f64)
}

#[test]
fn a_tail_that_is_2_percent_slower_is_found_when_the_median_stands_still() {
    let (tail, middle) = found(5.0 * 1.02);
    assert!(tail > 0.8 && middle < 0.05, "{tail} {middle}");
    // Two results of the same build: the false-alarm rate of both metrics together is at most 5 %.
    let (tail, middle) = found(5.0);
    assert!(tail + middle <= 0.06, "{tail} {middle}");
}

#[test]
fn pairs_cancel_the_drift_of_the_machine() {
    let mut normal = Normal::new(3);
    // Twelve slices of each side, on a machine whose speed varies by 10 %, with a change of 1 %.
    let drift: Vec<f64> = (0..12)
        .map(|_| 1000.0 * (0.1 * normal.draw()).exp())
        .collect();
    let mut rate = |factor: f64| -> Side {
        let samples = drift
            .iter()
            .map(|d| factor * d * (0.005 * normal.draw()).exp());
        let mut metric = series("rate", samples.collect());
        metric.better = Better::Higher;
        Side {
            metrics: vec![metric],
            ..Side::default()
        }
    };
    let (a, b) = (rate(1.0), rate(0.99));
    let paired = &Comparison::of(&a, &b, Design::Paired, 0.03).changes[0];
    assert_eq!(paired.verdict, Verdict::Worse, "{paired:?}");
    assert!(paired.low.unwrap() < -0.01 && paired.high.unwrap() < 0.0);
    let apart = &Comparison::of(&a, &b, Design::Separate, 0.03).changes[0];
    assert_eq!(apart.verdict, Verdict::Undecided, "{apart:?}");
}

#[test]
fn errors_that_never_happened_are_equal_and_some_are_worse() {
    let errors = |share: f64| {
        let mut metric = series("errors", vec![share; 10]);
        metric.scale = Scale::Difference;
        metric.resolution = 3.0 / 10_000.0;
        Side {
            metrics: vec![metric],
            ..Side::default()
        }
    };
    let none = Comparison::of(&errors(0.0), &errors(0.0), Design::Separate, 0.03);
    assert_eq!(none.changes[0].verdict, Verdict::Equal);
    assert_eq!(none.changes[0].high, Some(0.0003));
    let gate: Gate = "errors<=+0,p99<+5%".parse().unwrap();
    let outcomes: Vec<Outcome> = gate.judge(&none).iter().map(|v| v.outcome).collect();
    assert_eq!(outcomes, [Outcome::Kept, Outcome::Undecided]);
}

#[test]
fn constant_samples_have_the_resolution_as_width_and_their_changes_are_found() {
    let side = |value: f64, share: f64| {
        let mut time = series("p50", vec![value; 10]);
        time.instrument.relative = 1e-3;
        let mut errors = series("errors", vec![share; 10]);
        errors.scale = Scale::Difference;
        errors.unit = "";
        errors.resolution = 3e-4;
        errors.instrument.absolute = 1e-4;
        Side {
            metrics: vec![time, errors],
            ..Side::default()
        }
    };
    for design in [Design::Separate, Design::Paired] {
        let of = |after: Side| Comparison::of(&side(2.0, 0.01), &after, design, 0.03).changes;
        let verdicts = |changes: &[Change]| changes.iter().map(|c| c.verdict).collect::<Vec<_>>();
        let same = of(side(2.0, 0.01));
        assert_eq!(verdicts(&same), [Verdict::Equal; 2], "{same:?}");
        for (change, deviation) in same.iter().zip([1e-3, 1e-4]) {
            // The level is 97.5 % for each of two metrics: 2.24 standard deviations of a difference of two uniform
            // errors.
            let half = 2.2414 * deviation / 6f64.sqrt();
            let (low, high) = change.low.zip(change.high).unwrap();
            assert!((high - half).abs() < 1e-3 * half, "{change:?} {half}");
            assert!((low + half).abs() < 1e-3 * half, "{change:?} {half}");
        }
        let worse = of(side(2.01, 0.02));
        assert_eq!(verdicts(&worse), [Verdict::Worse; 2], "{worse:?}");
        let fixed = of(side(2.0, 0.0));
        assert_eq!(fixed[1].verdict, Verdict::Better, "{fixed:?}");
    }
}

#[test]
fn what_one_side_lacks_is_listed_with_the_reason() {
    let mut normal = Normal::new(11);
    let (mut a, mut b) = (side(&mut normal, 5.0), side(&mut normal, 5.0));
    (a.name, b.name) = ("before".to_owned(), "after".to_owned());
    a.metrics.push(series("server-cpu", vec![1.0; 10]));
    b.metrics.push(series("h2: packets", vec![1.0; 10]));
    a.without
        .insert("h2".to_owned(), "packets were lost".to_owned());
    let comparison = Comparison::of(&a, &b, Design::Separate, 0.03);
    let text = screen::render(&comparison);
    for line in [
        "h2: before: no valid replicate: packets were lost",
        "server-cpu: after: not measured",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(comparison.missing.len(), 2, "{:?}", comparison.missing);
    let gate: Gate = "server-cpu<+5%,h2: packets<+1%".parse().unwrap();
    let reasons: Vec<_> = gate
        .judge(&comparison)
        .into_iter()
        .map(|it| it.reason)
        .collect();
    let lacks = |text: &str| Some(text.to_owned());
    assert_eq!(
        reasons,
        [
            lacks("after has no value: not measured"),
            lacks("before has no value: no valid replicate: packets were lost")
        ]
    );
}

#[test]
fn a_gate_is_judged_on_the_interval() {
    let mut normal = Normal::new(5);
    let (a, b) = (side(&mut normal, 5.0), side(&mut normal, 5.5));
    let comparison = Comparison::of(&a, &b, Design::Separate, 0.03);
    for (gate, expected) in [
        ("p99<+5%", Outcome::Broken),
        ("p99<+20%", Outcome::Kept),
        ("p99<=+0.1", Outcome::Broken),
        ("p99>-1%", Outcome::Kept),
        ("p99<+10%", Outcome::Undecided),
        ("p50<+2%", Outcome::Kept),
        ("nothing<+2%", Outcome::Undecided),
    ] {
        let judged = gate.parse::<Gate>().unwrap().judge(&comparison);
        assert_eq!(judged[0].outcome, expected, "{gate} {comparison:?}");
    }
    for wrong in ["", "p99", "p99<5%", "p99<+x", "<+5%", "p99<+5%,", "p99=+5%"] {
        assert!(wrong.parse::<Gate>().is_err(), "{wrong}");
    }
}

#[test]
fn a_limit_in_percent_stays_relative_if_a_sample_is_zero() {
    let of = |unit: &'static str, scale: Scale, samples: Vec<f64>| {
        let mut metric = series("x", samples);
        (metric.unit, metric.scale) = (unit, scale);
        Side {
            metrics: vec![metric],
            ..Side::default()
        }
    };
    let judged = |gate: &str, before: Side, after: Side| {
        let comparison = Comparison::of(&before, &after, Design::Separate, 0.03);
        let gate: Gate = gate.parse().unwrap();
        gate.judge(&comparison).remove(0)
    };
    let samples = |mean: f64| {
        vec![
            0.0,
            mean,
            mean,
            mean,
            mean,
            mean,
            mean,
            mean,
            mean,
            2.0 * mean,
        ]
    };
    let some = |mean: f64| of("ms", Scale::Ratio, samples(mean));
    // In each case, an absolute limit of 1 ms or of 5 ms would be kept.
    for (gate, expected) in [("x<+500%", Outcome::Kept), ("x<+100%", Outcome::Broken)] {
        let verdict = judged(gate, some(1e-3), some(4e-3));
        assert_eq!(verdict.outcome, expected, "{verdict:?}");
    }
    let none = || of("ms", Scale::Ratio, vec![0.0; 10]);
    let verdict = judged("x<+5%", none(), some(1.0));
    assert_eq!(verdict.outcome, Outcome::Undecided);
    assert!(verdict.reason.unwrap().contains("without %"));
    assert_eq!(judged("x<+5%", none(), none()).outcome, Outcome::Kept);
    // Percentage points, of a metric in percent and of a share.
    let percent = |value: f64| of("%", Scale::Difference, vec![value; 10]);
    let share = |value: f64| of("", Scale::Difference, vec![value; 10]);
    for (gate, expected) in [("x<=+0.5%", Outcome::Kept), ("x<=+0.1%", Outcome::Broken)] {
        assert_eq!(judged(gate, percent(1.0), percent(1.2)).outcome, expected);
        assert_eq!(judged(gate, share(0.01), share(0.012)).outcome, expected);
    }
}

#[test]
fn an_invalid_side_decides_nothing_and_differences_are_reported() {
    let mut normal = Normal::new(9);
    let (mut a, mut b) = (side(&mut normal, 5.0), side(&mut normal, 50.0));
    a.settings.insert("policy".to_owned(), "h1.1".to_owned());
    b.settings.insert("policy".to_owned(), "h2".to_owned());
    b.facts
        .insert("machine kernel".to_owned(), "6.1".to_owned());
    let comparison = Comparison::of(&a, &b, Design::Separate, 0.03);
    assert!(!comparison.is_comparable());
    let what: Vec<&str> = comparison.differences.iter().map(|d| &*d.what).collect();
    assert_eq!(what, ["policy", "machine kernel"]);
    let text = screen::render(&comparison);
    assert!(
        text.contains("policy: h1.1 → h2 (not comparable)"),
        "{text}"
    );
    assert!(text.contains("worse: p99 +9"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    b.invalid.push("the generator was late".to_owned());
    let comparison = Comparison::of(&a, &b, Design::Separate, 0.03);
    assert!(
        comparison
            .changes
            .iter()
            .all(|c| c.verdict == Verdict::Undecided)
    );
    assert!(screen::render(&comparison).starts_with("INVALID"));
}
