//! The round trips that slow start adds to a response.

use fathometer_model::Bytes;
use fathometer_queueing::cache::CachedFile;

/// The initial window in segments (RFC 6928).
const INITIAL_WINDOW: u64 = 10;

/// The approximate size of a response's header section, in bytes.
const FIELDS: u64 = 300;

/// Returns the probabilities that a response on a new connection takes 0, 1, 2, … round trips in addition to the round
/// trip of its request. In slow start, the window doubles with each round trip (RFC 5681, 3.1, with an acknowledgement
/// for each segment).
pub(crate) fn further_trips(files: &[CachedFile], segment: Bytes) -> Vec<f64> {
    let mut shares = Vec::new();
    for file in files {
        let trips = trips(Bytes(file.size.0 + FIELDS), segment);
        if shares.len() <= trips {
            shares.resize(trips + 1, 0.0);
        }
        shares[trips] += file.popularity;
    }
    shares
}

fn trips(size: Bytes, segment: Bytes) -> usize {
    let mut window = INITIAL_WINDOW * segment.0.max(1);
    let mut sent = window;
    let mut trips = 0;
    while sent < size.0 {
        window *= 2;
        sent += window;
        trips += 1;
    }
    trips
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_cache::requested;

    #[test]
    fn the_window_doubles_with_each_round_trip() {
        let segment = Bytes(1448);
        let of = |size| trips(Bytes(size), segment);
        assert_eq!([of(1), of(14_480), of(14_481), of(43_440)], [0, 0, 1, 1]);
        assert_eq!([of(43_441), of(101_360), of(101_361)], [2, 2, 3]);
    }

    #[test]
    fn shares_are_those_of_the_requests() {
        // 94 of 800 requests are for files of 15 and 20 KiB, 24 each for 75 and 120 KiB.
        let shares = further_trips(&requested("almeida-a").unwrap(), Bytes(1448));
        let expected = [658.0 / 800.0, 94.0 / 800.0, 24.0 / 800.0, 24.0 / 800.0];
        assert_eq!(shares.len(), 4);
        for (share, expected) in shares.iter().zip(expected) {
            assert!((share - expected).abs() < 1e-9, "{shares:?}");
        }
    }
}
