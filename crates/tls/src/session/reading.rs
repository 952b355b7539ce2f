//! Handles received bytes.

use std::ops::Range;

use fathometer_model::{Bytes, Instant};

use super::established::{CLOSE_NOTIFY, Fatal, NO_RENEGOTIATION, Opened, Reply};
use super::handshaking::Finished;
use super::record::{self, ALERT, HEADER};
use super::writing::count_application;
use super::{Phase, Piece, Session};
use crate::{Alert, TlsFailure, Version};

impl Session {
    pub(super) fn next_piece<'i>(
        &mut self,
        input: &mut &'i mut [u8],
        now: Instant,
    ) -> Result<Piece<'i>, TlsFailure> {
        loop {
            if self.closed_by_peer {
                // Data after close_notify is ignored (RFC 8446 section 6.1).
                *input = &mut [];
                return Ok(Piece::None);
            }
            let piece = match self.phase {
                Phase::Handshaking(_) => self.handshake_record(input, now)?,
                Phase::Established(_) if self.incoming.is_empty() => {
                    self.whole_record(input, now)?
                }
                Phase::Established(_) => self.joined_record(input, now)?,
                Phase::Over => return Ok(Piece::None),
            };
            if let Some(piece) = piece {
                return Ok(piece);
            }
        }
    }

    /// Opens the record at the start of the input in place; `None` if the record contains no data. Stores an incomplete
    /// record at the end of the input.
    fn whole_record<'i>(
        &mut self,
        input: &mut &'i mut [u8],
        now: Instant,
    ) -> Result<Option<Piece<'i>>, TlsFailure> {
        let Some(header) = input.first_chunk::<HEADER>() else {
            return Ok(Some(self.keep(input)));
        };
        let length = match record::length(header) {
            Some(length) => length,
            None => return Err(self.no_record()),
        };
        if input.len() < length {
            return Ok(Some(self.keep(input)));
        }
        let (record, rest) = std::mem::take(input).split_at_mut(length);
        *input = rest;
        let content = self.open_record(record, now)?;
        Ok(content.map(|range| Piece::Input(&record[range])))
    }

    /// Completes the partly received record, and opens it.
    fn joined_record<'i>(
        &mut self,
        input: &mut &'i mut [u8],
        now: Instant,
    ) -> Result<Option<Piece<'i>>, TlsFailure> {
        if !self.complete(0, input)? {
            return Ok(Some(Piece::None));
        }
        let mut incoming = std::mem::take(&mut self.incoming);
        let content = self.open_record(&mut incoming, now);
        self.incoming = incoming;
        match content? {
            Some(range) => {
                self.incoming_given = true;
                Ok(Some(Piece::Incoming(range)))
            }
            None => {
                self.incoming.clear();
                Ok(None)
            }
        }
    }

    fn keep<'i>(&mut self, input: &mut &'i mut [u8]) -> Piece<'i> {
        self.incoming.extend_from_slice(input);
        *input = &mut [];
        Piece::None
    }

    /// Moves bytes from the input to `incoming` until the record at offset `from` in `incoming` is complete. Returns
    /// whether the record is complete.
    fn complete(&mut self, from: usize, input: &mut &mut [u8]) -> Result<bool, TlsFailure> {
        self.fill(from + HEADER, input);
        let Some(header) = self.incoming[from..].first_chunk::<HEADER>() else {
            return Ok(false);
        };
        let length = match record::length(header) {
            Some(length) => length,
            None => return Err(self.no_record()),
        };
        self.fill(from + length, input);
        Ok(self.incoming.len() == from + length)
    }

    /// Moves bytes from the input to `incoming` until `incoming` has `wanted` bytes or the input is empty.
    fn fill(&mut self, wanted: usize, input: &mut &mut [u8]) {
        let missing = wanted.saturating_sub(self.incoming.len());
        let bytes = std::mem::take(input);
        let (taken, rest) = bytes.split_at_mut(missing.min(bytes.len()));
        self.incoming.extend_from_slice(taken);
        *input = rest;
    }

    /// Opens a complete record and handles it; returns the range of its data, if any.
    fn open_record(
        &mut self,
        record: &mut [u8],
        now: Instant,
    ) -> Result<Option<Range<usize>>, TlsFailure> {
        let Phase::Established(established) = &mut self.phase else {
            return Ok(None);
        };
        let bytes = Bytes(record.len() as u64);
        let opened = established.open(record, now);
        self.received.records += 1;
        match opened {
            Ok(Opened::Data(range)) => {
                count_application(&mut self.received, record.len(), range.len(), 1);
                // `count_application` has already counted the record.
                self.received.records -= 1;
                self.early = false;
                return Ok((!range.is_empty()).then_some(range));
            }
            Ok(Opened::Message(reply)) => {
                self.received.handshake += bytes;
                self.reply(reply)?;
            }
            Ok(Opened::Warning(reply)) => {
                self.received.alerts += bytes;
                self.reply(reply)?;
            }
            Ok(Opened::Closed) => {
                self.received.alerts += bytes;
                self.closed_by_peer = true;
            }
            Err(fatal) => return Err(self.fail(fatal)),
        }
        Ok(None)
    }

    fn reply(&mut self, reply: Reply) -> Result<(), TlsFailure> {
        match reply {
            Reply::Nothing => Ok(()),
            Reply::KeyUpdate => self.update_key(),
            Reply::NoRenegotiation => {
                self.seal();
                self.say_alert(NO_RENEGOTIATION);
                Ok(())
            }
        }
    }

    /// Sends the alert to the peer, if keys are available.
    fn fail(&mut self, (failure, alert): Fatal) -> TlsFailure {
        if alert != CLOSE_NOTIFY {
            self.seal();
            self.say_alert(alert);
        }
        failure
    }

    fn no_record(&mut self) -> TlsFailure {
        let why = "the first bytes are not a record header".to_owned();
        self.fail((TlsFailure::NotTls(why), Alert(50)))
    }

    /// Takes one record of the handshake from the input.
    fn handshake_record<'i>(
        &mut self,
        input: &mut &'i mut [u8],
        now: Instant,
    ) -> Result<Option<Piece<'i>>, TlsFailure> {
        let new = self.shown;
        self.fill(new + HEADER, input);
        let Some(header) = self.incoming[new..].first_chunk::<HEADER>() else {
            return Ok(Some(Piece::None));
        };
        // An invalid record is passed to rustls unchanged, so that rustls selects the alert for the peer.
        if let Some(length) = record::length(header) {
            self.fill(new + length, input);
            if self.incoming.len() < new + length {
                return Ok(Some(Piece::None));
            }
        }
        let Phase::Handshaking(handshaking) = &mut self.phase else {
            return Ok(None);
        };
        handshaking.clock.set(now);
        let start = self.outgoing.len();
        let outcome =
            handshaking.record(&mut self.incoming, new, &mut self.outgoing, &mut self.plain);
        let step = match outcome {
            Ok(step) => step,
            Err(failure) => {
                self.count_sent(start, true);
                return Err(failure);
            }
        };
        let sent_before = self.sent.handshake;
        let bytes = self.incoming.len() - new;
        self.count_handshake_record(new, bytes, step.application);
        self.count_sent(start, false);
        if step.forget {
            self.incoming.truncate(new);
        }
        self.incoming.drain(..step.consumed);
        self.shown = self.incoming.len();
        self.early = step.early;
        self.closed_by_peer |= step.closed;
        self.after_handshake_record(sent_before)?;
        Ok((!self.plain.is_empty()).then_some(Piece::Plain))
    }

    fn count_handshake_record(&mut self, new: usize, bytes: usize, application: bool) {
        if application {
            count_application(&mut self.received, bytes, self.plain.len(), 1);
            return;
        }
        let bytes = Bytes(bytes as u64);
        match self.incoming[new] {
            ALERT => self.received.alerts += bytes,
            _ => self.received.handshake += bytes,
        }
        self.received.records += 1;
    }

    /// Takes the keys from rustls if the handshake is complete.
    fn after_handshake_record(&mut self, sent_before: Bytes) -> Result<(), TlsFailure> {
        let Phase::Handshaking(handshaking) = &mut self.phase else {
            return Ok(());
        };
        if handshaking.is_handshaking() || self.shown > 0 {
            return Ok(());
        }
        let Phase::Handshaking(handshaking) = std::mem::replace(&mut self.phase, Phase::Over)
        else {
            return Ok(());
        };
        let Finished {
            established,
            mut handshake,
            binding,
        } = handshaking.finish(self.sent.handshake, self.received.handshake)?;
        if !self.client && handshake.version == Version::Tls13 {
            // In the last step of the handshake, a server sends only tickets, which are not counted.
            handshake.sent = sent_before;
        }
        self.handshake = Some(Box::new(handshake));
        self.binding = binding.map(Box::new);
        self.phase = Phase::Established(Box::new(established));
        let waiting = std::mem::take(&mut self.waiting);
        self.append(&waiting);
        if self.closing {
            self.seal();
            self.say_alert(CLOSE_NOTIFY);
        }
        Ok(())
    }
}
