//! Moves bytes between the state machines of connections and their sockets, through TLS if the connection
//! has TLS.
//!
//! The time at which an exchange is sent is read just before the call that hands its first byte to the kernel, because
//! over loopback this call also runs TCP for the server. Bytes are encrypted before this reading. Received bytes are
//! decrypted in place.

use std::net::TcpStream;

use fathometer_model::Failure;
use fathometer_sys::clock::thread_cpu_time;
use fathometer_sys::socket;
use fathometer_tls::Session;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::super::context::Context;
use super::super::exchange::Exchange;
use super::super::tally::ConnectionEnd;
use super::slot::{Protection, Slot, State};
use super::{Connections, Requester};

/// The number of full buffers read from one connection before it yields to others.
const READS_IN_A_ROW: usize = 8;

impl Slot {
    /// Writes the machine's bytes until the kernel's buffer is full. Returns false if the connection has failed. Data
    /// that the server sent before the failure must still be read; the failure is reported afterwards.
    fn write_plain(&mut self, context: &mut Context<'_>) -> bool {
        let Some(stream) = &self.stream else {
            return true;
        };
        while !self.blocked {
            let bytes = self.machine.transmit();
            if bytes.is_empty() {
                break;
            }
            let (length, before) = (bytes.len(), self.machine.first_unsent());
            let now = context.exact_time();
            match hand_over(stream, bytes) {
                Ok(written) => {
                    self.machine.transmitted(written, now);
                    self.blocked = written < length;
                    let begun = before..self.machine.first_unsent();
                    self.exchanges
                        .leave(begun, now, |exchange| context.tally.sent(exchange));
                }
                Err(error) => {
                    self.blocked = true;
                    return error == Errno::AGAIN;
                }
            }
        }
        true
    }

    /// Like [`Slot::write_plain`], through TLS. The machine's bytes are encrypted only after all earlier ciphertext was
    /// written. So bytes that count as sent were handed to the kernel, except for bytes that did not fit its buffer.
    fn write_sealed(&mut self, context: &mut Context<'_>) -> bool {
        let (Some(stream), Protection::Tls(tls)) = (&self.stream, &mut self.protection) else {
            return true;
        };
        while !self.blocked {
            let mut taken = 0;
            if self.state == State::Open && !tls.wants_transmit() {
                taken = tls.write(self.machine.transmit());
            }
            let bytes = tls.transmit();
            let length = bytes.len();
            if length == 0 {
                break;
            }
            let now = context.exact_time();
            let sent = hand_over(stream, bytes);
            if taken > 0 {
                let before = self.machine.first_unsent();
                self.machine.transmitted(taken, now);
                let begun = before..self.machine.first_unsent();
                self.exchanges
                    .leave(begun, now, |exchange| context.tally.sent(exchange));
            }
            match sent {
                Ok(written) => {
                    tls.transmitted(written);
                    self.blocked = written < length;
                }
                Err(error) => {
                    self.blocked = true;
                    return error == Errno::AGAIN;
                }
            }
        }
        true
    }

    /// Writes the final messages before a connection is closed, if the kernel's buffer has space for them.
    pub(super) fn write_close_messages(&mut self, closes_tls: bool) {
        let Some(stream) = &self.stream else {
            return;
        };
        if self.blocked {
            return;
        }
        let bytes = match &mut self.protection {
            Protection::None => self.machine.transmit(),
            Protection::Tls(tls) => {
                if self.state == State::Open {
                    tls.write(self.machine.transmit());
                }
                if closes_tls && tls.is_established() {
                    tls.close();
                }
                tls.transmit()
            }
            Protection::Lent => &[],
        };
        if !bytes.is_empty() {
            // Fails if the server has already closed the connection.
            let _ = hand_over(stream, bytes);
        }
    }
}

