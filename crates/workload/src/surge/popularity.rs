//! The number of requests for each file: Zipf's law in whole numbers, floor(top / rank).

/// Returns the number of requests for the file of `rank` (from 1) if the most popular file has `top` requests.
pub(super) fn count(top: u64, rank: u64) -> u64 {
    top / rank
}

/// Returns the number of requests for all of `files` files. Ranks with the same quotient are summed in one step, so the
/// time grows with the square root of `top`.
pub(super) fn total(top: u64, files: u64) -> u128 {
    let (mut sum, mut rank) = (0u128, 1);
    while rank <= files.min(top) {
        let quotient = top / rank;
        let last = (top / quotient).min(files);
        sum += u128::from(quotient) * u128::from(last - rank + 1);
        rank = last + 1;
    }
    sum
}

/// Returns the smallest `top` with more than `requests` requests in total.
pub(super) fn top_for(files: u64, requests: u64) -> u64 {
    let enough = |top: u64| total(top, files) > u128::from(requests);
    // If the most popular file alone has `requests + 1` requests, the total is sufficient.
    let (mut short, mut long) = (0, requests.saturating_add(1));
    while long - short > 1 {
        let middle = short + (long - short) / 2;
        match enough(middle) {
            true => long = middle,
            false => short = middle,
        }
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_the_original_runs() {
        assert_eq!(total(50_000, 5000), 452_279);
        assert_eq!(total(100, 100), 482);
        assert_eq!(total(0, 5), 0);
        for (top, files) in [(7, 100), (100, 7), (12_345, 999)] {
            let sum: u64 = (1..=files).map(|rank| count(top, rank)).sum();
            assert_eq!(total(top, files), u128::from(sum));
        }
    }

    #[test]
    fn the_top_count_is_the_smallest_that_gives_more_requests_than_the_minimum() {
        for (files, requests) in [(5000, 452_278), (5000, 1_000_000), (1, 10), (1000, 3)] {
            let top = top_for(files, requests);
            assert!(total(top, files) > u128::from(requests));
            assert!(total(top - 1, files) <= u128::from(requests));
        }
        assert_eq!(top_for(5000, 452_278), 50_000);
    }
}
