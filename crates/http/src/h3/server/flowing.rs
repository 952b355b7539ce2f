//! Responses whose content is generated during sending. Each DATA frame contains the content that is ready.

use fathometer_model::{Bytes, Instant};

use super::records::Served;
use crate::exchange::Queue;
use crate::h3::frame::{self, FrameType};
use crate::origin::Origin;
use crate::origin::dynamic::{Flow, Flowed, Ready};
use crate::waiting::{MAX_UNSENT_PER_CONNECTION, MAX_UNSENT_PER_RESPONSE};

/// Content that is not completely generated.
#[derive(Debug)]
pub(super) struct Flowing {
    flow: Flow,
    /// The time at which the next content is ready.
    next: Instant,
}

impl Flowing {
    pub fn new(flow: Flow, now: Instant) -> Flowing {
        Flowing { flow, next: now }
    }

    /// The time at which the next content is ready and may be queued; `None` while too much output waits. `waiting` is
    /// the number of waiting bytes of this response; `backlog` is the size of the text that waits in all streams of the
    /// connection. Other streams never delay a response without waiting bytes.
    pub fn due(&self, waiting: u64, backlog: u64) -> Option<Instant> {
        let has_room = waiting < MAX_UNSENT_PER_RESPONSE.0 && backlog < MAX_UNSENT_PER_CONNECTION.0;
        (waiting == 0 || has_room).then_some(self.next)
    }

    /// Queues the content that is ready. Returns the state of the remaining content.
    pub fn produce(
        &mut self,
        origin: &Origin,
        output: &mut Queue,
        served: &mut Served,
        now: Instant,
    ) -> Flowed {
        let mut ready = Ready::default();
        let flowed = self.flow.poll(origin, now, |segment| ready.push(segment));
        if let Flowed::Until(next) = flowed {
            self.next = next;
        }
        if ready.length() > 0 {
            let before = output.queued();
            output.write(|text| frame::write_header(FrameType::DATA, ready.length(), text));
            ready.write(|segment| output.push(segment));
            served.exchange.body += Bytes(ready.length());
            served.body_frames += Bytes(output.queued() - before);
        }
        flowed
    }
}
