//! Responses whose content is produced while it is sent: each DATA frame holds what is ready.

use fathometer_model::{Bytes, Instant};

use super::connection::Connection;
use super::stream::Stream;
use crate::exchange::RequestId;
use crate::h3::ErrorCode;
use crate::h3::frame::{self, FrameType};
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
}

impl Stream {
    /// When more of its content is ready and may be produced; `backlog` is the text in bytes that waits in all
    /// streams of the connection. A stream of which no bytes wait is never delayed by others.
    pub fn flows_at(&self, backlog: u64) -> Option<Instant> {
        let flowing = self.flowing.as_ref()?;
        let waiting = self.output.waiting();
        let has_room = waiting < ENOUGH_WAITING.0 && backlog < ENOUGH_WAITING_TOGETHER.0;
        (waiting == 0 || has_room).then_some(flowing.next)
    }
}

impl Connection {
    /// Continues all responses of which more content is ready.
    pub(super) fn flow_on(&mut self, now: Instant) {
        let backlog = self.backlog;
        let is_due = |stream: &Stream| stream.flows_at(backlog).is_some_and(|at| at <= now);
        let streams = self.streams.iter();
        let mut due: Vec<RequestId> = streams
            .filter(|(_, stream)| is_due(stream))
            .map(|(request, _)| request)
            .collect();
        due.sort_unstable();
        for request in due {
            self.pull(request, now);
        }
    }

    /// Queues the ready content of a response.
    pub(super) fn pull(&mut self, request: RequestId, now: Instant) {
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        let (waiting, was_empty) = (open.output.text_waiting(), open.output.is_empty());
        let mut broken = false;
        let others = self.backlog - waiting;
        while open
            .flows_at(others + open.output.text_waiting())
            .is_some_and(|at| at <= now)
            && let Some(flowing) = &mut open.flowing
        {
            let mut ready = Ready::default();
            let (origin, flow) = (&self.origin, &mut flowing.flow);
            match flow.poll(origin, now, |segment| ready.push(segment)) {
                Flowed::Until(next) => flowing.next = next,
                Flowed::Whole => {
                    open.flowing = None;
                    open.ends = true;
                }
                Flowed::Broken => {
                    open.flowing = None;
                    broken = true;
                }
            }
            if ready.length() > 0 {
                let before = open.output.queued();
                let output = &mut open.output;
                output.write(|text| {
                    frame::write_header(FrameType::DATA, ready.length(), text);
                });
                ready.write(|segment| output.push(segment));
                open.served.exchange.body += Bytes(ready.length());
                open.served.body_frames += Bytes(open.output.queued() - before);
            }
        }
        if was_empty {
            // The client's time limit starts when there are bytes that it can take.
            open.active = now;
        }
        self.backlog += open.output.text_waiting() - waiting;
        if broken {
            let stream = u64::from(request.0) * 4;
            self.break_off(request, stream, ErrorCode::INTERNAL_ERROR, now);
        } else {
            self.schedule(request);
        }
    }
}
