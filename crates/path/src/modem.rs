//! Compression on the link by a pair of modems.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ppp;
use crate::v42bis::{Encoder, Parameters};

/// Compression of the bytes that a direction's link serialises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// ITU-T V.42bis.
    V42bis(Parameters),
}

/// The sending modem of one direction.
///
/// The modem compresses PPP frames with their headers and escapes, byte for byte as a host writes them to its serial
/// line. The dictionary persists from frame to frame. The modem flushes after each frame, so that a packet arrives with
/// the last bit of its own frame.
#[derive(Debug)]
pub(crate) struct Modem {
    encoder: Encoder,
    frame: Vec<u8>,
    line: Vec<u8>,
}

impl Modem {
    pub(crate) fn new(compression: Compression) -> Modem {
        let Compression::V42bis(parameters) = compression;
        Modem {
            encoder: Encoder::new(parameters),
            frame: Vec::new(),
            line: Vec::new(),
        }
    }

    /// Returns the number of bits that the link serialises for an IP packet.
    pub(crate) fn bits_of(&mut self, packet: &[u8]) -> u64 {
        self.frame.clear();
        self.line.clear();
        ppp::write_frame(packet, &mut self.frame);
        self.encoder.encode(&self.frame, &mut self.line);
        self.encoder.flush(&mut self.line);
        8 * self.line.len() as u64
    }
}
