//! A stack of recently used pages: the position of a page in the stack is its LRU distance.
//!
//! Pages are stored in blocks, the oldest block first. A page that is moved to the top is appended to the newest block,
//! and its old block becomes shorter. A Fenwick tree stores the numbers of pages and of remaining references of the
//! blocks. It finds a position, or the nearest page with remaining references, in O(log n) steps. A linked list of the
//! non-empty blocks lets a window skip empty blocks. If no block is free, all pages are repacked, about once in n
//! moves.
//!
//! A distance is counted from the top, which has distance 0; an *index* is counted from the bottom.

/// The number of pages in a full block. Removing a page moves a few hundred bytes.
const BLOCK: usize = 128;

/// Pages in the order of their last use, each with its remaining references.
#[derive(Debug)]
pub(super) struct Stack {
    pages: Vec<u32>,
    left: Vec<u32>,
    /// The number of each page's references that are spread over the whole sequence; 0: the references may be used
    /// without a limit on their rate.
    paced: Vec<u32>,
    lengths: Vec<u32>,
    /// For each block, its number of pages and the number of their remaining references.
    sums: Fenwick,
    /// For each non-empty block, the next newer block and the next older block.
    newer: Vec<u32>,
    older: Vec<u32>,
    newest: usize,
    /// The number of pages.
    len: usize,
}

/// A page that [`Stack::take`] has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) page: u32,
    /// The page's distance from the top before it was moved to the top.
    pub(super) distance: usize,
}

/// The rules for the weights of pages in a choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weighing {
    /// The smallest weight of a page with remaining references.
    pub(super) floor: u32,
    /// A page has weight 0 while at most this share of its paced references remains, in units of 2^-32.
    pub(super) ahead: u32,
}

impl Weighing {
    /// Returns the weight of a page with `left` remaining references, of which `paced` were spread over the whole
    /// sequence.
    #[inline]
    fn weight(self, left: u32, paced: u32) -> u32 {
        let least = ((u64::from(paced) * u64::from(self.ahead)) >> 32) as u32;
        match left > least {
            true => left.max(self.floor),
            false => 0,
        }
    }
}

/// The position of a page: its block, and its index in the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    block: usize,
    offset: usize,
}

const NONE: u32 = u32::MAX;

impl Stack {
    /// Creates a stack of pages with their references and their paced references, in order from the bottom to the top.
    pub(super) fn new(pages: Vec<u32>, left: Vec<u32>, paced: Vec<u32>) -> Stack {
        assert_eq!(
            pages.len(),
            left.len(),
            "one count of references for each page"
        );
        assert_eq!(
            pages.len(),
            paced.len(),
            "one count of paced references for each page"
        );
        let mut stack = Stack {
            len: pages.len(),
            pages,
            left,
            paced,
            lengths: Vec::new(),
            sums: Fenwick::default(),
            newer: Vec::new(),
            older: Vec::new(),
            newest: 0,
        };
        stack.lay_out();
        stack
    }

    /// Returns the number of pages.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Chooses a page at most `window` positions from `distance`, counts one of its references and moves it to the top.
    /// `uniform` is a random number from [0, 1).
    ///
    /// The probability of a page is in proportion to its weight. If all weights in the window are 0, the probability is
    /// in proportion to the remaining references. If the window has no remaining references, the nearest page with
    /// remaining references is chosen; of two such pages, the page nearer to the top. Returns `None` if no page has
    /// remaining references.
    pub(super) fn take(
        &mut self,
        distance: usize,
        window: usize,
        weighing: Weighing,
        uniform: f64,
    ) -> Option<Taken> {
        if self.len == 0 {
            return None;
        }
        let centre = self.len - 1 - distance.min(self.len - 1);
        let low = centre.saturating_sub(window);
        let high = (centre + window).min(self.len - 1);
        let start = self.place(low);
        let mut weighing = weighing;
        let mut sum = self.sum(start, high - low + 1, weighing);
        if sum == 0 && weighing != Weighing::default() {
            weighing = Weighing::default();
            sum = self.sum(start, high - low + 1, weighing);
        }
        let (place, index) = match sum {
            0 => self.nearest(start, centre)?,
            _ => {
                // `uniform` is below 1, but rounding may make the product equal to the sum.
                let point = ((uniform * sum as f64) as u64).min(sum - 1);
                self.choose(start, low, weighing, point)
            }
        };
        let page = self.move_to_top(place);
        Some(Taken {
            page,
            distance: self.len - 1 - index,
        })
    }