impl Connections<'_> {
    /// Writes the pending bytes of all connections, in the order in which the connections became ready to write. So the
    /// oldest due request is sent first.
    pub(crate) fn write_all(&mut self, requester: &mut impl Requester) {
        while let Some(place) = self.to_write.next() {
            self.slots[place].dirty = false;
            self.flush(requester, place);
        }
    }

    /// Writes the pending bytes of a connection until the kernel's buffer is full.
    pub(super) fn flush(&mut self, requester: &mut impl Requester, place: u32) {
        let slot = &mut self.slots[place];
        if slot.machine.is_quic() {
            return self.flush_quic(requester, place);
        }
        let is_usable = match (slot.state, &slot.protection) {
            (State::Open, Protection::None) => slot.write_plain(&mut self.context),
            (State::Open | State::Securing, Protection::Tls(_)) => {
                slot.write_sealed(&mut self.context)
            }
            _ => true,
        };
        if !is_usable {
            self.to_read.add(place, &mut slot.unread);
        }
    }

    /// Reads again from the connection that has waited longest for another turn. Returns false if no connection waits.
    pub(crate) fn read_next(&mut self, requester: &mut impl Requester, buffer: &mut [u8]) -> bool {
        let Some(place) = self.to_read.next() else {
            return false;
        };
        self.slots[place].unread = false;
        self.read(requester, place, true, buffer);
        true
    }

    /// Reads the available data. A read that does not fill the buffer has emptied the socket; the poller then reports
    /// later data. Only an EOF that the poller has already reported needs one more read.
    pub(super) fn read(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        ended: bool,
        buffer: &mut [u8],
    ) {
        let slot = &self.slots[place];
        if slot.machine.is_quic() {
            return self.read_quic(requester, place);
        }
        let generation = slot.generation;
        for _ in 0..READS_IN_A_ROW {
            let slot = &self.slots[place];
            let (state @ (State::Open | State::Securing | State::Lingering), Some(stream)) =
                (slot.state, &slot.stream)
            else {
                return;
            };
            if slot.generation != generation {
                return;
            }
            let result = rustix::net::recv(stream, &mut *buffer, RecvFlags::DONTWAIT);
            if let (Some(quick), Ok(_)) = (self.context.shared.quick_ack, &result) {
                // If the connection is closed, the read reports it.
                let _ = socket::set_quick_ack(stream, quick);
            }
            self.context.tick();
            match result {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Data that arrives now is not the response to any request.
                Ok((1.., _)) if state == State::Lingering => {}
                _ if state == State::Lingering => {
                    return self.release(place, ConnectionEnd::Server);
                }
                Ok((0, _)) => return self.ended_there(requester, place),
                Ok((length, _)) => {
                    let slot = &mut self.slots[place];
                    slot.last_received = self.context.now();
                    match slot.protection {
                        Protection::None => self.pump(requester, place, &buffer[..length]),
                        _ => self.open_sealed(requester, place, &mut buffer[..length]),
                    }
                    if length < buffer.len() && !ended {
                        return;
                    }
                }
                Err(error) => {
                    return self.fail(requester, place, socket::classify(&error.into()));
                }
            }
        }
        let slot = &mut self.slots[place];
        self.to_read.add(place, &mut slot.unread);
    }

    /// Decrypts data received over TLS and passes it to the machine.
    fn open_sealed(&mut self, requester: &mut impl Requester, place: u32, bytes: &mut [u8]) {
        let slot = &mut self.slots[place];
        // The TLS session is taken out of the slot while the machine handles the decrypted data.
        let Protection::Tls(mut tls) = std::mem::replace(&mut slot.protection, Protection::Lent)
        else {
            return;
        };
        let outcome = match slot.state {
            State::Securing => self.shake_hands(requester, place, &mut tls, bytes),
            _ => self.open_records(requester, place, &mut tls, bytes),
        };
        let is_closed = tls.is_closed_by_peer();
        let wants_transmit = tls.wants_transmit();
        let slot = &mut self.slots[place];
        slot.protection = Protection::Tls(tls);
        if let Some(end) = slot.ending.take() {
            return self.close_after_messages(place, end);
        }
        if let Err(failure) = outcome {
            // The alert notifies the server of the reason.
            slot.write_close_messages(false);
            return self.fail(requester, place, failure);
        }
        if wants_transmit || !slot.machine.transmit().is_empty() {
            self.make_dirty(place);
        }
        if is_closed {
            self.ended_there(requester, place);
        }
    }

    fn open_records(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        tls: &mut Session,
        bytes: &mut [u8],
    ) -> Result<(), Failure> {
        let mut input = bytes;
        loop {
            match tls.open(&mut input, self.context.now()) {
                Ok(Some(plain)) => self.pump(requester, place, plain),
                Ok(None) => return Ok(()),
                Err(error) => return Err(error.failure()),
            }
        }
    }

    /// Handles data received during the TLS handshake. The server may send data as soon as it has finished its part of
    /// the handshake. This data is passed on after accepted early data is marked as sent.
    fn shake_hands(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        tls: &mut Session,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let begin = thread_cpu_time();
        let received = tls.receive(bytes, self.context.now());
        self.slots[place].handshake_time += thread_cpu_time() - begin;
        received.map_err(|error| error.failure())?;
        if tls.is_established() {
            self.secured(requester, place, tls)?;
            let mut plain = [0; 4096];
            while let length @ 1.. = tls.read(&mut plain) {
                self.pump(requester, place, &plain[..length]);
            }
        }
        Ok(())
    }

    /// Marks early data as sent, once the server has accepted it.
    pub(super) fn early_was_taken(&mut self, place: u32) {
        let slot = &mut self.slots[place];
        let Some((bytes, at)) = slot.early.take() else {
            return;
        };
        let before = slot.machine.first_unsent();
        slot.machine.transmitted(bytes, at);
        let begun = before..slot.machine.first_unsent();
        slot.exchanges.could_leave(slot.reached);
        slot.exchanges
            .leave(begun, at, |exchange| self.context.tally.sent(exchange));
    }

    /// Handles EOF from the server.
    fn ended_there(&mut self, requester: &mut impl Requester, place: u32) {
        let now = self.context.now();
        let slot = &mut self.slots[place];
        if slot.state != State::Open && slot.state != State::Securing {
            return;
        }
        slot.peer_closed = true;
        if slot.state == State::Securing {
            return self.fail(requester, place, Failure::ClosedEarly);
        }
        // Over TLS, an EOF without close_notify may be forged.
        let is_cut = match &mut slot.protection {
            Protection::Tls(tls) => tls.handle_eof().is_err(),
            _ => false,
        };
        let answering = slot.exchanges.oldest().is_some_and(Exchange::is_answered);
        match is_cut && answering {
            true => slot.machine.handle_failure(Failure::Truncated, now),
            false => slot.machine.handle_eof(now),
        }
        self.pump(requester, place, &[]);
    }
}

/// Writes once; repeats the call only if a signal interrupted it.
fn hand_over(stream: &TcpStream, bytes: &[u8]) -> Result<usize, Errno> {
    loop {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(stream, bytes, flags) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
