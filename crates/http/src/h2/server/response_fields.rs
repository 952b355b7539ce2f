//! Encodes the fields of responses and promises with HPACK: selects the indexed fields, and counts the size.

use super::config::FieldIndexing;
use crate::hpack::{Encoder, Indexing};
use crate::origin::{FieldSink, HopField};

/// Writes fields into a header block, and counts them.
pub(super) struct FieldWriter {
    indexing: FieldIndexing,
    /// The size of the names and values written so far, in bytes.
    pub(super) bytes: u64,
}

impl FieldWriter {
    /// Creates a writer.
    pub(super) fn new(indexing: FieldIndexing) -> FieldWriter {
        FieldWriter { indexing, bytes: 0 }
    }

    /// Writes a field whose name is in lower case.
    pub(super) fn write(
        &mut self,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
        name: &[u8],
        value: &[u8],
    ) {
        self.bytes += (name.len() + value.len()) as u64;
        let indexing = match self.indexing {
            FieldIndexing::All => Indexing::Yes,
            FieldIndexing::Nothing => Indexing::No,
            FieldIndexing::Shared if is_shared(name) => Indexing::Yes,
            FieldIndexing::Shared => Indexing::No,
        };
        encoder.encode(name, value, indexing, out);
    }
}

/// Whether responses with other files are likely to have the same value.
fn is_shared(name: &[u8]) -> bool {
    !matches!(
        name,
        b":path"
            | b"allow"
            | b"content-length"
            | b"content-range"
            | b"etag"
            | b"last-modified"
            | b"link"
            | b"location"
    )
}

/// Writes the fields of a response head in HTTP/2 format.
pub(super) struct Head<'a> {
    pub(super) encoder: &'a mut Encoder,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) fields: &'a mut FieldWriter,
}

impl FieldSink for Head<'_> {
    fn field(&mut self, name: &str, value: &[u8]) {
        let mut lower = [0; 64];
        match lower.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name.as_bytes());
                lower.make_ascii_lowercase();
                self.fields.write(self.encoder, self.out, lower, value);
            }
            None => {
                let lower = name.to_ascii_lowercase();
                self.fields
                    .write(self.encoder, self.out, lower.as_bytes(), value);
            }
        }
    }

    fn hop(&mut self, _: HopField, _: &str) {}
}
