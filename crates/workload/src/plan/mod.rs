//! A plan: the possible requests, which request a user sends next, and when.
//!
//! A workload creates a [`Plan`]; a load engine executes it. The plan is global: it does not depend on the
//! number of threads or machines that share it. [`Choice`] selects the next page. [`Sessions`] sets how
//! many pages a user requests in a row and how long the user pauses between them. The number of users, or
//! the arrival times of sessions, are set by the experiment, not by the workload.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Bytes, Seed};

use crate::distribution::Law;

/// The index of a target in [`Plan::targets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u32);

/// The most members of a page, because load engines number them by 16 bits.
pub const MOST_MEMBERS: usize = u16::MAX as usize;

/// The index of a page in [`Plan::pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// A request, which is repeated as often as the plan requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The method, a token.
    pub method: Cow<'static, str>,
    /// The request target in origin form, including the query.
    pub path: String,
    /// The content of the request.
    pub content: Option<Arc<[u8]>>,
    /// The media type of the content, if known.
    pub content_type: Option<Arc<str>>,
    /// Bytes of the response's content, if known.
    pub size: Option<Bytes>,
}

impl Target {
    /// A GET for `path`.
    pub fn get(path: impl Into<String>, size: Option<Bytes>) -> Target {
        Target {
            method: Cow::Borrowed("GET"),
            path: path.into(),
            content: None,
            content_type: None,
            size,
        }
    }
}

/// Pages: for each, a base target and the targets embedded in it. They are stored in sequence in two
/// vectors, so that a million pages take a few megabytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages {
    /// The end of each page's members in `members`.
    ends: Vec<u32>,
    members: Vec<TargetId>,
    /// For each member, the index within its page of the member that refers to it. Empty as long as every
    /// page's base refers to all of its other members.
    named_by: Vec<u16>,
}

/// One page of [`Pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTargets<'a> {
    /// The base target, then the embedded targets in document order.
    pub members: &'a [TargetId],
    /// For each member, the index of the earlier member that refers to it; the value of the base is 0 and
    /// has no meaning. If this is empty, the base refers to all other members.
    pub named_by: &'a [u16],
}

impl Pages {
    /// No pages.
    pub fn new() -> Pages {
        Pages::default()
    }

    /// One page per target.
    pub fn single(targets: u32) -> Pages {
        Pages {
            ends: (1..=targets).collect(),
            members: (0..targets).map(TargetId).collect(),
            named_by: Vec::new(),
        }
    }

    /// Appends a page whose base refers to all of its other members.
    ///
    /// # Panics
    /// If there is no member, or if there are more than 2^32 members in total.
    pub fn push(&mut self, members: &[TargetId]) -> PageId {
        assert!(!members.is_empty(), "a page has a base");
        if !self.named_by.is_empty() {
            self.named_by.extend(members.iter().map(|_| 0));
        }
        self.append(members)
    }

    /// Appends a page with its dependencies: `named_by[i]` is the index of the member that refers to member
    /// `i`, smaller than `i`.
    ///
    /// # Panics
    /// If there is no member, if the lengths differ, or if `named_by[i]` is not smaller than `i` (except
    /// for the base).
    pub fn push_with_dependencies(&mut self, members: &[TargetId], named_by: &[u16]) -> PageId {
        assert!(!members.is_empty(), "a page has a base");
        assert_eq!(members.len(), named_by.len(), "every member is named once");
        let earlier = named_by.iter().enumerate().skip(1);
        assert!(
            earlier
                .into_iter()
                .all(|(place, &by)| usize::from(by) < place),
            "a member is named by an earlier one"
        );
        self.named_by.resize(self.members.len(), 0);
        self.named_by.extend_from_slice(named_by);
        self.append(members)
    }

    fn append(&mut self, members: &[TargetId]) -> PageId {
        self.members.extend_from_slice(members);
        let end = u32::try_from(self.members.len()).expect("pages have fewer than 2^32 members");
        self.ends.push(end);
        PageId(self.ends.len() as u32 - 1)
    }

    /// The number of pages.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no pages.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A page.
    ///
    /// # Panics
    /// If the page is out of range, because it belongs to another plan.
    pub fn get(&self, page: PageId) -> PageTargets<'_> {
        let place = page.0 as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        let range = start..self.ends[place] as usize;
        PageTargets {
            named_by: self.named_by.get(range.clone()).unwrap_or(&[]),
            members: &self.members[range],
        }
    }
}

/// How the next page is chosen.
#[derive(Debug, Clone)]
pub enum Choice {
    /// One global sequence from which all users take pages in turn; after its end it starts again.
    Sequence(Arc<[PageId]>),
    /// Each page independently, with these probabilities.
    Weighted(Weights),
    /// Predefined sessions: each session takes the next script in turn, starting again after the last.
    /// [`Sessions`] does not apply.
    Scripts(Arc<[Script]>),
}

