//! The slots for connections of a loop.

use std::ops::{Index, IndexMut};

use super::slot::{Slot, State};

/// Slots for connections, by index.
///
/// A slot either is free or has one connection. A token identifies the connection and not the slot, so that an event of
/// a closed connection is not attributed to the next connection in the slot.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// Takes a free slot; creates one with `new` if none is free. Returns the index.
    pub(super) fn take(&mut self, new: impl FnOnce() -> Slot) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(new());
            self.slots.len() as u32 - 1
        })
    }

    /// Returns a slot whose connection could not be opened.
    pub(super) fn give_back(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Ends the connection in a slot and frees the slot.
    pub(super) fn release(&mut self, place: u32) {
        self[place].end();
        self.free.push(place);
    }

    /// Returns the token for events of the connection in a slot.
    pub(super) fn token(&self, place: u32) -> u64 {
        u64::from(self[place].generation) << 32 | u64::from(place)
    }

    /// Returns the slot of the connection with this token; `None` if the connection is closed.
    pub(super) fn at_token(&self, token: u64) -> Option<u32> {
        let place = token as u32;
        (u64::from(self[place].generation) == token >> 32).then_some(place)
    }

    /// Returns the number of slots, including free ones.
    pub(super) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Iterates over the slots that have a connection.
    pub(super) fn taken_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots
            .iter_mut()
            .filter(|slot| slot.state != State::Free)
    }
}

impl Index<u32> for Slots {
    type Output = Slot;

    fn index(&self, place: u32) -> &Slot {
        &self.slots[place as usize]
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Machine;
    use super::*;

    fn new() -> Slot {
        Slot::new(Machine::Quic(None))
    }

    #[test]
    fn a_place_is_used_again_and_its_earlier_events_are_not() {
        let mut slots = Slots::default();
        let (first, second) = (slots.take(new), slots.take(new));
        assert_eq!((first, second, slots.len()), (0, 1, 2));
        let tokens = [slots.token(first), slots.token(second)];
        assert_eq!(
            tokens.map(|token| slots.at_token(token)),
            [Some(0), Some(1)]
        );
        slots.release(second);
        assert_eq!(slots.at_token(tokens[1]), None);
        assert_eq!(slots.take(new), second);
        assert_eq!(slots.at_token(tokens[1]), None);
        assert_eq!(slots.at_token(slots.token(second)), Some(second));
        assert_eq!(slots.take(new), 2);
    }
}
