//! The source of a loop's sessions, and the page that each session requests next.

use fathometer_model::Instant;
use fathometer_workload::plan::PageId;

use super::super::context::Context;
use super::super::shared::Shared;
use super::super::timers::NEVER;
use super::open::OpenLoop;
use super::population::Population;
use super::user::SessionProgress;

/// The source of sessions.
pub(crate) enum SessionSource<'a> {
    /// The users of a closed loop.
    Users(Population),
    /// The arrivals of an open loop.
    Arrivals(Box<OpenLoop<'a>>),
}

impl<'a> SessionSource<'a> {
    pub(super) fn open_loop(&self) -> Option<&OpenLoop<'a>> {
        match self {
            SessionSource::Users(_) => None,
            SessionSource::Arrivals(open) => Some(open),
        }
    }

    pub(super) fn open_loop_mut(&mut self) -> Option<&mut OpenLoop<'a>> {
        match self {
            SessionSource::Users(_) => None,
            SessionSource::Arrivals(open) => Some(open),
        }
    }

    pub(super) fn is_open_loop(&self) -> bool {
        self.open_loop().is_some()
    }

    /// Returns whether the number of a closed-loop user is above the current number of users.
    pub(super) fn is_superfluous(&self, number: u64) -> bool {
        match self {
            SessionSource::Users(population) => !population.is_active(number as u32),
            SessionSource::Arrivals(_) => false,
        }
    }

    /// Returns the instant of the next arrival. When all exchanges are planned, later arrivals are skipped.
    pub(super) fn next_arrival(&self, context: &Context<'_>) -> Instant {
        match self.open_loop() {
            Some(open) if !context.shared.is_planned_out() => {
                open.next_wake(context.tally.edges().end)
            }
            _ => NEVER,
        }
    }

    /// Returns the number of pages of a session; `None`: unlimited.
    pub(super) fn pages_of(&self, shared: &Shared, session: u64) -> Option<u32> {
        let pages = shared.pages_of(session);
        match self {
            SessionSource::Users(_) => pages,
            SessionSource::Arrivals(_) => pages.or(Some(1)),
        }
    }

    /// Returns the page that a session requests next.
    pub(super) fn next_page(&self, shared: &Shared, session: &SessionProgress) -> PageId {
        let is_arrival = self.is_open_loop() && shared.plan.sessions.pages.is_none();
        match shared.script(session.number()) {
            Some(script) => script.steps[session.pages_done() as usize].0,
            // An arrival's page depends only on its number, so the plan does not depend on the order in which threads
            // run.
            None if is_arrival => shared.page(session.number()),
            None if shared.fills => PageId(0),
            None => shared.next_page(),
        }
    }

    /// Returns the first page of an arrival whose session never began.
    pub(super) fn missed_page(&self, shared: &Shared, session: u64) -> PageId {
        match shared.script(session) {
            Some(script) => script.steps[0].0,
            None if shared.plan.sessions.pages.is_none() => shared.page(session),
            None => PageId(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use fathometer_workload::arrivals::{Arrivals, Profile};
    use fathometer_workload::plan::{Choice, Pages, Plan, Script, Target};

    use super::super::super::Options;
    use super::*;

    const PAGES: [PageId; 3] = [PageId(0), PageId(1), PageId(2)];

    /// Creates a test of three pages.
    fn shared(choice: Choice) -> Shared {
        let target = Target::get("/", None);
        let plan = Plan {
            targets: vec![target.clone(); 3],
            pages: Pages::single(3),
            choice,
            ..Plan::single(target)
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        Shared::new(&Options::new(address, "server", Arc::new(plan))).unwrap()
    }

    fn session(number: u64, pages_done: u32) -> SessionProgress {
        let mut session = SessionProgress::default();
        session.begin(number, None);
        for _ in 0..pages_done {
            session.page_done();
        }
        session
    }

    fn users() -> SessionSource<'static> {
        SessionSource::Users(Population::new(2, Duration::ZERO, &[], 0, 1))
    }

    fn open_loop(arrivals: &Arrivals) -> SessionSource<'_> {
        let timeout = Duration::from_secs(1);
        let open = OpenLoop::new(arrivals, (0, 1), Instant::ZERO, (1, 1), timeout);
        SessionSource::Arrivals(Box::new(open))
    }

    #[test]
    fn users_take_pages_in_turn_and_an_arrival_takes_the_page_of_its_number() {
        let shared = shared(Choice::Sequence(PAGES.into()));
        let pages = [7, 7, 7, 7].map(|number| users().next_page(&shared, &session(number, 0)));
        assert_eq!(pages, [PAGES[0], PAGES[1], PAGES[2], PAGES[0]]);
        let arrivals = Arrivals::constant(Profile::constant(10.0).unwrap());
        let open = open_loop(&arrivals);
        for number in [5, 3, 4, 5] {
            let expected = PAGES[number as usize % 3];
            assert_eq!(open.next_page(&shared, &session(number, 0)), expected);
            assert_eq!(open.missed_page(&shared, number), expected);
        }
        assert_eq!(users().pages_of(&shared, 0), None);
        assert_eq!(open.pages_of(&shared, 0), Some(1));
    }

    #[test]
    fn a_scripted_session_requests_its_own_pages() {
        let script = |pages: &[PageId]| Script {
            steps: pages.iter().map(|&page| (page, Duration::ZERO)).collect(),
        };
        let scripts = vec![script(&PAGES), script(&PAGES[2..])];
        let shared = shared(Choice::Scripts(scripts.into()));
        let source = users();
        let pages = [0, 1, 2].map(|done| source.next_page(&shared, &session(4, done)));
        assert_eq!(pages, PAGES);
        assert_eq!(source.next_page(&shared, &session(5, 0)), PAGES[2]);
        assert_eq!(source.missed_page(&shared, 5), PAGES[2]);
        let lengths = [0, 1, 2].map(|number| source.pages_of(&shared, number));
        assert_eq!(lengths, [Some(3), Some(1), Some(3)]);
    }

    #[test]
    fn only_a_closed_loop_has_superfluous_users() {
        let arrivals = Arrivals::constant(Profile::constant(10.0).unwrap());
        assert_eq!([1, 2].map(|n| users().is_superfluous(n)), [false, true]);
        assert!(!open_loop(&arrivals).is_superfluous(99));
    }
}
