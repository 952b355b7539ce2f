//! Tests of client and server sessions that are connected in memory.

mod channel_binding;
mod failures;
mod floods;
mod idle;
mod pair;
mod resuming;
mod splits;

use super::established::Established;
use super::{Phase, Session};

impl Session {
    /// Switches to a new sending key without a KeyUpdate message.
    fn renew_sending_key(&mut self) {
        if let Phase::Established(established) = &mut self.phase {
            established.update_sending_key(&mut Vec::new()).unwrap();
        }
    }

    /// Limits the number of records that this side's sending key may seal.
    fn limit_keys(&mut self, records: u64) {
        if let Phase::Established(established) = &mut self.phase {
            established.key_limit = records;
        }
    }
}

impl Established {
    /// The capacity of the buffer for incomplete messages, in bytes.
    fn room_for_messages(&self) -> usize {
        self.message.capacity()
    }
}
