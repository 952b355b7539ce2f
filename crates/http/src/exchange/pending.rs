//! A table of the requests in flight, by their number.

use super::RequestId;

/// A caller's state for the requests in flight on one connection.
///
/// A queue would be enough for HTTP/1.x. In HTTP/2 thousands of later responses may end before an earlier response, so
/// this is a table. Its size depends on the number of requests in flight, not on the distance between their numbers.
/// The table allocates nothing after it has reached its largest size.
#[derive(Debug, Clone)]
pub struct Pending<T> {
    /// Indices into `entries`, found by linear probing from the lowest bits of the request's number, because
    /// the numbers in flight are mostly consecutive. Its length is a power of two, or 0.
    index: Vec<Slot>,
    entries: Vec<Entry<T>>,
    /// The first free entry; [`NONE`] when there is no free entry.
    free: u32,
    length: u32,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    request: RequestId,
    /// [`NONE`]: the slot is empty.
    place: u32,
}

#[derive(Debug, Clone)]
enum Entry<T> {
    Used(RequestId, T),
    /// The next free entry.
    Free(u32),
}

const NONE: u32 = u32::MAX;

const EMPTY: Slot = Slot {
    request: RequestId(0),
    place: NONE,
};

/// Empty.
impl<T> Default for Pending<T> {
    fn default() -> Pending<T> {
        Pending {
            index: Vec::new(),
            entries: Vec::new(),
            free: NONE,
            length: 0,
        }
    }
}

impl<T> Pending<T> {
    /// The number of requests.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a request, or replaces its value.
    pub fn insert(&mut self, request: RequestId, value: T) {
        if let Some(found) = self.get_mut(request) {
            *found = value;
            return;
        }
        if (self.length as usize + 1) * 2 > self.index.len() {
            self.grow();
        }
        let entry = Entry::Used(request, value);
        let place = self.free;
        let place = match self.entries.get_mut(place as usize) {
            Some(free) => {
                if let Entry::Free(next) = std::mem::replace(free, entry) {
                    self.free = next;
                }
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.length += 1;
        self.link(Slot { request, place });
    }

    /// Returns the value of a request.
    #[inline]
    pub fn get(&self, request: RequestId) -> Option<&T> {
        let place = self.index[self.find(request)?].place;
        match &self.entries[place as usize] {
            Entry::Used(_, value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    /// Returns the value of a request, mutable.
    #[inline]
    pub fn get_mut(&mut self, request: RequestId) -> Option<&mut T> {
        let place = self.index[self.find(request)?].place;
        match &mut self.entries[place as usize] {
            Entry::Used(_, value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    /// Removes a request.
    pub fn remove(&mut self, request: RequestId) -> Option<T> {
        let at = self.find(request)?;
        let place = self.index[at].place;
        self.unlink(at);
        let entry = &mut self.entries[place as usize];
        match std::mem::replace(entry, Entry::Free(self.free)) {
            Entry::Used(_, value) => {
                self.free = place;
                self.length -= 1;
                Some(value)
            }
            Entry::Free(_) => None,
        }
    }

    /// Removes all requests; keeps the allocated memory.
    pub fn clear(&mut self) {
        self.index.fill(EMPTY);
        self.entries.clear();
        self.free = NONE;
        self.length = 0;
    }

    /// Frees the memory, if the table is empty.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            *self = Pending::default();
        }
    }

    /// All requests, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &T)> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Used(request, value) => Some((*request, value)),
            Entry::Free(_) => None,
        })
    }

    /// All requests, in arbitrary order, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (RequestId, &mut T)> {
        self.entries.iter_mut().filter_map(|entry| match entry {
            Entry::Used(request, value) => Some((*request, value)),
            Entry::Free(_) => None,
        })
    }

    /// Removes all requests, in the order of their numbers.
    pub fn drain(&mut self) -> impl Iterator<Item = (RequestId, T)> + use<T> {
        let entries = std::mem::take(&mut self.entries);
        self.clear();
        let mut all: Vec<(RequestId, T)> = entries
            .into_iter()
            .filter_map(|entry| match entry {
                Entry::Used(request, value) => Some((request, value)),
                Entry::Free(_) => None,
            })
            .collect();
        all.sort_by_key(|&(request, _)| request);
        all.into_iter()
    }

    fn home(&self, request: RequestId) -> usize {
        request.0 as usize & (self.index.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.index.len() - 1)
    }

    /// Returns the position of a request in the index.
    #[inline]
    fn find(&self, request: RequestId) -> Option<usize> {
        if self.index.is_empty() {
            return None;
        }
        let mut at = self.home(request);
        loop {
            let slot = self.index[at];
            if slot.place == NONE {
                return None;
            }
            if slot.request == request {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Puts a slot into the index, which must have room.
    fn link(&mut self, slot: Slot) {
        let mut at = self.home(slot.request);
        while self.index[at].place != NONE {
            at = self.after(at);
        }
        self.index[at] = slot;
    }

    /// Empties a slot and moves up the following slots that are not in their preferred position.
    fn unlink(&mut self, at: usize) {
        let mask = self.index.len() - 1;
        let mut hole = at;
        let mut next = self.after(at);
        while self.index[next].place != NONE {
            let home = self.home(self.index[next].request);
            let way = next.wrapping_sub(home) & mask;
            if way >= next.wrapping_sub(hole) & mask {
                self.index[hole] = self.index[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.index[hole] = EMPTY;
    }

    #[cold]
    fn grow(&mut self) {
        let length = (self.index.len() * 2).max(8);
        let slots = std::mem::replace(&mut self.index, vec![EMPTY; length]);
        for slot in slots.into_iter().filter(|slot| slot.place != NONE) {
            self.link(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_long_request_does_not_make_the_table_grow() {
        let mut pending = Pending::default();
        pending.insert(RequestId(0), 0);
        for number in 1..10_000 {
            pending.insert(RequestId(number), number);
            assert_eq!(pending.remove(RequestId(number)), Some(number));
        }
        assert_eq!((pending.entries.len(), pending.index.len()), (2, 8));
        assert_eq!(pending.get(RequestId(0)), Some(&0));
        assert_eq!(pending.remove(RequestId(1)), None);
    }

    proptest! {
        #[test]
        fn the_table_behaves_as_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..40, any::<bool>()), 0..200)) {
            let mut pending = Pending::default();
            let mut model = BTreeMap::new();
            for (place, (adds, number, pushed)) in steps.into_iter().enumerate() {
                let request = if pushed { RequestId::pushed(number) } else { RequestId(number) };
                if adds {
                    pending.insert(request, place);
                    model.insert(request, place);
                } else {
                    prop_assert_eq!(pending.remove(request), model.remove(&request));
                }
                prop_assert_eq!(pending.len(), model.len());
                for (&request, place) in &model {
                    prop_assert_eq!(pending.get(request), Some(place));
                }
            }
            prop_assert_eq!(pending.iter().count(), model.len());
            let drained: Vec<_> = pending.drain().collect();
            prop_assert_eq!(drained, model.into_iter().collect::<Vec<_>>());
            prop_assert!(pending.is_empty());
            pending.insert(RequestId(3), 3);
            prop_assert_eq!(pending.get(RequestId(3)), Some(&3));
        }
    }
}
