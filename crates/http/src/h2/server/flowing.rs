//! Responses whose content is generated while it is sent.

use fathometer_model::Instant;

use super::Connection;
use super::streams::{Past, Progress, Slot};
use crate::h2::error::ErrorCode;
use crate::h2::frame::write;
use crate::origin::dynamic::Flowed;
use crate::waiting::{ENOUGH_WAITING, ENOUGH_WAITING_TOGETHER};

impl Connection {
    /// Starts the content of a response whose flow was just set; false when it cannot be generated.
    pub(super) fn begin_flow(&mut self, slot: Slot, now: Instant) -> bool {
        match self.pull(slot, now) {
            Flowed::Until(next) => self.flowing.push((slot, next)),
            Flowed::Whole => {}
            Flowed::Broken => {
                self.break_flow(slot);
                return false;
            }
        }
        true
    }

    /// Continues all responses of which the next part is ready.
    pub(super) fn flow_on(&mut self, now: Instant) {
        let mut place = 0;
        while let Some(&(slot, next)) = self.flowing.get(place) {
            if next > now || !self.takes_more(slot) {
                place += 1;
                continue;
            }
            match self.pull(slot, now) {
                Flowed::Until(next) => {
                    self.flowing[place].1 = next;
                    self.resume(slot);
                    place += 1;
                }
                Flowed::Whole => {
                    self.flowing.remove(place);
                    self.resume(slot);
                }
                // Resetting the stream removes it from the list.
                Flowed::Broken => self.break_flow(slot),
            }
        }
    }

    /// When the next part of a response is ready, if there is room for it.
    pub(super) fn flows_at(&self) -> Option<Instant> {
        let flowing = self.flowing.iter();
        let taken = flowing.filter(|&&(slot, _)| self.takes_more(slot));
        taken.map(|&(_, next)| next).min()
    }

    /// Whether there is room for more content of a response. A response without waiting content is never
    /// blocked by others.
    fn takes_more(&self, slot: Slot) -> bool {
        match self.streams[slot].content.waiting() {
            0 => true,
            left => left < ENOUGH_WAITING.0 && self.text_waiting() < ENOUGH_WAITING_TOGETHER.0,
        }
    }

    /// Bytes of generated content that wait, of all responses.
    fn text_waiting(&self) -> u64 {
        let streams = (0..).map_while(|place| self.streams.at(place));
        streams
            .map(|slot| self.streams[slot].content.text_waiting())
            .sum()
    }

    /// Takes the ready part of a response.
    fn pull(&mut self, slot: Slot, now: Instant) -> Flowed {
        let stream = &mut self.streams[slot];
        let (flow, content) = (&mut stream.flow, &mut stream.content);
        let Some(making) = flow else {
            return Flowed::Whole;
        };
        loop {
            match making.poll(&self.origin, now, |segment| content.push(segment)) {
                Flowed::Until(next) if next <= now && content.waiting() < ENOUGH_WAITING.0 => {}
                Flowed::Whole => {
                    *flow = None;
                    return Flowed::Whole;
                }
                flowed => return flowed,
            }
        }
    }

    /// Reschedules a response that had nothing to send, now that it has content again or has ended.
    fn resume(&mut self, slot: Slot) {
        let stream = &mut self.streams[slot];
        let waits = stream.progress == Progress::Sending && !stream.scheduled && !stream.blocked;
        let has_something = stream.content.waiting() > 0 || stream.flow.is_none();
        if !waits || !has_something {
            return;
        }
        if stream.content.waiting() > 0 && stream.send.available() == 0 {
            stream.blocked = true;
            self.blocked += 1;
        } else {
            stream.scheduled = true;
            self.schedule.add(stream.id, slot, stream.priority);
        }
    }

    /// The rest of a response cannot be generated.
    fn break_flow(&mut self, slot: Slot) {
        let (id, code) = (self.streams[slot].id, ErrorCode::INTERNAL_ERROR);
        self.output.write(|out| write::reset(out, id, code));
        self.abandon(slot, code, Past::ResetHere);
    }
}
