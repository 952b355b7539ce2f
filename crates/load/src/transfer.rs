//! Moves bytes between the machines of connections and their sockets, through TLS where there is TLS.
//!
//! An exchange counts as sent from the clock reading just before the call that hands its first byte to the
//! kernel: over loopback that call also runs the server's side of TCP. Bytes are encrypted before that, and
//! received bytes are decrypted in the buffer that they were read into.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::ops::Range;

use fathometer_http::client::RequestId;
use fathometer_model::{Failure, Instant};
use fathometer_sys::clock::thread_cpu_time;
use fathometer_sys::socket;
use fathometer_tls::Session;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::slot::{End, Exchange, Protection, State};
use super::tally::Tally;
use super::worker::Worker;

/// Full buffers read from one connection before others get a turn.
const READS_IN_A_ROW: usize = 8;

impl Worker<'_> {
    /// Writes what a connection has to write, as far as the kernel takes it.
    pub(super) fn flush(&mut self, place: u32) {
        let slot = &self.slots[place as usize];
        if slot.machine.is_quic() {
            return self.flush_quic(place);
        }
        match (slot.state, &slot.protection) {
            (State::Open, Protection::None) => self.flush_plain(place),
            (State::Open | State::Securing, Protection::Tls(_)) => self.flush_sealed(place),
            _ => {}
        }
    }

    fn flush_plain(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        let Some(stream) = &slot.stream else {
            return;
        };
        while !slot.blocked {
            let octets = slot.machine.transmit();
            if octets.is_empty() {
                break;
            }
            let (length, before) = (octets.len(), slot.machine.first_unsent());
            let now = self.clock.now();
            match hand_over(stream, octets) {
                Ok(written) => {
                    slot.machine.transmitted(written, now);
                    slot.blocked = written < length;
                    let begun = before..slot.machine.first_unsent();
                    note_sent(&mut slot.exchanges, begun, now, &mut self.tally);
                }
                Err(Errno::AGAIN) => slot.blocked = true,
                Err(_) => {
                    // What the server sent before it closed is still to be read; the failure is reported after
                    // it.
                    slot.blocked = true;
                    self.unread.add(place, &mut slot.unread);
                }
            }
        }
    }

    /// The same through TLS. The machine's bytes are encrypted when all earlier ciphertext has left. So what
    /// counts as sent was handed to the kernel, except for what its buffer refuses.
    fn flush_sealed(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        let (Some(stream), Protection::Tls(tls)) = (&slot.stream, &mut slot.protection) else {
            return;
        };
        while !slot.blocked {
            let mut taken = 0;
            if slot.state == State::Open && !tls.wants_transmit() {
                taken = tls.write(slot.machine.transmit());
            }
            let octets = tls.transmit();
            let length = octets.len();
            if length == 0 {
                break;
            }
            let now = self.clock.now();
            let sent = hand_over(stream, octets);
            if taken > 0 {
                let before = slot.machine.first_unsent();
                slot.machine.transmitted(taken, now);
                let begun = before..slot.machine.first_unsent();
                note_sent(&mut slot.exchanges, begun, now, &mut self.tally);
            }
            match sent {
                Ok(written) => {
                    tls.transmitted(written);
                    slot.blocked = written < length;
                }
                Err(Errno::AGAIN) => slot.blocked = true,
                Err(_) => {
                    slot.blocked = true;
                    self.unread.add(place, &mut slot.unread);
                }
            }
        }
    }

    /// Writes the final messages before a connection is closed, if the kernel takes them at once.
    pub(super) fn say_goodbye(&mut self, place: u32, closes_tls: bool) {
        let slot = &mut self.slots[place as usize];
        let Some(stream) = &slot.stream else {
            return;
        };
        if slot.blocked {
            return;
        }
        let octets = match &mut slot.protection {
            Protection::None => slot.machine.transmit(),
            Protection::Tls(tls) => {
                if slot.state == State::Open {
                    tls.write(slot.machine.transmit());
                }
                if closes_tls && tls.is_established() {
                    tls.close();
                }
                tls.transmit()
            }
            Protection::Lent => &[],
        };
        if !octets.is_empty() {
            // Fails when the server has already closed the connection.
            let _ = hand_over(stream, octets);
        }
    }

    /// Continues reading connections that had to let others have a turn.
    pub(super) fn read_on(&mut self, buffer: &mut [u8]) {
        for _ in 0..self.unread.len() {
            let Some(place) = self.unread.next() else {
                return;
            };
            self.slots[place as usize].unread = false;
            self.read(place, true, buffer);
            self.settle();
        }
    }

    /// Reads what there is. A read that does not fill the buffer has emptied the socket, and the poller reports
    /// later data. Only an end that was already reported has to be read explicitly.
    pub(super) fn read(&mut self, place: u32, ended: bool, buffer: &mut [u8]) {
        let slot = &self.slots[place as usize];
        if slot.machine.is_quic() {
            return self.read_quic(place);
        }
        let generation = slot.generation;
        for _ in 0..READS_IN_A_ROW {
            let slot = &self.slots[place as usize];
            let (state @ (State::Open | State::Securing | State::Lingering), Some(stream)) =
                (slot.state, &slot.stream)
            else {
                return;
            };
            if slot.generation != generation {
                return;
            }
            let result = rustix::net::recv(stream, &mut *buffer, RecvFlags::DONTWAIT);
            if let (Some(quick), Ok(_)) = (self.shared.quick_ack, &result) {
                // A closed connection reports that by itself.
                let _ = socket::set_quick_ack(stream, quick);
            }
            self.tick();
            match result {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Data that arrives now answers no request.
                Ok((1.., _)) if state == State::Lingering => {}
                _ if state == State::Lingering => return self.release(place, End::Server),
                Ok((0, _)) => return self.ended_there(place),
                Ok((length, _)) => {
                    let slot = &mut self.slots[place as usize];
                    slot.heard = self.now;
                    match slot.protection {
                        Protection::None => self.pump(place, &buffer[..length]),
                        _ => self.open_sealed(place, &mut buffer[..length]),
                    }
                    if length < buffer.len() && !ended {
                        return;
                    }
                }
                Err(error) => return self.fail(place, socket::classify(&error.into())),
            }
        }
        let slot = &mut self.slots[place as usize];
        self.unread.add(place, &mut slot.unread);
    }

    /// Decrypts what was received over TLS and feeds the machine with it.
    fn open_sealed(&mut self, place: u32, octets: &mut [u8]) {
        let slot = &mut self.slots[place as usize];
        // The session lends the decrypted data, and the machine's events are handled meanwhile.
        let Protection::Tls(mut tls) = std::mem::replace(&mut slot.protection, Protection::Lent)
        else {
            return;
        };
        let outcome = match slot.state {
            State::Securing => self.shake_hands(place, &mut tls, octets),
            _ => self.open_records(place, &mut tls, octets),
        };
        let is_closed = tls.is_closed_by_peer();
        let wants_transmit = tls.wants_transmit();
        let slot = &mut self.slots[place as usize];
        slot.protection = Protection::Tls(tls);
        if let Some(end) = slot.ending.take() {
            return self.close_with_words(place, end);
        }
        if let Err(failure) = outcome {
            // An alert gives the reason.
            self.say_goodbye(place, false);
            return self.fail(place, failure);
        }
        if wants_transmit || !slot.machine.transmit().is_empty() {
            self.make_dirty(place);
        }
        if is_closed {
            self.ended_there(place);
        }
    }

    fn open_records(
        &mut self,
        place: u32,
        tls: &mut Session,
        octets: &mut [u8],
    ) -> Result<(), Failure> {
        let instant = self.instant();
        let mut input = octets;
        loop {
            match tls.open(&mut input, instant) {
                Ok(Some(plain)) => self.pump(place, plain),
                Ok(None) => return Ok(()),
                Err(error) => return Err(error.failure()),
            }
        }
    }

    /// The same during the handshake. The server may send data as soon as it has finished its part. That data
    /// is passed on only after the machine's accepted early data is marked as sent.
    fn shake_hands(&mut self, place: u32, tls: &mut Session, octets: &[u8]) -> Result<(), Failure> {
        let begin = thread_cpu_time();
        let received = tls.receive(octets, self.instant());
        let took = (thread_cpu_time() - begin).as_nanos() as u64;
        self.slots[place as usize].handshake_time += took;
        received.map_err(|error| error.failure())?;
        if tls.is_established() {
            self.secured(place, tls)?;
            let mut plain = [0; 4096];
            while let length @ 1.. = tls.read(&mut plain) {
                self.pump(place, &plain[..length]);
            }
        }
        Ok(())
    }

    /// Marks early data as sent, once the server has accepted it.
    pub(super) fn early_was_taken(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        let Some((octets, at)) = slot.early.take() else {
            return;
        };
        let at = Instant::from_nanos(at);
        let before = slot.machine.first_unsent();
        slot.machine.transmitted(octets, at);
        let begun = before..slot.machine.first_unsent();
        for exchange in slot.exchanges.iter_mut().filter(|e| e.sent == 0) {
            exchange.due = exchange.planned.max(slot.reached);
        }
        note_sent(&mut slot.exchanges, begun, at, &mut self.tally);
    }

    /// The server has closed its side.
    fn ended_there(&mut self, place: u32) {
        let now = self.instant();
        let slot = &mut self.slots[place as usize];
        if slot.state != State::Open && slot.state != State::Securing {
            return;
        }
        slot.closed_there = true;
        if slot.state == State::Securing {
            return self.fail(place, Failure::ClosedEarly);
        }
        // Over TLS an end without close_notify may not come from the server.
        let is_cut = match &mut slot.protection {
            Protection::Tls(tls) => tls.handle_eof().is_err(),
            _ => false,
        };
        let answering = slot.exchanges.front().is_some_and(|e| e.first_byte > 0);
        match is_cut && answering {
            true => slot.machine.handle_failure(Failure::Truncated, now),
            false => slot.machine.handle_eof(now),
        }
        self.pump(place, &[]);
    }
}

/// One call, repeated only after a signal.
fn hand_over(stream: &TcpStream, octets: &[u8]) -> Result<usize, Errno> {
    loop {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(stream, octets, flags) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Records that requests have begun to leave.
pub(super) fn note_sent(
    exchanges: &mut VecDeque<Exchange>,
    begun: Range<RequestId>,
    now: Instant,
    tally: &mut Tally,
) {
    if begun.is_empty() {
        return;
    }
    // They are the newest, except for those that have not begun.
    for exchange in exchanges.iter_mut().rev() {
        if exchange.request >= begun.end {
            continue;
        }
        if exchange.request < begun.start {
            break;
        }
        if exchange.sent == 0 {
            exchange.sent = now.as_nanos();
            tally.sent(exchange);
        }
    }
}
