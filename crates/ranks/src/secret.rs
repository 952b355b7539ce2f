//! The secret that all ranks share, and the keys derived from it.

use std::fmt;

use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The length of a MAC in bytes.
pub const MAC: usize = 32;
/// The length of a nonce in bytes.
pub const NONCE: usize = 32;

/// The length of a channel binding in bytes (RFC 9266 section 2).
pub const BINDING: usize = 32;

/// Minimum length of a secret in bytes.
pub const LEAST: usize = 16;

/// The error for a secret that is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the secret has {0} bytes, and at least {LEAST} are required: make one with `head -c 32 /dev/urandom | base64`"
)]
pub struct ShortSecret(pub usize);

/// The error if the system returns no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random bytes for a secret")]
pub struct NoRandomBytes;

/// Returns a new secret as text: 32 random bytes in hexadecimal.
///
/// # Errors
/// If the system returns no random bytes.
pub fn random_text() -> Result<String, NoRandomBytes> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| NoRandomBytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The secret that all ranks of a test share.
#[derive(Clone)]
pub struct Secret(Key);

/// Formats the type without the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Creates the secret from the content of a file or variable. White space at both ends is removed.
    ///
    /// # Errors
    /// If the content is shorter than [`LEAST`] bytes.
    pub fn new(content: &[u8]) -> Result<Secret, ShortSecret> {
        let content = content.trim_ascii();
        match content.len() {
            length if length < LEAST => Err(ShortSecret(length)),
            _ => Ok(Secret(Key::new(HMAC_SHA256, content))),
        }
    }

    /// Derives the secret of one TLS session. Proofs and keys derived from it are invalid in every other session.
    pub(crate) fn bound(&self, binding: &[u8; BINDING]) -> Secret {
        let tag = hmac::sign(&self.0, &[BOUND, binding].concat());
        Secret(Key::new(HMAC_SHA256, tag.as_ref()))
    }

    /// Returns the proof that a side has the secret, for these two nonces.
    pub(crate) fn proof(&self, of: Side, nonces: &Nonces) -> [u8; MAC] {
        self.derived(of.proof(), nonces)
    }

    /// Checks a peer's proof in constant time.
    pub(crate) fn is_proof(&self, of: Side, nonces: &Nonces, proof: &[u8]) -> bool {
        hmac::verify(&self.0, &labelled(of.proof(), nonces), proof).is_ok()
    }

    /// Returns the key for the frames of a side on a connection with these nonces.
    pub(crate) fn key(&self, of: Side, nonces: &Nonces) -> Key {
        Key::new(HMAC_SHA256, &self.derived(of.key(), nonces))
    }

    fn derived(&self, label: &[u8], nonces: &Nonces) -> [u8; MAC] {
        let tag = hmac::sign(&self.0, &labelled(label, nonces));
        let mut derived = [0; MAC];
        derived.copy_from_slice(tag.as_ref());
        derived
    }
}

fn labelled(label: &[u8], nonces: &Nonces) -> Vec<u8> {
    [label, &nonces.member, &nonces.rank_0].concat()
}

/// The label of secrets that are bound to a session. It is as long as the other labels, and fewer bytes follow it. So
/// the inputs of the MAC always differ.
const BOUND: &[u8] = b"bound to session";

/// The nonces of both sides of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nonces {
    pub(crate) member: [u8; NONCE],
    pub(crate) rank_0: [u8; NONCE],
}

/// A side of a control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Rank 0, which listens.
    RankZero,
    /// Another rank, which connects.
    Member,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::RankZero => Side::Member,
            Side::Member => Side::RankZero,
        }
    }

    /// All labels have the same length. So the inputs of the MAC always differ.
    fn proof(self) -> &'static [u8] {
        match self {
            Side::RankZero => b"proof of rank 0.",
            Side::Member => b"proof of member.",
        }
    }

    fn key(self) -> &'static [u8] {
        match self {
            Side::RankZero => b"frames of rank 0",
            Side::Member => b"frames of member",
        }
    }
}