    /// Adds a new page with `left` references at the top.
    pub(super) fn push(&mut self, page: u32, left: u32) {
        self.len += 1;
        self.put_on_top(page, left, 0);
    }

    /// Returns the position of an index.
    fn place(&self, index: usize) -> Place {
        let (block, before) = self.sums.find(PAGES, index as u64);
        Place {
            block,
            offset: index - before as usize,
        }
    }

    fn range(&self, from: Place, most: usize) -> std::ops::Range<usize> {
        let start = from.block * BLOCK + from.offset;
        let end = from.block * BLOCK + self.lengths[from.block] as usize;
        start..end.min(start + most)
    }

    /// Sums the weights of `count` pages from `place` towards the top.
    fn sum(&self, mut place: Place, mut count: usize, weighing: Weighing) -> u64 {
        let mut sum = 0;
        loop {
            let range = self.range(place, count);
            count -= range.len();
            sum += self.left[range.clone()]
                .iter()
                .zip(&self.paced[range])
                .map(|(&left, &paced)| u64::from(weighing.weight(left, paced)))
                .sum::<u64>();
            if count == 0 {
                return sum;
            }
            place = self.next_block(place);
        }
    }

    /// Returns the position and the index of the page that has unit number `point` of the weight. Units are counted
    /// from the page at `place`, whose index is `index`.
    fn choose(
        &self,
        mut place: Place,
        mut index: usize,
        weighing: Weighing,
        mut point: u64,
    ) -> (Place, usize) {
        loop {
            let range = self.range(place, BLOCK);
            let pages = self.left[range.clone()]
                .iter()
                .zip(&self.paced[range.clone()]);
            for (step, (&left, &paced)) in pages.enumerate() {
                let weight = u64::from(weighing.weight(left, paced));
                if point < weight {
                    let offset = place.offset + step;
                    return (Place { offset, ..place }, index + step);
                }
                point -= weight;
            }
            index += range.len();
            place = self.next_block(place);
        }
    }

    fn next_block(&self, place: Place) -> Place {
        Place {
            block: self.newer[place.block] as usize,
            offset: 0,
        }
    }

    /// Returns the page with remaining references that is nearest to the index `centre`, if no page of the window that
    /// begins at `start` has remaining references.
    fn nearest(&self, start: Place, centre: usize) -> Option<(Place, usize)> {
        let total = self.sums.total(LEFT);
        let first = start.block * BLOCK;
        let before = self.sums.before(LEFT, start.block)
            + self.left[first..first + start.offset]
                .iter()
                .map(|&left| u64::from(left))
                .sum::<u64>();
        let below = before.checked_sub(1).map(|point| self.holder(point));
        let above = (before < total).then(|| self.holder(before));
        match (below, above) {
            (Some(below), Some(above)) if centre - below.1 < above.1 - centre => Some(below),
            (below, above) => above.or(below),
        }
    }

    /// Returns the position and the index of the page that has unit number `point` of all remaining references.
    fn holder(&self, point: u64) -> (Place, usize) {
        let (block, before) = self.sums.find(LEFT, point);
        let index = self.sums.before(PAGES, block) as usize;
        self.choose(
            Place { block, offset: 0 },
            index,
            Weighing::default(),
            point - before,
        )
    }