/// A predefined session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Its pages, each with the pause after it.
    pub steps: Vec<(PageId, Duration)>,
}

/// Pages with probabilities in proportion to integer weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// The cumulative sums of the weights, up to and including each page.
    sums: Vec<u64>,
}

impl Weights {
    /// Page *n* with probability `weights[n] / sum`. `None` if all weights are zero or there are no
    /// weights.
    pub fn new(weights: impl IntoIterator<Item = u64>) -> Option<Weights> {
        let mut sum = 0;
        let sums: Vec<u64> = weights
            .into_iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        (sum > 0).then_some(Weights { sums })
    }

    /// The page of the `counter`-th draw of `seed`.
    pub fn draw(&self, seed: Seed, counter: u64) -> PageId {
        let total = self.sums.last().copied().unwrap_or(1);
        // The upper half of the product: uniform to within 2^-64 of the total.
        let point = (u128::from(seed.draw(counter)) * u128::from(total)) >> 64;
        PageId(self.sums.partition_point(|&sum| u128::from(sum) <= point) as u32)
    }

    /// The probability of a page.
    pub fn probability(&self, page: PageId) -> f64 {
        let place = page.0 as usize;
        let before = place.checked_sub(1).map_or(0, |before| self.sums[before]);
        (self.sums[place] - before) as f64 / self.sums.last().copied().unwrap_or(1) as f64
    }
}

/// How many pages a user requests in a row, and how long it pauses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sessions {
    /// Pages per session, rounded to the nearest integer, at least 1; `None`: unlimited.
    pub pages: Option<Law>,
    /// The pause in seconds between the end of a page and the start of the session's next page, and between
    /// a session's last page and the session's end; `None`: no pause.
    pub off: Option<Law>,
}

impl Sessions {
    /// Sessions of endless pages, without pauses.
    pub const ENDLESS: Sessions = Sessions {
        pages: None,
        off: None,
    };
}

/// The possible requests, and how they are selected.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The name of the plan, as in `surge`.
    pub name: String,
    /// All requests; [`TargetId`] indexes this.
    pub targets: Vec<Target>,
    /// All pages.
    pub pages: Pages,
    /// How the next page is selected.
    pub choice: Choice,
    /// How many pages are requested in a row, with which pauses.
    pub sessions: Sessions,
    /// The instants at which sessions began, relative to the first, if the workload is a recording. The
    /// *n*-th session takes the *n*-th page of the sequence, or the *n*-th script.
    pub recorded: Option<Arc<[Duration]>>,
}

impl Plan {
    /// A plan that requests one target repeatedly.
    pub fn single(target: Target) -> Plan {
        Plan {
            name: target.path.clone(),
            targets: vec![target],
            pages: Pages::single(1),
            choice: Choice::Sequence([PageId(0)].into()),
            sessions: Sessions::ENDLESS,
            recorded: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_keep_their_members_and_dependencies() {
        let mut pages = Pages::single(2);
        let ids = |ids: &[u32]| ids.iter().copied().map(TargetId).collect::<Vec<_>>();
        let graph = pages.push_with_dependencies(&ids(&[0, 3, 4]), &[0, 0, 1]);
        let plain = pages.push(&ids(&[1, 5]));
        assert_eq!((graph, plain, pages.len()), (PageId(2), PageId(3), 4));
        assert_eq!(pages.get(PageId(1)).members, ids(&[1]));
        assert_eq!(pages.get(graph).members, ids(&[0, 3, 4]));
        assert_eq!(pages.get(graph).named_by, [0, 0, 1]);
        assert_eq!(pages.get(plain).named_by, [0, 0]);
    }

    #[test]
    #[should_panic(expected = "named by an earlier one")]
    fn a_member_cannot_name_itself() {
        let members = [TargetId(0), TargetId(1)];
        Pages::new().push_with_dependencies(&members, &[0, 1]);
    }

    #[test]
    fn weights_give_each_page_its_share() {
        assert_eq!(Weights::new([0, 0]), None);
        let weights = Weights::new([350, 0, 500, 150]).unwrap();
        let mut counts = [0; 4];
        for n in 0..100_000 {
            counts[weights.draw(Seed(1), n).0 as usize] += 1;
        }
        assert_eq!(counts[1], 0);
        for (page, wanted) in [(0, 0.35), (2, 0.5), (3, 0.15)] {
            let share = f64::from(counts[page]) / 1e5;
            // Three standard deviations of a share of 100 000 draws are below 0.005.
            assert!((share - wanted).abs() < 0.005, "{page}: {share}");
            assert!((weights.probability(PageId(page as u32)) - wanted).abs() < 1e-12);
        }
    }
}
