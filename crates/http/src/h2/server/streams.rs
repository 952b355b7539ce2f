//! The streams of a connection: open streams, and a limited record of closed ones.

use std::collections::VecDeque;

use fathometer_model::Instant;

use super::Served;
use super::memory::Key;
use crate::exchange::Queue;
use crate::h2::StreamId;
use crate::h2::flow::{ReceiveWindow, Window};
use crate::message::Priority;
use crate::origin::Answer;
use crate::origin::dynamic::Flow;
use crate::pace::{ContentPace, Paid};

/// The maximum number of remembered streams that the server reset. Frames in flight are allowed on these streams.
const MOST_RESET_HERE: usize = 256;
/// The maximum number of remembered streams that ended in another way.
const MOST_ENDED: usize = 64;

/// An index into the table of open streams. A closed stream's slot is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(u32);

/// An open stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub id: StreamId,
    /// Whether the client may still send frames of the request.
    pub receiving: bool,
    pub receive: ReceiveWindow,
    pub send: Window,
    /// The content of the request.
    pub request: RequestContent,
    /// Whether the response starts before the request is complete.
    pub answered_early: bool,
    pub answer: Option<Answer>,
    pub progress: Progress,
    /// Content that is not yet in frames.
    pub content: Queue,
    /// The generator of the content that is not ready yet.
    pub flow: Option<Box<Flow>>,
    pub priority: Priority,
    /// Whether the stream is in the schedule.
    pub scheduled: bool,
    /// Whether the stream has content that is blocked only by the stream's own window.
    pub blocked: bool,
    pub served: Served,
    /// The priority that the request signals.
    pub signalled: Option<Priority>,
    /// The cache entry of the stream's request.
    pub remembered: Option<Key>,
    /// The output position of the response's first byte.
    pub begun: Option<u64>,
    /// The text of the request for logs, and the lengths of the three parts.
    pub text: Vec<u8>,
    pub text_lengths: [u32; 3],
}

/// The progress of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The request is not complete.
    Reading,
    /// The request waits for its turn, or is being processed.
    Working,
    /// The response is ready, and no part of it is in frames.
    Ready,
    /// The HEADERS of the response are in frames.
    Sending,
}

/// The received content of a request.
#[derive(Debug, Default)]
pub(super) struct RequestContent {
    /// The announced number of bytes.
    announced: Option<u64>,
    /// The number of bytes received.
    received: u64,
    /// The time limit for the remaining content.
    paid: Option<Paid>,
}

impl RequestContent {
    /// Sets the announced length from `Content-Length`, if present.
    pub fn announce(&mut self, length: Option<u64>) {
        self.announced = length;
    }

    /// Sets the time limit.
    pub fn limit(&mut self, paid: Paid) {
        self.paid = Some(paid);
    }

    /// Counts bytes that arrived.
    pub fn note(&mut self, length: usize, pace: &ContentPace, now: Instant) {
        if let Some(paid) = &mut self.paid {
            paid.note(length as u64, pace, now);
        }
        self.received += length as u64;
    }

    /// The number of bytes received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether more content has arrived than announced.
    pub fn is_too_long(&self) -> bool {
        self.announced
            .is_some_and(|announced| self.received > announced)
    }

    /// Whether the final received length differs from the announced length.
    pub fn differs(&self) -> bool {
        self.announced
            .is_some_and(|announced| self.received != announced)
    }

    /// The time limit for the remaining content.
    pub fn paid(&self) -> Option<Paid> {
        self.paid
    }
}

/// The state of an open or closed stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Open(Slot),
    /// The stream is closed. The value states how it ended, if recorded.
    Closed(Option<Past>),
}

/// The way in which a closed stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// Both sides closed the stream.
    Ended,
    /// The client reset the stream.
    ResetByClient,
    /// The server reset the stream. Frames may still arrive that the client sent before it received the reset.
    ResetHere,
}

/// The streams of a connection.
///
/// Invariants: the lists of open streams are sorted by stream number and contain each used slot once. The numbers of
/// open and recorded streams do not exceed the last used number of their side.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The last stream used by the client.
    last_client: StreamId,
    /// The last promised stream.
    last_promised: StreamId,
    slots: Vec<Stream>,
    free: Vec<Slot>,
    /// Open streams of the client, sorted by number.
    clients: Vec<(StreamId, Slot)>,
    /// Open promised streams, sorted by number.
    promised: Vec<(StreamId, Slot)>,
    reset_here: VecDeque<StreamId>,
    ended: VecDeque<(StreamId, Past)>,
}

