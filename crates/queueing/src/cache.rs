//! The hit ratio of an LRU cache, which evicts the least recently used file, for independent requests.
//!
//! Che's approximation (Che, Tung and Wang, "Hierarchical web caching systems", IEEE JSAC 20, 2002): a file is cached if it was
//! requested within the characteristic time T. T is the same for all files: with this T, the expected content fills the
//! cache. Fricker, Robert and Roberts (ITC 24, 2012) show why the approximation is accurate. The sizes of the files
//! weight the sum.

use fathometer_model::Bytes;

use crate::{ModelError, Seconds, not_negative};

/// A file that may be cached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CachedFile {
    /// Requests per second, or a number in proportion to that.
    pub popularity: f64,
    /// The memory that the file takes.
    pub size: Bytes,
}

/// The hit ratios of a cache of a given size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheSolution {
    /// The characteristic time, in the unit of the popularities; infinite if all files fit.
    pub characteristic: Seconds,
    /// The share of requests that find their file.
    pub hits: f64,
    /// The share of requested bytes that are cached.
    pub byte_hits: f64,
}

/// Returns the hit ratios of a cache of `capacity`.
///
/// # Errors
/// When a popularity is negative or not finite, or all popularities are 0.
pub fn least_recently_used(
    files: &[CachedFile],
    capacity: Bytes,
) -> Result<CacheSolution, ModelError> {
    let mut requests = 0.0;
    let mut requested = 0.0;
    let mut size = 0.0;
    for file in files {
        let popularity = not_negative("a popularity", file.popularity)?;
        requests += popularity;
        requested += popularity * file.size.0 as f64;
        if popularity > 0.0 {
            size += file.size.0 as f64;
        }
    }
    if requests <= 0.0 {
        return Err(ModelError::NotIdentified("no file is requested".to_owned()));
    }
    let capacity = capacity.0 as f64;
    if size <= capacity {
        return Ok(CacheSolution {
            characteristic: Seconds(f64::INFINITY),
            hits: 1.0,
            byte_hits: 1.0,
        });
    }
    let present = |file: &CachedFile, time: f64| -libm::expm1(-file.popularity * time);
    let content = |time: f64| -> f64 {
        let expected = files
            .iter()
            .map(|file| file.size.0 as f64 * present(file, time));
        expected.sum()
    };
    let mut high = 1.0 / requests;
    while content(high) < capacity {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        match content(middle) < capacity {
            true => low = middle,
            false => high = middle,
        }
    }
    let time = 0.5 * (low + high);
    let found = |weight: &dyn Fn(&CachedFile) -> f64| -> f64 {
        files
            .iter()
            .map(|file| weight(file) * present(file, time))
            .sum()
    };
    Ok(CacheSolution {
        characteristic: Seconds(time),
        hits: found(&|file| file.popularity) / requests,
        byte_hits: match requested > 0.0 {
            true => found(&|file| file.popularity * file.size.0 as f64) / requested,
            false => 0.0,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use fathometer_model::Seed;

    fn zipf(count: u32, size: impl Fn(u32) -> u64) -> Vec<CachedFile> {
        (1..=count)
            .map(|rank| CachedFile {
                popularity: libm::pow(f64::from(rank), -0.8),
                size: Bytes(size(rank)),
            })
            .collect()
    }

    /// Returns the share of requests that an LRU cache serves, counted.
    fn simulated(files: &[CachedFile], capacity: u64, requests: u64) -> f64 {
        let mut sums = Vec::new();
        let mut total = 0.0;
        for file in files {
            total += file.popularity;
            sums.push(total);
        }
        let seed = Seed(11).stream("requests");
        let mut last_use: BTreeMap<usize, u64> = BTreeMap::new();
        let mut order: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut content, mut hits) = (0, 0);
        for now in 0..requests {
            let draw = seed.uniform(now) * total;
            let file = sums.partition_point(|&sum| sum <= draw);
            match last_use.insert(file, now) {
                Some(before) => {
                    order.remove(&before);
                    if now >= requests / 4 {
                        hits += 1;
                    }
                }
                None => content += files[file].size.0,
            }
            order.insert(now, file);
            while content > capacity {
                let (_, evicted) = order.pop_first().unwrap();
                last_use.remove(&evicted);
                content -= files[evicted].size.0;
            }
        }
        hits as f64 / (requests - requests / 4) as f64
    }

    #[test]
    fn it_agrees_with_a_simulated_cache_of_equal_and_of_unequal_files() {
        let equal = zipf(1000, |_| 100);
        let unequal = zipf(1000, |rank| 20 + u64::from(rank * 7919 % 500));
        for files in [equal, unequal] {
            let size: u64 = files.iter().map(|file| file.size.0).sum();
            for share in [20, 5, 2] {
                let capacity = size / share;
                let model = least_recently_used(&files, Bytes(capacity)).unwrap();
                let counted = simulated(&files, capacity, 80_000);
                assert!(
                    (model.hits - counted).abs() < 0.015,
                    "1/{share}: {} against {counted}",
                    model.hits
                );
            }
        }
    }

    #[test]
    fn a_cache_that_holds_everything_always_hits() {
        let files = zipf(10, |_| 10);
        let all = least_recently_used(&files, Bytes(100)).unwrap();
        assert_eq!((all.hits, all.byte_hits), (1.0, 1.0));
        let none = least_recently_used(&files, Bytes(0)).unwrap();
        assert!(none.hits < 1e-9);
        assert!(least_recently_used(&[], Bytes(1)).is_err());
    }
}