    /// Counts one reference of a page and moves it to the top.
    fn move_to_top(&mut self, place: Place) -> u32 {
        let block = place.block;
        let range = self.range(place, BLOCK);
        let (page, left, paced) = (
            self.pages[range.start],
            self.left[range.start],
            self.paced[range.start],
        );
        let above = range.start + 1..range.end;
        self.pages.copy_within(above.clone(), range.start);
        self.left.copy_within(above.clone(), range.start);
        self.paced.copy_within(above, range.start);
        if block == self.newest {
            // The end of this block is the top of the stack.
            let top = range.end - 1;
            (self.pages[top], self.left[top], self.paced[top]) = (page, left - 1, paced);
            self.sums.subtract(block, [0, 1]);
            return page;
        }
        self.lengths[block] -= 1;
        self.sums.subtract(block, [1, left.into()]);
        if self.lengths[block] == 0 {
            self.unlink(block);
        }
        self.put_on_top(page, left - 1, paced);
        page
    }

    fn put_on_top(&mut self, page: u32, left: u32, paced: u32) {
        if self.lengths[self.newest] as usize == BLOCK {
            self.open_block();
        }
        let newest = self.newest;
        let end = newest * BLOCK + self.lengths[newest] as usize;
        self.pages[end] = page;
        self.left[end] = left;
        self.paced[end] = paced;
        self.lengths[newest] += 1;
        self.sums.add(newest, [1, left.into()]);
    }

    fn unlink(&mut self, block: usize) {
        let (newer, older) = (self.newer[block], self.older[block]);
        // The newest block is never emptied, so a newer block exists.
        self.older[newer as usize] = older;
        if older != NONE {
            self.newer[older as usize] = newer;
        }
    }

    /// Begins a new block at the top. If no block is free, packs all pages first.
    fn open_block(&mut self) {
        if self.newest + 1 == self.lengths.len() {
            self.pack();
        }
        // A new block is also needed after packing if the newest block is full.
        if self.lengths[self.newest] as usize == BLOCK {
            let (old, new) = (self.newest, self.newest + 1);
            self.newer[old] = new as u32;
            self.older[new] = old as u32;
            self.newest = new;
        }
    }

    /// Moves all pages to the first blocks, except for the page that is being moved to the top.
    fn pack(&mut self) {
        let mut end = 0;
        for block in 0..self.lengths.len() {
            let start = block * BLOCK;
            let range = start..start + self.lengths[block] as usize;
            end += {
                self.pages.copy_within(range.clone(), end);
                self.left.copy_within(range.clone(), end);
                self.paced.copy_within(range.clone(), end);
                range.len()
            };
        }
        self.pages.truncate(end);
        self.left.truncate(end);
        self.paced.truncate(end);
        self.lay_out();
    }

    /// Divides `pages` and `left` into blocks, and adds the same number of free blocks.
    fn lay_out(&mut self) {
        let filled = self.pages.len();
        let full = filled.div_ceil(BLOCK).max(1);
        let blocks = 2 * full + 8;
        self.pages.resize(blocks * BLOCK, 0);
        self.left.resize(blocks * BLOCK, 0);
        self.paced.resize(blocks * BLOCK, 0);
        self.lengths = (0..blocks)
            .map(|block| filled.saturating_sub(block * BLOCK).min(BLOCK) as u32)
            .collect();
        self.sums = Fenwick::new((0..blocks).map(|block| {
            let (start, length) = (block * BLOCK, self.lengths[block]);
            let filled = &self.left[start..start + length as usize];
            let left = filled.iter().map(|&left| u64::from(left)).sum();
            [length.into(), left]
        }));
        self.newest = full - 1;
        self.newer = (1..=blocks as u32).collect();
        self.older = std::iter::once(NONE).chain(0..blocks as u32 - 1).collect();
    }
}

