//! Records (RFC 8446 section 5; RFC 5246 section 6.2): parses their headers, and seals and opens them in place.

use std::ops::Range;

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

/// The length of a record's header in bytes.
pub(super) const HEADER: usize = 5;
/// The length of the authentication tag in bytes.
const TAG: usize = 16;
/// The length in bytes of the nonce in each AES-GCM record of TLS 1.2 (RFC 5288 section 3).
const EXPLICIT_NONCE: usize = 8;
/// The maximum length of a record's content in bytes.
const LARGEST_CONTENT: usize = 16 * 1024;
/// The maximum number of bytes after a record header. It is the limit of TLS 1.2, the larger of the two versions (RFC
/// 5246 section 6.2.3).
const LARGEST_PAYLOAD: usize = LARGEST_CONTENT + 2048;

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;

/// Returns the length of the record with this header, header included; `None` if the bytes are not a record header.
pub(super) fn length(header: &[u8; HEADER]) -> Option<usize> {
    let payload = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let known = (CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&header[0]);
    (known && header[1] == 3 && payload <= LARGEST_PAYLOAD).then_some(HEADER + payload)
}

/// The layout of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Tls13,
    Tls12Gcm,
    Tls12ChaCha,
}

impl Form {
    /// The number of bytes between the header and the content.
    fn prefix(self) -> usize {
        match self {
            Form::Tls12Gcm => EXPLICIT_NONCE,
            _ => 0,
        }
    }
}

/// The keys of one direction.
struct Keys {
    form: Form,
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// The sequence number of the next record.
    number: u64,
}

impl Keys {
    /// Creates the keys from the secrets of the handshake. `None` for an unsupported cipher.
    fn new(tls13: bool, number: u64, secrets: &ConnectionTrafficSecrets) -> Option<Keys> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        let form = match (tls13, secrets) {
            (true, _) => Form::Tls13,
            (false, ConnectionTrafficSecrets::Chacha20Poly1305 { .. }) => Form::Tls12ChaCha,
            (false, _) => Form::Tls12Gcm,
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).ok()?;
        Some(Keys {
            form,
            key: LessSafeKey::new(key),
            iv: iv.as_ref().try_into().ok()?,
            number,
        })
    }

    /// Returns the nonce: the IV XORed with the record's sequence number (RFC 8446 section 5.3; RFC 7905 section 2).
    /// With AES-GCM in TLS 1.2, the sender may choose the nonces; the same rule is used.
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, digit) in nonce[4..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= digit;
        }
        nonce
    }

    /// Returns the additional data that TLS 1.2 authenticates (RFC 5246 section 6.2.3.3).
    fn tls12_context(&self, content_type: u8, length: usize) -> [u8; 13] {
        let mut context = [0; 13];
        context[..8].copy_from_slice(&self.number.to_be_bytes());
        context[8..11].copy_from_slice(&[content_type, 3, 3]);
        context[11..].copy_from_slice(&(length as u16).to_be_bytes());
        context
    }
}

/// Seals records in the send buffer.
pub(super) struct Sealer(Keys);

impl Sealer {
    pub(super) fn new(
        tls13: bool,
        number: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> Option<Sealer> {
        Keys::new(tls13, number, secrets).map(Sealer)
    }

    /// The sequence number of the next record.
    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Starts a record at the end of `out`. The caller then appends the content.
    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        out.resize(out.len() + self.content_offset(), 0);
    }

    /// The number of bytes before a record's content.
    pub(super) fn content_offset(&self) -> usize {
        HEADER + self.0.form.prefix()
    }

    /// Seals the record that extends from `start` to the end of `out`. The content must be at most 16 KiB.
    pub(super) fn seal(&mut self, out: &mut Vec<u8>, start: usize, content_type: u8) {
        let keys = &mut self.0;
        let nonce = keys.nonce();
        let content = start + HEADER + keys.form.prefix();
        debug_assert!(out.len() - content <= LARGEST_CONTENT);
        let tag = if keys.form == Form::Tls13 {
            out.push(content_type);
            let header = header(APPLICATION_DATA, out.len() - content + TAG);
            out[start..content].copy_from_slice(&header);
            let nonce = Nonce::assume_unique_for_key(nonce);
            let (aad, sealed) = (Aad::from(header), &mut out[content..]);
            keys.key.seal_in_place_separate_tag(nonce, aad, sealed)
        } else {
            let length = out.len() - content;
            let header = header(content_type, keys.form.prefix() + length + TAG);
            out[start..start + HEADER].copy_from_slice(&header);
            if keys.form == Form::Tls12Gcm {
                out[start + HEADER..content].copy_from_slice(&nonce[4..]);
            }
            let aad = Aad::from(keys.tls12_context(content_type, length));
            let nonce = Nonce::assume_unique_for_key(nonce);
            let sealed = &mut out[content..];
            keys.key.seal_in_place_separate_tag(nonce, aad, sealed)
        };
        let tag = tag.expect("a record is shorter than the AEAD's limit");
        out.extend_from_slice(tag.as_ref());
        keys.number += 1;
    }
}

/// Opens records in the receive buffer.
pub(super) struct Opener(Keys);

/// The reason why a record cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordError {
    /// The authentication tag is wrong.
    Undecryptable,
    /// The content is longer than a record allows.
    TooLarge,
    /// The type of the record is missing, or not allowed in the current state.
    Unexpected,
}

