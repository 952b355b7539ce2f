//! Responses whose content is produced while it is sent: each DATA frame holds what is ready.

use fathometer_model::{Bytes, Instant};

use super::records::Served;
use crate::exchange::Queue;
use crate::h3::frame::{self, FrameType};
use crate::origin::Origin;
use crate::origin::dynamic::{Flow, Flowed, Ready};
use crate::waiting::{ENOUGH_WAITING, ENOUGH_WAITING_TOGETHER};

/// Content that is not complete yet.
#[derive(Debug)]
pub(super) struct Flowing {
    flow: Flow,
    /// When more of it is ready.
    next: Instant,
}

impl Flowing {
    pub fn new(flow: Flow, now: Instant) -> Flowing {
        Flowing { flow, next: now }
    }

    /// When more is ready and may be produced. `waiting` bytes wait in its stream, and `backlog` bytes of text in
    /// all streams of the connection. A stream of which no bytes wait is never delayed by others.
    pub fn due(&self, waiting: u64, backlog: u64) -> Option<Instant> {
        let has_room = waiting < ENOUGH_WAITING.0 && backlog < ENOUGH_WAITING_TOGETHER.0;
        (waiting == 0 || has_room).then_some(self.next)
    }

    /// Queues what is ready; returns whether there will be more.
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
