//! Processes data to send.

use fathometer_model::Bytes;

use super::established::CLOSE_NOTIFY;
use super::record::{self, ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, HEADER};
use super::{BUFFER, Phase, Session};
use crate::{Alert, TlsFailure, Traffic};

impl Session {
    /// Appends plaintext to records, without a limit on the amount of waiting data.
    pub(super) fn append(&mut self, mut plain: &[u8]) {
        match self.phase {
            Phase::Established(_) => {}
            Phase::Handshaking(_) => {
                self.waiting.extend_from_slice(plain);
                return;
            }
            Phase::Over => return,
        }
        // Removes the sent bytes from the front of the buffer, if there are at least `BUFFER` of them.
        if self.outgoing_sent >= BUFFER && self.filling.is_none() {
            self.outgoing.drain(..self.outgoing_sent);
            self.outgoing_sent = 0;
        }
        while !plain.is_empty() {
            let Phase::Established(established) = &mut self.phase else {
                return;
            };
            let start = *self.filling.get_or_insert_with(|| {
                let start = self.outgoing.len();
                established.sealer.begin(&mut self.outgoing);
                start
            });
            let filled = self.outgoing.len() - start - established.sealer.content_offset();
            let size = self.sizes.next();
            let (now, later) = plain.split_at(plain.len().min(size - filled));
            self.outgoing.extend_from_slice(now);
            plain = later;
            if filled + now.len() == size {
                self.seal();
            }
        }
    }

    /// Seals the open record, or waiting data that may be sent before the handshake is complete.
    pub(super) fn seal(&mut self) {
        if self.may_send_waiting() {
            self.seal_waiting();
        }
        let (Some(start), Phase::Established(established)) = (self.filling.take(), &mut self.phase)
        else {
            return;
        };
        let content = self.outgoing.len() - start - established.sealer.content_offset();
        established
            .sealer
            .seal(&mut self.outgoing, start, APPLICATION_DATA);
        self.sizes.sealed(content);
        count_application(&mut self.sent, self.outgoing.len() - start, content, 1);
        if !established.key_is_used_up() {
            return;
        }
        // The key may seal one more record: the KeyUpdate, or `close_notify`.
        if established.can_update() {
            if let Err(failure) = self.update_key() {
                self.end(failure);
            }
        } else {
            self.closing = true;
            self.say_alert(CLOSE_NOTIFY);
        }
    }

    /// Whether there is data that may be sent before the handshake is complete.
    pub(super) fn may_send_waiting(&self) -> bool {
        match &self.phase {
            // rustls seals these records in a call without input, so all earlier input must already be consumed.
            Phase::Handshaking(_) => self.may_write() && !self.waiting.is_empty(),
            _ => false,
        }
    }

    fn seal_waiting(&mut self) {
        let Phase::Handshaking(handshaking) = &mut self.phase else {
            return;
        };
        let start = self.outgoing.len();
        let size = self.sizes.next();
        let (taken, records) = handshaking.write(&self.waiting, size, &mut self.outgoing);
        self.waiting.drain(..taken);
        self.sizes.sealed(taken);
        let bytes = self.outgoing.len() - start;
        count_application(&mut self.sent, bytes, taken, records);
    }

    /// Updates the sending key, and sends a KeyUpdate.
    pub(super) fn update_key(&mut self) -> Result<(), TlsFailure> {
        self.seal();
        let Phase::Established(established) = &mut self.phase else {
            return Ok(());
        };
        let start = self.outgoing.len();
        let outcome = established.update_sending_key(&mut self.outgoing);
        self.count_sent(start, false);
        outcome
    }

    pub(super) fn say_alert(&mut self, alert: Alert) {
        if let Phase::Established(established) = &mut self.phase {
            let start = self.outgoing.len();
            established.say_alert(&mut self.outgoing, alert);
            self.count_sent(start, true);
        }
    }

    /// Counts the records in `outgoing` from position `start`. The records contain no data. Encrypted records count as
    /// alerts if `alerts` is set, otherwise as handshake records.
    pub(super) fn count_sent(&mut self, start: usize, alerts: bool) {
        let mut rest = &self.outgoing[start..];
        while let Some(header) = rest.first_chunk::<HEADER>() {
            let length = record::length(header).unwrap_or(rest.len()).min(rest.len());
            let (record, next) = rest.split_at(length);
            let bytes = Bytes(length as u64);
            self.sent.records += 1;
            match record[0] {
                ALERT => self.sent.alerts += bytes,
                CHANGE_CIPHER_SPEC | HANDSHAKE => self.sent.handshake += bytes,
                _ if alerts => self.sent.alerts += bytes,
                _ => self.sent.handshake += bytes,
            }
            if let Phase::Handshaking(handshaking) = &mut self.phase {
                handshaking.look_at_sent(record);
            }
            rest = next;
        }
    }
}

/// Counts records of application data.
pub(super) fn count_application(traffic: &mut Traffic, bytes: usize, content: usize, records: u64) {
    traffic.application += Bytes(bytes as u64);
    traffic.content += Bytes(content as u64);
    traffic.application_records += records;
    traffic.records += records;
}
