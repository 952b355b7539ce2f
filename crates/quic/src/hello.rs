//! Checks that a handshake contains QUIC's transport parameters (RFC 9001 section 8.2).
//!
//! Their TLS extension has the number 0x39. rustls also accepts 0xffa5, the number in drafts, which version 1 of QUIC
//! does not define. If only 0xffa5 is present, this module treats the extension as missing, and the handshake fails.
//! This module parses no more of TLS than necessary; rustls detects malformed messages.

use quinn_proto::{TransportError, TransportErrorCode};

/// `quic_transport_parameters`.
const PARAMETERS: u16 = 0x39;
/// `quic_transport_parameters` in drafts.
const DRAFT_PARAMETERS: u16 = 0xffa5;
/// The alert `missing_extension` (RFC 8446 section 6.2).
const MISSING_EXTENSION: u8 = 109;
/// Types of handshake messages (RFC 8446 section 4).
const CLIENT_HELLO: u8 = 1;
const ENCRYPTED_EXTENSIONS: u8 = 8;
/// The longest message that is parsed, in bytes. QUIC does not buffer longer messages.
const LONGEST: usize = 64 * 1024;

/// The handshake messages of one peer, in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Hellos {
    /// The received part of an incomplete message.
    message: Vec<u8>,
    /// The number of bytes still to skip of a message that is not parsed.
    skipped: usize,
}

impl Hellos {
    /// Reads further bytes of the handshake.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Result<(), TransportError> {
        while !bytes.is_empty() {
            let skipped = self.skipped.min(bytes.len());
            self.skipped -= skipped;
            bytes = &bytes[skipped..];
            let wanted = match self.message[..] {
                [_, a, b, c, ..] => {
                    4 + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c))
                }
                _ => 4,
            };
            let taken = wanted.saturating_sub(self.message.len()).min(bytes.len());
            self.message.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            let [kind, a, b, c, ..] = self.message[..] else {
                continue;
            };
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if !matches!(kind, CLIENT_HELLO | ENCRYPTED_EXTENSIONS) || length > LONGEST {
                self.skipped = (4 + length).saturating_sub(self.message.len());
                self.message.clear();
            } else if self.message.len() == 4 + length {
                let is_missing = is_only_draft(kind, &self.message[4..]);
                self.message.clear();
                if is_missing {
                    return Err(TransportError {
                        code: TransportErrorCode::crypto(MISSING_EXTENSION),
                        frame: None,
                        reason: "the transport parameters have only a draft's extension number"
                            .into(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether a message has the draft's extension but not the standard's. Returns `false` for a malformed message.
fn is_only_draft(kind: u8, message: &[u8]) -> bool {
    let Some(mut extensions) = extensions(kind, message) else {
        return false;
    };
    let (mut standard, mut draft) = (false, false);
    while let Some((number, rest)) = take_number(extensions) {
        let Some((_, rest)) = take_list(rest, 2) else {
            break;
        };
        standard |= number == PARAMETERS;
        draft |= number == DRAFT_PARAMETERS;
        extensions = rest;
    }
    draft && !standard
}

/// Returns the extensions of a message (RFC 8446 sections 4.1.2 and 4.3.1).
fn extensions(kind: u8, message: &[u8]) -> Option<&[u8]> {
    let mut rest = message;
    if kind == CLIENT_HELLO {
        // Skips the version and the random, then the session ID, the cipher suites and the compression methods.
        rest = rest.get(2 + 32..)?;
        for width in [1, 2, 1] {
            rest = take_list(rest, width)?.1;
        }
    }
    take_list(rest, 2).map(|(extensions, _)| extensions)
}

fn take_number(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*number), rest))
}

/// Splits off a length field of `width` bytes. Returns the contents and the bytes after them.
fn take_list(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length
        .iter()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut list = Vec::new();
        for (number, content) in extensions {
            list.extend_from_slice(&number.to_be_bytes());
            list.extend_from_slice(&(content.len() as u16).to_be_bytes());
            list.extend_from_slice(content);
        }
        let mut body = Vec::new();
        if kind == CLIENT_HELLO {
            body.extend_from_slice(&[3; 34]);
            body.extend_from_slice(&[1, 9, 0, 2, 0x13, 0x01, 1, 0]);
        }
        body.extend_from_slice(&(list.len() as u16).to_be_bytes());
        body.extend_from_slice(&list);
        let mut message = vec![kind];
        message.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
        message.extend_from_slice(&body);
        message
    }

    #[test]
    fn the_extension_of_drafts_is_not_that_of_the_standard() {
        for kind in [CLIENT_HELLO, ENCRYPTED_EXTENSIONS] {
            for (extensions, is_fine) in [
                (&[(0, &b"name"[..]), (PARAMETERS, b"")][..], true),
                (&[(PARAMETERS, b"x"), (DRAFT_PARAMETERS, b"x")], true),
                (&[(0, b"name"), (DRAFT_PARAMETERS, b"x"), (43, b"")], false),
                (&[(0, b"name")], true),
            ] {
                let before = message(4, &[(DRAFT_PARAMETERS, b"not looked into")]);
                let bytes = [before, message(kind, extensions)].concat();
                for step in [1, 7, bytes.len()] {
                    let mut hellos = Hellos::default();
                    let read = bytes.chunks(step).try_for_each(|part| hellos.read(part));
                    assert_eq!(read.is_ok(), is_fine, "{kind} {extensions:?}");
                    if let Err(error) = read {
                        assert_eq!(error.code, TransportErrorCode::crypto(109));
                    }
                }
            }
        }
    }

    #[test]
    fn real_client_hellos_are_distinguished() {
        use rustls::quic::{ClientConnection, Version};

        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let tls = std::sync::Arc::new(tls);
        for (version, is_fine) in [(Version::V1, true), (Version::V1Draft, false)] {
            let name = "origin.test".try_into().unwrap();
            let mut client =
                ClientConnection::new(tls.clone(), version, name, vec![1, 2, 3]).unwrap();
            let mut hello = Vec::new();
            client.write_hs(&mut hello);
            assert_eq!(Hellos::default().read(&hello).is_ok(), is_fine);
        }
    }

    #[test]
    fn malformed_messages_cause_no_panic() {
        let fine = message(CLIENT_HELLO, &[(DRAFT_PARAMETERS, b"x")]);
        for cut in 0..fine.len() - 4 {
            let mut short = fine[..4 + cut].to_vec();
            short[1..4].copy_from_slice(&(cut as u32).to_be_bytes()[1..]);
            // A truncated message lacks the extension too, and no index is out of range.
            let _ = Hellos::default().read(&short);
        }
    }
}
