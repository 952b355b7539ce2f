//! Assigns embedded files to pages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fathometer_model::Seed;

use crate::distribution::Part;

use super::parameters::{PageOrder, References};

/// Returns the number of embedded files of each of `pages` pages, in the order of the random numbers.
pub(super) fn draw(law: &References, pages: u32, seed: Seed) -> Vec<u32> {
    let part = law.part();
    (0..pages)
        .map(|page| {
            let number = part.sample(seed, u64::from(page)).floor() as u32;
            number - u32::from(law.counts_base)
        })
        .collect()
}

impl References {
    /// Returns the law, conditional on numbers up to the largest one.
    pub(super) fn part(&self) -> Part {
        Part {
            below: f64::from(self.most) + 1.0,
            ..Part::of(1.0, self.law)
        }
    }
}

/// Assigns embedded files to each base file, as indices into the list of embedded files, and calls `page` with them.
/// `base` and `embedded` are numbers of requests. Returns, for each embedded file, its requests minus the requests of
/// the pages that embed the file. The difference is negative if the pages request a file more often than its popularity
/// implies.
///
/// Base files are processed in descending order of their requests. Each takes the embedded files with the most
/// remaining requests, so pages share embedded files. The files are in a heap; the largest ones are removed and
/// reinserted with fewer requests. This avoids sorting a list after every page.
pub(super) fn embed(
    base: &[u32],
    embedded: &[u32],
    numbers: &mut [u32],
    order: PageOrder,
    mut page: impl FnMut(u32, &[u32]),
) -> Vec<i64> {
    if order == PageOrder::PopularFewest {
        numbers.sort_unstable();
    }
    let mut by_count: Vec<u32> = (0..base.len() as u32).collect();
    by_count.sort_by_key(|&file| (Reverse(base[file as usize]), file));

    let mut left: BinaryHeap<(i64, Reverse<u32>)> = (0..)
        .zip(embedded)
        .map(|(file, &count)| (i64::from(count), Reverse(file)))
        .collect();
    let mut taken = Vec::new();
    let mut files = Vec::new();
    for (file, &number) in by_count.into_iter().zip(numbers.iter()) {
        let count = i64::from(base[file as usize]);
        taken.clear();
        taken.extend((0..number).map_while(|_| left.pop()));
        files.clear();
        files.extend(taken.iter().map(|&(_, Reverse(embedded))| embedded));
        page(file, &files);
        left.extend(
            taken
                .iter()
                .map(|&(rest, embedded)| (rest - count, embedded)),
        );
    }
    let mut rests = vec![0; embedded.len()];
    for (rest, Reverse(file)) in left {
        rests[file as usize] = rest;
    }
    rests
}

#[cfg(test)]
mod tests {
    use super::super::Parameters;
    use super::*;

    #[test]
    fn each_page_takes_the_files_with_the_most_remaining_requests() {
        let mut pages = vec![Vec::new(); 3];
        let rests = embed(
            &[3, 10, 5],
            &[20, 8, 12],
            &mut [2, 1, 3],
            PageOrder::PopularFewest,
            |page, files| pages[page as usize] = files.to_vec(),
        );
        // The most popular page, 1, gets one file, 0, which has 10 remaining requests. Page 2 gets two of the files,
        // which then have (10, 8, 12) requests. Page 0 gets all files, which then have (5, 8, 7).
        assert_eq!(pages, [vec![1, 2, 0], vec![0], vec![2, 0]]);
        assert_eq!(rests, [2, 5, 4]);
    }

    #[test]
    fn a_page_cannot_have_more_files_than_there_are() {
        let rests = embed(&[1], &[4], &mut [7], PageOrder::Random, |_, files| {
            assert_eq!(files, [0]);
        });
        assert_eq!(rests, [3]);
    }

    /// floor(2 / U^(1/1.245)), redrawn above 150, has mean 6.2. With 1600 single files and 1500 such pages, the mean is
    /// 3.5 files per page.
    #[test]
    fn numbers_are_within_their_limits() {
        let law = Parameters::barford98(1, 1).references;
        let numbers = draw(&law, 100_000, Seed(4));
        assert_eq!(numbers.iter().min(), Some(&1));
        assert!(numbers.iter().max() <= Some(&149));
        let mean = numbers.iter().map(|&n| f64::from(n) + 1.0).sum::<f64>() / 1e5;
        assert!((5.5..6.5).contains(&mean), "{mean}");
        assert!(draw(&Parameters::sigmetrics98(1, 1).references, 1000, Seed(4)).contains(&1));
    }
}
