//! Tests of a server whose page cache contains a part of its files: light loads predict the effect of another amount of
//! memory.

use std::collections::BTreeMap;

use fathometer_model::{Bytes, Seed};
use fathometer_predict::page_cache::{DiskUse, PageCache};
use fathometer_predict::prediction::{Options, Prediction, predict};
use fathometer_predict::screen;
use fathometer_predict::series::{Admission, Load, Reading, Selection, Series};
use fathometer_queueing::Seconds;
use fathometer_queueing::cache::CachedFile;
use fathometer_queueing::closed::{Network, Station};

const FILES: u32 = 400;
/// Seconds of the single disk read of a file.
const READ: f64 = 0.002;
/// The size of a file; in addition to the page cache, the host needs 6 MiB.
const FILE: u64 = 128 << 10;
const OTHER: u64 = 6 << 20;

/// Files with popularities by Zipf's law.
fn files() -> Vec<CachedFile> {
    let weight = |rank: u32| f64::from(rank).powf(-0.8);
    let sum: f64 = (1..=FILES).map(weight).sum();
    let file = |rank| CachedFile {
        popularity: weight(rank) / sum,
        size: Bytes(FILE),
    };
    (1..=FILES).map(file).collect()
}

/// Returns the share of requests that an LRU cache misses, counted over many requests.
fn misses(cached: usize) -> f64 {
    let files = files();
    let seed = Seed(3).stream("requests");
    let (mut order, mut missed) = (Vec::new(), 0);
    let (warm_up, requests) = (4_000, 24_000);
    for counter in 0..warm_up + requests {
        let mut left = seed.uniform(counter);
        let place = files.iter().position(|file| {
            left -= file.popularity;
            left < 0.0
        });
        let file = place.unwrap_or(files.len() - 1);
        match order.iter().position(|&other| other == file) {
            Some(at) => {
                order.remove(at);
            }
            None if counter >= warm_up => missed += 1,
            None => {}
        }
        order.insert(0, file);
        order.truncate(cached);
    }
    f64::from(missed) / requests as f64
}

fn network(misses: f64) -> Network {
    Network {
        think: Seconds(0.0),
        stations: vec![
            Station::delay("delay", Seconds(0.009)),
            Station::queue("processor", Seconds(0.0005), 1),
            Station::queue("disk", Seconds(misses * READ), 1),
        ],
    }
}

/// Returns a series measured with memory for a hundred files.
fn series() -> Series {
    let missed = misses(100);
    let load = |users| {
        let exact = network(missed).solve(users).unwrap();
        let reading = Reading {
            throughput: exact.throughput,
            response: exact.response,
            percentiles: BTreeMap::from([
                (50, Seconds(0.9 * exact.response.0)),
                (99, Seconds(2.0 * exact.response.0)),
            ]),
            busy: exact.throughput.0 * 0.0005,
            errors: 0.0,
            disk: Some(DiskUse {
                reads: missed,
                time: Seconds(missed * READ),
            }),
            wire_bytes: None,
        };
        Load {
            users,
            readings: vec![reading.clone(), reading],
            has_all_latencies: true,
        }
    };
    Series {
        name: "known".to_owned(),
        loads: [1, 2, 4, 8, 16, 32].map(load).to_vec(),
        batches: Vec::new(),
        has_processor_time: true,
        cores: 1.0,
        quota: None,
        link: None,
        round_trip: None,
        further_trips: Vec::new(),
        server: None,
        admission: Admission::default(),
        failing: Vec::new(),
        page_cache: Ok(PageCache {
            files: files(),
            limit: Some(Bytes(OTHER + 100 * FILE)),
            cache: Bytes(100 * FILE),
            other: Bytes(OTHER),
            read_time: None,
        }),
        notes: Vec::new(),
    }
}

fn predicted(series: &Series, scenario: &str) -> Prediction {
    let options = Options {
        fit: up_to(0.6),
        users: vec![2, 32],
        draws: 20,
        exchanges: 4_000,
        seed: Seed(1),
    };
    predict(series, &scenario.parse().unwrap(), &options).unwrap()
}

fn up_to(share: f64) -> Selection {
    Selection {
        up_to: share,
        ..Selection::default()
    }
}

#[test]
fn more_memory_and_less_memory_are_predicted_from_the_popularity_of_the_files() {
    let series = series();
    let measured = predicted(&series, "users=1x");
    assert_eq!(measured.rows[1].bottleneck, "disk");
    // 100 files are 12.5 MiB; 18.5 MiB is the measured memory.
    for (scenario, cached) in [("memory=31M", 200), ("memory=12M", 48)] {
        let missed = misses(cached);
        let prediction = predicted(&series, scenario);
        for row in &prediction.rows {
            let exact = network(missed).solve(row.users).unwrap();
            let error = row.throughput_per_s.value / exact.throughput.0 - 1.0;
            assert!(error.abs() < 0.03, "{scenario}: {row:?}");
        }
        let cache = prediction.page_cache.unwrap();
        assert!(
            (cache.hits_share - (1.0 - missed)).abs() < 0.015,
            "{cache:?}"
        );
        let text = screen::render(&prediction);
        assert!(text.contains("Page cache: "), "{text}");
        assert!(text.contains("disk %"), "{text}");
    }
    // All files fit.
    let everything = predicted(&series, "memory=1G");
    let row = &everything.rows[1];
    assert_eq!((row.bottleneck, row.disk_share), ("processor", None));
    let exact = network(0.0).solve(32).unwrap().throughput;
    assert!(
        (row.throughput_per_s.value / exact.0 - 1.0).abs() < 0.03,
        "{row:?}"
    );
}

#[test]
fn a_series_without_its_page_cache_states_the_reason() {
    let unknown = Series {
        page_cache: Err("the run did not record page_cache_kB".to_owned()),
        ..series()
    };
    let options = Options {
        fit: up_to(1.0),
        users: vec![2],
        draws: 20,
        exchanges: 4_000,
        seed: Seed(1),
    };
    let error = predict(&unknown, &"memory=2x".parse().unwrap(), &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "memory=2x: the run did not record page_cache_kB"
    );
    assert!(predict(&unknown, &Default::default(), &options).is_ok());
}
