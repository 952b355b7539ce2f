//! The members of a page that may be requested, and the instants from which they may be.

use fathometer_model::Instant;
use fathometer_workload::plan::{PageId, PageTargets};

/// The progress of a user in a page.
///
/// Members are requested in order, each once: first the base, then each member when the member that refers to it is
/// complete.
#[derive(Debug, Default)]
pub(super) struct PageProgress {
    page: u32,
    started: Instant,
    /// The number of members that have been requested.
    requested: u32,
    /// The number of members that may be requested, if the page's base refers to all others.
    known: u32,
    /// The instant from which these members may be requested.
    named_at: Instant,
    /// The members that may be requested, if the page has dependencies: the index in the page, and the instant from
    /// which the member may be requested.
    named: Vec<(u16, Instant)>,
    /// Whether a member failed.
    failed: bool,
    /// Whether the test ended before the page ended.
    cut: bool,
}

impl PageProgress {
    /// Begins a page. `at` is the planned instant of its base.
    pub(super) fn begin(&mut self, page: PageId, at: Instant) {
        self.page = page.0;
        self.started = at;
        self.requested = 0;
        self.known = 1;
        self.named_at = at;
        self.named.clear();
        self.failed = false;
        self.cut = false;
    }

    pub(super) fn page(&self) -> PageId {
        PageId(self.page)
    }

    /// Returns the planned instant of the page's base.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Returns the next member that may be requested, and the instant from which it may be. `targets` returns the
    /// page's targets.
    pub(super) fn next_member<'p>(
        &self,
        targets: impl FnOnce() -> PageTargets<'p>,
    ) -> Option<(u16, Instant)> {
        if self.cut {
            return None;
        }
        if self.requested == 0 {
            return Some((0, self.started));
        }
        if targets().named_by.is_empty() {
            return (self.requested < self.known).then_some((self.requested as u16, self.named_at));
        }
        self.named.get(self.requested as usize - 1).copied()
    }

    /// Records that the next member was requested.
    pub(super) fn requested(&mut self) {
        self.requested += 1;
    }

    /// Records that a member is complete; the members to which it refers may now be requested.
    pub(super) fn completed(&mut self, member: u16, targets: PageTargets<'_>, now: Instant) {
        if targets.named_by.is_empty() {
            if member == 0 {
                self.known = targets.members.len() as u32;
                self.named_at = now;
            }
            return;
        }
        let named_by = targets.named_by.iter().enumerate().skip(1);
        let named = named_by.filter(|&(_, &by)| by == member);
        self.named
            .extend(named.map(|(member, _)| (member as u16, now)));
    }

    /// Records that a member failed; the members to which it refers are not requested.
    pub(super) fn failed(&mut self) {
        self.failed = true;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Records that no more members are requested, because the test ends.
    pub(super) fn cut(&mut self) {
        self.cut = true;
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }
}

#[cfg(test)]
mod tests {
    use fathometer_workload::plan::{Pages, TargetId};

    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Requests all members that may be requested, and returns them.
    fn request(progress: &mut PageProgress, pages: &Pages) -> Vec<(u16, u64)> {
        let page = progress.page();
        std::iter::from_fn(|| {
            let (member, since) = progress.next_member(|| pages.get(page))?;
            progress.requested();
            Some((member, since.as_nanos()))
        })
        .collect()
    }

    #[test]
    fn the_members_follow_in_order_when_the_base_is_complete() {
        let mut pages = Pages::new();
        let page = pages.push(&[4, 5, 6].map(TargetId));
        let mut progress = PageProgress::default();
        for start in [10, 100] {
            progress.begin(page, at(start));
            assert_eq!(request(&mut progress, &pages), [(0, start)]);
            progress.completed(0, pages.get(page), at(start + 5));
            let members = request(&mut progress, &pages);
            assert_eq!(members, [(1, start + 5), (2, start + 5)]);
            progress.completed(1, pages.get(page), at(start + 9));
            assert!(request(&mut progress, &pages).is_empty());
            assert!(!progress.has_failed());
        }
    }

    #[test]
    fn a_member_is_requested_when_the_one_that_names_it_is_complete() {
        let mut pages = Pages::new();
        let members = [0, 1, 2, 3, 4].map(TargetId);
        let page = pages.push_with_dependencies(&members, &[0, 0, 1, 0, 2]);
        let mut progress = PageProgress::default();
        progress.begin(page, at(10));
        assert_eq!(request(&mut progress, &pages), [(0, 10)]);
        progress.completed(0, pages.get(page), at(20));
        assert_eq!(request(&mut progress, &pages), [(1, 20), (3, 20)]);
        progress.completed(3, pages.get(page), at(30));
        assert!(request(&mut progress, &pages).is_empty());
        progress.completed(1, pages.get(page), at(40));
        assert_eq!(request(&mut progress, &pages), [(2, 40)]);
        // Members that only a failed member refers to are not requested.
        progress.failed();
        assert!(request(&mut progress, &pages).is_empty());
        assert!(progress.has_failed());
    }

    #[test]
    fn nothing_is_requested_of_a_page_that_was_cut() {
        let pages = Pages::single(1);
        let mut progress = PageProgress::default();
        progress.begin(PageId(0), at(10));
        progress.cut();
        assert!(request(&mut progress, &pages).is_empty() && progress.is_cut());
        progress.begin(PageId(0), at(20));
        assert_eq!(request(&mut progress, &pages), [(0, 20)]);
    }
}