/// The indexes into the pair that [`Fenwick`] sums in [`Stack`]: pages, and remaining references.
const PAGES: usize = 0;
const LEFT: usize = 1;

/// Prefix sums over a changing list of pairs of numbers (P. Fenwick, "A new data structure for cumulative frequency
/// tables", Software: Practice and Experience 24, 1994). The two numbers of a pair change together, so one traversal of
/// the tree updates both.
#[derive(Debug, Default)]
struct Fenwick {
    /// Entry n (from 1) is the sum of the last k pairs up to pair n - 1, where k is the lowest set bit of n.
    sums: Vec<[u64; 2]>,
    total: [u64; 2],
    /// The largest power of two that does not exceed the number of pairs.
    top: usize,
}

impl Fenwick {
    fn new(pairs: impl Iterator<Item = [u64; 2]>) -> Fenwick {
        let mut sums: Vec<[u64; 2]> = std::iter::once([0; 2]).chain(pairs).collect();
        let total = sums.iter().fold([0; 2], |sum, &pair| plus(sum, pair));
        for n in 1..sums.len() {
            let parent = n + (n & n.wrapping_neg());
            if parent < sums.len() {
                sums[parent] = plus(sums[parent], sums[n]);
            }
        }
        let top = 1 << (sums.len() - 1).max(1).ilog2();
        Fenwick { sums, total, top }
    }

    fn total(&self, which: usize) -> u64 {
        self.total[which]
    }

    fn add(&mut self, place: usize, pair: [u64; 2]) {
        self.total = plus(self.total, pair);
        let mut n = place + 1;
        while n < self.sums.len() {
            self.sums[n] = plus(self.sums[n], pair);
            n += n & n.wrapping_neg();
        }
    }

    fn subtract(&mut self, place: usize, pair: [u64; 2]) {
        self.total = minus(self.total, pair);
        let mut n = place + 1;
        while n < self.sums.len() {
            self.sums[n] = minus(self.sums[n], pair);
            n += n & n.wrapping_neg();
        }
    }

    /// Returns the sum of the pairs before `place`.
    fn before(&self, which: usize, place: usize) -> u64 {
        let (mut n, mut sum) = (place, 0);
        while n > 0 {
            sum += self.sums[n][which];
            n &= n - 1;
        }
        sum
    }

    /// Returns the index of the pair that contains unit `point` (from 0) of the total, and the sum of the pairs before
    /// it. `point` is below the total.
    fn find(&self, which: usize, point: u64) -> (usize, u64) {
        let (mut place, mut sum, mut step) = (0, 0, self.top);
        while step > 0 {
            let next = place + step;
            if next < self.sums.len() && sum + self.sums[next][which] <= point {
                place = next;
                sum += self.sums[next][which];
            }
            step >>= 1;
        }
        (place, sum)
    }
}

