//! Tests of SLOs on results with known figures.

use fathometer_analysis::load::{LoadResult, Slo, Verdict};

use super::sample;

fn judge(slo: &str, result: &LoadResult) -> Vec<Verdict> {
    slo.parse::<Slo>().unwrap().judge(result)
}

#[track_caller]
fn one(slo: &str, result: &LoadResult) -> Verdict {
    let mut verdicts = judge(slo, result);
    assert_eq!(verdicts.len(), 1);
    let verdict = verdicts.remove(0);
    assert_eq!(verdict.slo, slo);
    verdict
}

#[track_caller]
fn measured(slo: &str, result: &LoadResult) -> f64 {
    one(slo, result).measured.unwrap()
}

#[test]
fn a_stall_violates_an_slo_on_corrected_latency_and_not_on_uncorrected() {
    let result = sample::stalled();
    // Of 10 000 exchanges 1 000 waited 1 to 1 000 ms: the 98th percentile is the 200th longest wait,
    // 801 ms, plus 1 ms of service.
    let p98 = measured("p98<100ms", &result);
    assert!((p98 / 802.0 - 1.0).abs() < 0.002, "{p98}");
    assert!(!one("p98<100ms", &result).met);
    assert!(one("p98<0.81s", &result).met);
    assert!(one("uncorrected.p98<100ms", &result).met);
    // One exchange of 10 000 was in flight when the server stalled.
    assert!(one("uncorrected.max>=1s", &result).met);
    assert!(one("uncorrected.p99.99<2ms", &result).met);
}

#[test]
fn each_metric_is_what_it_says() {
    let result = sample::broken();
    // Of 5 020 exchanges, 200 failed, 300 had an error status, and 20 were unfinished.
    assert!((measured("errors<1%", &result) - 520.0 / 5_020.0).abs() < 1e-12);
    assert!((measured("rate>1/s", &result) - 470.0).abs() < 1e-9);
    assert!((measured("throughput>1MB/s", &result) - 9.4e6).abs() < 1e-3);
    assert!((measured("goodput>1MB/s", &result) - 9.2e6).abs() < 1e-3);
    // An unfinished exchange may belong to a page, so the mean time of a page is unknown.
    assert_eq!(one("page.mean<1s", &result).measured, None);
    let mut ended = sample::broken();
    ended.measured.counts.unfinished = 0;
    assert!((measured("page.mean<1s", &ended) - 5_010.0).abs() < 1e-3);
    assert!((measured("connect.max<1s", &result) - 0.104).abs() < 1e-9);
    let limit = |slo: &str| one(slo, &result).limit;
    assert!((limit("goodput>8Mbit/s") - 1e6).abs() < 1e-6);
    assert!((limit("errors<0.1%") - 0.001).abs() < 1e-12);
    assert!((limit("p50<250us") - 0.25).abs() < 1e-12);
}

#[test]
fn comparisons_hold_at_their_borders() {
    let result = sample::stalled();
    for (slo, kept) in [
        ("rate<1000/s", false),
        ("rate<=1000/s", true),
        ("rate>1000/s", false),
        ("rate>=1000/s", true),
        ("errors<0%", false),
        ("errors<=0%", true),
    ] {
        assert_eq!(one(slo, &result).met, kept, "{slo}");
    }
}

#[test]
fn an_invalid_result_meets_no_slo() {
    let verdict = one("rate>1/s", &sample::broken());
    assert!(!verdict.met && verdict.measured.is_some());
    assert!(verdict.reason.unwrap().contains("INVALID"));
}

#[test]
fn what_was_not_measured_is_not_kept() {
    let mut result = sample::nothing();
    result.validity.reasons.clear();
    for slo in [
        "p99<1s",
        "p99>0s",
        "mean<1s",
        "errors<=100%",
        "rate>=0/s",
        "page.max<1s",
    ] {
        let verdict = one(slo, &result);
        assert_eq!((verdict.met, verdict.measured), (false, None), "{slo}");
        assert_eq!(verdict.reason.as_deref(), Some("nothing was measured"));
    }
}

#[test]
fn exchanges_that_never_ended_are_longer_than_any_that_did() {
    // Ten of fifteen exchanges ended, so every quantile up to two thirds is known. As in the load engine, unfinished
    // exchanges are recorded with the time that they waited.
    let mut result = sample::silent();
    let latency = &mut result.measured.latency;
    for times in [
        &mut latency.corrected,
        &mut latency.uncorrected,
        &mut latency.failed,
    ] {
        (0..5).for_each(|_| times.record(std::time::Duration::from_secs(25)));
    }
    // The histogram has three significant digits.
    assert!((measured("p50<30s", &result) / 20_000.0 - 1.0).abs() < 1e-3);
    assert!(one("p66<30s", &result).met);
    for slo in [
        "p67<30s",
        "p99<30s",
        "mean<30s",
        "max<30s",
        "uncorrected.p99<30s",
    ] {
        let verdict = one(slo, &result);
        assert_eq!((verdict.met, verdict.measured), (false, None), "{slo}");
        let reason = verdict.reason.unwrap();
        assert!(reason.starts_with("5 exchanges did not end"), "{reason}");
    }
    assert_eq!(measured("errors<1%", &result), 1.0);
}
