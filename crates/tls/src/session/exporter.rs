//! Exports keying material for other protocols from the secrets of a TLS 1.3 session (RFC 8446 section 7.5).
//!
//! rustls exports keying material only from its buffered connections, which this crate does not use. However, all
//! connections report their exporter secret to the key log, and [`crate::settings`] records the secret there.

use ring::hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use ring::{digest, hkdf};

use crate::settings::ExporterSecret;
use crate::{CipherSuite, Version};

/// The exporter label of the channel binding (RFC 9266).
const CHANNEL_BINDING: &[u8] = b"EXPORTER-Channel-Binding";

/// The length of a channel binding in bytes (RFC 9266 section 2).
pub(super) const BINDING: usize = 32;

/// Computes the channel binding `tls-exporter` (RFC 9266); `None` for a TLS 1.2 cipher suite.
pub(super) fn channel_binding(
    suite: CipherSuite,
    secret: &ExporterSecret,
) -> Option<[u8; BINDING]> {
    let mut binding = [0; BINDING];
    exported(suite, secret, CHANNEL_BINDING, &mut binding)?;
    Some(binding)
}

/// Exports keying material for a label with an empty context, and fills `out` with it.
fn exported(
    suite: CipherSuite,
    secret: &ExporterSecret,
    label: &[u8],
    out: &mut [u8],
) -> Option<()> {
    let (algorithm, hash) = match suite {
        _ if suite.version() != Version::Tls13 => return None,
        CipherSuite::Aes256Gcm => (HKDF_SHA384, &digest::SHA384),
        _ => (HKDF_SHA256, &digest::SHA256),
    };
    let secret = Prk::new_less_safe(algorithm, secret.bytes());
    let empty = digest::digest(hash, b"");
    let mut derived = vec![0; hash.output_len()];
    expand_label(&secret, label, empty.as_ref(), &mut derived)?;
    let derived = Prk::new_less_safe(algorithm, &derived);
    expand_label(&derived, b"exporter", empty.as_ref(), out)
}

/// Computes HKDF-Expand-Label (RFC 8446 section 7.1).
fn expand_label(secret: &Prk, label: &[u8], context: &[u8], out: &mut [u8]) -> Option<()> {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    const PREFIX: &[u8] = b"tls13 ";
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_length = [u8::try_from(PREFIX.len() + label.len()).ok()?];
    let context_length = [u8::try_from(context.len()).ok()?];
    let info = [
        &length[..],
        &label_length,
        PREFIX,
        label,
        &context_length,
        context,
    ];
    let material: hkdf::Okm<'_, Length> = secret.expand(&info, Length(out.len())).ok()?;
    material.fill(out).ok()
}
