//! Both sides back to back, in memory.

mod failures;
mod floods;
mod idle;
mod pair;
mod resuming;
mod splits;

use super::established::Established;
use super::{Phase, Session};

impl Session {
    /// Takes a new key to send with, without saying so.
    fn renew_sending_key(&mut self) {
        if let Phase::Established(established) = &mut self.phase {
            established.update_sending_key(&mut Vec::new()).unwrap();
        }
    }

    /// Makes the key that this side sends with wear out after so many records.
    fn limit_keys(&mut self, records: u64) {
        if let Phase::Established(established) = &mut self.phase {
            established.key_limit = records;
        }
    }
}

impl Established {
    /// Octets of memory for messages of which a part came.
    fn room_for_messages(&self) -> usize {
        self.message.capacity()
    }
}
