//! The users of a loop by index, and the order in which they continue.

use std::ops::{Index, IndexMut};

use super::super::turns::Turns;
use super::user::User;

/// The users of a loop. A user never changes its index.
///
/// A user that may be able to continue is in the queue once, even if several events allow it to continue.
#[derive(Debug, Default)]
pub(super) struct Users {
    users: Vec<User>,
    /// Users that may be able to continue.
    ready: Turns,
}

impl Users {
    /// Adds a user, and returns its index.
    pub(super) fn add(&mut self, user: User) -> u32 {
        self.users.push(user);
        self.users.len() as u32 - 1
    }

    /// Returns all indices.
    pub(super) fn places(&self) -> std::ops::Range<u32> {
        0..self.users.len() as u32
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, User> {
        self.users.iter_mut()
    }

    /// Lets a user continue at the end of the current step.
    pub(super) fn make_ready(&mut self, place: u32) {
        let user = &mut self.users[place as usize];
        self.ready.add(place, &mut user.queued);
    }

    /// Removes from the queue the user that has waited longest.
    pub(super) fn next_ready(&mut self) -> Option<u32> {
        let place = self.ready.next()?;
        self[place].queued = false;
        Some(place)
    }

    /// Returns whether no user is ready to continue.
    pub(super) fn is_settled(&self) -> bool {
        self.ready.is_empty()
    }
}

impl Index<u32> for Users {
    type Output = User;
    fn index(&self, place: u32) -> &User {
        &self.users[place as usize]
    }
}

impl IndexMut<u32> for Users {
    fn index_mut(&mut self, place: u32) -> &mut User {
        &mut self.users[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_continue_once_each_in_the_order_of_the_events_that_let_them() {
        let mut users = Users::default();
        let [a, b, c] = [0, 1, 2].map(|number| {
            users.add(User {
                number,
                ..User::default()
            })
        });
        assert_eq!(users.places(), 0..3);
        for place in [c, a, c, b, a] {
            users.make_ready(place);
        }
        assert_eq!(users.next_ready(), Some(c));
        // A user may be queued again as soon as it has left the queue.
        users.make_ready(c);
        let rest: Vec<u32> = std::iter::from_fn(|| users.next_ready()).collect();
        assert_eq!(rest, [a, b, c]);
        assert!(users.is_settled());
        assert_eq!([a, b, c].map(|place| users[place].number), [0, 1, 2]);
    }
}