fn plus(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

fn minus(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    [a[0] - b[0], a[1] - b[1]]
}

#[cfg(test)]
mod tests {
    use fathometer_model::Seed;

    use super::*;

    /// A reference implementation with a vector; the last element is the top.
    struct Plain(Vec<(u32, u32, u32)>);

    impl Plain {
        fn take(
            &mut self,
            distance: usize,
            window: usize,
            weighing: Weighing,
            uniform: f64,
        ) -> Option<(u32, usize)> {
            let top = self.0.len() - 1;
            let centre = top - distance.min(top);
            let window = centre.saturating_sub(window)..=(centre + window).min(top);
            let weigh = |page: &(u32, u32, u32), w: Weighing| {
                let least = (u64::from(page.2) * u64::from(w.ahead)) >> 32;
                match u64::from(page.1) > least {
                    true => u64::from(page.1.max(w.floor)),
                    false => 0,
                }
            };
            let total = |w| -> u64 { self.0[window.clone()].iter().map(|p| weigh(p, w)).sum() };
            let weighing = match total(weighing) {
                0 => Weighing::default(),
                _ => weighing,
            };
            let sum = total(weighing);
            let index = if sum > 0 {
                let mut point = (uniform * sum as f64) as u64;
                window.into_iter().find(|&index| {
                    let left = weigh(&self.0[index], weighing);
                    let found = point < left;
                    point = point.saturating_sub(left);
                    found
                })?
            } else {
                (0..=top)
                    .filter(|&index| self.0[index].1 > 0)
                    .min_by_key(|&index| (index.abs_diff(centre), top - index))?
            };
            let (page, left, paced) = self.0.remove(index);
            self.0.push((page, left - 1, paced));
            Some((page, top - index))
        }
    }

    #[test]
    fn the_stack_agrees_with_a_vector_until_no_references_are_left() {
        for (pages, references, window) in [(1u32, 3, 50), (2, 40, 0), (700, 9, 50), (3000, 4, 7)] {
            let seed = Seed(u64::from(pages));
            let left: Vec<u32> = (0..pages)
                .map(|page| (seed.draw(u64::from(page)) % references) as u32)
                .collect();
            let total: u64 = left.iter().map(|&left| u64::from(left)).sum();
            // Every second page is paced.
            let paced: Vec<u32> = (0..)
                .zip(&left)
                .map(|(page, &left)| left * (page % 2))
                .collect();
            let numbers = (0..pages).zip(left.iter().copied());
            let plain = numbers
                .zip(&paced)
                .map(|((page, left), &paced)| (page, left, paced));
            let mut plain = Plain(plain.collect());
            let mut stack = Stack::new((0..pages).collect(), left, paced);
            let steps = seed.stream("steps");
            for step in 0..total {
                // The distance is mostly short, sometimes of any length, sometimes beyond the end.
                let far = libm::pow(steps.uniform(2 * step), 4.0) * 1.1;
                let distance = (far * f64::from(pages)) as usize;
                let uniform = steps.uniform(2 * step + 1);
                let weighing = match step % 3 {
                    0 => Weighing::default(),
                    _ => Weighing {
                        floor: 5,
                        ahead: u32::MAX - (u64::from(u32::MAX) * step / total) as u32,
                    },
                };
                if step % 50 == 0 {
                    let page = pages + step as u32;
                    stack.push(page, 0);
                    plain.0.push((page, 0, 0));
                }
                let ours = stack.take(distance, window, weighing, uniform);
                let ours = ours.map(|taken| (taken.page, taken.distance));
                assert_eq!(
                    ours,
                    plain.take(distance, window, weighing, uniform),
                    "step {step}"
                );
                assert!(ours.is_some());
            }
            assert_eq!(stack.take(0, window, Weighing::default(), 0.5), None);
            assert_eq!(stack.len(), plain.0.len());
        }
    }

    #[test]
    fn sums_and_places_of_a_changing_list_agree() {
        let mut numbers: Vec<u64> = (0..37).map(|n| Seed(2).draw(n) % 4).collect();
        let pair = |number: u64| [3 * number, number];
        let mut tree = Fenwick::new(numbers.iter().copied().map(pair));
        for step in 0..200u64 {
            let place = (Seed(3).draw(step) % 37) as usize;
            match numbers[place] {
                0 => {
                    numbers[place] += 5;
                    tree.add(place, pair(5));
                }
                number => {
                    numbers[place] = number - 1;
                    tree.subtract(place, pair(1));
                }
            }
            for (which, factor) in [(0, 3), (1, 1)] {
                let before = |place: usize| factor * numbers[..place].iter().sum::<u64>();
                assert_eq!(tree.before(which, place), before(place));
                assert_eq!(tree.total(which), before(numbers.len()));
                let mut point = 0;
                for (place, &number) in numbers.iter().enumerate() {
                    for _ in 0..factor * number {
                        assert_eq!(tree.find(which, point), (place, before(place)));
                        point += 1;
                    }
                }
            }
        }
    }
}
