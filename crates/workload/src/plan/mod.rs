//! A plan: the possible requests, their order, and their times.
//!
//! A workload creates a [`Plan`]; a load engine executes it. The plan is global: it does not depend on the number of
//! threads or machines that share it. [`Choice`] selects the next page. [`Sessions`] sets the number of pages in a
//! session and the pauses between them. The experiment, not the workload, sets the number of users or the arrival times
//! of sessions.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Bytes, Seed};

use crate::distribution::Law;

/// The index of a target in [`Plan::targets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u32);

/// The maximum number of members of a page, because load engines number them with 16 bits.
pub const MOST_MEMBERS: usize = u16::MAX as usize;

/// The index of a page in [`Plan::pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// A request, which may be repeated.
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
    /// Creates a GET for `path`.
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

/// Pages: for each, a base target and the targets embedded in it. They are stored consecutively in two vectors, so that
/// a million pages take a few megabytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pages {
    /// The end of each page's members in `members`.
    ends: Vec<u32>,
    members: Vec<TargetId>,
    /// For each member, the index within its page of the member that refers to it. Empty if the base of every page
    /// refers to all other members.
    named_by: Vec<u16>,
}

/// One page of [`Pages`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTargets<'a> {
    /// The base target, then the embedded targets in document order.
    pub members: &'a [TargetId],
    /// For each member, the index of the earlier member that refers to it; the entry of the base is 0 and is not used.
    /// If this is empty, the base refers to all other members.
    pub named_by: &'a [u16],
}

impl Pages {
    /// Creates an empty list of pages.
    pub fn new() -> Pages {
        Pages::default()
    }

    /// Creates one page per target.
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
        assert_eq!(
            members.len(),
            named_by.len(),
            "there must be one dependency per member"
        );
        let earlier = named_by.iter().enumerate().skip(1);
        assert!(
            earlier
                .into_iter()
                .all(|(place, &by)| usize::from(by) < place),
            "a member must depend on an earlier member"
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

    /// Returns the number of pages.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no pages.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns a page.
    ///
    /// # Panics If the page belongs to another plan and is out of range.
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

/// The choice of the next page.
#[derive(Debug, Clone)]
pub enum Choice {
    /// One global sequence from which all users take the next page. After its end it starts again.
    Sequence(Arc<[PageId]>),
    /// Each page is chosen independently, with these probabilities.
    Weighted(Weights),
    /// Predefined sessions: each session takes the next script, and the first script again after the last. [`Sessions`]
    /// does not apply.
    Scripts(Arc<[Script]>),
}

/// A predefined session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The pages of the session, each with the pause after it.
    pub steps: Vec<(PageId, Duration)>,
}

/// Pages with probabilities in proportion to integer weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// The cumulative sums of the weights, up to and including each page.
    sums: Vec<u64>,
}

impl Weights {
    /// Creates weights so that page *n* has the probability `weights[n] / sum`. `None` if all weights are zero or there
    /// are no weights.
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

    /// Returns the page for random number `counter` of `seed`.
    pub fn draw(&self, seed: Seed, counter: u64) -> PageId {
        let total = self.sums.last().copied().unwrap_or(1);
        // The upper half of the product, which is uniform to within 2^-64 of the total.
        let point = (u128::from(seed.draw(counter)) * u128::from(total)) >> 64;
        PageId(self.sums.partition_point(|&sum| u128::from(sum) <= point) as u32)
    }

    /// Returns the probability of a page.
    pub fn probability(&self, page: PageId) -> f64 {
        let place = page.0 as usize;
        let before = place.checked_sub(1).map_or(0, |before| self.sums[before]);
        (self.sums[place] - before) as f64 / self.sums.last().copied().unwrap_or(1) as f64
    }
}

/// The number of pages per session, and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sessions {
    /// Pages per session, rounded to the nearest integer, at least 1; `None`: unlimited.
    pub pages: Option<Law>,
    /// The pause in seconds between the end of a page and the start of the session's next page, and between
    /// a session's last page and the session's end; `None`: no pause.
    pub off: Option<Law>,
}

impl Sessions {
    /// Sessions with an unlimited number of pages, without pauses.
    pub const ENDLESS: Sessions = Sessions {
        pages: None,
        off: None,
    };
}

/// The possible requests, and their selection.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The name of the plan, as in `surge`.
    pub name: String,
    /// All requests; [`TargetId`] indexes this.
    pub targets: Vec<Target>,
    /// All pages.
    pub pages: Pages,
    /// The selection of the next page.
    pub choice: Choice,
    /// The number of pages per session, and the pauses.
    pub sessions: Sessions,
    /// The instants at which sessions began, relative to the first session, if the workload is a recording. Session
    /// number *n* takes page number *n* of the sequence, or script number *n*.
    pub recorded: Option<Arc<[Duration]>>,
}

impl Plan {
    /// Creates a plan that requests one target repeatedly.
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
    #[should_panic(expected = "must depend on an earlier member")]
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