impl std::ops::Index<Slot> for Streams {
    type Output = Stream;
    fn index(&self, slot: Slot) -> &Stream {
        &self.slots[slot.0 as usize]
    }
}

impl std::ops::IndexMut<Slot> for Streams {
    fn index_mut(&mut self, slot: Slot) -> &mut Stream {
        &mut self.slots[slot.0 as usize]
    }
}

impl Streams {
    /// The number of open streams of the client.
    pub fn count(&self) -> usize {
        self.clients.len()
    }

    /// The number of open promised streams.
    pub fn promised_count(&self) -> usize {
        self.promised.len()
    }

    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.promised.is_empty()
    }

    /// The last stream used by the client; zero if there is none.
    pub fn last_client(&self) -> StreamId {
        self.last_client
    }

    /// The last promised stream; zero if there is none.
    pub fn last_promised(&self) -> StreamId {
        self.last_promised
    }

    /// Whether a stream was never used (section 5.1, idle).
    pub fn is_idle(&self, id: StreamId) -> bool {
        match id.is_client() {
            true => id > self.last_client,
            false => id > self.last_promised,
        }
    }

    /// Notes that the client uses the number of an idle stream. All lower idle streams are then closed.
    pub fn use_number(&mut self, id: StreamId) {
        debug_assert!(self.is_idle(id), "a stream number is used twice");
        self.last_client = id;
    }

    /// The state of a stream; `None` if it is idle.
    pub fn place(&self, id: StreamId) -> Option<Place> {
        match self.find(id) {
            Some(slot) => Some(Place::Open(slot)),
            None if self.is_idle(id) => None,
            None => Some(Place::Closed(self.past(id))),
        }
    }

    /// Iterates over all open streams, client streams first.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Stream)> {
        let slots = self.clients.iter().chain(&self.promised);
        slots.map(|&(_, slot)| (slot, &self[slot]))
    }

    /// The slot of an open stream.
    pub fn find(&self, id: StreamId) -> Option<Slot> {
        let open = self.side(id);
        match open.last() {
            Some(&(last, slot)) if last == id => Some(slot),
            Some(&(last, _)) if last > id => {
                let place = open.binary_search_by_key(&id, |&(id, _)| id).ok()?;
                Some(open[place].1)
            }
            _ => None,
        }
    }

    /// The open stream at this index; client streams precede promised streams.
    pub fn at(&self, place: usize) -> Option<Slot> {
        let (_, slot) = self.clients.iter().chain(&self.promised).nth(place)?;
        Some(*slot)
    }

    /// Opens the next promised stream.
    pub fn promise(&mut self, send: u32, now: Instant) -> Slot {
        self.last_promised = StreamId::new(self.last_promised.number() + 2);
        self.open(self.last_promised, 0, send, now)
    }

    /// Opens a stream. Its number must already be noted as used, and must be above all open streams of its side.
    pub fn open(&mut self, id: StreamId, receive: u32, send: u32, now: Instant) -> Slot {
        let slot = match self.free.pop() {
            Some(slot) => {
                let stream = &mut self[slot];
                stream.content.clear();
                stream.text.clear();
                let content = std::mem::take(&mut stream.content);
                let text = std::mem::take(&mut stream.text);
                *stream = Stream {
                    content,
                    text,
                    ..Stream::new(id, receive, send, now)
                };
                slot
            }
            None => {
                self.slots.push(Stream::new(id, receive, send, now));
                Slot(self.slots.len() as u32 - 1)
            }
        };
        self.side_mut(id).push((id, slot));
        slot
    }

    /// Closes a stream.
    pub fn close(&mut self, slot: Slot, past: Past) {
        let stream = &mut self[slot];
        let id = stream.id;
        // Drops the stream's references now, so that their memory is available to other streams.
        stream.answer = None;
        stream.flow = None;
        stream.content.clear();
        let open = self.side_mut(id);
        if let Ok(place) = open.binary_search_by_key(&id, |&(id, _)| id) {
            open.remove(place);
        }
        self.free.push(slot);
        self.remember(id, past);
    }

    /// Records the end of a stream, or that it was never opened.
    pub fn remember(&mut self, id: StreamId, past: Past) {
        if past == Past::ResetHere {
            if self.reset_here.len() == MOST_RESET_HERE {
                self.reset_here.pop_front();
            }
            self.reset_here.push_back(id);
        } else {
            if self.ended.len() == MOST_ENDED {
                self.ended.pop_front();
            }
            self.ended.push_back((id, past));
        }
    }

    /// The way in which a closed stream ended; `None` if not recorded or never open.
    pub fn past(&self, id: StreamId) -> Option<Past> {
        let ended = self.ended.iter().rev().find(|&&(other, _)| other == id);
        match ended {
            // Later frames may cause the server to reset a stream that the client has already reset.
            _ if self.reset_here.contains(&id) => Some(Past::ResetHere),
            Some(&(_, past)) => Some(past),
            None => None,
        }
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.slots = Vec::new();
            self.free = Vec::new();
            self.clients = Vec::new();
            self.promised = Vec::new();
            self.reset_here.shrink_to_fit();
            self.ended.shrink_to_fit();
        }
    }

    fn side(&self, id: StreamId) -> &Vec<(StreamId, Slot)> {
        if id.is_client() {
            &self.clients
        } else {
            &self.promised
        }
    }

    fn side_mut(&mut self, id: StreamId) -> &mut Vec<(StreamId, Slot)> {
        if id.is_client() {
            &mut self.clients
        } else {
            &mut self.promised
        }
    }
}

