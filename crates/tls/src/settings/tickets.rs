//! Tickets that contain the whole session (RFC 5077, RFC 8446 section 4.6.1), so that the server stores nothing.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;

use super::SettingsError;

/// The lifetime of a ticket in seconds, which is longer than a run. The key is dropped together with the settings.
const LIFETIME: u32 = 24 * 60 * 60;
/// The maximum size of an accepted ticket in bytes. It has room for a session with a chain of client certificates. It
/// also limits the decryption work that a peer can cause.
const LARGEST: usize = 32 * 1024;

/// Seals sessions with one key. The nonces are random, because a counter would reveal the number of tickets.
pub(super) struct Sealed {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Sealed {
    pub(super) fn new() -> Result<Sealed, SettingsError> {
        let random = SystemRandom::new();
        let mut key = [0; 32];
        random.fill(&mut key).map_err(|_| {
            SettingsError::Contradiction("the system's random number generator failed".into())
        })?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key)
            .expect("the algorithm's keys are 32 bytes long");
        Ok(Sealed {
            key: LessSafeKey::new(key),
            random,
        })
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").finish_non_exhaustive()
    }
}

impl ProducesTickets for Sealed {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let mut ticket = nonce.to_vec();
        ticket.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = &mut ticket[NONCE_LEN..];
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), sealed)
            .ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        if ticket.len() > LARGEST {
            return None;
        }
        let (nonce, sealed) = ticket.split_first_chunk::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let mut sealed = sealed.to_vec();
        let length = self
            .key
            .open_in_place(nonce, Aad::empty(), &mut sealed)
            .ok()?
            .len();
        sealed.truncate(length);
        Some(sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_where_it_was_made_and_unchanged() {
        let (here, there) = (Sealed::new().unwrap(), Sealed::new().unwrap());
        let mut ticket = here.encrypt(b"session").unwrap();
        assert_eq!(here.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(there.decrypt(&ticket), None);
        assert_ne!(here.encrypt(b"session").unwrap(), ticket);
        *ticket.last_mut().unwrap() ^= 1;
        assert_eq!(here.decrypt(&ticket), None);
        assert_eq!(here.decrypt(b"short"), None);
        assert_eq!(here.decrypt(&[0; LARGEST + 1]), None);
    }
}