impl Opener {
    pub(super) fn new(
        tls13: bool,
        number: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> Option<Opener> {
        Keys::new(tls13, number, secrets).map(Opener)
    }

    /// Opens a complete record; returns its type and the range of its content.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<(u8, Range<usize>), RecordError> {
        let keys = &mut self.0;
        let (header, payload) = record
            .split_first_chunk_mut::<HEADER>()
            .ok_or(RecordError::Undecryptable)?;
        let opened = if keys.form == Form::Tls13 {
            if header[0] != APPLICATION_DATA {
                return Err(RecordError::Unexpected);
            }
            let nonce = Nonce::assume_unique_for_key(keys.nonce());
            let aad = Aad::from(*header);
            let inner = keys
                .key
                .open_in_place(nonce, aad, payload)
                .map_err(|_| RecordError::Undecryptable)?;
            if inner.len() > LARGEST_CONTENT + 1 {
                return Err(RecordError::TooLarge);
            }
            // The last non-zero byte is the type. The zero bytes that follow are padding.
            let end = inner.iter().rposition(|&byte| byte != 0);
            let end = end.ok_or(RecordError::Unexpected)?;
            (inner[end], HEADER..HEADER + end)
        } else {
            let prefix = keys.form.prefix();
            let length = payload
                .len()
                .checked_sub(prefix + TAG)
                .ok_or(RecordError::Undecryptable)?;
            if length > LARGEST_CONTENT {
                return Err(RecordError::TooLarge);
            }
            let mut nonce = keys.nonce();
            if keys.form == Form::Tls12Gcm {
                nonce[4..].copy_from_slice(&payload[..EXPLICIT_NONCE]);
            }
            let nonce = Nonce::assume_unique_for_key(nonce);
            let aad = Aad::from(keys.tls12_context(header[0], length));
            keys.key
                .open_in_place(nonce, aad, &mut payload[prefix..])
                .map_err(|_| RecordError::Undecryptable)?;
            (header[0], HEADER + prefix..HEADER + prefix + length)
        };
        keys.number += 1;
        Ok(opened)
    }
}

fn header(content_type: u8, length: usize) -> [u8; HEADER] {
    let [high, low] = (length as u16).to_be_bytes();
    [content_type, 3, 3, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustls::crypto::cipher::{AeadKey, Iv};

    fn secrets(cipher: u8) -> ConnectionTrafficSecrets {
        let key = AeadKey::from([cipher; 32]);
        let iv = Iv::from([9; NONCE_LEN]);
        match cipher {
            0 => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
            _ => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
        }
    }

    #[test]
    fn sealed_records_open_and_changed_records_do_not() {
        for (tls13, cipher) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
            let mut sealer = Sealer::new(tls13, 5, &secrets(cipher)).unwrap();
            let mut opener = Opener::new(tls13, 5, &secrets(cipher)).unwrap();
            for content in [&b""[..], b"x", &[7; LARGEST_CONTENT]] {
                let mut out = b"before".to_vec();
                sealer.begin(&mut out);
                out.extend_from_slice(content);
                sealer.seal(&mut out, 6, APPLICATION_DATA);
                let mut record = out.split_off(6);
                let header = record.first_chunk().unwrap();
                assert_eq!(length(header), Some(record.len()));
                let (kind, range) = opener.open(&mut record).unwrap();
                assert_eq!((kind, &record[range]), (APPLICATION_DATA, content));
            }
            let mut out = Vec::new();
            sealer.begin(&mut out);
            out.extend_from_slice(b"content");
            sealer.seal(&mut out, 0, ALERT);
            let last = out.len() - 1;
            for changed in [HEADER, last] {
                let mut record = out.clone();
                record[changed] ^= 1;
                let result = opener.open(&mut record);
                assert_eq!(result, Err(RecordError::Undecryptable), "byte {changed}");
            }
            let (kind, range) = opener.open(&mut out).unwrap();
            assert_eq!((kind, &out[range]), (ALERT, &b"content"[..]));
        }
    }

    #[test]
    fn padding_is_taken_off_and_a_record_of_nothing_else_refused() {
        let mut sealer = Sealer::new(true, 0, &secrets(0)).unwrap();
        let mut opener = Opener::new(true, 0, &secrets(0)).unwrap();
        let mut out = Vec::new();
        sealer.begin(&mut out);
        // The type of the padded record and three zero bytes. The last zero byte takes the position of the type.
        out.extend_from_slice(&[1, 2, HANDSHAKE, 0, 0, 0]);
        sealer.seal(&mut out, 0, 0);
        assert_eq!(opener.open(&mut out), Ok((HANDSHAKE, 5..7)));
        let mut out = Vec::new();
        sealer.begin(&mut out);
        sealer.seal(&mut out, 0, 0);
        assert_eq!(opener.open(&mut out), Err(RecordError::Unexpected));
    }

    #[test]
    fn input_other_than_records_is_recognised_by_its_header() {
        assert_eq!(length(b"GET /"), None);
        assert_eq!(length(&[23, 3, 3, 0x48, 0x01]), None);
        assert_eq!(length(&[23, 3, 3, 0x48, 0x00]), Some(HEADER + 0x4800));
        assert_eq!(length(&[24, 3, 3, 0, 1]), None);
    }
}