impl Stream {
    fn new(id: StreamId, receive: u32, send: u32, now: Instant) -> Stream {
        Stream {
            id,
            receiving: id.is_client(),
            receive: ReceiveWindow::new(receive),
            send: Window::new(send),
            request: RequestContent::default(),
            answered_early: false,
            answer: None,
            progress: Progress::Reading,
            content: Queue::default(),
            flow: None,
            priority: Priority::default(),
            scheduled: false,
            blocked: false,
            served: Served::unread(id, id.is_server(), now),
            signalled: None,
            remembered: None,
            begun: None,
            text: Vec::new(),
            text_lengths: [0; 3],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_found_while_open_and_remembered_for_a_while() {
        let mut streams = Streams::default();
        let id = StreamId::new;
        let open = |streams: &mut Streams, number| streams.open(id(number), 10, 20, Instant::ZERO);
        for number in [1, 3] {
            streams.use_number(id(number));
            open(&mut streams, number);
        }
        streams.promise(20, Instant::ZERO);
        streams.use_number(id(9));
        open(&mut streams, 9);
        streams.promise(20, Instant::ZERO);
        assert_eq!((streams.count(), streams.promised_count()), (3, 2));
        for number in [1, 2, 3, 4, 9] {
            let slot = streams.find(id(number)).unwrap();
            assert_eq!(streams[slot].id, id(number));
        }
        for number in [5, 6, 7, 8, 11, 12] {
            assert!(streams.find(id(number)).is_none());
            let is_idle = !matches!(number, 5 | 7);
            assert_eq!(streams.place(id(number)).is_none(), is_idle);
        }
        let slot = streams.find(id(3)).unwrap();
        streams.close(slot, Past::Ended);
        assert!(streams.find(id(3)).is_none());
        assert_eq!(streams.past(id(3)), Some(Past::Ended));
        assert_eq!(streams.place(id(3)), Some(Place::Closed(Some(Past::Ended))));
        streams.use_number(id(11));
        assert_eq!(
            open(&mut streams, 11),
            slot,
            "the slot of the closed stream is reused"
        );
        streams.close(streams.find(id(9)).unwrap(), Past::ResetHere);
        for number in 0..100 {
            streams.remember(id(1001 + 2 * number), Past::ResetByClient);
        }
        assert_eq!(streams.past(id(3)), None, "bounded");
        assert_eq!(streams.past(id(1199)), Some(Past::ResetByClient));
        assert_eq!(streams.past(id(9)), Some(Past::ResetHere));
    }
    #[test]
    fn content_is_what_was_announced_or_differs() {
        let mut content = RequestContent::default();
        let pace = ContentPace::default();
        content.note(3, &pace, Instant::ZERO);
        assert!(!content.is_too_long() && !content.differs());
        content.announce(Some(4));
        assert!(!content.is_too_long() && content.differs());
        content.note(1, &pace, Instant::ZERO);
        assert!(!content.differs() && content.received() == 4);
        content.note(1, &pace, Instant::ZERO);
        assert!(content.is_too_long() && content.differs());
    }
}
