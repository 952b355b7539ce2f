//! Little's law as a consistency test of a closed loop's figures.
//!
//! The mean number of users in a closed loop is the rate of their pages times the mean time of a page, plus the mean
//! number of pausing users (J. D. C. Little, "A Proof for the Queuing Formula L = λW", Operations Research 9, 1961).
//! The number of users is a setting, and the other figures are measured. If the two sides differ, exchanges or times
//! were lost, or users did not run.
//!
//! In a window of length `T`, two differences are valid:
//!
//! - The whole time of a page counts in the window in which the page began. At each edge of the window, part of one
//!   page per user counts in the wrong window. This part is at most the longest page, so both edges add up to `2
//!   longest / T`.
//! - A user is neither busy nor pausing while the generator prepares the next page. This time must be at most
//!   [`OWN_TIME`] of the users' time.

use super::{UserTime, Window};

/// The largest share of the users' time that the generator may spend between pages.
const OWN_TIME: f64 = 0.01;

impl UserTime {
    /// Computes the users' time in the measured window. The number of users is constant, and each user has up to
    /// `slots` pages in progress at the same time. `warm_up` is the previous window.
    ///
    /// Returns `None` if the law does not apply:
    ///
    /// - Exchanges failed or were unfinished: the time in which users wait to reconnect is not measured.
    /// - No page was complete: the tolerance depends on the longest page.
    /// - The window is empty.
    pub fn of(window: &Window, warm_up: &Window, users: u32, slots: u32) -> Option<UserTime> {
        let counts = &window.counts;
        let is_whole = counts.failed() == 0
            && counts.unfinished == 0
            && counts.pages_failed == 0
            && counts.connect_failures.is_empty();
        let seconds = window.duration.as_secs_f64();
        if !is_whole || seconds <= 0.0 || users == 0 {
            return None;
        }
        let pages = &window.latency.page;
        let longest = pages.max().max(warm_up.latency.page.max());
        let longest = longest?.as_secs_f64();
        Some(UserTime {
            users: f64::from(users),
            busy: pages.sum().as_secs_f64() / seconds,
            paused: window.paused.as_secs_f64() / seconds,
            slots,
            tolerance: OWN_TIME + 2.0 * longest / seconds,
        })
    }

    /// Whether busy and pausing users add up to the number of users, within the tolerance.
    pub fn is_kept(&self) -> bool {
        // A user with `slots` pages at the same time has at least one and at most `slots` pages in progress.
        let most = self.busy + self.paused;
        let least = self.busy / f64::from(self.slots.max(1)) + self.paused;
        most >= self.users * (1.0 - self.tolerance) && least <= self.users * (1.0 + self.tolerance)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathometer_model::Failure;

    use super::*;

    /// Ten seconds in which four users request pages of 50 ms and pause for 50 ms after each page.
    fn window(pages: u32) -> Window {
        let mut window = Window {
            duration: Duration::from_secs(10),
            paused: Duration::from_secs(20),
            ..Window::default()
        };
        for _ in 0..pages {
            window.latency.page.record(Duration::from_millis(50));
        }
        window
    }

    #[test]
    fn users_are_busy_or_pause() {
        let time = UserTime::of(&window(400), &Window::default(), 4, 1).unwrap();
        assert!((time.busy - 2.0).abs() < 1e-9 && time.paused == 2.0);
        assert!((time.tolerance - 0.02).abs() < 1e-9);
        assert!(time.is_kept());
    }

    #[test]
    fn lost_pages_and_users_that_did_not_run_break_the_law() {
        assert!(
            !UserTime::of(&window(380), &Window::default(), 4, 1)
                .unwrap()
                .is_kept()
        );
        assert!(
            !UserTime::of(&window(420), &Window::default(), 4, 1)
                .unwrap()
                .is_kept()
        );
        assert!(
            !UserTime::of(&window(400), &Window::default(), 5, 1)
                .unwrap()
                .is_kept()
        );
        // One page of each user is in progress at the edges of the window.
        assert!(
            UserTime::of(&window(396), &Window::default(), 4, 1)
                .unwrap()
                .is_kept()
        );
    }

    #[test]
    fn a_window_longer_than_was_measured_violates_littles_law() {
        let mut long = window(400);
        long.duration = Duration::from_secs(11);
        assert!(
            !UserTime::of(&long, &Window::default(), 4, 1)
                .unwrap()
                .is_kept()
        );
    }

    #[test]
    fn users_that_fill_their_slots_have_one_to_all_of_them_busy() {
        let mut window = window(1600);
        window.paused = Duration::ZERO;
        // Eight pages are in progress on average.
        assert!(
            UserTime::of(&window, &Window::default(), 2, 4)
                .unwrap()
                .is_kept()
        );
        assert!(
            UserTime::of(&window, &Window::default(), 4, 4)
                .unwrap()
                .is_kept()
        );
        assert!(
            !UserTime::of(&window, &Window::default(), 1, 4)
                .unwrap()
                .is_kept()
        );
        assert!(
            !UserTime::of(&window, &Window::default(), 9, 4)
                .unwrap()
                .is_kept()
        );
    }

    #[test]
    fn without_a_complete_page_the_law_says_nothing() {
        // Every page takes longer than the test.
        assert_eq!(UserTime::of(&window(0), &Window::default(), 4, 1), None);
        // The longest page is from the warm-up.
        assert!(UserTime::of(&window(0), &window(1), 4, 1).is_some());
    }

    #[test]
    fn where_something_failed_the_law_says_nothing() {
        let mut window = window(100);
        window.counts.failures.insert(Failure::Refused, 1);
        assert_eq!(UserTime::of(&window, &Window::default(), 4, 1), None);
        assert_eq!(
            UserTime::of(&Window::default(), &Window::default(), 4, 1),
            None
        );
    }
}
